/* Models as JSON and back: every kind of layer by the table of its options, graphs, layers of a learner's own, and what
 * is refused. */
#include "saving/model_json.h"
#include "ext/core/small.h"
#include "ext/data/files.h"
#include "layers/kinds.h"

/* ------------------------------------------------------------------------------------------ every kind */

static void fill_element(kolo_field_type type, void *at, int number)
{
    if (type == KOLO_FIELD_INT) *(int *)at = number % 2 ? INT32_MAX - number : -3 - number;
    if (type == KOLO_FIELD_BOOL) *(bool *)at = true;
    if (type == KOLO_FIELD_DOUBLE) *(double *)at = number % 2 ? KOLO_NONE : 0.1 / (number + 3);
    if (type == KOLO_FIELD_STRING) *(const char **)at = "name with \"quotes\" and ü";
    if (type == KOLO_FIELD_ACTIVATION) *(kolo_activation *)at = number % 2 ? KOLO_RELU : KOLO_SOFTMAX;
    if (type == KOLO_FIELD_PADDING) *(kolo_padding *)at = number % 2 ? KOLO_SAME : KOLO_VALID;
}

static bool same_element(kolo_field_type type, const void *a, const void *b)
{
    if (type == KOLO_FIELD_STRING) return strcmp(*(const char *const *)a, *(const char *const *)b) == 0;
    return memcmp(a, b, kolo_field_size(type)) == 0;
}

/* Every option set, alone and with the others, to something that is not its default. */
static void check_kind(const kolo_layer_kind *kind, const char *only)
{
    kolo_layer layer = {.kind = kind}, again;
    json_t *object;
    int number = 0;
    for (const kolo_field *field = kolo_layer_fields(kind); field->name; field++)
        for (int i = 0; i < field->count; i++, number++)
            if (!only || strcmp(only, field->name) == 0)
                fill_element(field->type,
                             (char *)&layer.custom + field->offset + (size_t)i * kolo_field_size(field->type), number);
    assert_int_equal(kolo_layer_to_json(&layer, &object), KOLO_OK);
    char *text = json_dumps(object, 0);
    json_t *parsed = json_loads(text, 0, NULL);
    assert_int_equal(kolo_layer_from_json(parsed, &again), KOLO_OK);
    assert_ptr_equal(again.kind, kind);
    for (const kolo_field *field = kolo_layer_fields(kind); field->name; field++)
        for (int i = 0; i < field->count && kolo_field_given(field, (char *)&layer.custom + field->offset); i++) {
            size_t at = field->offset + (size_t)i * kolo_field_size(field->type);
            if (!same_element(field->type, (char *)&layer.custom + at, (char *)&again.custom + at))
                fail_msg("%s.%s[%d] is not what it was: %s", kind->name, field->name, i, text);
        }
    json_decref(parsed);
    json_decref(object);
    free(text);
}

static void every_option_of_every_kind(void **state)
{
    (void)state;
    int kinds = 0;
    for (const kolo_layer_kind *kind; (kind = kolo_layer_kind_at(kinds)); kinds++) {
        assert_ptr_equal(kolo_layer_kind_find(kind->name), kind);
        check_kind(kind, NULL);
        for (const kolo_field *field = kolo_layer_fields(kind); field->name; field++) check_kind(kind, field->name);
    }
    assert_true(kinds >= 8);
}

static void every_choice_has_a_name(void **state)
{
    (void)state;
    int activations = 0;
    for (int value = 1; kolo_activation_name(value); value++, activations++) {
        kolo_layer layer = kolo_activate((kolo_activation)value), again;
        json_t *object;
        assert_int_equal(kolo_layer_to_json(&layer, &object), KOLO_OK);
        assert_int_equal(kolo_layer_from_json(object, &again), KOLO_OK);
        assert_int_equal(again.activate.activation, value);
        json_decref(object);
    }
    assert_true(activations >= 3);
}

/* ------------------------------------------------------------------------------------------ whole models */

static kolo_model *branches(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 8, 8, 1);
    kolo_tensor a = kolo_apply(kolo_conv2d(4, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU), x);
    kolo_tensor b = kolo_apply(kolo_conv2d(4, .kernel = {1, 1}, .no_bias = true, .l2 = 1.0 / 3), x);
    kolo_tensor sum = kolo_apply(kolo_add(.activation = KOLO_RELU), a, b, a);
    kolo_graph_output(model, kolo_apply(kolo_dense(SMALL_CLASSES, .name = "last"),
                                        kolo_apply(kolo_flatten(), kolo_apply(kolo_dropout(0.1), sum))));
    return model;
}

static void compile(kolo_model *model)
{
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5,
                                  .backend = "reference", .deterministic = true),
                     KOLO_OK);
}

static const char branches_text[] =
    "{\"format\":\"kolo.model\",\"version\":1,\"layers\":[{\"kind\":\"input\",\"size_1\":8,\"size_2\":8,\"size_3\":1},"
    "{\"kind\":\"conv2d\",\"filters\":4,\"kernel\":[3,3],\"padding\":\"same\",\"activation\":\"relu\",\"name\":"
    "\"conv2d\"},{\"kind\":\"conv2d\",\"filters\":4,\"kernel\":[1,1],\"no_bias\":true,\"l2\":0.33333333333333331,"
    "\"name\":\"conv2d_1\",\"from\":[\"input\"]},{\"kind\":\"add\",\"activation\":\"relu\",\"name\":\"add\",\"from\":["
    "\"conv2d\",\"conv2d_1\",\"conv2d\"]},{\"kind\":\"dropout\",\"rate\":0.10000000000000001,\"name\":\"dropout\"},"
    "{\"kind\":\"flatten\",\"name\":\"flatten\"},{\"kind\":\"dense\",\"units\":4,\"name\":\"last\"}]}";

static void a_graph_is_written_and_read(void **state)
{
    (void)state;
    kolo_model *model = branches();
    char *line, *text = kolo_model_to_json(model);
    assert_int_equal(kolo_model_write_json(model, true, &line), KOLO_OK);
    assert_string_equal(line, branches_text);
    kolo_model *again = kolo_model_from_json(text);
    assert_non_null(again);
    char *second = kolo_model_to_json(again);
    assert_string_equal(text, second);
    compile(model);
    compile(again);
    kolo_data *data = small_data(24);
    const kolo_history *one = kolo_fit(model, data, .batch_size = 8, .verbose = KOLO_NONE);
    double loss = one->epoch[0].loss;
    const kolo_history *other = kolo_fit(again, data, .batch_size = 8, .verbose = KOLO_NONE);
    assert_float_equal(loss, other->epoch[0].loss, 0);
    free(line);
    free(text);
    free(second);
    kolo_data_free(&data);
    kolo_model_free(&model);
    kolo_model_free(&again);
}

/* A model keeps its texts: those of a notebook's cell go away. */
static void texts_are_the_models_own(void **state)
{
    (void)state;
    char name[] = "mine", device[] = "host";
    kolo_model *model = kolo_sequential(kolo_input(4), kolo_dense(3, .name = name, .device = device));
    memset(name, 'x', 4);
    memset(device, 'x', 4);
    char *text = kolo_model_to_json(model);
    assert_non_null(strstr(text, "\"mine\""));
    assert_non_null(strstr(text, "\"host\""));
    kolo_model *again = kolo_model_from_json(text);
    memset(text, 'x', strlen(text));
    free(text);
    text = kolo_model_to_json(again);
    assert_non_null(strstr(text, "\"mine\""));
    free(text);
    kolo_model_free(&model);
    kolo_model_free(&again);
}

static void layers_and_weights_in_one_file(void **state)
{
    (void)state;
    kolo_data *data = small_data(16);
    kolo_model *model = branches();
    assert_int_equal(kolo_model_save(model, "model"), KOLO_INVALID); /* not compiled: no weights */
    assert_failure(KOLO_INVALID, "kolo_model_save: wanted a compiled model", NULL);
    compile(model);
    kolo_fit(model, data, .batch_size = 8, .verbose = KOLO_NONE);
    assert_int_equal(kolo_model_save(model, "model"), KOLO_OK);
    kolo_model *again = kolo_load_model("model");
    assert_non_null(again);
    compile(again); /* keeps the weights */
    float wanted[16 * SMALL_CLASSES], got[16 * SMALL_CLASSES];
    assert_int_equal(kolo_predict(model, data, wanted), KOLO_OK);
    assert_int_equal(kolo_predict(again, data, got), KOLO_OK);
    assert_memory_equal(wanted, got, sizeof got);
    assert_int_equal(kolo_load(again, "model"), KOLO_OK);
    assert_int_equal(kolo_save(model, "weights"), KOLO_OK);
    assert_null(kolo_load_model("weights"));
    assert_failure(KOLO_FORMAT, "kolo_load_model: weights: wanted a file that kolo_model_save() wrote", NULL);
    assert_null(kolo_load_model("nothing"));
    assert_failure(KOLO_NOT_FOUND, "nothing", NULL);
    kolo_model_free(&model);
    kolo_model_free(&again);
    kolo_data_free(&data);
}

/* ------------------------------------------------------------------------------------------ of one's own */

static void twice(const kolo_custom_call *call)
{
    int64_t count = kolo_shape_count(call->in_shape[0]) * call->microbatch;
    for (int64_t i = 0; i < count; i++) call->out[0][i] = call->in[0][i] * (float)call->args->number[1];
}

static kolo_status build_scale(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return KOLO_OK;
}

static kolo_status scale_forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->y = -1;
    return kolo_plan_custom(plan, flow, twice, 1, &flow->x, 1, &flow->y, &flow->node->out);
}

static kolo_status scale_backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->dx = -1;
    return flow->need_dx ? kolo_plan_custom(plan, flow, twice, 1, &flow->dy, 1, &flow->dx, &flow->node->in) : KOLO_OK;
}

static const kolo_layer_kind scale = {
    .name = "scale", .build = build_scale, .forward = scale_forward, .backward = scale_backward};

static void a_layer_of_ones_own_is_registered(void **state)
{
    (void)state;
    kolo_model *model = kolo_sequential(kolo_input(4), kolo_layer_of(&scale, .number = {0, 2.5}), kolo_dense(3));
    assert_null(kolo_model_to_json(model));
    assert_failure(KOLO_INVALID,
                   "layer 1 (scale): wanted a kind that is Kolo's or that kolo_register_layer() was given", NULL);
    assert_int_equal(kolo_register_layer(&scale), KOLO_OK);
    assert_int_equal(kolo_register_layer(&scale), KOLO_OK);
    check_kind(&scale, NULL);
    char *text = kolo_model_to_json(model);
    kolo_model *again = kolo_model_from_json(text);
    assert_non_null(again);
    assert_float_equal(again->layers[1].recipe.custom.number[1], 2.5, 0);
    assert_ptr_equal(again->layers[1].recipe.custom.kind, &scale);
    free(text);
    kolo_model_free(&model);
    kolo_model_free(&again);
    model = kolo_sequential(kolo_input(4), kolo_layer_of(&scale, .user = &state));
    assert_null(kolo_model_to_json(model));
    assert_failure(KOLO_INVALID, "layer 1 (scale): its .user points into this program's memory", NULL);
    kolo_model_free(&model);
    kolo_layer_kind bad = scale;
    bad.name = "dense";
    assert_int_equal(kolo_register_layer(&bad), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "wanted a name that Kolo does not use itself, got \"dense\"", NULL);
    bad.name = NULL;
    assert_int_equal(kolo_register_layer(&bad), KOLO_INVALID);
    kolo_clear_error();
    assert_int_equal(kolo_register_layer(NULL), KOLO_INVALID);
    kolo_clear_error();
}

/* ------------------------------------------------------------------------------------------ what is refused */

#define MODEL(layers) "{\"format\":\"kolo.model\",\"version\":1,\"layers\":[" layers "]}"
#define INPUT         "{\"kind\":\"input\",\"size_1\":4},"

static const struct refusal {
    const char *text, *sentence;
} refusals[] = {
    {"", "wanted a model as JSON, got at line 1"},
    {"[1]", "its \"format\" \"kolo.model\", got [1]"},
    {"{\"format\":\"kolo.model\"}", "version: wanted 1, got nothing"},
    {"{\"format\":\"kolo.model\",\"version\":2,\"layers\":[]}", "version: wanted 1, got 2"},
    {"{\"format\":\"kolo.model\",\"version\":1,\"layers\":[],\"more\":1}", "got \"more\""},
    {MODEL(""), "layers: wanted a list of an input and at least one layer, got []"},
    {MODEL(INPUT "3"), "layer 1: wanted an object, got 3"},
    {MODEL(INPUT "{}"), "layer 1: kind: wanted the name of a kind of layer, got nothing"},
    {MODEL(INPUT "{\"kind\":\"dens\"}"), "layer 1 (dens): kind: wanted one of Kolo's layers"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"unit\":3}"), "layer 1 (dense): wanted options of dense, got \"unit\""},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":1.5}"),
     "layer 1 (dense): units: wanted a whole number of 32 bits, got 1.5"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":4294967297}"),
     "units: wanted a whole number of 32 bits, got 4294967297"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":-1}"), "layer 1 (dense): units: wanted 1 … 1048576, got -1"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3,\"no_bias\":1}"), "no_bias: wanted true or false, got 1"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3,\"name\":4}"), "name: wanted a text, got 4"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3,\"activation\":\"rely\"}"),
     "activation: wanted one of \"linear\", \"relu\", \"softmax\""},
    {MODEL(INPUT "{\"kind\":\"dropout\",\"rate\":\"half\"}"), "rate: wanted a number, got \"half\""},
    {MODEL(INPUT "{\"kind\":\"dropout\",\"rate\":1.5}"), "layer 1 (dropout): rate: wanted 0 ≤ rate < 1, got 1.5"},
    {MODEL(INPUT "{\"kind\":\"conv2d\",\"filters\":2,\"kernel\":[3]}"), "kernel: wanted a list of 2, got [3]"},
    {MODEL(INPUT "{\"kind\":\"conv2d\",\"filters\":2,\"kernel\":[3,\"x\"]}"), "kernel: wanted a whole number"},
    {MODEL(INPUT
           "{\"kind\":\"dense\",\"units\":3,\"from\":[\"later\"]},{\"kind\":\"dense\",\"units\":3,\"name\":\"later\"}"),
     "layer 1 (dense): from: wanted names of layers that stand before it, got \"later\""},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3,\"name\":\"self\",\"from\":[\"self\"]}"),
     "layer 1 (self): from: wanted names of layers that stand before it, got \"self\""},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3,\"from\":3}"), "from: wanted a list of at most 8 names"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3,\"from\":[]}"), "wanted 1 input, got 0"},
    {MODEL(INPUT "{\"kind\":\"add\",\"from\":[\"input\"]}"), "layer 1 (add): wanted 2 or more inputs, got 1"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3},{\"kind\":\"dense\",\"units\":3,\"from\":[\"input\"]}"),
     "wanted every layer to lead to the output, got layer 1 (dense)"},
    {MODEL(INPUT "{\"kind\":\"dense\",\"units\":3,\"name\":\"a\"},{\"kind\":\"dense\",\"units\":3,\"name\":\"a\"}"),
     "wanted different names, got \"a\" twice"},
    {MODEL("{\"kind\":\"dense\",\"units\":3},{\"kind\":\"dense\",\"units\":3}"),
     "wanted kolo_input() as the first layer"},
    {"{\"format\":\"kolo.model\",\"version\":1,\"layers\":[" INPUT "{\"kind\":\"flatten\"}],\"output\":\"input\"}",
     "output: wanted the name of a layer after the input, got \"input\""},
    {"{\"format\":\"kolo.model\",\"version\":1,\"layers\":[" INPUT "{\"kind\":\"flatten\"}],\"output\":7}",
     "output: wanted the name of a layer after the input, got 7"},
};

static void what_is_no_model_is_one_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_null(kolo_model_from_json(refusals[i].text));
        assert_failure(kolo_last_error().code, "kolo_model_from_json: ", refusals[i].sentence, NULL);
    }
    assert_null(kolo_model_from_json(NULL));
    assert_failure(KOLO_INVALID, "got NULL", NULL);
    assert_null(kolo_model_to_json(NULL));
    kolo_clear_error();
    kolo_model *open = kolo_graph();
    kolo_graph_input(open, 3);
    assert_null(kolo_model_to_json(open));
    assert_failure(KOLO_INVALID, "without its kolo_graph_output()", NULL);
    kolo_model_free(&open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_of_every_kind),       cmocka_unit_test(every_choice_has_a_name),
        cmocka_unit_test(a_graph_is_written_and_read),      cmocka_unit_test(texts_are_the_models_own),
        cmocka_unit_test(layers_and_weights_in_one_file),   cmocka_unit_test(a_layer_of_ones_own_is_registered),
        cmocka_unit_test(what_is_no_model_is_one_sentence),
    };
    return cmocka_run_group_tests_name("core/model_json", tests, enter_folder, leave_folder);
}
