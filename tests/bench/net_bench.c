/* How fast a network of nets.c trains and scores: whole epochs of kolo_fit with shuffling, dropout and accuracy, then
 * kolo_evaluate, on noise, so that reading data plays no part. The peers in peers/ do the same.
 *
 *     net_bench cnn 512 fp32 20 3                       NET BATCH fp32|tf32|bf16|fp16 STEPS EPOCHS
 *     kolorun -np 8 net_bench --first-step cnn 128 fp32 5 2        BATCH is a rank's
 *     net_bench --profile=FILE resnet20 128 fp32 4 1    step time by layer, as JSON
 *     net_bench --until=0.985 --data=FOLDER cnn 512 fp32 0 12    MNIST, until the test images are known that well
 *
 * Rank 0 prints one line of JSON: for each epoch its seconds, images, and CPU seconds of rank 0; the same for each time
 * that the data were scored; the memory in bytes that rank 0 took at most while it trained; with --first-step when that
 * was done (seconds since 1970), for which every batch is waited for. run.py reads it.
 */
#include "nets.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { EPOCHS_MAX = 256, WORDS_WANTED = 5 };

typedef struct spending {
    double seconds, cpu;
} spending;

typedef struct record {
    double until, limit;
    spending begin, first_begin;
    double first_step_at, reached;
    double seconds[EPOCHS_MAX], cpu[EPOCHS_MAX];
} record;

typedef struct order {
    const char *word[WORDS_WANTED]; /* net, batch, precision, steps, epochs */
    int devices;
    bool deterministic, first_step, train_only;
    const char *profile, *data;
    double until, seconds;
} order;

static spending spent(void)
{
    struct rusage use;
    struct timespec now;
    getrusage(RUSAGE_SELF, &use);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (spending){(double)now.tv_sec + 1e-9 * (double)now.tv_nsec,
                      (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                          1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec)};
}

static long peak_bytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss * 1024; /* Linux counts kilobytes */
}

/* Whether that many seconds went into at least three epochs. */
static bool enough(const record *seen, int epochs)
{
    double sum = 0;
    for (int i = 0; i < epochs; i++) sum += seen->seconds[i];
    return seen->limit > 0 && epochs >= 3 && sum >= seen->limit;
}

/* ---- Hooks ---- */

static void on_batch_end(kolo_callback *self, int batch, const kolo_logs *logs)
{
    record *seen = self->user;
    struct timespec now;
    (void)batch, (void)logs;
    if (seen->first_step_at > 0) return;
    clock_gettime(CLOCK_REALTIME, &now);
    seen->first_step_at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void on_epoch_begin(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    record *seen = self->user;
    (void)logs;
    if (epoch == 0) seen->begin = seen->first_begin = spent();
}

static void on_epoch_end(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    record *seen = self->user;
    spending now = spent();
    seen->seconds[epoch] = now.seconds - seen->begin.seconds;
    seen->cpu[epoch] = now.cpu - seen->begin.cpu;
    seen->begin = now; /* shuffling, which comes before the next one is said to begin, is a part of it */
    if (enough(seen, epoch + 1)) kolo_stop_training(self->model);
    if (!(seen->until > 0) || !(kolo_logs_get(logs, "val_accuracy") >= seen->until)) return;
    seen->reached = now.seconds - seen->first_begin.seconds;
    kolo_stop_training(self->model);
}

/* ---- The runs ---- */

static void print_epochs(const char *name, int count, const double *seconds, const double *cpu, int64_t images)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s{\"seconds\": %.6f, \"images\": %lld, \"cpu_seconds\": %.6f}", i ? ", " : "", seconds[i],
               (long long)images, cpu[i]);
    printf("]");
}

static void print_json(const kolo_history *history, const record *seen, int64_t images)
{
    printf("{\"peak_bytes\": %ld", peak_bytes());
    if (seen->first_step_at > 0) printf(", \"first_step_at\": %.6f", seen->first_step_at);
    if (seen->reached > 0) printf(", \"reached\": %.3f", seen->reached);
    print_epochs("epochs", history->epochs, seen->seconds, seen->cpu, images);
}

/* All the data, once to warm up and then `most` times, if there is the time. */
static void score(kolo_model *model, kolo_data *data, int batch, int most, double limit, int64_t images)
{
    record seen = {.limit = limit};
    int times = 0;
    kolo_evaluate(model, data, .batch_size = batch);
    for (; times < most && !enough(&seen, times); times++) {
        spending begin = spent();
        kolo_evaluate(model, data, .batch_size = batch);
        seen.seconds[times] = spent().seconds - begin.seconds;
        seen.cpu[times] = spent().cpu - begin.cpu;
    }
    print_epochs("scored", times, seen.seconds, seen.cpu, images);
}

static void train(const order *wanted, kolo_model *model, kolo_data *data, kolo_data *test)
{
    int batch = atoi(wanted->word[1]), epochs = atoi(wanted->word[4]);
    int64_t images = kolo_data_get_info(data).samples;
    record seen = {.until = wanted->until, .limit = wanted->seconds};
    kolo_callback watch = {.name = "watch",
                           .on_train_batch_end = wanted->first_step ? on_batch_end : NULL,
                           .on_epoch_begin = on_epoch_begin,
                           .on_epoch_end = on_epoch_end,
                           .user = &seen};
    const kolo_history *history =
        kolo_fit(model, data, .epochs = epochs, .batch_size = batch, .verbose = KOLO_NONE, .validation_data = test,
                 .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), watch});
    if (!history || kolo_rank() != 0) return;
    print_json(history, &seen, images);
    if (kolo_size() == 1 && wanted->until <= 0 && !wanted->train_only)
        score(model, data, batch, epochs, wanted->seconds, images);
    printf("}\n");
}

static kolo_precision precision(const char *name)
{
    static const struct {
        const char *name;
        kolo_precision precision;
    } known[] = {{"fp32", KOLO_FLOAT32}, {"bf16", KOLO_MIXED_BF16}, {"fp16", KOLO_MIXED_FP16}, {"tf32", KOLO_TF32}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return known[i].precision;
    return 0;
}

static void run(const order *wanted, const net *chosen)
{
    int batch = atoi(wanted->word[1]), steps = atoi(wanted->word[3]);
    bool digits = wanted->until > 0;
    const char *folder = wanted->data ? wanted->data : "mnist";
    kolo_data *data = digits ? kolo_dataset(folder, KOLO_TRAIN) : chosen->noise((int64_t)batch * steps * kolo_size());
    kolo_data *test = digits ? kolo_dataset(folder, KOLO_TEST) : NULL;
    kolo_model *model = chosen->make();
    kolo_compile(model, .optimizer = kolo_distributed(chosen->optimizer()), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .metrics = {KOLO_ACCURACY}, .seed = 1, .deterministic = wanted->deterministic,
                 .precision = precision(wanted->word[2]),
                 .strategy = wanted->devices ? kolo_mirrored(.devices = wanted->devices) : kolo_one_device());
    if (wanted->profile) kolo_profile(model, data, .batch_size = batch, .steps = steps, .file = wanted->profile);
    else train(wanted, model, data, test);
    kolo_model_free(&model);
    kolo_data_free(&data);
    kolo_data_free(&test);
}

/* ---- What is wanted ---- */

static const struct argp_option options[] = {
    {"devices", 'n', "N", 0, "that many mirrored replicas", 0},
    {"deterministic", 'd', NULL, 0, "in deterministic mode", 0},
    {"first-step", 'f', NULL, 0, "say when the first step was done", 0},
    {"profile", 'p', "FILE", 0, "step time by layer into a file, instead of training", 0},
    {"seconds", 's', "S", 0, "fewer than EPOCHS once so many seconds are spent; at least three", 0},
    {"train-only", 't', NULL, 0, "do not score", 0},
    {"until", 'u', "ACCURACY", 0, "MNIST instead of noise, until its test images reach this", 0},
    {"data", 'D', "FOLDER", 0, "where MNIST is", 0},
    {0}};

static error_t parse(int key, char *value, struct argp_state *state)
{
    order *wanted = state->input;
    if (key == 'n') wanted->devices = atoi(value);
    else if (key == 'd') wanted->deterministic = true;
    else if (key == 'f') wanted->first_step = true;
    else if (key == 't') wanted->train_only = true;
    else if (key == 'p') wanted->profile = value;
    else if (key == 's') wanted->seconds = strtod(value, NULL);
    else if (key == 'u') wanted->until = strtod(value, NULL);
    else if (key == 'D') wanted->data = value;
    else if (key == ARGP_KEY_ARG && state->arg_num < WORDS_WANTED) wanted->word[state->arg_num] = value;
    else if (key == ARGP_KEY_END && state->arg_num < WORDS_WANTED) argp_usage(state);
    else return ARGP_ERR_UNKNOWN;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {options, parse, "NET BATCH fp32|tf32|bf16|fp16 STEPS EPOCHS", NULL, NULL,
                                       NULL,    NULL};
    order wanted = {0};
    kolo_init(&argc, &argv);
    argp_parse(&parser, argc, argv, 0, NULL, &wanted);
    const net *chosen = find_net(wanted.word[0]);
    int epochs = atoi(wanted.word[4]);
    if (!chosen || !precision(wanted.word[2]) || atoi(wanted.word[1]) < 1 || epochs < 1 || epochs > EPOCHS_MAX) {
        fprintf(stderr,
                "net_bench: wanted one of cnn, resnet20, gpt, higgs, a batch, a precision, and 1 to %d epochs\n",
                EPOCHS_MAX);
        return kolo_finish(), 2;
    }
    run(&wanted, chosen);
    return kolo_finish();
}
