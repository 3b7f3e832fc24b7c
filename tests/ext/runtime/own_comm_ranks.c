/* One rank of test_own_comm.py: all-reduces as a learner would write them, right ones and wrong ones.
 * own_comm_ranks check NAME … | train NAME [mirrored] | refuse. */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int calls;

/* ---------------------------------------------------------------- right ones */

/* Rank 0 adds up in the order of the ranks, and sends the sum back. */
static kolo_status naive(float *values, int64_t count, void *user)
{
    (void)user;
    int last = kolo_size() - 1;
    float *others = malloc((size_t)count * sizeof *others + 1);
    calls++;
    if (kolo_rank() > 0) {
        kolo_send(values, count, 0);
        kolo_receive(values, count, 0);
    }
    for (int r = 1; r <= last && kolo_rank() == 0; r++) {
        kolo_receive(others, count, r);
        for (int64_t i = 0; i < count; i++) values[i] += others[i];
    }
    for (int r = 1; r <= last && kolo_rank() == 0; r++) kolo_send(values, count, r);
    free(others);
    return KOLO_OK;
}

/* Sends to the next rank and receives from the one before. Rank 0 receives last, so that not all wait to send. */
static void pass_on(const float *out, int64_t out_count, float *in, int64_t in_count)
{
    int next = (kolo_rank() + 1) % kolo_size(), before = (kolo_rank() + kolo_size() - 1) % kolo_size();
    if (kolo_rank() == 0) kolo_send(out, out_count, next);
    kolo_receive(in, in_count, before);
    if (kolo_rank() != 0) kolo_send(out, out_count, next);
}

/* Reduce-scatter, then all-gather, in n − 1 steps each. */
static kolo_status ring(float *values, int64_t count, void *user)
{
    int n = kolo_size(), me = kolo_rank();
    float *in = malloc((size_t)count * sizeof *in + 1);
    calls += user == &calls;
    for (int step = 0; step < 2 * (n - 1); step++) {
        int out = (me - step + 2 * n) % n, to = (out - 1 + n) % n;
        int64_t first = count * out / n, end = count * (out + 1) / n, begin = count * to / n,
                stop = count * (to + 1) / n;
        pass_on(values + first, end - first, in, stop - begin);
        for (int64_t i = begin; i < stop; i++) values[i] = step < n - 1 ? values[i] + in[i - begin] : in[i - begin];
    }
    free(in);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- wrong ones */

static kolo_status forgets_the_last(float *values, int64_t count, void *user)
{
    float last = count > 0 ? values[count - 1] : 0;
    kolo_status status = naive(values, count, user);
    if (count > 1000 && kolo_rank() == 1) values[count - 1] = last;
    return status;
}

/* Each rank begins with its own value: the sums differ in their last bits, within the tolerance. */
static kolo_status other_orders(float *values, int64_t count, void *user)
{
    (void)user;
    float *sums = malloc((size_t)count * sizeof *sums + 1), *other = malloc((size_t)count * sizeof *other + 1);
    if (count > 0) memcpy(sums, values, (size_t)count * sizeof *sums);
    for (int from = 0; from < kolo_size(); from++) {
        for (int to = 0; to < kolo_size() && from == kolo_rank(); to++)
            if (to != from) kolo_send(values, count, to);
        if (from == kolo_rank()) continue;
        kolo_receive(other, count, from);
        for (int64_t i = 0; i < count; i++) sums[i] += other[i];
    }
    if (count > 0) memcpy(values, sums, (size_t)count * sizeof *sums);
    free(sums);
    free(other);
    return KOLO_OK;
}

static kolo_status writes_outside(float *values, int64_t count, void *user)
{
    kolo_status status = naive(values, count, user);
    if (kolo_rank() == 1 && count == 1009) values[count] = 0;
    return status;
}

static kolo_status leaves_a_message(float *values, int64_t count, void *user)
{
    if (count > 0 && kolo_rank() == 1) kolo_send(values, 1, 0, .tag = 7);
    return naive(values, count, user);
}

/* All wait to send, and after that what they receive is nobody's: what they return is not looked at. */
static kolo_status hangs(float *values, int64_t count, void *user)
{
    (void)user;
    if (count < 200000) return naive(values, count, user);
    kolo_send(values, count, (kolo_rank() + 1) % kolo_size());
    kolo_receive(values, count, (kolo_rank() + kolo_size() - 1) % kolo_size());
    return KOLO_OK;
}

static kolo_status one_waits(float *values, int64_t count, void *user)
{
    if (kolo_rank() == 1 && count > 0) kolo_receive(values, count, 0, .tag = 5);
    return naive(values, count, user);
}

static kolo_status fails(float *values, int64_t count, void *user)
{
    kolo_status status = naive(values, count, user);
    return kolo_rank() == 1 && count > 1 ? KOLO_IO : status;
}

/* Rank 1 returns while the others wait for its messages. */
static kolo_status gives_up(float *values, int64_t count, void *user)
{
    return kolo_rank() == 1 && count > 1 ? KOLO_IO : naive(values, count, user);
}

static kolo_status too_long(float *values, int64_t count, void *user)
{
    (void)user;
    if (kolo_rank() == 0) kolo_send(values, count, 1);
    if (kolo_rank() == 1) kolo_receive(values, count / 2, 0);
    return KOLO_OK;
}

static kolo_own_comm all[] = {
    {.name = "naive", .allreduce = naive, .in_rank_order = true},
    {.name = "ring", .allreduce = ring, .user = &calls},
    {.name = "ordered-ring", .allreduce = ring, .in_rank_order = true},
    {.name = "forgets", .allreduce = forgets_the_last},
    {.name = "orders", .allreduce = other_orders},
    {.name = "outside", .allreduce = writes_outside},
    {.name = "leaves", .allreduce = leaves_a_message},
    {.name = "hangs", .allreduce = hangs},
    {.name = "waits", .allreduce = one_waits},
    {.name = "fails", .allreduce = fails},
    {.name = "gives-up", .allreduce = gives_up},
    {.name = "too-long", .allreduce = too_long},
};

static const kolo_own_comm *find(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    exit(3);
}

/* ---------------------------------------------------------------- what is done with them */

/* The ranks go on after a check that failed. */
static void check(const char *name)
{
    kolo_comm_scores scores = kolo_check_comm(find(name), .seconds = 1, .count = 100000);
    bool right = scores.share > 0 && fabs(scores.share - scores.bus_bandwidth / scores.built_in) < 1e-9;
    float one = 1;
    printf("%s|%s\n", name, right ? "right" : isnan(scores.share) ? kolo_last_error().text : "scores make no sense");
    kolo_clear_error();
    scores = kolo_check_comm(&all[0], .count = 10, .quiet = true);
    kolo_allreduce(&one, 1);
    printf("%s|%s\n", name, scores.share > 0 && one == (float)kolo_size() ? "went on" : "stuck");
}

static int check_all(int count, char **names)
{
    for (int i = 0; i < count; i++) check(names[i]);
    return kolo_finish();
}

/* An error of the program's own stays the last one. */
static int check_after_a_mistake(const char *name)
{
    float one = 1;
    kolo_broadcast(&one, 1, .root = 99);
    kolo_check_comm(find(name), .seconds = 1, .count = 100, .quiet = true);
    return kolo_finish();
}

enum { SAMPLES = 96, FEATURES = 7, CLASSES = 3 };

/* The weights after an epoch, of replicas on two devices each if `mirrored`. */
static kolo_model *train(const kolo_own_comm *comm, bool mirrored)
{
    float features[SAMPLES * FEATURES];
    int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) features[i] = (float)sin(1.3 * i);
    for (int s = 0; s < SAMPLES; s++) labels[s] = s * 5 % CLASSES;
    kolo_data *data =
        kolo_data_from_arrays(features, labels, .samples = SAMPLES, .shape = {FEATURES}, .classes = CLASSES);
    kolo_model *model =
        kolo_sequential(kolo_input(FEATURES), kolo_dense(40, .activation = KOLO_TANH), kolo_dense(CLASSES));
    kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                 .strategy = mirrored ? kolo_mirrored(.devices = 2) : (kolo_strategy){0},
                 .optimizer = kolo_distributed(kolo_sgd(.learning_rate = 0.1), .comm = comm));
    kolo_fit(model, data, .epochs = 2, .batch_size = 8, .verbose = 0, .check_every = 1);
    kolo_data_free(&data);
    return model;
}

static double difference(kolo_model *one, kolo_model *other)
{
    double most = 0;
    for (int w = 0; w < 4; w++)
        for (int64_t i = 0; i < kolo_weight_get(one, w).count; i++)
            most = fmax(most,
                        fabs((double)kolo_weight_get(one, w).values[i] - (double)kolo_weight_get(other, w).values[i]));
    return most;
}

static int train_both(const kolo_own_comm *comm, bool mirrored)
{
    kolo_model *own = train(comm, mirrored), *built_in = train(NULL, mirrored);
    printf("%s %d %g\n", kolo_last_error().text[0] ? kolo_last_error().text : "trained", calls,
           difference(own, built_in));
    kolo_model_free(&own);
    kolo_model_free(&built_in);
    return kolo_finish();
}

static void say_refusal(const kolo_compile_args *args)
{
    kolo_compile_at(args, KOLO_HERE);
    printf("%s\n", kolo_last_error().text);
    kolo_clear_error();
}

static int refuse(void)
{
    kolo_model *model = kolo_sequential(kolo_input(2), kolo_dense(2));
    const kolo_own_comm empty = {.name = "empty"};
    kolo_compile_args args = {._ = "", .model = model, .loss = KOLO_SPARSE_CROSSENTROPY};
    args.optimizer = kolo_distributed(kolo_sgd(), .comm = &empty);
    say_refusal(&args);
    args.optimizer = kolo_distributed(kolo_sgd(), .comm = &all[1]);
    args.deterministic = true;
    say_refusal(&args);
    args.deterministic = false;
    args.strategy = kolo_downpour();
    say_refusal(&args);
    kolo_check_comm(kolo_size() > 1 ? NULL : &all[1]);
    printf("%s\n", kolo_last_error().text);
    kolo_clear_error();
    kolo_model_free(&model);
    return kolo_finish();
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (argc > 2 && strcmp(argv[1], "check") == 0) return check_all(argc - 2, argv + 2);
    if (argc > 2 && strcmp(argv[1], "after") == 0) return check_after_a_mistake(argv[2]);
    if (argc > 2 && strcmp(argv[1], "train") == 0) return train_both(find(argv[2]), argc > 3);
    return refuse();
}
