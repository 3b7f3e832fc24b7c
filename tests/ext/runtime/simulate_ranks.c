/* One rank of test_simulate.py: simulate_ranks FILE trains with a modelled clock and without, and saves the weights of
 * both beside FILE; simulate_ranks wrong asks for what is refused. */
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

static void train(const char *folder, const char *name)
{
    char path[1000];
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 64);
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5,
                 .deterministic = true);
    kolo_fit(model, data, .batch_size = 8, .epochs = 2, .verbose = KOLO_NONE);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (kolo_rank() == 0) EXPECT(kolo_save(model, path) == KOLO_OK);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* The clock has exactly the model's time of the calls since. */
static void check_clock(const kolo_link_model *model)
{
    float values[1000] = {0};
    int64_t parts[1000] = {0}, mine[500];
    double one =
        kolo_link_model_time(model, sizeof values, .devices = kolo_size(), .algorithm = KOLO_ALGORITHM_RING).seconds;
    EXPECT(kolo_simulate_links(model, .algorithm = KOLO_ALGORITHM_RING) == KOLO_OK);
    for (int i = 0; i < 3; i++) EXPECT(kolo_allreduce(values, 1000) == KOLO_OK);
    kolo_synchronize(kolo_allreduce_async(values, 1000));
    kolo_modelled_clock clock = kolo_modelled_clock_now();
    EXPECT(clock.collectives == 4 && clock.bytes == 4 * sizeof values && clock.unmodelled == 0);
    EXPECT(fabs(clock.seconds - 4 * one) <= 1e-12 * clock.seconds);
    EXPECT(kolo_reduce_scatter(parts, 1000 / kolo_size(), mine) == KOLO_OK);
    EXPECT(kolo_modelled_clock_now().unmodelled > 0);
    EXPECT(kolo_modelled_clock_now().collectives == 4);
}

/* A wait makes no difference to the clock, nor to results; that it waits is what tests/bench/overlap.c is for. */
static void check_wait(const kolo_link_model *model)
{
    int32_t value = 1;
    EXPECT(kolo_simulate_links(model, .wait = true) == KOLO_OK);
    EXPECT(kolo_allreduce(&value, 1) == KOLO_OK && value == kolo_size());
    EXPECT(kolo_modelled_clock_now().collectives == 1 && kolo_modelled_clock_now().seconds > 0);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    kolo_link_model *model = kolo_link_model_open("dgx-1v");
    if (strcmp(argv[1], "wrong") == 0) {
        kolo_link_model *small = kolo_link_model_open("pcie-4", .devices = "1,2");
        kolo_simulate_links(small);
        kolo_link_model_free(&small);
    } else {
        train(argv[1], "without");
        EXPECT(kolo_modelled_clock_now().collectives == 0);
        EXPECT(kolo_simulate_links(model) == KOLO_OK);
        train(argv[1], "with");
        EXPECT(kolo_size() == 1 || kolo_modelled_clock_now().collectives > 0);
        if (kolo_size() > 1) check_clock(model);
        if (kolo_size() > 1) check_wait(model);
        EXPECT(kolo_simulate_links(NULL) == KOLO_OK);
        EXPECT(kolo_barrier() == KOLO_OK && kolo_modelled_clock_now().seconds == 0);
        printf("fine\n");
    }
    kolo_link_model_free(&model);
    return kolo_finish();
}
