/* Samples that are gathered on the device, from random data sets, against kolo_data_gather(): the same bits. */
#include "device.h"

#include "data/data.h"

/* A data set on the host and on the device, and where samples go on both. */
typedef struct set {
    kolo_data data;
    kolo_sources from;
    kolo_gathered host;
    kolo_gathered device;
    size_t shift; /* of every array of the device's */
    int32_t *order;
    int64_t elements;
    int microbatch;
} set;

static void *on_device(const set *s, const void *array, size_t bytes)
{
    return array ? device_array(array, bytes, s->shift) : NULL;
}

static void draw_features(set *s, dice *d)
{
    int64_t count = s->data.samples * s->elements;
    int kind = roll_between(d, 0, 2);
    uint8_t *bytes = malloc((size_t)count);
    int32_t *tokens = malloc((size_t)count * sizeof *tokens);
    assert_true(bytes && tokens);
    for (int64_t i = 0; i < count; i++) bytes[i] = (uint8_t)roll(d), tokens[i] = roll_between(d, 0, 50000);
    if (kind == 0) s->data.bytes = bytes, s->data.scale = s->from.scale = 1 / 255.0f;
    if (kind == 1) s->data.floats = numbers(d, count, 0);
    if (kind == 2) s->data.tokens = tokens;
    if (kind != 0) free(bytes);
    if (kind != 2) free(tokens);
    s->from.bytes = on_device(s, s->data.bytes, (size_t)count);
    s->from.floats = on_device(s, s->data.floats, (size_t)count * sizeof(float));
    s->from.tokens = on_device(s, s->data.tokens, (size_t)count * sizeof(int32_t));
}

/* outputs: of one label, its classes; 1: the label is the number. */
static void draw_labels(set *s, dice *d)
{
    int width = roll_coin(d) ? 1 : roll_between(d, 2, 40);
    s->data.label_count = s->from.label_count = roll_coin(d) ? 1 : roll_between(d, 1, 70);
    s->host.outputs = width * s->data.label_count;
    if (roll_between(d, 0, 4) == 0) return;
    int64_t count = s->data.samples * s->data.label_count;
    int32_t *labels = malloc((size_t)count * sizeof *labels);
    assert_non_null(labels);
    for (int64_t i = 0; i < count; i++) labels[i] = roll_between(d, 0, width == 1 ? 1000 : width - 1);
    s->data.labels = labels;
    s->from.labels = on_device(s, labels, (size_t)count * sizeof *labels);
}

static void draw_targets(set *s, dice *d)
{
    int kind = roll_between(d, 0, 3);
    if (kind == 0) {
        s->data.autoencoder = s->from.autoencoder = true;
        s->host.outputs = s->elements;
    }
    if (kind == 1) {
        if (!s->data.labels) s->host.outputs = roll_between(d, 1, 600);
        int64_t count = s->data.samples * s->host.outputs;
        s->data.targets = numbers(d, count, 0);
        s->from.targets = on_device(s, s->data.targets, (size_t)count * sizeof(float));
    }
    if (roll_coin(d)) {
        s->data.weights = numbers(d, s->data.samples, 0);
        s->from.weights = on_device(s, s->data.weights, (size_t)s->data.samples * sizeof(float));
    }
}

static void draw_order(set *s, dice *d)
{
    size_t bytes = (size_t)s->data.samples * sizeof *s->order;
    if (roll_coin(d)) return;
    s->order = malloc(bytes);
    assert_non_null(s->order);
    for (int64_t i = 0; i < s->data.samples; i++) s->order[i] = roll_between(d, 0, (int)s->data.samples - 1);
    s->from.order = on_device(s, s->order, bytes);
}

/* What of it is wanted, beside each other on host and device. */
static void draw_places(set *s, dice *d)
{
    size_t features = (size_t)(s->microbatch * s->elements) * sizeof(float),
           outputs = (size_t)(s->microbatch * s->host.outputs);
    size_t labels = (size_t)(s->microbatch * s->data.label_count) * sizeof(int32_t),
           weights = (size_t)s->microbatch * sizeof(float);
    if (roll_between(d, 0, 5) > 0) s->host.features = calloc(1, features);
    if (roll_coin(d)) s->host.labels = calloc(1, labels);
    if (roll_coin(d)) s->host.targets = calloc(outputs, sizeof(float));
    if (roll_coin(d)) s->host.weights = calloc(1, weights);
    if (s->host.features) s->device.features = device_array(NULL, features, s->shift);
    if (s->host.labels) s->device.labels = device_array(NULL, labels, s->shift);
    if (s->host.targets) s->device.targets = device_array(NULL, outputs * sizeof(float), s->shift);
    if (s->host.weights) s->device.weights = device_array(NULL, weights, s->shift);
    s->device.outputs = s->host.outputs;
}

static void compare(const void *host, const void *device, int64_t count, const char *what, int number)
{
    if (!host) return;
    void *got = device_read(device, (size_t)count * 4);
    if (memcmp(host, got, (size_t)count * 4) != 0) fail_msg("case %d: other %s", number, what);
    free(got);
}

static void free_set(set *s)
{
    const void *on_host[] = {s->data.bytes,   s->data.floats,  s->data.tokens,   s->data.labels,
                             s->data.targets, s->data.weights, s->host.features, s->host.labels,
                             s->host.targets, s->host.weights, s->order};
    const void *there[] = {s->from.bytes,     s->from.floats,    s->from.tokens,     s->from.labels,
                           s->from.targets,   s->from.weights,   s->device.features, s->device.labels,
                           s->device.targets, s->device.weights, s->from.order};
    for (size_t i = 0; i < sizeof on_host / sizeof *on_host; i++) free((void *)on_host[i]);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) device_free((void *)there[i], s->shift);
}

/* Rows that four neighbours fit in, rows of one, odd ones, and long ones. */
static int64_t draw_elements(dice *d)
{
    static const int some[] = {1, 3, 4, 17, 28, 33, 512, 516, 784, 1030, 2052};
    return roll_coin(d) ? some[roll_between(d, 0, 10)] : roll_between(d, 1, 300);
}

static void one_case(dice *d, int number)
{
    set s = {.elements = draw_elements(d), .microbatch = roll_between(d, 1, 9), .shift = roll_between(d, 0, 3) ? 0 : 4};
    s.data.samples = roll_between(d, 1, 40);
    s.data.shape = (kolo_shape){1, {(int)s.elements}};
    s.from.elements = s.elements;
    draw_features(&s, d);
    draw_labels(&s, d);
    draw_targets(&s, d);
    draw_order(&s, d);
    draw_places(&s, d);
    /* A batch somewhere in the data, and a microbatch that may begin behind its last sample. */
    int64_t from = roll_between(d, 0, (int)s.data.samples - 1),
            samples = roll_between(d, 0, (int)(s.data.samples - from));
    int64_t first = roll_between(d, 0, (int)samples + 2), left = samples - first < 0 ? 0 : samples - first;
    int count = left < s.microbatch ? (int)left : s.microbatch;
    kolo_step_parameters step_parameters = {.first = from, .samples = samples};
    kolo_step_parameters *there = device_array(&step_parameters, sizeof step_parameters, 0);
    rig_ok(kolo_data_gather(&s.data, NULL, s.order ? s.order + from + first : NULL, from + first, count, &s.host));
    rig_ok(streams->gather(stream, &s.from, there, first, s.microbatch, &s.device));
    compare(s.host.features, s.device.features, s.microbatch * s.elements, "features", number);
    compare(s.host.labels, s.device.labels, (int64_t)s.microbatch * s.data.label_count, "labels", number);
    compare(s.host.targets, s.device.targets, s.microbatch * s.host.outputs, "targets", number);
    compare(s.host.weights, s.device.weights, s.microbatch, "weights", number);
    device_free(there, 0);
    free_set(&s);
}

static void the_same_samples(void **state)
{
    (void)state;
    dice d = {11};
    for (int number = 0; number < 400; number++) one_case(&d, number);
}

/* Captured once: only the step parameters change. */
static void a_captured_graph_follows_the_step_parameters(void **state)
{
    (void)state;
    enum { samples = 20, elements = 8, microbatch = 4 };
    float all[samples * elements];
    for (int i = 0; i < samples * elements; i++) all[i] = (float)i;
    kolo_step_parameters step_parameters = {0}, *there = device_array(NULL, sizeof step_parameters, 0);
    kolo_sources from = {.floats = device_array(all, sizeof all, 0), .label_count = 1, .elements = elements};
    kolo_gathered to = {.features = device_array(NULL, microbatch * elements * sizeof(float), 0)};
    kolo_captured_graph *captured_graph;
    rig_ok(streams->begin_capture(stream));
    rig_ok(streams->gather(stream, &from, there, 0, microbatch, &to));
    rig_ok(streams->end_capture(stream, &captured_graph));
    for (int first = 0; first < samples; first += 3) {
        step_parameters = (kolo_step_parameters){.first = first, .samples = samples - first};
        rig_ok(streams->copy(stream, there, &step_parameters, sizeof step_parameters));
        rig_ok(streams->launch(stream, captured_graph));
        float *got = device_read(to.features, microbatch * elements * sizeof(float));
        for (int i = 0; i < microbatch * elements; i++) {
            int at = first * elements + i;
            assert_true(got[i] == (at < samples * elements ? (float)at : 0));
        }
        free(got);
    }
    streams->free_graph(stream, captured_graph);
    device_free(there, 0);
    device_free((void *)from.floats, 0);
    device_free(to.features, 0);
}

int main(void)
{
    if (!device_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_samples),
                                       cmocka_unit_test(a_captured_graph_follows_the_step_parameters)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    streams->close(&stream);
    return failed;
}
