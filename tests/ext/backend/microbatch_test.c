/* A microbatch as a whole: a chain of operations as a network has them, forward, loss and backward, in both backends.
 *
 * That layouts pass from operation to operation (blocks of channels, through a view, into a dense kernel whose rows
 * are packed in that order); that samples of padding leave no trace in gradients; and that threads which run the same
 * kernels at once get the bits that one gets alone.
 */
#include "rig.h"

#include <pthread.h>

#include "tested.h"

enum { microbatch = 6, classes = 5 };

static const kolo_backend *tested;

/* convolution with relu, pooling, dropout, view, dense with relu, dense, loss, and back. */
typedef struct chain {
    rig *r;
    int x, kernel[6], bias[3], dkernel[3], dbias[3], y; /* kernel: forward three, backward three (0 unused) */
    kolo_shape image, pooled, flat, hidden;
    kolo_window window, pool;
    int convolved, largest, where, dropped, mask, view, dense, dy; /* values on the way; mask: -1 without dropout */
} chain;

static kolo_shape kernel_shapes[3];

static void chain_weights(chain *c, int which, kolo_shape shape)
{
    kolo_plan *plan = &c->r->plan;
    kolo_shape bias = {1, {shape.dim[shape.rank - 1]}};
    kernel_shapes[which] = shape;
    c->kernel[which] = kolo_plan_weights(plan, 2 * which, shape);
    c->kernel[3 + which] = which > 0 ? kolo_plan_weights(plan, 2 * which, shape) : -1;
    c->bias[which] = kolo_plan_weights(plan, 2 * which + 1, bias);
    c->dkernel[which] = kolo_plan_gradient(plan, 2 * which, shape);
    c->dbias[which] = kolo_plan_gradient(plan, 2 * which + 1, bias);
}

static void chain_convolve(chain *c, bool dropout)
{
    rig *r = c->r;
    c->convolved = rig_value(r, KOLO_VALUE_ACTIVATION, c->image);
    c->largest = c->dropped = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
    c->where = rig_value(r, KOLO_VALUE_WORKSPACE, c->pooled);
    c->mask = -1;
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D,
                        .in = {c->x, c->kernel[0], c->bias[0]},
                        .out = {c->convolved},
                        .window = c->window,
                        .activation = KOLO_RELU});
    rig_op(r, (kolo_op){
                  .kind = KOLO_OP_MAX_POOL2D, .in = {c->convolved}, .out = {c->largest, c->where}, .window = c->pool});
    if (!dropout) return;
    c->dropped = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
    c->mask = rig_value(r, KOLO_VALUE_WORKSPACE, c->pooled);
    rig_op(r, (kolo_op){.kind = KOLO_OP_DROPOUT, .in = {c->largest}, .out = {c->dropped, c->mask}, .rate = 0.25});
}

static void chain_classify(chain *c)
{
    rig *r = c->r;
    kolo_shape out = {1, {classes}};
    c->view = kolo_plan_view(&r->plan, c->dropped, c->flat);
    c->dense = rig_value(r, KOLO_VALUE_ACTIVATION, c->hidden);
    c->y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    c->dy = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    r->plan.values[c->y].canonical = r->plan.values[c->dy].canonical = true;
    r->plan.output = c->y;
    r->plan.loss = KOLO_SPARSE_CROSSENTROPY;
    rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE,
                        .in = {c->view, c->kernel[1], c->bias[1]},
                        .out = {c->dense},
                        .activation = KOLO_RELU});
    rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE, .in = {c->dense, c->kernel[2], c->bias[2]}, .out = {c->y}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_LOSS, .in = {c->y}, .out = {c->dy}});
}

static void chain_back(chain *c)
{
    rig *r = c->r;
    int dh = rig_value(r, KOLO_VALUE_ACTIVATION, c->hidden), dv = rig_value(r, KOLO_VALUE_ACTIVATION, c->flat);
    int ddropped = kolo_plan_view(&r->plan, dv, c->pooled), dlargest = ddropped;
    int dconvolved = rig_value(r, KOLO_VALUE_ACTIVATION, c->image);
    rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD,
                        .in = {c->dy, -1, c->dense, c->kernel[5]},
                        .out = {dh, c->dkernel[2], c->dbias[2]}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD,
                        .in = {dh, c->dense, c->view, c->kernel[4]},
                        .out = {dv, c->dkernel[1], c->dbias[1]},
                        .activation = KOLO_RELU});
    if (c->mask >= 0) {
        dlargest = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
        rig_op(r,
               (kolo_op){.kind = KOLO_OP_DROPOUT_BACKWARD, .in = {ddropped, c->mask}, .out = {dlargest}, .rate = 0.25});
    }
    rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D_BACKWARD,
                        .in = {dlargest, c->where},
                        .out = {dconvolved},
                        .window = c->pool});
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD,
                        .in = {dconvolved, c->convolved, c->x, -1},
                        .out = {-1, c->dkernel[0], c->dbias[0]},
                        .window = c->window,
                        .activation = KOLO_RELU});
}

static chain chain_new(const kolo_backend *backend, kolo_precision precision, kolo_shape in, int filters, bool dropout)
{
    chain c = {.r = rig_new(backend, precision, microbatch), .hidden = {1, {20}}};
    c.window = rig_window(in, 3, 3, 1, 1, true, &c.image, filters);
    c.pool = rig_window(c.image, 2, 2, 2, 2, false, &c.pooled, filters);
    c.flat = (kolo_shape){1, {(int)kolo_shape_count(c.pooled)}};
    chain_weights(&c, 0, (kolo_shape){4, {3, 3, in.dim[2], filters}});
    chain_weights(&c, 1, (kolo_shape){2, {c.flat.dim[0], 20}});
    chain_weights(&c, 2, (kolo_shape){2, {20, classes}});
    c.x = rig_input(c.r, in);
    chain_convolve(&c, dropout);
    chain_classify(&c);
    chain_back(&c);
    rig_prepare(c.r);
    return c;
}

/* The same weights and labels for the same seed. */
static void chain_fill(chain *c, uint64_t seed)
{
    dice d = {seed};
    for (int which = 0; which < 3; which++) {
        float *kernel = numbers(&d, kolo_shape_count(kernel_shapes[which]), 8);
        float *bias = numbers(&d, rig_count(c->r, c->bias[which]), 8);
        rig_write(c->r, c->kernel[which], kernel);
        if (which > 0) rig_write(c->r, c->kernel[3 + which], kernel);
        rig_write(c->r, c->bias[which], bias);
        free(kernel);
        free(bias);
    }
    for (int i = 0; i < microbatch; i++) c->r->labels[i] = roll_between(&d, 0, classes - 1);
}

/* The first `samples` are by seed, what follows them by padding. */
static void chain_features(chain *c, uint64_t seed, int samples, uint64_t padding)
{
    int64_t count = rig_count(c->r, c->x), real = count / microbatch * samples;
    dice d = {seed}, other = {padding};
    float *x = numbers(&d, count, 8), *rest = numbers(&other, count, 8);
    for (int64_t i = real; i < count; i++) x[i] = rest[i];
    rig_write(c->r, c->x, x);
    c->r->call.samples = samples;
    free(x);
    free(rest);
}

static void compare_gradients(chain *a, chain *b, double bound)
{
    for (int which = 0; which < 6; which++) {
        int value_a = which % 2 ? a->dbias[which / 2] : a->dkernel[which / 2];
        int value_b = which % 2 ? b->dbias[which / 2] : b->dkernel[which / 2];
        double *got = rig_read(a->r, value_a), *wanted = rig_read(b->r, value_b);
        double distance = rig_distance(got, wanted, rig_count(a->r, value_a));
        if (!(distance <= bound)) print_error("gradient %d differs by %g, bound %g\n", which, distance, bound);
        assert_true(distance <= bound);
        free(got);
        free(wanted);
    }
}

/* Numbers are eighths, so that sums up to the loss are exact and no relu or maximum hangs on rounding. In bfloat16 each
 * operation of the way back rounds to 2^-9, and may differ by twice that: five of them in a row. */
static void test_chains(void **state)
{
    (void)state;
    dice d = {31};
    for (int n = 0; n < 40; n++) {
        kolo_precision precision = n % 2 && tested->open(KOLO_MIXED_BF16) == KOLO_OK ? KOLO_MIXED_BF16 : KOLO_FLOAT32;
        kolo_shape in = {3, {roll_between(&d, 2, 9), roll_between(&d, 2, 9), roll_between(&d, 1, 20)}};
        int filters = roll_between(&d, 1, 40);
        chain a = chain_new(tested, precision, in, filters, n % 4 < 2);
        chain b = chain_new(&kolo_reference_backend, precision, in, filters, n % 4 < 2);
        chain_fill(&a, 100u + (unsigned)n);
        chain_fill(&b, 100u + (unsigned)n);
        chain_features(&a, (unsigned)n, 5, 1);
        chain_features(&b, (unsigned)n, 5, 2);
        rig_run(a.r);
        rig_run(b.r);
        compare_gradients(&a, &b, precision == KOLO_FLOAT32 ? 2e-5 : 5 * 0x1p-8);
        assert_true(fabs(a.r->totals.loss / b.r->totals.loss - 1) < (precision == KOLO_FLOAT32 ? 1e-5 : 0.02));
        assert_true(a.r->totals.samples == 5 && b.r->totals.samples == 5);
        rig_free(a.r);
        rig_free(b.r);
    }
}

/* What lies in the samples that pad a microbatch changes no bit; and one more sample does. */
static void padding_in(const kolo_backend *backend, kolo_precision precision)
{
    chain a = chain_new(backend, precision, (kolo_shape){3, {6, 6, 3}}, 20, true);
    chain b = chain_new(backend, precision, (kolo_shape){3, {6, 6, 3}}, 20, true);
    chain_fill(&a, 1);
    chain_fill(&b, 1);
    for (int samples = 0; samples < microbatch; samples++) {
        chain_features(&a, 2, samples, 3);
        chain_features(&b, 2, samples, 4);
        rig_run(a.r);
        rig_run(b.r);
        compare_gradients(&a, &b, 0);
    }
    double *none = rig_read(a.r, a.dkernel[0]), *more;
    chain_features(&a, 2, microbatch, 3);
    rig_run(a.r);
    more = rig_read(a.r, a.dkernel[0]);
    assert_true(rig_distance(none, more, rig_count(a.r, a.dkernel[0])) > 0);
    chain_features(&a, 2, 0, 3);
    rig_run(a.r);
    free(none);
    none = rig_read(a.r, a.dkernel[0]);
    for (int64_t i = 0; i < rig_count(a.r, a.dkernel[0]); i++) assert_true(none[i] == 0);
    free(none);
    free(more);
    rig_free(a.r);
    rig_free(b.r);
}

static void test_padding(void **state)
{
    (void)state;
    padding_in(&kolo_reference_backend, KOLO_FLOAT32);
    padding_in(tested, KOLO_FLOAT32);
    if (tested->open(KOLO_MIXED_BF16) == KOLO_OK) padding_in(tested, KOLO_MIXED_BF16);
}

/* ---- threads */

typedef struct worker {
    const chain *c;
    const float *x;
    void **memory;
    bool failed, differed;
    pthread_barrier_t *barrier;
} worker;

/* Its own activations and gradients, the shared kernels and packed weights. */
static void *work(void *argument)
{
    worker *w = argument;
    const rig *r = w->c->r;
    kolo_totals totals = {0};
    kolo_call call = r->call;
    call.memory = w->memory;
    call.totals = &totals;
    size_t scratch = 64;
    for (int op = 0; op < r->plan.op_count; op++) {
        if (r->plan.ops[op].scratch > scratch) scratch = r->plan.ops[op].scratch;
    }
    call.scratch = kolo_host_allocate(scratch);
    r->backend->enter_thread();
    pthread_barrier_wait(w->barrier);
    for (int turn = 0; turn < 50; turn++) {
        for (int op = 0; op < r->plan.op_count; op++) {
            if (r->kernels[op] && r->backend->run(r->kernels[op], &call) != KOLO_OK) w->failed = true;
        }
        for (int which = 0; which < 3; which++) {
            int v = w->c->dkernel[which];
            if (memcmp(w->memory[v], r->memory[v], r->plan.values[v].bytes) != 0) w->differed = true;
        }
    }
    kolo_host_deallocate(call.scratch);
    return NULL;
}

static void **own_memory(const rig *r)
{
    void **memory = calloc((size_t)r->plan.value_count, sizeof *memory);
    assert_non_null(memory);
    for (int v = 0; v < r->plan.value_count; v++) {
        const kolo_value *value = &r->plan.values[v];
        if (!kolo_value_has_memory(value)) continue;
        memory[v] = value->kind == KOLO_VALUE_WEIGHTS ? r->memory[v] : kolo_host_allocate(value->bytes + 64);
        assert_non_null(memory[v]);
        if (value->kind == KOLO_VALUE_INPUT) memcpy(memory[v], r->memory[v], value->bytes);
    }
    for (int v = 0; v < r->plan.value_count; v++) memory[v] = memory[kolo_plan_base(&r->plan, v)];
    return memory;
}

static void free_own_memory(const rig *r, void **memory)
{
    for (int v = 0; v < r->plan.value_count; v++) {
        if (r->plan.values[v].kind != KOLO_VALUE_WEIGHTS && kolo_value_has_memory(&r->plan.values[v]))
            kolo_host_deallocate(memory[v]);
    }
    free(memory);
}

static void threads_in(kolo_precision precision)
{
    enum { threads = 3 };
    pthread_t handles[threads];
    pthread_barrier_t barrier;
    worker workers[threads];
    chain c = chain_new(tested, precision, (kolo_shape){3, {9, 9, 3}}, 20, true);
    chain_fill(&c, 1);
    chain_features(&c, 2, microbatch, 0);
    rig_run(c.r);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, threads), 0);
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){.c = &c, .memory = own_memory(c.r), .barrier = &barrier};
        assert_int_equal(pthread_create(&handles[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(handles[i], NULL), 0);
        assert_false(workers[i].failed);
        assert_false(workers[i].differed);
        free_own_memory(c.r, workers[i].memory);
    }
    pthread_barrier_destroy(&barrier);
    rig_free(c.r);
}

static void test_threads(void **state)
{
    (void)state;
    threads_in(KOLO_FLOAT32);
    if (tested->open(KOLO_MIXED_BF16) == KOLO_OK) threads_in(KOLO_MIXED_BF16);
}

int main(void)
{
    tested = tested_backend();
    if (!tested) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
