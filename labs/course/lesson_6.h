/* The plumbing of lesson 6: the bowl, trainings on HIGGS, the map of workers and windows, hints and the quiz. The
 * checks of its exercises are in lesson_6_checks.h. */
#ifndef COURSE_LESSON_6_H
#define COURSE_LESSON_6_H

#include "course.h"

#include "lesson_6_checks.h"
#include "staleness.h"

/* ------------------------------------------------------------------------------- 1 the bowl */

/* A simulation: two numbers stand for the weights, and the loss is the bowl f(x) = (x₀² + 4 x₁²) / 2. */

/* An exchange of a worker's x with the centre c; `pulled` is x after the worker's last exchange. */
typedef void (*bowl_rule)(double x[2], double c[2], const double pulled[2]);

enum { BOWL_WORKERS = 16, BOWL_STEPS = 400 };

typedef struct bowl {
    int workers, steps;
    double x[BOWL_WORKERS][BOWL_STEPS], y[BOWL_WORKERS][BOWL_STEPS]; /* the workers' paths */
    double center_x[BOWL_STEPS], center_y[BOWL_STEPS];
    double distance; /* of the centre from the minimum at the end */
} bowl;

/* A number in -1 … 1 that depends only on its arguments: the noise of a batch. */
static inline double bowl_noise(int worker, int step, int axis)
{
    uint64_t z = (uint64_t)worker * 7919 + (uint64_t)step * 104729 + (uint64_t)axis * 1299709 + 12345;
    z = (z ^ (z >> 31)) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u;
    return (double)(z >> 11) / (double)(UINT64_C(1) << 53) * 2 - 1;
}

/* All workers make a step of SGD at a time; each exchanges after `window` steps, one after the other. The rate is 0.05.
 */
static inline void bowl_run(bowl *b, bowl_rule rule, int workers, int window, int steps)
{
    double x[BOWL_WORKERS][2], pulled[BOWL_WORKERS][2], c[2] = {-8, 4};
    b->workers = workers;
    b->steps = steps < BOWL_STEPS ? steps : BOWL_STEPS;
    for (int w = 0; w < workers; w++) memcpy(x[w], c, sizeof c), memcpy(pulled[w], c, sizeof c);
    for (int t = 0; t < b->steps; t++) {
        for (int w = 0; w < workers; w++) {
            x[w][0] -= 0.05 * (x[w][0] + 2 * bowl_noise(w, t, 0));
            x[w][1] -= 0.05 * (4 * x[w][1] + 2 * bowl_noise(w, t, 1));
            if ((t + 1 + w * window / workers) % window == 0) {
                rule(x[w], c, pulled[w]);
                memcpy(pulled[w], x[w], sizeof pulled[w]);
            }
            b->x[w][t] = x[w][0];
            b->y[w][t] = x[w][1];
        }
        b->center_x[t] = c[0];
        b->center_y[t] = c[1];
    }
    b->distance = hypot(c[0], c[1]);
}

/* d = α(x − c), x ← x − d, c ← c + d with α = 0.2. */
static inline void bowl_elastic(double x[2], double c[2], const double pulled[2])
{
    (void)pulled;
    for (int i = 0; i < 2; i++) {
        double d = 0.2 * (x[i] - c[i]);
        x[i] -= d;
        c[i] += d;
    }
}

/* Draws the paths of up to three workers and of the centre. */
static inline void bowl_plot(const char *title, const bowl *b)
{
    int shown = b->workers < 3 ? b->workers : 3;
    kolo_plot_args plot = {.title = title, .x_label = "first weight", .y_label = "second weight", .height = 420};
    static const char *const names[] = {"worker 0", "worker 1", "worker 2"};
    for (int w = 0; w < shown; w++) plot.series[w] = (kolo_series){names[w], b->x[w], b->y[w], b->steps};
    plot.series[shown] = (kolo_series){"centre", b->center_x, b->center_y, b->steps};
    kolo_plot_at(&plot, KOLO_HERE);
}

/* Compares a prediction of a small whole number with what came. 0: nothing is predicted yet, and nothing is shown. */
static inline void lesson_6_compare(const char *what, int guess, int came)
{
    if (guess == 0) printf("%s type your guess in the cell above, run that cell, and run this one again.\n", what);
    else
        printf("%s %d. Your guess of %d is %s.\n", what, came, guess,
               guess == came  ? "right"
               : guess < came ? "too low"
                              : "too high");
}

/* The fewest workers, from 1 to 16, with which the centre ends farther from the minimum than it began; 0: none. */
static inline int bowl_limit(bowl_rule rule, int window)
{
    static bowl b;
    for (int n = 1; n <= BOWL_WORKERS; n++) {
        bowl_run(&b, rule, n, window, BOWL_STEPS);
        if (!(b.distance < hypot(8, 4))) return n;
    }
    return 0;
}

/* ------------------------------------------------------------------------------- 2 trainers on HIGGS */

static struct {
    kolo_data *train, *test;
} lesson_6_data;

/* HIGGS, or a drawn table where there is none: at most `train` and `test` rows of it, standardised. If it cannot be
 * read, libkolo's sentence says why. */
static inline void lesson_6_read(int train, int test)
{
    kolo_data *parts[] = {kolo_higgs(KOLO_TRAIN), kolo_higgs(KOLO_TEST)};
    kolo_data *rows[] = {kolo_take(parts[0], train), kolo_take(parts[1], test)};
    kolo_data_free(&lesson_6_data.train);
    kolo_data_free(&lesson_6_data.test);
    lesson_6_data.train = kolo_standardize(rows[0]);
    lesson_6_data.test = kolo_standardize(rows[1], .like = lesson_6_data.train);
    if (lesson_6_data.test)
        printf("%s: %d rows to train with, %d to test with\n", kolo_data_get_info(parts[0]).source,
               (int)kolo_data_get_info(lesson_6_data.train).samples,
               (int)kolo_data_get_info(lesson_6_data.test).samples);
    for (int i = 0; i < 2; i++) kolo_data_free(&parts[i]), kolo_data_free(&rows[i]);
}

typedef struct lesson_6_score {
    double f1, accuracy, loss, seconds; /* of the test rows; of the training. NaN: the training failed or was
                                        stopped */
    uint64_t checksum; /* of the weights; 0: the training failed */
} lesson_6_score;

/* Trains a compiled model, frees it, and returns its scores. */
static inline lesson_6_score lesson_6_fit(kolo_model *model, int batch, int epochs)
{
    lesson_6_score score = {NAN, NAN, NAN, NAN, 0};
    const kolo_history *h =
        kolo_fit(model, lesson_6_data.train, .epochs = epochs, .batch_size = batch, .verbose = KOLO_NONE);
    if (h && !h->stopped) {
        kolo_scores s = kolo_evaluate(model, lesson_6_data.test);
        score =
            (lesson_6_score){kolo_scores_get(&s, "f1_score_weighted"), s.accuracy, s.loss, 0, course_checksum(model)};
        for (int e = 0; e < h->epochs; e++) score.seconds += h->epoch[e].seconds;
    }
    kolo_model_free(&model);
    return score;
}

/* The network and the optimizer of dist-keras's experiment. */
static inline lesson_6_score lesson_6_run(kolo_strategy strategy, int batch, int epochs, uint64_t seed)
{
    kolo_model *model = kolo_sequential(kolo_input(kolo_data_get_info(lesson_6_data.train).shape[0]),
                                        kolo_dense(600, .activation = KOLO_RELU), kolo_dropout(0.2),
                                        kolo_dense(600, .activation = KOLO_RELU), kolo_dense(2));
    kolo_compile(model, .optimizer = kolo_adagrad(.learning_rate = 0.01), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .metrics = {KOLO_ACCURACY, KOLO_F1(KOLO_WEIGHTED)}, .strategy = strategy, .seed = seed);
    return lesson_6_fit(model, batch, epochs);
}

/* A small network, SGD with a rate of 0.1 and batches of 16: it trains in a fraction of a second, and shows the same.
 * With `in_turn`, the workers exchange one after the other: then the result is the same on every machine. */
static inline lesson_6_score lesson_6_small(kolo_strategy strategy, bool in_turn)
{
    kolo_model *model = kolo_sequential(kolo_input(kolo_data_get_info(lesson_6_data.train).shape[0]),
                                        kolo_dense(64, .activation = KOLO_RELU), kolo_dense(2));
    kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.1), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .metrics = {KOLO_ACCURACY, KOLO_F1(KOLO_WEIGHTED)}, .strategy = strategy, .seed = 1,
                 .deterministic = in_turn);
    return lesson_6_fit(model, 16, 2);
}

/* ------------------------------------------------------------------------------- 2 trainers: their table and verdict
 */

enum { LESSON_6_SEEDS = 3, LESSON_6_TRAINERS = 5 };

typedef struct lesson_6_trainer {
    const char *name;
    kolo_strategy strategy;
    int batch;
    double published_f1, published_seconds;
    double f1[LESSON_6_SEEDS], seconds[LESSON_6_SEEDS]; /* measured, by seed */
} lesson_6_trainer;

/* Trains with each seed, and prints a row. */
static inline void lesson_6_measure(lesson_6_trainer *t, int epochs)
{
    for (int s = 0; s < LESSON_6_SEEDS; s++) {
        lesson_6_score score = lesson_6_run(t->strategy, t->batch, epochs, (uint64_t)s + 1);
        t->f1[s] = score.f1;
        t->seconds[s] = score.seconds;
    }
    printf("%-20s %5d   %.4f +- %.4f %8.2f s   %13.4f %7.1f s\n", t->name, t->batch, course_mean(t->f1, LESSON_6_SEEDS),
           course_deviation(t->f1, LESSON_6_SEEDS), course_mean(t->seconds, LESSON_6_SEEDS), t->published_f1,
           t->published_seconds);
}

static inline void lesson_6_head(void)
{
    printf("%-20s %5s   %-16s %10s   %13s %9s\n", "", "batch", "F1 here", "time here", "F1 published", "time");
}

/* Is the difference of two trainers' F1 larger than twice its standard error? */
static inline bool lesson_6_differ(const lesson_6_trainer *a, const lesson_6_trainer *b)
{
    double u = course_deviation(a->f1, LESSON_6_SEEDS), v = course_deviation(b->f1, LESSON_6_SEEDS);
    return fabs(course_mean(a->f1, LESSON_6_SEEDS) - course_mean(b->f1, LESSON_6_SEEDS)) >
           2 * sqrt((u * u + v * v) / LESSON_6_SEEDS);
}

/* Prints the trainers from the best F1 to the worst, with > where the next is worse by more than noise, else ~. */
static inline void lesson_6_ranking(const lesson_6_trainer *trainers)
{
    const lesson_6_trainer *order[LESSON_6_TRAINERS];
    for (int i = 0; i < LESSON_6_TRAINERS; i++) {
        if (!isnan(course_mean(trainers[i].f1, LESSON_6_SEEDS))) continue;
        printf("The trainer %s has no result: run the cell with the trainers again.\n", trainers[i].name);
        return;
    }
    for (int i = 0; i < LESSON_6_TRAINERS; i++) {
        int at = i;
        double mean = course_mean(trainers[i].f1, LESSON_6_SEEDS);
        for (; at > 0 && course_mean(order[at - 1]->f1, LESSON_6_SEEDS) < mean; at--) order[at] = order[at - 1];
        order[at] = &trainers[i];
    }
    printf("here:      ");
    for (int i = 0; i < LESSON_6_TRAINERS; i++)
        printf("%s%s", i == 0 ? "" : lesson_6_differ(order[i - 1], order[i]) ? " > " : " ~ ", order[i]->name);
    printf("\npublished: single > DOWNPOUR > async. EASGD > async. EAMSGD > EASGD (one run each)\n");
    printf("~: the two differ by less than twice the standard error of %d seeds.\n", LESSON_6_SEEDS);
}

/* Draws F1 against time: for each trainer a vertical bar from one standard deviation below its mean to one above. */
static inline void lesson_6_plot(const lesson_6_trainer *trainers)
{
    static double x[LESSON_6_TRAINERS][3], y[LESSON_6_TRAINERS][3];
    kolo_plot_args plot = {.title = "F1 against training time: mean and standard deviation of three seeds",
                           .x_label = "seconds",
                           .y_label = "weighted F1",
                           .height = 400};
    for (int i = 0; i < LESSON_6_TRAINERS; i++) {
        double mean = course_mean(trainers[i].f1, LESSON_6_SEEDS),
               off = course_deviation(trainers[i].f1, LESSON_6_SEEDS);
        for (int k = 0; k < 3; k++) {
            x[i][k] = course_mean(trainers[i].seconds, LESSON_6_SEEDS);
            y[i][k] = mean + (k - 1) * off;
        }
        plot.series[i] = (kolo_series){trainers[i].name, x[i], y[i], 3};
    }
    kolo_plot_at(&plot, KOLO_HERE);
}

/* ------------------------------------------------------------------------------- 3 the map */

enum { MAP_ROWS = 5, MAP_COLUMNS = 4 };

static const int map_workers[MAP_ROWS] = {1, 2, 4, 8, 16}, map_windows[MAP_COLUMNS] = {1, 5, 15, 30};

typedef struct lesson_6_map {
    double accuracy[MAP_ROWS][MAP_COLUMNS];
} lesson_6_map;

/* Trains a strategy with each number of workers and each window. The quick form has the corners alone. */
static inline lesson_6_map map_of(kolo_strategy strategy)
{
    lesson_6_map map = {0};
    for (int r = 0; r < MAP_ROWS; r++) {
        for (int k = 0; k < MAP_COLUMNS; k++) {
            bool corner = r % (MAP_ROWS - 1) == 0 && k % (MAP_COLUMNS - 1) == 0;
            strategy.workers = map_workers[r];
            strategy.window = map_windows[k];
            map.accuracy[r][k] = corner || !course_quick() ? lesson_6_small(strategy, true).accuracy : NAN;
        }
    }
    return map;
}

/* Compares a guess of the fewest workers whose accuracy with a window is below `least`. */
static inline void map_compare(const lesson_6_map *map, int window, double least, int guess)
{
    bool measured = false;
    for (int r = 0; r < MAP_ROWS; r++) {
        for (int k = 0; k < MAP_COLUMNS; k++) {
            measured |= map_windows[k] == window && !isnan(map->accuracy[r][k]);
            if (map_windows[k] != window || !(map->accuracy[r][k] < least)) continue;
            lesson_6_compare("Workers from which the accuracy is too low:", guess, map_workers[r]);
            return;
        }
    }
    if (!measured) printf("This map has no accuracy with a window of %d.\n", window);
    else printf("With a window of %d, no accuracy in this map is below %g.\n", window, least);
}

/* The background of a cell: from red (0.5 or below) to green (0.65 or above); grey where nothing was measured. */
static inline void map_colour(double accuracy, int rgb[3])
{
    double good = fmin(fmax((accuracy - 0.5) / 0.15, 0), 1);
    rgb[0] = isnan(accuracy) ? 221 : (int)(230 - 110 * good);
    rgb[1] = isnan(accuracy) ? 221 : (int)(110 + 100 * good);
    rgb[2] = isnan(accuracy) ? 221 : 110;
}

static inline void map_row(const lesson_6_map *map, int r, const char *title, FILE *html)
{
    printf("%-14s %2d workers:", title, map_workers[r]);
    fprintf(html, "</tr><tr><td>%d</td>", map_workers[r]);
    for (int k = 0; k < MAP_COLUMNS; k++) {
        char number[16] = "-";
        int rgb[3];
        if (!isnan(map->accuracy[r][k])) snprintf(number, sizeof number, "%.3f", map->accuracy[r][k]);
        map_colour(map->accuracy[r][k], rgb);
        printf("  %5s", number);
        fprintf(html, "<td style=\"color:black;background-color:rgb(%d,%d,%d)\">%s</td>", rgb[0], rgb[1], rgb[2],
                number);
    }
    printf("\n");
}

/* Prints the map as text, and shows it as a table with coloured cells. */
static inline void map_show(const char *title, const lesson_6_map *map)
{
    char *text = NULL;
    size_t size;
    FILE *html = open_memstream(&text, &size);
    if (!html) return;
    fprintf(html, "<p>%s: test accuracy</p><table><tr><td>workers \\ window</td>", title);
    for (int k = 0; k < MAP_COLUMNS; k++) fprintf(html, "<td>%d</td>", map_windows[k]);
    for (int r = 0; r < MAP_ROWS; r++) map_row(map, r, title, html);
    fprintf(html, "</tr></table>");
    fclose(html);
    if (text) kolo_display("text/html", text);
    free(text);
}

/* ------------------------------------------------------------------------------- the quiz */

static const course_question lesson_6_questions[COURSE_QUESTIONS] = {
    {"What does a DOWNPOUR worker send to the centre?",
     {"its weights", "what its weights changed by since its last exchange",
      "the difference between its weights and the centre's"},
     'b',
     "DOWNPOUR adds x - p; elastic averaging moves both by a part of x - c."},
    {"Eight workers exchange in turn. What is the staleness of each exchange, after the first round?",
     {"0", "1", "7", "8"},
     'c',
     "The seven others have exchanged since the worker's last one."},
    {"Why does DOWNPOUR diverge with many workers and a long window?",
     {"the workers' steps add up, and each was computed at old weights", "the workers run out of batches",
      "the centre takes the mean of the workers"},
     'a',
     "n workers push n whole windows in a round. ADAG divides each by the window, elastic averaging takes a part."},
    {"Two runs with the same seed, data and number of workers end with different weights. What makes them equal?",
     {"a smaller learning rate", "replaying the recorded order of exchanges", "more epochs"},
     'b',
     "The weights depend on the order in which workers exchange, and the order depends on the machine."},
    {"A worker of an asynchronous training dies, under --keep-going. What happens to the centre?",
     {"it is lost", "it keeps what the worker committed, and the others go on", "it returns to the last epoch"},
     'b',
     "The centre holds the weights; a worker only holds what it has not committed yet."},
};

/* Registers the hints, and begins. The notebook's first cell calls it. */
static inline void lesson_6_begin(void)
{
    course_hints("6.a", "Imagine a spring between the worker and the centre. Which way does it pull each of them?",
                 "Both move by the same amount, in opposite directions. The amount is measured before anything moves.",
                 "Keep the amount, alpha times the difference, in a variable. Then change the worker by it and the "
                 "centre by it, with opposite signs.");
    course_hints("6.b",
                 "Commit i is the (i + 1)-th of all. How many of those before it were in the weights that its sender "
                 "had?",
                 "A rank has pulled all commits up to its own last answer. Keep that number for each rank.",
                 "The staleness is i less what the sender has pulled. The answer to commit i contains commits 0 to i.");
    course_begin("6");
}

#endif
