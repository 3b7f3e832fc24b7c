/* A convolution with a max pooling behind it, and perhaps a dropout, as one (backend/cuda/pooled_conv2d.c), against the
 * reference backend: 3 × 3 windows over 16, 32 or 64 channels to as many filters, images of one strip or several, with
 * zeros around and without. That they are one is seen from the plan; and that they are not where somebody else sees
 * what is between them, or where the kernels do not fit. Numbers are exact (pair.h), so that no maximum hangs on
 * rounding; so is dropout by halves, as kept elements are doubled. */
/* test: long: it compares every way to pool. */
#include "ext/backend/pair.h"

/* What is there, and what it is to come to. */
typedef struct chain {
    kolo_shape in, image, pooled;
    kolo_window window, pool;
    bool bias, relu, drops, back, needs_dx, watched, fits;
    int x, dy, kernel, kernel_back, biases, convolved, largest, where, dropped, dconvolved, dx, dkernel, dbias;
    int y_p[2], dx_p[2], image_p[2];
} chain;

static void forward(rig *r, chain *c)
{
    c->x = rig_input(r, c->in);
    c->dy = rig_input(r, c->pooled);
    c->kernel = kolo_plan_weights(&r->plan, 0, (kolo_shape){4, {3, 3, c->in.dim[2], c->image.dim[2]}});
    c->kernel_back = kolo_plan_weights(&r->plan, 0, r->plan.values[c->kernel].shape);
    if (c->bias) c->biases = kolo_plan_weights(&r->plan, 1, (kolo_shape){1, {c->image.dim[2]}});
    c->dkernel = kolo_plan_gradient(&r->plan, 0, r->plan.values[c->kernel].shape);
    if (c->bias) c->dbias = kolo_plan_gradient(&r->plan, 1, (kolo_shape){1, {c->image.dim[2]}});
    c->convolved = rig_value(r, KOLO_VALUE_ACTIVATION, c->image);
    c->largest = c->dropped = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
    c->where = c->back ? rig_value(r, KOLO_VALUE_WORKSPACE, c->pooled) : -1;
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D,
                        .in = {c->x, c->kernel, c->bias ? c->biases : -1},
                        .out = {c->convolved},
                        .window = c->window,
                        .activation = c->relu ? KOLO_RELU : KOLO_LINEAR});
    rig_op(r, (kolo_op){
                  .kind = KOLO_OP_MAX_POOL2D, .in = {c->convolved}, .out = {c->largest, c->where}, .window = c->pool});
}

static int through_dropout(rig *r, chain *c)
{
    if (!c->drops) return c->dy;
    int mask = rig_value(r, KOLO_VALUE_WORKSPACE, c->pooled), dlargest = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
    c->dropped = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
    rig_op(r,
           (kolo_op){.kind = KOLO_OP_DROPOUT, .in = {c->largest}, .out = {c->dropped, mask}, .rate = 0.5, .layer = 5});
    rig_op(r, (kolo_op){
                  .kind = KOLO_OP_DROPOUT_BACKWARD, .in = {c->dy, mask}, .out = {dlargest}, .rate = 0.5, .layer = 5});
    return dlargest;
}

static void backward(rig *r, chain *c)
{
    if (!c->back) return;
    int dlargest = through_dropout(r, c);
    c->dconvolved = rig_value(r, KOLO_VALUE_ACTIVATION, c->image);
    c->dx = c->needs_dx ? rig_value(r, KOLO_VALUE_ACTIVATION, c->in) : -1;
    rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D_BACKWARD,
                        .in = {dlargest, c->where},
                        .out = {c->dconvolved},
                        .window = c->pool});
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD,
                        .in = {c->dconvolved, c->relu ? c->convolved : -1, c->x, c->needs_dx ? c->kernel_back : -1},
                        .out = {c->dx, c->dkernel, c->bias ? c->dbias : -1},
                        .window = c->window,
                        .activation = c->relu ? KOLO_RELU : KOLO_LINEAR});
}

/* fits: of a size and kind that the kernels have. */
static chain draw(dice *d, int number)
{
    int channels = 16 << number % 3, filters = 16 << number / 3 % 3, most = channels * filters > 1024 ? 9 : 18;
    int odd = roll_between(d, 0, 9), stride = 1, size = 2; /* what is not as it should be */
    chain c = {.bias = roll_coin(d), .relu = roll_coin(d), .drops = roll_coin(d), .needs_dx = roll_coin(d)};
    int low = odd == 1 || odd == 2 ? 4 : 2;
    bool same = roll_coin(d), pool_same = roll_coin(d);
    c.back = roll_between(d, 0, 7) > 0;
    c.in = (kolo_shape){3, {2 * roll_between(d, low, most / 2), 2 * roll_between(d, low, most / 2), channels}};
    if (number % 27 == 0) c.in = (kolo_shape){3, {26, 40, channels}};
    if (odd == 0) c.in.dim[roll_coin(d)]++;
    if (odd == 1) stride = 2;
    if (odd == 2) size = 3;
    if (odd == 3) c.in.dim[2] += 8;
    c.window = rig_window(c.in, 3, 3, stride, stride, same, &c.image, filters);
    c.pool = rig_window(c.image, size, size, size, size, pool_same, &c.pooled, filters);
    c.watched = odd == 4;
    c.fits = size == 2 && stride == 1 && odd != 3 && !c.watched && c.image.dim[0] % 2 == 0 && c.image.dim[1] % 2 == 0;
    return c;
}

static void build(pair *p, chain *c)
{
    for (int i = 0; i < 2; i++) {
        rig *r = p->r[i];
        forward(r, c);
        backward(r, c);
        c->y_p[i] = rig_probe(r, c->dropped);
        if (c->back && c->needs_dx) c->dx_p[i] = rig_probe(r, c->dx);
        if (c->watched) c->image_p[i] = rig_probe(r, c->convolved);
        rig_prepare(r);
    }
}

/* Nothing comes back from samples that do not count. */
static void write(pair *p, dice *d, chain *c)
{
    int64_t count = rig_count(p->r[0], c->dy);
    int samples = roll_between(d, 0, p->r[0]->plan.microbatch);
    float *dy = numbers(d, count, 8);
    for (int64_t i = samples * kolo_shape_count(c->pooled); i < count; i++) dy[i] = 0;
    for (int i = 0; i < 2; i++) {
        rig_write(p->r[i], c->dy, dy);
        p->r[i]->call.samples = samples;
    }
    free(dy);
    pair_write(p, d, c->x);
    if (c->back && c->needs_dx) pair_write_same(p, d, c->kernel, c->kernel_back);
    else pair_write(p, d, c->kernel);
    if (c->bias) pair_write(p, d, c->biases);
}

static bool is_narrow(const pair *p)
{
    return p->precision == KOLO_MIXED_BF16 || p->precision == KOLO_MIXED_FP16;
}

static bool is_one(const pair *p, const chain *c)
{
    return p->r[1]->plan.values[c->convolved].view_of >= 0;
}

static void compare_chain(pair *p, dice *d, chain *c)
{
    build(p, c);
    if (rig_is_simulated(tested)) assert_int_equal(is_one(p, c), c->fits && is_narrow(p));
    p->rounds = is_rounded(p) && !is_one(p, c);
    write(p, d, c);
    pair_run(p);
    double terms = 9.0 * c->in.dim[2];
    pair_compare(p, "y", BOTH(c->y_p), terms);
    if (c->watched) pair_compare(p, "the image between", BOTH(c->image_p), terms);
    if (c->back) pair_compare(p, "dkernel", c->dkernel, c->dkernel, 1);
    if (c->back && c->bias) pair_compare(p, "dbias", c->dbias, c->dbias, 1);
    if (c->back && c->needs_dx) pair_compare(p, "dx", BOTH(c->dx_p), 1);
    pair_free(p);
}

static void chain_case(dice *d, int number)
{
    pair p = pair_new(d, "a pooled layer", number);
    chain c = draw(d, number);
    p.exact = p.exact || c.back; /* places of maxima hang on rounding */
    compare_chain(&p, d, &c);
}

static void test_chain(void **state)
{
    (void)state;
    dice d = {91};
    for (int number = 0; number < 81; number++) chain_case(&d, number);
}

/* Several strips of as many filters as there may be: the lesson's second convolution. */
static void test_lesson(void **state)
{
    (void)state;
    dice d = {95};
    pair p = {.what = "the lesson's layer", .exact = true, .precision = KOLO_MIXED_BF16};
    for (int i = 0; i < 2; i++) p.r[i] = rig_new(i == 0 ? &kolo_reference_backend : tested, p.precision, 2);
    chain c = {.in = {3, {26, 26, 32}}, .bias = true, .relu = true, .drops = true, .back = true, .needs_dx = true};
    c.window = rig_window(c.in, 3, 3, 1, 1, false, &c.image, 64);
    c.pool = rig_window(c.image, 2, 2, 2, 2, false, &c.pooled, 64);
    c.fits = true;
    compare_chain(&p, &d, &c);
}

/* Some pixels of x are no number: y is none where the reference's is, and dy goes where the reference takes it. */
static void none_case(dice *d, int number)
{
    pair p = pair_new(d, "a pooled layer of NaN", number);
    chain c = draw(d, number);
    c.back = c.needs_dx = p.exact = true;
    build(&p, &c);
    write(&p, d, &c);
    float *x = numbers(d, rig_count(p.r[0], c.x), 8);
    for (int64_t i = 0; i < rig_count(p.r[0], c.x); i += c.in.dim[2])
        if (roll_between(d, 0, 11) == 0) x[i + roll_between(d, 0, 15)] = NAN;
    for (int i = 0; i < 2; i++) rig_write(p.r[i], c.x, x);
    pair_run(&p);
    double *wanted = rig_read(p.r[0], c.y_p[0]), *got = rig_read(p.r[1], c.y_p[1]);
    for (int64_t i = 0; i < rig_count(p.r[0], c.y_p[0]); i++)
        assert_true(isnan(wanted[i]) ? isnan(got[i]) : wanted[i] == got[i]);
    if (c.bias) pair_compare(&p, "dbias", c.dbias, c.dbias, 1);
    pair_compare(&p, "dx", BOTH(c.dx_p), 1);
    free(x);
    free(wanted);
    free(got);
    pair_free(&p);
}

static void test_none(void **state)
{
    (void)state;
    dice d = {93};
    for (int number = 0; number < 27; number++) none_case(&d, number);
}

/* Devices with less shared memory in a block have the smaller of these kernels; older ones than Ampere none. */
static void test_small_devices(void **state)
{
    (void)state;
    static const char *const capabilities[] = {"86", "75"};
    if (!rig_is_simulated(tested)) skip();
    for (int i = 0; i < 2; i++) {
        setenv("KOLO_SHIM_CAPABILITY", capabilities[i], 1);
        for (int number = 0, ones = 0; number < 9; number++) {
            pair p = {.what = "a pooled layer on a small device", .number = number, .exact = true};
            dice d = {(uint64_t)number};
            p.precision = KOLO_MIXED_FP16;
            p.r[0] = rig_new(&kolo_reference_backend, p.precision, 2);
            p.r[1] = rig_new(tested, p.precision, 2);
            chain c = draw(&(dice){7}, number);
            c.in = (kolo_shape){3, {10, 12, 16 << number % 3}};
            c.back = c.needs_dx = true;
            c.window = rig_window(c.in, 3, 3, 1, 1, true, &c.image, 16 << number / 3);
            c.pool = rig_window(c.image, 2, 2, 2, 2, false, &c.pooled, c.image.dim[2]);
            build(&p, &c);
            ones += is_one(&p, &c);
            write(&p, &d, &c);
            pair_run(&p);
            pair_compare(&p, "y", BOTH(c.y_p), 1);
            pair_compare(&p, "dkernel", c.dkernel, c.dkernel, 1);
            pair_compare(&p, "dx", BOTH(c.dx_p), 1);
            pair_free(&p);
            if (number == 8) assert_int_equal(ones > 0, i == 0);
        }
    }
    unsetenv("KOLO_SHIM_CAPABILITY");
}

/* Rows of a square that are in the same banks wait for each other. A few do where an image's row ends within a square.
 */
static void tell(const char *kernel, long squares, long waits)
{
    double share = (double)waits / (double)squares;
    bool ours = strstr(kernel, "convolve_and_pool") || strstr(kernel, "convolve_back");
    if (getenv("TELL")) print_message("%.90s: %ld squares, %ld waits\n", kernel, squares, waits);
    if (ours && share > 0.3) fail_msg("%.90s: of %ld squares %ld wait, wanted 0.3 at most", kernel, squares, waits);
}

static void forget(const char *kernel, long squares, long waits)
{
    (void)kernel, (void)squares, (void)waits;
}

static void test_banks(void **state)
{
    (void)state;
    Dl_info plugin = {0};
    void (*conflicts)(void (*)(const char *, long, long)) = NULL;
    void *loaded = dladdr(tested, &plugin) ? dlopen(plugin.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (loaded) *(void **)&conflicts = dlsym(loaded, "kolo_shim_tell_conflicts");
    if (!conflicts) skip();
    conflicts(forget);
    test_lesson(NULL);
    conflicts(tell);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain), cmocka_unit_test(test_lesson),
                                       cmocka_unit_test(test_none), cmocka_unit_test(test_small_devices),
                                       cmocka_unit_test(test_banks)};
    if (getenv("ONLY")) cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
