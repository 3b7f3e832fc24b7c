#include "expressions.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

static void forget_source(session *s)
{
    source *last = &s->sources[--s->source_count];
    free(last->name);
    free(last->text);
}

static json_t *evaluate(session *s, const char *expression)
{
    char *code = format_text("(%s\n)", expression); /* an expression, and nothing that a cell could be otherwise */
    json_decref(s->value);
    s->value = NULL;
    size_t sources = s->source_count;
    result r = run_c(s, code, "user_expressions");
    while (s->source_count > sources) forget_source(s);
    json_t *answer;
    if (r.failed) {
        answer = json_pack("{s:s, s:s, s:s, s:o}", "status", "error", "ename", r.name, "evalue", r.value, "traceback",
                           traceback_lines(&r));
    } else {
        json_t *data = s->value ? json_incref(s->value) : json_pack("{s:s}", "text/plain", "");
        answer = json_pack("{s:s, s:o, s:{}}", "status", "ok", "data", data, "metadata");
    }
    result_free(&r);
    free(code);
    return answer;
}

json_t *evaluate_expressions(session *s, const char *asked)
{
    json_t *expressions = json_loads(asked ? asked : "", 0, NULL), *answers = json_object(), *expression;
    const char *name;
    bool silent = s->out.silent;
    output_begin(&s->out, &s->front, true);
    s->allow_stdin = false;
    json_object_foreach(expressions, name, expression)
    {
        if (json_is_string(expression)) json_object_set_new(answers, name, evaluate(s, json_string_value(expression)));
    }
    worker_drain(&s->worker);
    output_end(&s->out);
    s->out.silent = silent; /* what is printed between cells is the last cell's */
    json_decref(expressions);
    return answers;
}
