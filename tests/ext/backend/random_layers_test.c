/* Networks of all kinds of layers, drawn at random: graphs over samples of one to four sizes, in which any layer may
 * follow any other through any view (flatten, reshape, a global pooling), so that every operation meets every layout
 * that another has left. Outputs, loss, gradients and trained weights of a backend against the reference backend's, in
 * each precision that the CPU has.
 *
 * Which layouts there are is oneDNN's choice for the CPU at hand. So the program runs itself again with oneDNN held to
 * lesser instruction sets, whose blocks of channels are others.
 *
 * Networks are deep and their numbers any, so that now and then a relu or a maximum hangs on rounding. What must agree
 * is one of three draws of numbers for the same network: what a wrong layout breaks differs in all of them.
 *
 * KOLO_NETWORKS=5000 in the environment draws as many, KOLO_NETWORKS_FIRST=123 begins with that one.
 */
#include "random_networks.h"
#include "runtime/runtime.h"
#include "tested.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef KOLO_TEST_CASES /* random_layers_more_test.c has more of them */
#define KOLO_TEST_CASES 50
#define KOLO_TEST_FIRST 0
#endif
enum { samples_max = 9, draws = 3 };

/* ---- what a backend makes of one */

typedef struct outcome {
    double loss;
    float *gradients, *outputs, *trained;
} outcome;

static void set_weights(kolo_model *model, dice *d)
{
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        bool variance = strstr(weight.name, "variance") != NULL;
        for (int64_t i = 0; i < weight.count; i++) {
            float number = (float)roll(d) * 0x1p-30f - 1;
            if (weight.rank == 1) weight.values[i] += variance ? fabsf(number) : number / 2;
            else weight.values[i] *= 1.5f;
        }
    }
}

/* What training made of the weights. */
static float *trained(kolo_model *model, kolo_data *data)
{
    int64_t count = kolo_count_params(model), at = 0;
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int pass = 0; pass < 2; pass++, at = 0) {
        for (int w = 0; w < kolo_weight_count(model); w++) {
            kolo_weight weight = kolo_weight_get(model, w);
            for (int64_t i = 0; i < weight.count; i++, at++)
                values[at] = pass == 0 ? weight.values[i] : weight.values[i] - values[at];
        }
        if (pass == 0) assert_non_null(kolo_fit(model, data, .batch_size = 6, .verbose = (int)KOLO_NONE));
    }
    return values;
}

static outcome compute(const char *backend, kolo_precision precision, uint64_t seed, uint64_t numbers_of,
                       kolo_data *data)
{
    dice d = {numbers_of};
    outcome result;
    kolo_shape shape;
    bool tokens;
    kolo_model *model = draw(seed, &shape, &tokens);
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_sgd(.learning_rate = 1e-2),
                        .backend = backend, .precision = precision, .seed = 3));
    set_weights(model, &d);
    result.gradients = malloc((size_t)kolo_count_params(model) * sizeof(float));
    result.outputs = malloc(samples_max * (size_t)classes * sizeof(float));
    assert_true(result.gradients && result.outputs);
    result.loss = kolo_gradients(model, data, result.gradients);
    rig_ok(kolo_predict(model, data, result.outputs));
    result.trained = trained(model, data);
    kolo_model_free(&model);
    return result;
}

static void outcome_free(outcome *o)
{
    free(o->gradients);
    free(o->outputs);
    free(o->trained);
}

/* ---- comparing */

static double largest_of(const float *values, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite((double)values[i])) return INFINITY;
        largest = fmax(largest, fabs((double)values[i]));
    }
    return largest;
}

/* Of the largest of these, or where all are next to nothing of `least`. */
static double distance(const float *got, const float *wanted, int64_t count, double least)
{
    double difference = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite((double)got[i])) return INFINITY;
        difference = fmax(difference, fabs((double)got[i] - (double)wanted[i]));
    }
    return difference / fmax(fmax(largest_of(wanted, count), least), 1e-30);
}

/* Array by array; *where: the one that differs most. Gradients of a shift before a batch norm cancel out, which leaves
 * the rounding of larger ones: `share` of the largest is next to nothing. */
static double weights_distance(kolo_model *model, const float *got, const float *wanted, double share,
                               const char **where)
{
    double found = 0, least = share * largest_of(wanted, kolo_count_params(model));
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        double here = distance(got, wanted, weight.count, least);
        if (!(here <= found)) *where = weight.name;
        found = fmax(found, here);
        got += weight.count;
        wanted += weight.count;
    }
    return found;
}

/* Whether they agree; what: the first thing that does not. */
static bool agree(kolo_model *model, const outcome *got, const outcome *wanted, int samples, kolo_precision precision,
                  char what[96])
{
    double bound = precision == KOLO_FLOAT32 ? 1e-3 : 0.15, share = precision == KOLO_MIXED_BF16 ? 5e-2 : 1e-2;
    const char *where = "";
    double loss = fabs(got->loss - wanted->loss) / (fabs(wanted->loss) + 1);
    double outputs = distance(got->outputs, wanted->outputs, samples * classes, 0.1);
    snprintf(what, 96, "outputs differ by %.3g", outputs);
    if (!(outputs <= bound)) return false;
    snprintf(what, 96, "losses differ by %.3g", loss);
    if (!(loss <= bound)) return false;
    double gradients = weights_distance(model, got->gradients, wanted->gradients, share, &where);
    snprintf(what, 96, "gradients of %s differ by %.3g", where, gradients);
    if (!(gradients <= bound)) return false;
    double weights = weights_distance(model, got->trained, wanted->trained, share, &where);
    snprintf(what, 96, "trained weights of %s differ by %.3g", where, weights);
    return weights <= bound;
}

/* One draw of numbers. */
static bool one_draw(uint64_t seed, int number, kolo_precision precision, char what[96])
{
    dice d = {seed + 7 + (unsigned)number * 1000003u};
    kolo_shape shape;
    bool tokens;
    kolo_model *model = draw(seed, &shape, &tokens);
    int samples = roll_between(&d, 1, samples_max);
    int64_t count = samples * kolo_shape_count(shape);
    float *features = numbers(&d, count, 0);
    for (int64_t i = 0; tokens && i < count; i++) features[i] = (float)roll_between(&d, 0, vocabulary - 1);
    int32_t labels[samples_max];
    for (int s = 0; s < samples; s++) labels[s] = roll_between(&d, 0, classes - 1);
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .classes = classes,
                                            .shape = {shape.dim[0], shape.dim[1], shape.dim[2]});
    assert_non_null(data);
    outcome wanted = compute("reference", precision, seed, d.state, data);
    outcome got = compute(KOLO_TEST_BACKEND, precision, seed, d.state, data);
    bool finite = isfinite(wanted.loss) && isfinite(largest_of(wanted.trained, kolo_count_params(model)));
    bool fine = !finite || agree(model, &got, &wanted, samples, precision, what);
    outcome_free(&wanted);
    outcome_free(&got);
    free(features);
    kolo_data_free(&data);
    kolo_model_free(&model);
    return fine;
}

/* ---- any layouts */

/* Parts of the backend that the test reaches past the seam: see backend/onednn/onednn.h. */
static struct {
    kolo_backend backend; /* the real one's copy, but for prepare() */
    const kolo_backend *real;
    kolo_status (*desc_blocked)(const kolo_plan *, kolo_shape, int64_t, dnnl_data_type_t, dnnl_memory_desc_t *);
    kolo_status (*layout_set)(kolo_plan *, int, const dnnl_memory_desc_t *);
    const void *(*layout_of)(const kolo_plan *, int);
    dnnl_data_type_t (*type)(const kolo_plan *, int);
    dice d;
} held;

/* A layout in blocks of some channels, of the value's shape, or for what is no image of any image with its elements. */
static kolo_status set_any_layout(kolo_plan *plan, int value)
{
    static const int blocks[] = {0, 1, 4, 8, 16};
    kolo_shape shape = plan->values[value].shape;
    dnnl_memory_desc_t desc;
    int count = (int)kolo_shape_count(shape), a = roll_divisor(&held.d, count), b = roll_divisor(&held.d, count / a);
    if (shape.rank != 3) shape = (kolo_shape){3, {a, b, count / a / b}};
    KOLO_TRY(held.desc_blocked(plan, shape, blocks[roll_between(&held.d, 0, 4)], held.type(plan, value), &desc));
    return held.layout_set(plan, value, &desc);
}

/* Gives what the operation writes a layout before the operation can. That of the network's own input is an image's. */
static kolo_status prepare_in_any_layout(kolo_plan *plan, int op, void **kernel)
{
    bool input = plan->ops[op].kind == KOLO_OP_INPUT;
    for (int i = 0; i < KOLO_OP_OUTS; i++) {
        int out = plan->ops[op].out[i];
        bool kept = out < 0 || plan->values[out].kind != KOLO_VALUE_ACTIVATION || held.layout_of(plan, out) ||
                    (input && plan->values[out].shape.rank != 3);
        if (!kept && roll_between(&held.d, 0, 2) > 0) KOLO_TRY(set_any_layout(plan, out));
    }
    return held.real->prepare(plan, op, kernel);
}

/* Puts the copy in the place of the plugin's backend. */
static void hold_backend(void)
{
    const char *why;
    Dl_info self;
    kolo_plugin *plugin = (kolo_plugin *)(uintptr_t)kolo_plugin_load("onednn", &why);
    assert_true(plugin && dladdr(plugin, &self) != 0);
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    held.real = plugin->backend;
    held.backend = *plugin->backend;
    held.backend.prepare = prepare_in_any_layout;
    *(void **)&held.desc_blocked = dlsym(library, "kolo_desc_blocked");
    *(void **)&held.layout_set = dlsym(library, "kolo_layout_set");
    *(void **)&held.layout_of = dlsym(library, "kolo_layout_of");
    *(void **)&held.type = dlsym(library, "kolo_onednn_type");
    assert_true(held.desc_blocked && held.layout_set && held.layout_of && held.type);
    uintptr_t page = (uintptr_t)plugin & ~(uintptr_t)(getpagesize() - 1);
    assert_int_equal(mprotect((void *)page, (uintptr_t)(plugin + 1) - page, PROT_READ | PROT_WRITE), 0);
    plugin->backend = &held.backend;
}

/* ---- one network */

static bool one_network(uint64_t seed, kolo_precision precision)
{
    char what[96];
    kolo_shape shape;
    bool tokens;
    held.d.state = seed;
    for (int number = 0; number < draws; number++)
        if (one_draw(seed, number, precision, what)) return true;
    print_error("network %d, precision %d, ONEDNN_MAX_CPU_ISA=%s: %s\n", (int)seed, (int)precision,
                getenv("ONEDNN_MAX_CPU_ISA") ? getenv("ONEDNN_MAX_CPU_ISA") : "", what);
    kolo_model *model = draw(seed, &shape, &tokens);
    fflush(stderr);
    kolo_summary(model);
    fflush(stdout);
    kolo_model_free(&model);
    return false;
}

/* ---- tests */

static int number_of(const char *variable, int otherwise)
{
    const char *given = getenv(variable);
    return given ? atoi(given) : otherwise;
}

static void networks(kolo_precision precision, int count)
{
    const kolo_backend *backend;
    int wrong = 0, first = number_of("KOLO_NETWORKS_FIRST", KOLO_TEST_FIRST);
    if (kolo_backend_find(KOLO_TEST_BACKEND, precision, &backend) == KOLO_UNSUPPORTED) {
        kolo_failure_take();
        skip();
    }
    for (int n = 0; n < number_of("KOLO_NETWORKS", count); n++) wrong += !one_network((unsigned)(first + n), precision);
    assert_int_equal(wrong, 0);
}

static void test_float32(void **state)
{
    (void)state;
    networks(KOLO_FLOAT32, KOLO_TEST_CASES);
}
static void test_bfloat16(void **state)
{
    (void)state;
    networks(KOLO_MIXED_BF16, KOLO_TEST_CASES);
}
static void test_float16(void **state)
{
    (void)state;
    networks(KOLO_MIXED_FP16, KOLO_TEST_CASES / 2);
}

/* What an operation writes lies in any layout, whichever would be chosen: so all operations meet all layouts, on any
 * CPU. Stays so for the process, and comes last. */
static void test_any_layout(void **state)
{
    (void)state;
    if (strcmp(KOLO_TEST_BACKEND, "onednn") != 0) skip();
    hold_backend();
    networks(KOLO_FLOAT32, KOLO_TEST_CASES);
    networks(KOLO_MIXED_FP16, KOLO_TEST_CASES / 2);
}

/* oneDNN reads the variable once, so that a process of its own is needed. */
static void run_held_to(const char *instructions, const char *first)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("ONEDNN_MAX_CPU_ISA", instructions, 1);
        if (!getenv("KOLO_NETWORKS_FIRST")) setenv("KOLO_NETWORKS_FIRST", first, 1);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("/proc/self/exe", "random_layers_test", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_lesser_instructions(void **state)
{
    (void)state;
    if (strcmp(KOLO_TEST_BACKEND, "onednn") != 0 || getenv("ONEDNN_MAX_CPU_ISA")) skip();
    run_held_to("SSE41", "100000");
    run_held_to("AVX2", "200000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_float32), cmocka_unit_test(test_bfloat16),
                                       cmocka_unit_test(test_float16), cmocka_unit_test(test_lesser_instructions),
                                       cmocka_unit_test(test_any_layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
