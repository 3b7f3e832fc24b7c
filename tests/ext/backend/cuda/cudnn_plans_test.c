/* The plans that cuDNN itself makes of our graphs, on a machine without a device: since 9.8 it takes properties of one
 * that need not be there. What networks convolve has plans, in every precision, on three chips, by engines that keep
 * our rules, within the scratch memory that is allowed; and what the shim's cuDNN has plans for, cuDNN has, and no
 * more. Nothing is computed. Runs where the plugin for GPUs was built; the shim's headers stand in for cuDNN's here,
 * which holds their numbers against it, too. */
#include <dlfcn.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <kolo.h>

#include "backend/cuda/conv_graph.h"

#define DEVICELESS 90800 /* the first cuDNN that can */

/* A plugin, and the cuDNN that it is linked with. */
typedef struct library {
    void *plugin;
    cudnnHandle_t handle; /* the shim's, whose devices are always there; else NULL */
    __typeof__(kolo_conv_graph_describe) *describe;
    __typeof__(kolo_conv_graph_rules) *rules;
    __typeof__(kolo_graph_plan) *plan;
    __typeof__(kolo_graph_free) *free;
    __typeof__(cudnnBackendCreateDescriptor) *create;
    __typeof__(cudnnBackendDestroyDescriptor) *destroy;
    __typeof__(cudnnBackendSetAttribute) *set;
    __typeof__(cudnnBackendGetAttribute) *get;
    __typeof__(cudnnBackendFinalize) *finalize;
} library;

static library real, shim;

/* ---- both cuDNNs ---- */

/* A function of the plugin's or of what it is linked with, into a pointer to it. */
static void fetch(const library *l, const char *name, void *pointer)
{
    void *found = dlsym(l->plugin, name);
    if (!found) print_error("%s\n", dlerror());
    assert_non_null(found);
    memcpy(pointer, &found, sizeof found);
}

static bool open_library(library *l, const char *path)
{
    l->plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->plugin) return false;
    fetch(l, "kolo_conv_graph_describe", &l->describe);
    fetch(l, "kolo_conv_graph_rules", &l->rules);
    fetch(l, "kolo_graph_plan", &l->plan);
    fetch(l, "kolo_graph_free", &l->free);
    fetch(l, "cudnnBackendCreateDescriptor", &l->create);
    fetch(l, "cudnnBackendDestroyDescriptor", &l->destroy);
    fetch(l, "cudnnBackendSetAttribute", &l->set);
    fetch(l, "cudnnBackendGetAttribute", &l->get);
    fetch(l, "cudnnBackendFinalize", &l->finalize);
    return true;
}

/* The plugin lies beside libkolo.so; where that is the shim's folder, …/shim/lib, the real one is in …/lib. */
static int open_both(void **state)
{
    (void)state;
    char folder[3000], path[3100];
    Dl_info here;
    assert_true(dladdr((void *)(uintptr_t)kolo_sequential_at, &here) != 0);
    snprintf(folder, sizeof folder, "%s", here.dli_fname);
    *strrchr(folder, '/') = 0;
    size_t length = strlen(folder);
    bool in_shim = length > 9 && strcmp(folder + length - 9, "/shim/lib") == 0;
    snprintf(path, sizeof path, "%s/libkolo_cuda.so", folder);
    if (in_shim && open_library(&shim, path)) {
        cudnnStatus_t (*open)(cudnnHandle_t *);
        fetch(&shim, "cudnnCreate", &open);
        assert_int_equal(open(&shim.handle), CUDNN_STATUS_SUCCESS);
    }
    if (in_shim) snprintf(path, sizeof path, "%.*s/lib/libkolo_cuda.so", (int)length - 9, folder);
    if (!open_library(&real, path)) {
        print_message("%s\n", dlerror());
        return 0;
    }
    size_t (*version)(void);
    fetch(&real, "cudnnGetVersion", &version);
    if (version() >= DEVICELESS) return 0;
    print_message("cuDNN %zu cannot plan without a device\n", version());
    real.plugin = NULL;
    return 0;
}

static void needs_cudnn(void)
{
    if (real.plugin) return;
    print_message("SKIPPED: no plugin for GPUs that loads was built here (make cuda), or its cuDNN is older than "
                  "9.8\n");
    skip();
}

/* ---- devices ---- */

typedef struct chip {
    const char *name;
    int version, multiprocessors, shared, l2, clock, memory_clock; /* bytes, kHz */
    bool all; /* it has fast engines for all of float32, too */
} chip;
static const chip chips[] = {
    {"NVIDIA H100 80GB HBM3", 900, 132, 232448, 52428800, 1980000, 2619000, true},
    {"NVIDIA A100-SXM4-80GB", 800, 108, 166912, 41943040, 1410000, 1593000, false},
    {"NVIDIA B200", 1000, 148, 232448, 132644864, 1965000, 3996000, false},
};

static cudnnBackendDescriptor_t device_of(const chip *c)
{
    static const char format[] =
        "{\"deviceName\":\"%s\",\"deviceVer\":%d,\"multiProcessorCount\":%d,\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"l2CacheSize\":%d,\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,\"cudaDeviceId\":0,\"driverVer\":13000,"
        "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
        "\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"reservedSharedMemoryPerBlock\":1024,"
        "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
        "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"totalGlobalMem\":84929347584}";
    char text[2000];
    int length = snprintf(text, sizeof text, format, c->name, c->version, c->multiprocessors, c->shared, c->l2,
                          c->clock, c->memory_clock);
    cudnnBackendDescriptor_t made = NULL;
    assert_int_equal(real.create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made), CUDNN_STATUS_SUCCESS);
    assert_int_equal(real.set(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length + 1, text),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(real.finalize(made), CUDNN_STATUS_SUCCESS);
    return made;
}

/* ---- specs ---- */

typedef struct shape {
    int height, width, channels, filters, kernel, stride, dilation, before, after, groups;
} shape;
static const shape shapes[] = {
    {26, 26, 32, 64, 3, 1, 1, 0, 0, 1}, /* the lesson's second layer */
    {32, 32, 16, 16, 3, 1, 1, 1, 1, 1}, /* ResNet-20's */
    {32, 32, 16, 32, 3, 2, 1, 0, 1, 1}, {8, 8, 64, 64, 3, 1, 1, 1, 1, 1},    {32, 32, 16, 32, 1, 2, 1, 0, 0, 1},
    {14, 14, 32, 64, 5, 1, 1, 2, 2, 1}, {56, 56, 64, 256, 1, 1, 1, 0, 0, 1}, {16, 16, 64, 64, 3, 1, 1, 1, 1, 4},
    {16, 16, 32, 64, 3, 1, 2, 2, 2, 1}, {13, 13, 7, 19, 3, 1, 1, 1, 1, 1},   {14, 14, 32, 64, 4, 2, 1, 1, 1, 1},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static int places(int size, const shape *s)
{
    return (size + s->before + s->after - (s->kernel - 1) * s->dilation - 1) / s->stride + 1;
}

static kolo_conv_spec spec_of(const shape *s, int microbatch, kolo_precision precision, kolo_conv_result result)
{
    kolo_conv_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.conv = (kolo_conv){.microbatch = microbatch,
                            .height = s->height,
                            .width = s->width,
                            .channels = s->channels,
                            .out_height = places(s->height, s),
                            .out_width = places(s->width, s),
                            .filters = s->filters,
                            .groups = s->groups,
                            .kernel = {s->kernel, s->kernel},
                            .stride = {s->stride, s->stride},
                            .dilation = {s->dilation, s->dilation},
                            .before = {s->before, s->before}};
    spec.after[0] = spec.after[1] = s->after;
    spec.result = (int)result;
    spec.tf32 = precision == KOLO_TF32;
    spec.element = precision == KOLO_MIXED_BF16   ? KOLO_ELEMENT_BFLOAT16
                   : precision == KOLO_MIXED_FP16 ? KOLO_ELEMENT_HALF
                                                  : KOLO_ELEMENT_FLOAT;
    return spec;
}

static void say(const kolo_conv_spec *w, const char *what)
{
    static const char *const results[] = {"y", "x", "the kernel"};
    const kolo_conv *c = &w->conv;
    print_error("%s: %s of %d x %d x %d x %d, %d filters of %d x %d, stride %d, element %d%s%s%s\n", what,
                results[w->result], c->microbatch, c->height, c->width, c->channels, c->filters, c->kernel[0],
                c->kernel[1], c->stride[0], (int)w->element, w->tf32 ? ", tf32" : "", w->bias ? ", bias" : "",
                w->relu ? ", relu" : "");
}

/* ---- plans ---- */

/* NULL where there is none; else it is to be destroyed. */
static cudnnBackendDescriptor_t plan_of(const library *l, cudnnBackendDescriptor_t device, const kolo_conv_spec *spec)
{
    kolo_graph graph = {.handle = l->handle, .device = device};
    kolo_graph_rules rules = l->rules(spec);
    size_t scratch = 0;
    l->describe(&graph, spec);
    if (graph.status != CUDNN_STATUS_SUCCESS) say(spec, "refused");
    assert_int_equal(graph.status, CUDNN_STATUS_SUCCESS);
    cudnnBackendDescriptor_t plan = l->plan(&graph, &rules, &scratch);
    assert_int_equal(graph.status, CUDNN_STATUS_SUCCESS);
    if (plan) assert_true((int64_t)scratch <= rules.most_scratch);
    l->free(&graph);
    return plan;
}

/* By what cuDNN says of the plan's engine. */
static void check_engine(const library *l, cudnnBackendDescriptor_t plan, const kolo_conv_spec *spec)
{
    cudnnBackendDescriptor_t configuration, engine;
    int notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT], habits[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t count;
    bool narrow = spec->element != KOLO_ELEMENT_FLOAT, right = true;
    assert_int_equal(l->create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration), CUDNN_STATUS_SUCCESS);
    assert_int_equal(l->create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), CUDNN_STATUS_SUCCESS);
    assert_int_equal(l->get(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                            &configuration),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(l->get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                            &engine),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(l->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
                     CUDNN_STATUS_SUCCESS);
    for (int64_t i = 0; i < count; i++) {
        bool rounds = notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
             winograd = notes[i] >= CUDNN_NUMERICAL_NOTE_WINOGRAD;
        right = right && notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && (!rounds || narrow || spec->tf32) &&
                (!winograd || !(narrow || spec->tf32)) && notes[i] != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP &&
                notes[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    }
    assert_int_equal(l->get(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, habits),
                     CUDNN_STATUS_SUCCESS);
    for (int64_t i = 0; i < count; i++) right = right && habits[i] != CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    if (!right) say(spec, "an engine that breaks the rules");
    assert_true(right);
    l->destroy(engine);
    l->destroy(configuration);
}

static void check_plan(const library *l, cudnnBackendDescriptor_t device, const kolo_conv_spec *spec, bool must)
{
    cudnnBackendDescriptor_t plan = plan_of(l, device, spec);
    if (!plan && must) say(spec, "no plan");
    assert_true(plan || !must);
    if (!plan) return;
    check_engine(l, plan, spec);
    l->destroy(plan);
}

/* As conv2d.c asks for them. */
static void check_shape(const library *l, cudnnBackendDescriptor_t device, const shape *s, int microbatch, bool all)
{
    static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_TF32, KOLO_MIXED_BF16, KOLO_MIXED_FP16};
    for (int p = 0; p < 4; p++) {
        bool must = all || p > 0;
        kolo_conv_spec y = spec_of(s, microbatch, precisions[p], KOLO_CONV_Y), x = y, kernel = y;
        x.result = KOLO_CONV_X;
        kernel.result = KOLO_CONV_KERNEL;
        check_plan(l, device, &y, must);
        y.bias = 1;
        check_plan(l, device, &y, must);
        y.relu = 1;
        check_plan(l, device, &y, must);
        check_plan(l, device, &x, must);
        if (p < 2) check_plan(l, device, &kernel, must);
    }
}

static void test_networks(void **state)
{
    (void)state;
    needs_cudnn();
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        cudnnBackendDescriptor_t device = device_of(&chips[i]);
        for (size_t s = 0; s < SHAPES; s++) check_shape(&real, device, &shapes[s], 512, chips[i].all);
        real.destroy(device);
    }
}

/* One sample, few, and many. */
static void test_microbatches(void **state)
{
    static const int microbatches[] = {1, 17, 16384};
    (void)state;
    needs_cudnn();
    cudnnBackendDescriptor_t device = device_of(&chips[0]);
    for (size_t l = 0; l < sizeof microbatches / sizeof *microbatches; l++)
        for (size_t s = 0; s < 3; s++) check_shape(&real, device, &shapes[s], microbatches[l], true);
    real.destroy(device);
}

/* ---- the shim's ---- */

static void test_shim(void **state)
{
    (void)state;
    if (!shim.plugin) skip();
    for (size_t s = 0; s < SHAPES; s++) check_shape(&shim, NULL, &shapes[s], 512, true);
}

static bool has_plan(const library *l, cudnnBackendDescriptor_t device, const kolo_conv_spec *spec)
{
    cudnnBackendDescriptor_t plan = plan_of(l, device, spec);
    if (plan) l->destroy(plan);
    return plan;
}

/* Every result with a bias, relu, both or none. */
static void test_shim_has_no_more(void **state)
{
    (void)state;
    needs_cudnn();
    if (!shim.plugin) skip();
    cudnnBackendDescriptor_t device = device_of(&chips[0]);
    for (int e = 0; e < 2; e++)
        for (int c = 0; c < 12; c++) {
            kolo_conv_spec spec =
                spec_of(&shapes[0], 17, e ? KOLO_MIXED_BF16 : KOLO_FLOAT32, (kolo_conv_result)(c % 3));
            spec.bias = c / 3 % 2;
            spec.relu = c / 6;
            bool has = has_plan(&real, device, &spec), shim_has = has_plan(&shim, NULL, &spec);
            if (has != shim_has) say(&spec, has ? "only cuDNN has a plan" : "only the shim has a plan");
            assert_int_equal(has, shim_has);
        }
    real.destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks), cmocka_unit_test(test_microbatches),
                                       cmocka_unit_test(test_shim), cmocka_unit_test(test_shim_has_no_more)};
    return cmocka_run_group_tests(tests, open_both, NULL);
}
