/* The answers to the front end's requests. See state.h. */
#include "debug/state.h"

json_t *accepted(debugger *d, const json_t *request, json_t *body)
{
    return json_pack("{s:s, s:I, s:O, s:b, s:O, s:o}", "type", "response", "seq", ++d->sequence, "request_seq",
                     json_object_get(request, "seq"), "success", 1, "command", json_object_get(request, "command"),
                     "body", body ? body : json_object());
}

json_t *refused(debugger *d, const json_t *request, const char *why)
{
    json_t *answer = accepted(d, request, NULL);
    json_object_set_new(answer, "success", json_false());
    json_object_set_new(answer, "message", json_string(why));
    return answer;
}

json_t *forwarded(debugger *d, const json_t *request, json_t *arguments)
{
    if (!d->adapter || adapter_gone(d->adapter)) {
        json_decref(arguments);
        return refused(d, request, "the debugger is not attached");
    }
    const char *command = json_string_value(json_object_get(request, "command"));
    json_t *response = adapter_ask(d->adapter, command, arguments, PATIENCE);
    if (!response) return refused(d, request, "the debugger does not answer");
    json_object_set(response, "request_seq", json_object_get(request, "seq"));
    json_object_set_new(response, "seq", json_integer(++d->sequence));
    if (!json_object_get(response, "body")) json_object_set_new(response, "body", json_object());
    return response;
}
