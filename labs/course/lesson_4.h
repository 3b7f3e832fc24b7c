/* Lesson 4's plumbing: results of several seeds and what they say, the checks of its exercises, hints and quiz. The
 * pictures are in lesson_4_plots.h, the program of exercise 4.b includes lesson_4_noise.h. */
#ifndef COURSE_LESSON_4_H
#define COURSE_LESSON_4_H

#include "course.h"

#define LESSON_4_SEEDS_MAX  5
#define LESSON_4_EPOCHS_MAX 16

/* ------------------------------------------------------------------------------- results of several seeds */

/* One way to train, with several seeds. Accuracies are those of the last epoch. */
typedef struct lesson_4_result {
    const char *name;
    int seeds, updates, epochs, steps;                              /* updates: of the whole training */
    double loss[LESSON_4_SEEDS_MAX], trained[LESSON_4_SEEDS_MAX];   /* training images */
    double tested[LESSON_4_SEEDS_MAX];                              /* test images */
    double rate[LESSON_4_SEEDS_MAX]; /* images/s, median of the epochs after the first */
    double curve[LESSON_4_EPOCHS_MAX]; /* mean test accuracy after each epoch */
    kolo_model *model; /* of the last seed; it belongs to the caller */
} lesson_4_result;

/* Shows how far a table of several runs has come, which takes half a minute and more. What is printed next takes the
 * place of the line. */
static inline void lesson_4_show(const lesson_4_result *r, int seed, const char *what)
{
    char line[64];
    snprintf(line, sizeof line, "%s: seed %d %s", r->name, seed, what);
    printf("%-64s\r", line);
    fflush(stdout);
}

/* The model of the next seed takes the place of the last seed's. */
static inline void lesson_4_renew(lesson_4_result *r, kolo_model *model)
{
    kolo_model_free(&r->model);
    r->model = model;
    lesson_4_show(r, r->seeds + 1, "trains");
}

/* A training that failed or was stopped has no accuracy to compare, and neither has the mean of the seeds. */
static inline void lesson_4_add_none(lesson_4_result *r)
{
    int s = r->seeds++;
    r->loss[s] = r->trained[s] = r->tested[s] = r->rate[s] = NAN;
    for (int e = 0; e < LESSON_4_EPOCHS_MAX; e++) r->curve[e] = NAN;
}

/* Adds the run of a further seed. */
static inline void lesson_4_add(lesson_4_result *r, const kolo_history *history)
{
    if (r->seeds >= LESSON_4_SEEDS_MAX) return;
    if (!history || history->stopped || history->epochs < 1) {
        lesson_4_add_none(r);
        return;
    }
    double rates[LESSON_4_EPOCHS_MAX];
    int epochs = history->epochs < LESSON_4_EPOCHS_MAX ? history->epochs : LESSON_4_EPOCHS_MAX, s = r->seeds++;
    const kolo_epoch *last = &history->epoch[history->epochs - 1];
    r->loss[s] = last->loss;
    r->trained[s] = last->accuracy;
    r->tested[s] = last->val_accuracy;
    r->epochs = epochs;
    r->steps = last->steps;
    r->updates = last->steps * history->epochs;
    for (int e = 0; e < epochs; e++) {
        rates[e] = history->epoch[e].images_per_second;
        r->curve[e] = (r->curve[e] * s + history->epoch[e].val_accuracy) / (s + 1);
    }
    r->rate[s] = epochs > 1 ? course_median(rates + 1, epochs - 1) : rates[0];
    lesson_4_show(r, r->seeds, "has trained");
}

/* Student's t for a difference of two means of n runs each, two-sided, 95 %. */
static inline double lesson_4_t(int n)
{
    const double t[] = {NAN, NAN, 4.30, 2.78, 2.45, 2.31};
    return n >= 2 && n <= 5 ? t[n] : NAN;
}

/* 1: the values a[n] are higher than b[n], -1: lower, 0: the difference is within the noise of the seeds. */
static inline int lesson_4_compare(const double *a, const double *b, int n)
{
    double difference = course_mean(a, n) - course_mean(b, n);
    double error = sqrt((pow(course_deviation(a, n), 2) + pow(course_deviation(b, n), 2)) / n);
    return fabs(difference) <= lesson_4_t(n) * error ? 0 : difference > 0 ? 1 : -1;
}

static inline void lesson_4_head(void)
{
    printf("mean ± deviation of the seeds  updates   loss  trained          tested           images/s\n");
}

/* Does a seed lack a result? It says so, if one does. */
static inline bool lesson_4_lacks(const lesson_4_result *r)
{
    bool lacks = isnan(course_mean(r->tested, r->seeds));
    if (lacks) printf("%-30s stopped before all seeds had trained: run its cell again.\n", r->name);
    return lacks;
}

static inline void lesson_4_row(const lesson_4_result *r)
{
    if (lesson_4_lacks(r)) return;
    printf("%-30s %7d  %.3f  %.3f ± %.3f    %.3f ± %.3f  %9.0f\n", r->name, r->updates, course_mean(r->loss, r->seeds),
           course_mean(r->trained, r->seeds), course_deviation(r->trained, r->seeds), course_mean(r->tested, r->seeds),
           course_deviation(r->tested, r->seeds), course_median(r->rate, r->seeds));
}

/* Says what the seeds allow to say about the test accuracies of a and b. */
static inline void lesson_4_say(const lesson_4_result *a, const lesson_4_result *b)
{
    if (lesson_4_lacks(a) || lesson_4_lacks(b)) return;
    int n = a->seeds < b->seeds ? a->seeds : b->seeds, sign = lesson_4_compare(a->tested, b->tested, n);
    double points = 100 * (course_mean(a->tested, n) - course_mean(b->tested, n));
    printf("tested, \"%s\" against \"%s\": %+.1f points, %s\n", a->name, b->name, points,
           sign == 0  ? "within the noise of the seeds"
           : sign > 0 ? "higher than the noise allows"
                      : "lower than the noise allows");
}

/* The number of the result with the best mean test accuracy, from 1, and a sentence whether it is clearly the best. NaN
 * if a result is missing. */
static inline double lesson_4_best(const lesson_4_result *const *results, int count)
{
    int best = 0, second = -1;
    for (int i = 0; i < count; i++)
        if (lesson_4_lacks(results[i])) return NAN;
    for (int i = 1; i < count; i++)
        if (course_mean(results[i]->tested, results[i]->seeds) >
            course_mean(results[best]->tested, results[best]->seeds))
            best = i;
    for (int i = 0; i < count; i++) {
        if (i == best) continue;
        if (second < 0 || course_mean(results[i]->tested, results[i]->seeds) >
                              course_mean(results[second]->tested, results[second]->seeds))
            second = i;
    }
    bool clear =
        second < 0 || lesson_4_compare(results[best]->tested, results[second]->tested, results[best]->seeds) > 0;
    printf("Best on the test images: %d, %s%s%s.\n", best + 1, results[best]->name,
           clear ? "" : "; within the noise of the next one, ", clear ? "" : results[second]->name);
    return best + 1;
}

static inline void lesson_4_published_gap(void)
{
    printf("published, one V100, one seed                  0.715\n");
    printf("published, eight V100, one seed                0.440\n");
}

/* ------------------------------------------------------------------------------- batches */

/* The largest batch whose efficiency is at least `efficiency`: images to the goal with the smallest batch over images
 * with this one. Between two measured batches it is interpolated on logarithmic scales. The last batch if all are. */
static inline double lesson_4_batch_at(const double *sizes, const double *updates, int count, double efficiency)
{
    double before = 1;
    for (int i = 1; i < count; i++) {
        double now = sizes[0] * updates[0] / (sizes[i] * updates[i]);
        if (now < efficiency) {
            double part = before > now ? log(before / efficiency) / log(before / now) : 0;
            return sizes[i - 1] * pow(sizes[i] / sizes[i - 1], part < 0 ? 0 : part);
        }
        before = now;
    }
    return sizes[count - 1];
}

/* Says whether the noise scales of a stage differ from those of the first by more than the seeds do. */
static inline void lesson_4_say_trend(const double *first, const double *last, int n)
{
    double a[LESSON_4_SEEDS_MAX], b[LESSON_4_SEEDS_MAX];
    for (int i = 0; i < n; i++) {
        a[i] = log(first[i]);
        b[i] = log(last[i]);
        if (isfinite(a[i]) && isfinite(b[i])) continue;
        printf("In one seed the signal is too small to be measured: no verdict.\n");
        return;
    }
    int sign = lesson_4_compare(b, a, n);
    printf("From the first to the last stage the noise scale %s.\n",
           sign > 0   ? "rises"
           : sign < 0 ? "falls"
                      : "changes by less than it varies between the seeds");
}

/* The squared length of the mean gradient of `data` at the model's weights. */
static inline double lesson_4_gradient(kolo_model *model, kolo_data *data)
{
    int64_t count = kolo_count_params(model);
    float *gradient = malloc((size_t)count * sizeof *gradient);
    double squares = 0;
    if (gradient && !isnan(kolo_gradients(model, data, gradient)))
        for (int64_t i = 0; i < count; i++) squares += (double)gradient[i] * (double)gradient[i];
    free(gradient);
    return squares;
}

/* Makes the weights of `into` (1 - at) · a + at · b. All three have the same layers. */
static inline void lesson_4_mix(kolo_model *into, kolo_model *a, kolo_model *b, double at)
{
    for (int w = 0; w < kolo_weight_count(into); w++) {
        kolo_weight to = kolo_weight_get(into, w), x = kolo_weight_get(a, w), y = kolo_weight_get(b, w);
        for (int64_t i = 0; i < to.count; i++)
            to.values[i] = (float)((1 - at) * (double)x.values[i] + at * (double)y.values[i]);
    }
}

/* How steeply the loss y[n] rises at distance `step` on both sides of the points number `from` and `to`. */
static inline void lesson_4_say_sharp(const double *x, const double *y, int from, int to)
{
    const int points[2] = {from, to};
    double rise[2];
    for (int i = 0; i < 2; i++) {
        int p = points[i];
        rise[i] = (y[p - 1] + y[p + 1]) / 2 - y[p];
        printf("at %.0f: loss %.3f; %.2f to either side it is %+.3f higher on average\n", x[p], y[p], x[p + 1] - x[p],
               rise[i]);
    }
    printf("Along this line the end of the %s batch is the steeper one.\n", rise[0] > rise[1] ? "small" : "large");
}

/* ------------------------------------------------------------------------------- 4.a: warm-up */

typedef kolo_callback (*lesson_4_warmup)(double rate, int over, int n);

#define LESSON_4_CHECKED  6 /* epochs of the check */
#define LESSON_4_OWN_RATE 0.5 /* of the optimizer, before a callback changes it */

/* Trains some epochs with the callback and writes the rate of each to `rates`. False after a failure. */
static inline bool lesson_4_rates(kolo_callback callback, double *rates)
{
    kolo_data *digits = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 100);
    kolo_model *m = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
    kolo_compile(m, .optimizer = kolo_sgd(.learning_rate = LESSON_4_OWN_RATE), .loss = KOLO_SPARSE_CROSSENTROPY);
    const kolo_history *h = kolo_fit(m, digits, .epochs = LESSON_4_CHECKED, .verbose = 0, .callbacks = {callback});
    for (int e = 0; h && e < LESSON_4_CHECKED; e++) rates[e] = h->epoch[e].learning_rate;
    bool trained = h != NULL;
    kolo_model_free(&m);
    kolo_data_free(&digits);
    return trained;
}

/* The rates that a known mistake gives. Kind 0 is right. */
static inline double lesson_4_warm_rate(int kind, int e, double rate, int over, int n)
{
    double part = (double)e / over, right = rate / n + (rate - rate / n) * part;
    switch (kind) {
    case 1: return LESSON_4_OWN_RATE;
    case 2: return e < over ? rate * part : rate;
    case 3: return e < over ? rate * (e + 1) / over : rate;
    case 4: return e < over ? rate / n : rate;
    case 5: return right;
    case 6: return e < over ? rate / n + (rate - rate / n) * (e + 1) / over : rate;
    case 7: return e < over ? rate / n * pow(n, part) : rate;
    case 8: return rate;
    case 9: return rate / n + (rate - rate / n) * (e < over ? part : (double)(over - 1) / over);
    case 10: return e < over ? right / n : rate;
    default: return e < over ? right : rate;
    }
}

static const char *const lesson_4_warm_mistake[] = {
    NULL,
    "The rate is still the optimizer's own: the callback sets none.",
    "The first rate is 0. It has to be number[0] / number[2]. (1 / n of two ints is 0.)",
    "The number of devices does not count: the first rate has to be number[0] / number[2].",
    "The rate does not rise in the warm-up, and jumps at its end. Do you divide two ints?",
    "After the warm-up the rate keeps rising. It has to stay at number[0].",
    "The rate is one epoch ahead: epochs count from 0, and the first one has the lowest rate.",
    "The rate rises by the same factor each epoch. It has to rise by the same amount.",
    "The rate is number[0] from the first epoch: there is no warm-up.",
    "After the warm-up the rate stays at that of its last epoch. It has to be number[0].",
    "The rate is divided by the devices twice.",
};
#define LESSON_4_WARM_MISTAKES ((int)(sizeof lesson_4_warm_mistake / sizeof *lesson_4_warm_mistake))

/* The kind of warm-up that gives these rates; -1: none of the known ones. */
static inline int lesson_4_warm_kind(const double *rates, double rate, int over, int n)
{
    for (int kind = 0; kind < LESSON_4_WARM_MISTAKES; kind++) {
        bool same = true;
        for (int e = 0; e < LESSON_4_CHECKED; e++)
            same &= fabs(rates[e] - lesson_4_warm_rate(kind, e, rate, over, n)) < 1e-6;
        if (same) return kind;
    }
    return -1;
}

/* Where rates of an unknown kind leave the right ones. */
static inline const char *lesson_4_warm_place(const double *rates, double rate, int over, int n)
{
    int e = 0;
    while (e < LESSON_4_CHECKED - 1 && fabs(rates[e] - lesson_4_warm_rate(0, e, rate, over, n)) < 1e-6) e++;
    return e == 0 ? "Epoch 0 has another rate: the straight line begins at number[0] / number[2]."
           : e < over
               ? "Epoch 0 is right. From there the rates lie on a straight line, which reaches number[0] at epoch "
                 "number[1]."
               : "The warm-up is right. The rates after it are not: they have to be number[0].";
}

/* Checks exercise 4.a with two warm-ups. */
static inline void lesson_4_check_warmup(lesson_4_warmup make)
{
    if (!course_ready()) return;
    const struct {
        double rate;
        int over, n;
    } cases[] = {{0.8, 4, 8}, {0.06, 2, 3}};
    for (int c = 0; c < 2; c++) {
        double rates[LESSON_4_CHECKED];
        if (!lesson_4_rates(make(cases[c].rate, cases[c].over, cases[c].n), rates)) {
            course_check("4.a", false, "The training with the callback failed: read the message above.");
            return;
        }
        printf("rate %g over %d epochs, %d devices: got ", cases[c].rate, cases[c].over, cases[c].n);
        for (int e = 0; e < LESSON_4_CHECKED; e++) printf(" %.4f", rates[e]);
        printf("\n");
        int kind = lesson_4_warm_kind(rates, cases[c].rate, cases[c].over, cases[c].n);
        if (kind == 0) continue;
        course_check("4.a", false, "Epoch 0 expects %.4f, epoch %d and later %.4f. %s", cases[c].rate / cases[c].n,
                     cases[c].over, cases[c].rate,
                     kind > 0 ? lesson_4_warm_mistake[kind]
                              : lesson_4_warm_place(rates, cases[c].rate, cases[c].over, cases[c].n));
        return;
    }
    course_check("4.a", true, " ");
}

/* ------------------------------------------------------------------------------- 4.b: the noise scale of ranks */

/* Checks exercise 4.b by what its program has written to run/noise: see lesson_4_noise.h. */
static inline void lesson_4_check_noise(void)
{
    if (!course_ready()) return;
    double wanted = NAN, got = NAN;
    char why[200] = "";
    FILE *file = fopen("run/noise", "r");
    int read = file ? fscanf(file, "wanted %lf got %lf\n%199[^\n]", &wanted, &got, why) : 0;
    if (file) fclose(file);
    if (read < 2) {
        course_check("4.b", false, "There are no notes of a run: run the program's cell first, and mind its messages.");
        return;
    }
    printf("expected %.4g images, got %.4g\n", wanted, got);
    course_check("4.b", strcmp(why, "right") == 0, "%s", why);
}

#endif
