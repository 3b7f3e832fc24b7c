/* The session's sliders. See widgets.h. */
#define _GNU_SOURCE
#include "widgets/widgets.h"
#include "lock.h"
#include "print.h"

#include <stdlib.h>
#include <string.h>

#define TARGET  "jupyter.widget"
#define CONTROL "jupyter.widget.control" /* a page that was loaded again asks here for all models at once */

widgets *widgets_open(void)
{
    widgets *w = need_zeroed(sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    return w;
}

void widgets_close(widgets *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->count; i++) slider_free(&w->items[i]);
    free(w->items);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void tell(session *s, const char *type, json_t *content)
{
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) s->front.publish(s->front.self, type, dump);
    free(dump);
    json_decref(content);
}

/* ---- comms of the front end ---- */

/* The slider that has a model of that comm, and which. By `lock`. */
static slider *slider_with(widgets *w, const char *id, int *model)
{
    for (size_t i = 0; i < w->count; i++) {
        for (*model = 0; *model < SLIDER_MODELS; ++*model) {
            if (!w->items[i].closed && !strcmp(w->items[i].ids[*model], id)) return &w->items[i];
        }
    }
    return NULL;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static json_t *closed_comm(const char *id)
{
    return json_pack("{s:s, s:{}}", "comm_id", id, "data");
}

/* Every model by its id, in the order in which the front end can make them. */
static json_t *all_states(widgets *w)
{
    json_t *states = json_object();
    for (size_t i = 0; i < w->count; i++) {
        const slider *one = &w->items[i];
        for (int model = 0; !one->closed && model < SLIDER_MODELS; model++) {
            json_t *state = slider_state(one, model);
            json_object_set_new(states, one->ids[model],
                                json_pack("{s:s, s:s, s:s, s:o}", "model_name", text_of(state, "_model_name"),
                                          "model_module", text_of(state, "_model_module"), "model_module_version",
                                          text_of(state, "_model_module_version"), "state", state));
        }
    }
    return states;
}

/* A value that is taken is echoed, so that other pages of the notebook show it too. One that cannot be taken is
 * answered with the slider's own. */
static json_t *moved(slider *one, int model, json_t *state)
{
    json_t *value = json_object_get(state, "value");
    if (model != SLIDER_ITSELF || !value) return NULL;
    bool taken = slider_move(one, value);
    return slider_message(one, model, taken ? "echo_update" : "update", slider_position(one));
}

/* The answer to a comm_msg; NULL: none is wanted. */
static json_t *answer_to(widgets *w, const char *id, json_t *data, const char **type)
{
    int model;
    slider *one = slider_with(w, id, &model);
    const char *method = text_of(data, "method");
    if (!strcmp(method, "request_states"))
        return json_pack("{s:s, s:{s:s, s:o, s:[]}}", "comm_id", id, "data", "method", "update_states", "states",
                         all_states(w), "buffer_paths");
    if (one && !strcmp(method, "request_state")) return slider_message(one, model, "update", slider_state(one, model));
    if (one && !strcmp(method, "update")) return moved(one, model, json_object_get(data, "state"));
    if (one) return NULL;
    *type = "comm_close";
    return closed_comm(id);
}

char *session_comm(session *s, const char *type, const char *content)
{
    json_t *said = json_loads(content, 0, NULL), *answer = NULL;
    const char *id = text_of(said, "comm_id"), *reply = "comm_msg";
    int model;
    pthread_mutex_lock(&s->widgets->lock);
    if (!strcmp(type, "comm_msg")) {
        answer = answer_to(s->widgets, id, json_object_get(said, "data"), &reply);
    } else if (!strcmp(type, "comm_close")) {
        slider *one = slider_with(s->widgets, id, &model);
        if (one && model == SLIDER_ITSELF) one->closed = true;
    } else if (!strcmp(type, "comm_open") && strcmp(text_of(said, "target_name"), CONTROL)) {
        reply = "comm_close";
        answer = closed_comm(id);
    }
    pthread_mutex_unlock(&s->widgets->lock);
    json_t *wrapped = answer ? json_pack("{s:s, s:o}", "type", reply, "content", answer) : NULL;
    char *dump = wrapped ? json_dumps(wrapped, JSON_COMPACT) : NULL;
    json_decref(wrapped);
    json_decref(said);
    return dump;
}

char *session_comm_info(session *s, const char *target)
{
    json_t *comms = json_object();
    bool wanted = !*target || !strcmp(target, TARGET);
    pthread_mutex_lock(&s->widgets->lock);
    for (size_t i = 0; wanted && i < s->widgets->count; i++) {
        const slider *one = &s->widgets->items[i];
        for (int model = 0; !one->closed && model < SLIDER_MODELS; model++)
            json_object_set_new(comms, one->ids[model], json_pack("{s:s}", "target_name", TARGET));
    }
    pthread_mutex_unlock(&s->widgets->lock);
    json_t *answer = json_pack("{s:s, s:o}", "status", "ok", "comms", comms);
    char *dump = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    return need(dump);
}

/* ---- sliders and their variables, by the holder of `busy` ---- */

static void remove_closed(widgets *w)
{
    pthread_mutex_lock(&w->lock);
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->items[i].closed) slider_free(&w->items[i]);
        else w->items[kept++] = w->items[i];
    }
    w->count = kept;
    pthread_mutex_unlock(&w->lock);
}

/* The variable as it is now. NULL when there is none that the slider can set. */
static entity *variable_of(session *s, const slider *one, number *n)
{
    entity *e = symbols_find_bytes(s->symbols, 'o', one->name, strlen(one->name));
    return e && number_of(e, n) && number_fits(n, one) ? e : NULL;
}

static bool take_move(widgets *w, slider *one, double *value)
{
    pthread_mutex_lock(&w->lock);
    bool due = one->moved && !one->closed;
    *value = one->value;
    one->moved = false;
    pthread_mutex_unlock(&w->lock);
    return due;
}

/* A move that a variable has not taken waits until it can. */
static void give_back_move(widgets *w, slider *one)
{
    pthread_mutex_lock(&w->lock);
    one->moved = true;
    pthread_mutex_unlock(&w->lock);
}

static void apply_moves(session *s)
{
    widgets *w = s->widgets;
    for (size_t i = 0; i < w->count && worker_is_up(&s->worker); i++) {
        slider *one = &w->items[i];
        double value;
        number n;
        if (!take_move(w, one, &value)) continue;
        entity *e = variable_of(s, one, &n);
        if (!e) continue; /* its cell says so when it comes back */
        if (number_write(s, &n, value)) e->lost = false;
        else give_back_move(w, one);
    }
}

void widgets_before_cell(session *s)
{
    remove_closed(s->widgets);
    apply_moves(s);
}

void widgets_worker_started(session *s)
{
    for (size_t i = 0; i < s->widgets->count; i++) give_back_move(s->widgets, &s->widgets->items[i]);
    apply_moves(s);
}

void session_settle_sliders(session *s)
{
    bool alone = help_enters(s);
    if (alone) apply_moves(s);
    help_leaves(s, alone);
}

/* Says once that the program has left the slider's range. */
static void note_outside(session *s, slider *one, double value)
{
    bool outside = !(value >= one->least && value <= one->most);
    if (outside && !one->outside) {
        char *said = format_text("%s is %.15g, outside of its slider's %.15g to %.15g\n", one->name, value, one->least,
                                 one->most);
        print_error(s, said);
        free(said);
    }
    one->outside = outside;
}

/* Puts the slider where the variable is, unless the learner has moved it in the meantime. The message for the
 * front end; NULL: none. */
static json_t *follow(widgets *w, slider *one, const number *n, double value)
{
    double nearest = slider_nearest(one, value);
    bool single = n->floating && n->size == sizeof(float); /* a float holds 0.1 as another number than a double does */
    json_t *said = NULL;
    pthread_mutex_lock(&w->lock);
    bool differs = single ? (float)one->value != (float)nearest : one->value != nearest;
    if (!one->moved && differs) {
        one->value = nearest;
        said = slider_message(one, SLIDER_ITSELF, "update", slider_position(one));
    }
    pthread_mutex_unlock(&w->lock);
    return said;
}

static void note_gone(session *s, slider *one, bool gone)
{
    pthread_mutex_lock(&s->widgets->lock);
    bool news = one->gone != gone;
    one->gone = gone;
    json_t *said = news ? slider_message(one, SLIDER_ITSELF, "update", slider_label(one)) : NULL;
    pthread_mutex_unlock(&s->widgets->lock);
    if (said) tell(s, "comm_msg", said);
}

void widgets_after_cell(session *s)
{
    apply_moves(s);
    for (size_t i = 0; i < s->widgets->count && worker_is_up(&s->worker); i++) {
        slider *one = &s->widgets->items[i];
        number n;
        double value;
        bool there = variable_of(s, one, &n) != NULL;
        note_gone(s, one, !there);
        if (!there || !number_read(s, &n, &value)) continue;
        note_outside(s, one, value);
        json_t *said = follow(s->widgets, one, &n, value);
        if (said) tell(s, "comm_msg", said);
    }
}

/* ---- a new one ---- */

static void close_earlier(session *s, const char *name)
{
    widgets *w = s->widgets;
    for (size_t i = 0; i < w->count; i++) {
        slider *one = &w->items[i];
        if (strcmp(one->name, name)) continue;
        pthread_mutex_lock(&w->lock);
        one->closed = true;
        pthread_mutex_unlock(&w->lock);
        for (int model = SLIDER_MODELS; model-- > 0;) tell(s, "comm_close", closed_comm(one->ids[model]));
    }
    remove_closed(w);
}

static void open_comms(session *s, const slider *one)
{
    for (int model = 0; model < SLIDER_MODELS; model++) {
        tell(s, "comm_open",
             json_pack("{s:s, s:s, s:{s:o, s:[]}}", "comm_id", one->ids[model], "target_name", TARGET, "data", "state",
                       slider_state(one, model), "buffer_paths"));
    }
}

static void display_slider(session *s, const slider *one)
{
    json_t *plain =
        json_sprintf("%s = %.15g, a slider from %.15g to %.15g", one->name, one->value, one->least, one->most);
    json_t *content = json_pack("{s:{s:o, s:{s:i, s:i, s:s}}, s:{}, s:{}}", "data", "text/plain", plain,
                                "application/vnd.jupyter.widget-view+json", "version_major", 2, "version_minor", 0,
                                "model_id", one->ids[SLIDER_ITSELF], "metadata", "transient");
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) output_publish(&s->out, "display_data", dump);
    free(dump);
    json_decref(content);
}

void widgets_add(session *s, slider *one)
{
    widgets *w = s->widgets;
    close_earlier(s, one->name);
    slider_name_models(one);
    pthread_mutex_lock(&w->lock);
    w->items = need_grown(w->items, w->count, &w->capacity, sizeof *w->items);
    w->items[w->count++] = *one;
    pthread_mutex_unlock(&w->lock);
    open_comms(s, one);
    display_slider(s, one);
    *one = (slider){0};
}
