/* One slider as the front end of ipywidgets wants it. See widgets.h. */
#define _GNU_SOURCE
#include "widgets/widgets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BASE     "@jupyter-widgets/base"
#define CONTROLS "@jupyter-widgets/controls"
#define VERSION  "2.0.0" /* of both modules, as jupyterlab_widgets 3 has them */

static void name_model(char id[33])
{
    unsigned char random[16] = {0};
    (void)!getrandom(random, sizeof random, 0);
    for (size_t i = 0; i < sizeof random; i++) snprintf(id + 2 * i, 3, "%02x", random[i]);
}

void slider_name_models(slider *one)
{
    for (int model = 0; model < SLIDER_MODELS; model++) name_model(one->ids[model]);
}

void slider_free(slider *one)
{
    free(one->name);
    *one = (slider){0};
}

double slider_nearest(const slider *one, double value)
{
    if (!(value > one->least)) return one->least;
    return value < one->most ? value : one->most;
}

static json_t *number_json(const slider *one, double value)
{
    return one->whole ? json_integer((json_int_t)value) : json_real(value);
}

/* The state that every model has. */
static json_t *model_of(const char *module, const char *model, const char *view_module, const char *view)
{
    return json_pack("{s:s, s:s, s:s, s:n, s:s, s:s, s:s}", "_model_module", module, "_model_module_version", VERSION,
                     "_model_name", model, "_view_count", "_view_module", view_module, "_view_module_version", VERSION,
                     "_view_name", view);
}

static json_t *style_state(void)
{
    json_t *state = model_of(CONTROLS, "SliderStyleModel", BASE, "StyleView");
    json_object_set_new(state, "description_width", json_string("initial")); /* the whole name is shown */
    json_object_set_new(state, "handle_color", json_null());
    return state;
}

static json_t *reference_to(const slider *one, int model)
{
    return json_sprintf("IPY_MODEL_%s", one->ids[model]);
}

json_t *slider_label(const slider *one)
{
    return json_pack("{s:o, s:b}", "description",
                     json_sprintf(one->gone ? "%s (gone: no such variable)" : "%s", one->name), "disabled", one->gone);
}

json_t *slider_position(const slider *one)
{
    return json_pack("{s:o}", "value", number_json(one, one->value));
}

static json_t *own_state(const slider *one)
{
    json_t *state = model_of(CONTROLS, one->whole ? "IntSliderModel" : "FloatSliderModel", CONTROLS,
                             one->whole ? "IntSliderView" : "FloatSliderView");
    json_t *rest =
        json_pack("{s:[], s:s, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:s, s:n, s:n}", "_dom_classes",
                  "behavior", "drag-tap", "continuous_update", 1, "description_allow_html", 0, "layout",
                  reference_to(one, SLIDER_LAYOUT), "style", reference_to(one, SLIDER_STYLE), "min",
                  number_json(one, one->least), "max", number_json(one, one->most), "step", number_json(one, one->step),
                  "value", number_json(one, one->value), "orientation", "horizontal", "readout", 1, "readout_format",
                  one->whole ? "d" : ".6~g", "tabbable", "tooltip");
    json_t *label = slider_label(one);
    json_object_update(state, rest);
    json_object_update(state, label);
    json_decref(rest);
    json_decref(label);
    return state;
}

json_t *slider_state(const slider *one, int model)
{
    if (model == SLIDER_LAYOUT) return model_of(BASE, "LayoutModel", BASE, "LayoutView");
    return model == SLIDER_STYLE ? style_state() : own_state(one);
}

json_t *slider_message(const slider *one, int model, const char *method, json_t *state)
{
    return json_pack("{s:s, s:{s:s, s:o, s:[]}}", "comm_id", one->ids[model], "data", "method", method, "state", state,
                     "buffer_paths");
}

bool slider_move(slider *one, json_t *value)
{
    if (!json_is_number(value)) return false;
    double to = json_number_value(value);
    if (!isfinite(to) || (one->whole && to != floor(to))) return false;
    one->value = slider_nearest(one, to);
    one->moved = true;
    return true;
}
