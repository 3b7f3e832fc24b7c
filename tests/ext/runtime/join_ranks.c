/* One rank of test_join.py: ranks that run out of data at different times.
 * join_ranks rounds A B … (rank r makes the r-th number of rounds) | loop | broadcast | alltoall | allgather | fit |
 * finish */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("line %d: not %s; %s\n", __LINE__, #condition, kolo_last_error().text);                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { LARGE = 70001, RANKS_MOST = 8 };
static float large[LARGE];

/* ---------------------------------------------------------------- every call that a rank that has joined answers */

/* Of the ranks whose rounds are more than `round`: number, sum, and so on of their (rank + 1). */
typedef struct there {
    int count, sum, least, most, product;
} there;

static there ranks_there(const int *rounds, int round)
{
    there t = {.least = 1000, .product = 1};
    for (int r = 0; r < kolo_size(); r++) {
        if (rounds[r] <= round) continue;
        t.count++;
        t.sum += r + 1;
        t.product *= r + 1;
        if (r + 1 < t.least) t.least = r + 1;
        if (r + 1 > t.most) t.most = r + 1;
    }
    return t;
}

static void make_round(const int *rounds, int round)
{
    there t = ranks_there(rounds, round);
    int32_t mine = kolo_rank() + 1, least = mine, product = mine;
    double mean = mine, most = -mine;
    float zero = -0.0f, *arrays[] = {&zero, large};
    int64_t counts[RANKS_MOST], all[RANKS_MOST * RANKS_MOST], own[RANKS_MOST];
    EXPECT(kolo_allreduce(&product, 1, .op = KOLO_REDUCE_PRODUCT) == KOLO_OK && product == t.product);
    EXPECT(kolo_allreduce(&least, 1, .op = KOLO_REDUCE_MIN) == KOLO_OK && least == t.least);
    EXPECT(kolo_allreduce(&most, 1, .op = KOLO_REDUCE_MAX) == KOLO_OK && most == -t.least);
    EXPECT(kolo_allreduce(&mean, 1, .op = KOLO_REDUCE_MEAN) == KOLO_OK && mean == (double)t.sum / kolo_size());
    EXPECT(kolo_barrier() == KOLO_OK && kolo_allreduce(large, 0) == KOLO_OK);
    for (int i = 0; i < LARGE; i++) large[i] = (float)(mine * (i % 5));
    EXPECT(kolo_grouped_allreduce(arrays, ((int64_t[]){1, LARGE}), 2) == KOLO_OK);
    EXPECT(zero == 0 && signbit(zero)); /* a rank that has joined adds nothing, not even a positive zero */
    for (int i = 0; i < LARGE; i++) EXPECT(large[i] == (float)(t.sum * (i % 5)));
    for (int i = 0; i < mine; i++) own[i] = 10 * mine + i;
    int total = t.sum;
    EXPECT(kolo_allgatherv(own, mine, all, total, .counts = counts) == KOLO_OK);
    for (int r = 0, at = 0; r < kolo_size(); at += (int)counts[r++]) {
        EXPECT(counts[r] == (rounds[r] > round ? r + 1 : 0));
        if (counts[r] > 0) EXPECT(all[at] == 10 * (r + 1) && all[at + r] == 10 * (r + 1) + r);
    }
}

static int make_rounds(char **words)
{
    int rounds[RANKS_MOST], wanted = 0;
    for (int r = 0; r < kolo_size(); r++) {
        rounds[r] = (int)strtol(words[r], NULL, 10);
        if (rounds[r] >= rounds[wanted]) wanted = r;
    }
    for (int again = 0; again < 2; again++) { /* ranks can join again and again */
        float value = (float)kolo_rank();
        for (int i = 0; i < rounds[kolo_rank()]; i++) make_round(rounds, i);
        int last = kolo_join();
        EXPECT(last == wanted);
        EXPECT(kolo_broadcast(&value, 1, last) == KOLO_OK && value == (float)last);
    }
    EXPECT(kolo_finish() == 0);
    printf("fine\n");
    return 0;
}

/* ---------------------------------------------------------------- a training loop of a learner's own */

enum { FEATURES = 3, BATCH = 4, MOST_BATCHES = 5 };
#define RATE 0.1

/* Rank r has r + 2 batches; sample s of rank r. */
static void make_sample(int rank, int s, float *x, float *y)
{
    for (int k = 0; k < FEATURES; k++) x[k] = (float)sin(1.0 + 7 * rank + 1.3 * s + k);
    *y = (float)(2 * x[0] - x[1] + 0.5);
}

static kolo_data *make_data(int rank)
{
    float x[BATCH * MOST_BATCHES * FEATURES], y[BATCH * MOST_BATCHES];
    for (int s = 0; s < BATCH * (rank + 2); s++) make_sample(rank, s, x + s * FEATURES, y + s);
    return kolo_data_from_arrays(x, .samples = BATCH * (rank + 2), .shape = {FEATURES}, .targets = y);
}

/* The same training, written out: weights w of a dense layer with one output and no messages. Its loss is the mean of
 * (w·x + b − y)². */
static void simulate(double w[FEATURES + 1])
{
    for (int step = 0; step < kolo_size() + 1; step++) {
        double sum[FEATURES + 1] = {0};
        for (int r = 0; r < kolo_size(); r++) {
            for (int s = step * BATCH; s < (step + 1) * BATCH && step < r + 2; s++) {
                float x[FEATURES], y;
                make_sample(r, s, x, &y);
                double e = w[FEATURES] - (double)y;
                for (int k = 0; k < FEATURES; k++) e += w[k] * (double)x[k];
                for (int k = 0; k < FEATURES; k++) sum[k] += 2 * e * (double)x[k] / BATCH;
                sum[FEATURES] += 2 * e / BATCH;
            }
        }
        for (int k = 0; k <= FEATURES; k++) w[k] -= RATE * sum[k] / kolo_size();
    }
}

static int train_in_a_loop(void)
{
    kolo_data *data = make_data(kolo_rank());
    kolo_model *model = kolo_sequential(kolo_input(FEATURES), kolo_dense(1));
    kolo_compile(model, .loss = KOLO_MSE, .optimizer = kolo_sgd(), .seed = 5);
    float weights[FEATURES + 1], gradients[FEATURES + 1];
    double wanted[FEATURES + 1];
    memcpy(weights, kolo_weight_get(model, 0).values, FEATURES * sizeof *weights);
    weights[FEATURES] = 0;
    for (int k = 0; k <= FEATURES; k++) wanted[k] = (double)weights[k];
    for (int batch = 0; batch < kolo_rank() + 2; batch++) {
        kolo_data *part = kolo_data_slice(data, batch * BATCH, BATCH);
        kolo_gradients(model, part, gradients);
        kolo_allreduce(gradients, FEATURES + 1, .op = KOLO_REDUCE_MEAN);
        for (int k = 0; k <= FEATURES; k++) weights[k] -= (float)RATE * gradients[k];
        memcpy(kolo_weight_get(model, 0).values, weights, FEATURES * sizeof *weights);
        kolo_weight_get(model, 1).values[0] = weights[FEATURES];
        kolo_data_free(&part);
    }
    kolo_broadcast(weights, FEATURES + 1, kolo_join());
    simulate(wanted);
    for (int k = 0; k <= FEATURES; k++) EXPECT(fabs((double)weights[k] - wanted[k]) < 1e-5);
    kolo_model_free(&model);
    kolo_data_free(&data);
    EXPECT(kolo_finish() == 0);
    printf("fine\n");
    return 0;
}

/* ---------------------------------------------------------------- calls that it cannot answer */

static void make_other_call(const char *name)
{
    float values[RANKS_MOST] = {0}, all[RANKS_MOST];
    if (strcmp(name, "broadcast") == 0) kolo_broadcast(values, 1, 0);
    if (strcmp(name, "alltoall") == 0) kolo_alltoall(values, 1, all);
    if (strcmp(name, "allgather") == 0) kolo_allgather(values, 1, all);
    if (strcmp(name, "adasum") == 0) kolo_allreduce(values, 4, .op = KOLO_REDUCE_ADASUM);
    if (strcmp(name, "finish") == 0) exit(kolo_finish());
    kolo_data *data = make_data(0);
    kolo_model *model = kolo_sequential(kolo_input(FEATURES), kolo_dense(1));
    kolo_compile(model, .loss = KOLO_MSE, .optimizer = kolo_distributed(kolo_sgd()));
    if (strcmp(name, "fit") == 0) kolo_fit(model, data, .batch_size = BATCH);
}

int main(int argc, char **argv)
{
    if (kolo_init(&argc, &argv) != KOLO_OK || argc < 2) return 3;
    if (strcmp(argv[1], "rounds") == 0) return make_rounds(argv + 2);
    if (strcmp(argv[1], "loop") == 0) return train_in_a_loop();
    if (kolo_rank() == 1) kolo_join();
    else make_other_call(argv[1]);
    printf("went on\n");
    return kolo_finish();
}
