/* Section 5 of kolo.h: schedules, the learning rate of each step. Included by kolo_optimizers.h: read that after this.
 *
 *     .optimizer = kolo_adam(.schedule = kolo_warmup(kolo_cosine_decay(.decay_steps = 4000), .steps = 200))
 *
 * A schedule gives the learning rate of step t = 0, 1, 2, …: updates done since kolo_compile(). Where it leaves its own
 * rate out it begins from the optimizer's .learning_rate. With Keras's names, defaults and formulas, but for one_cycle,
 * which is PyTorch's. While a schedule is there kolo_set_learning_rate() fails, as in Keras.
 */
#ifndef KOLO_SCHEDULES_H
#define KOLO_SCHEDULES_H

#include "kolo.h"

typedef struct kolo_schedule_kind kolo_schedule_kind; /* optimizers/optimizer.h; one of your own is the same struct */
extern const kolo_schedule_kind kolo_constant_kind, kolo_piecewise_constant_kind, kolo_exponential_decay_kind,
    kolo_inverse_time_decay_kind, kolo_polynomial_decay_kind, kolo_cosine_decay_kind, kolo_cosine_restarts_kind,
    kolo_one_cycle_kind;

/* η₀, always. */
typedef struct kolo_constant_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate; /* η₀; default: the optimizer's */
} kolo_constant_args;

#define KOLO_BOUNDARIES_MAX 15

/* Steps: values[0] up to and with step boundaries[0], then values[1], and so on. */
typedef struct kolo_piecewise_constant_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;       /* not used */
    int boundaries[KOLO_BOUNDARIES_MAX]; /* steps, rising, at least one */
    double values[KOLO_BOUNDARIES_MAX + 1]; /* one more than boundaries; 0 is KOLO_NONE */
} kolo_piecewise_constant_args;

/* η₀ · rate^(t / steps). */
typedef struct kolo_exponential_decay_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;
    int decay_steps;   /* required */
    double decay_rate; /* required */
    bool staircase;    /* t / steps without its fraction: every so many steps at once */
} kolo_exponential_decay_args;

/* η₀ / (1 + rate · t / steps). */
typedef kolo_exponential_decay_args kolo_inverse_time_decay_args;

/* (η₀ − end) · (1 − t / steps)^power + end; after so many steps end. */
typedef struct kolo_polynomial_decay_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;
    int decay_steps;          /* required */
    double end_learning_rate; /* default 1e-4 */
    double power;             /* default 1: linear */
    bool cycle;               /* instead of staying at the end: up again, over as many steps more each time */
} kolo_polynomial_decay_args;

/* Loshchilov and Hutter 2017: η₀ · ((1−α)·(1 + cos(π t / steps)) / 2 + α); after so many steps η₀·α. With
 * .warmup_target first in a line from η₀ to that in .warmup_steps, and from there. */
typedef struct kolo_cosine_decay_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;
    int decay_steps;      /* required */
    double alpha;         /* in [0, 1], default 0 */
    double warmup_target; /* default: no warm-up */
    int warmup_steps;
} kolo_cosine_decay_args;

/* The same, begun anew after first_decay_steps steps, then t_mul times as many, and so on, from m_mul times the rate.
 */
typedef struct kolo_cosine_restarts_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;
    int first_decay_steps; /* required */
    double t_mul;          /* at least 1, default 2 */
    double m_mul;          /* default 1 */
    double alpha;          /* in [0, 1], default 0 */
} kolo_cosine_restarts_args;

/* Smith 2018, with PyTorch's numbers: from max / div_factor up to max, in pct_start of the steps, then down to
 * max / div_factor / final_div_factor. */
typedef struct kolo_one_cycle_args {
    const char *_;
    kolo_guard *guard;
    double max_learning_rate; /* default: the optimizer's */
    int total_steps;          /* required, at least 2; after them the last rate stays */
    double pct_start;         /* a share above 0 and below 1, of three phases at most 0.5; default 0.3 */
    double div_factor;        /* default 25 */
    double final_div_factor;  /* default 1e4 */
    bool linear;              /* in lines; default: in half waves of a cosine */
    bool three_phase;         /* down to max / div_factor as fast as up, then to the end */
} kolo_one_cycle_args;

typedef struct kolo_schedule {
    const kolo_schedule_kind *kind; /* NULL: none */
    int warmup_steps;               /* these two set by kolo_warmup() */
    double warmup_from;
    union {
        kolo_constant_args constant;
        kolo_piecewise_constant_args piecewise_constant;
        kolo_exponential_decay_args exponential_decay;
        kolo_inverse_time_decay_args inverse_time_decay;
        kolo_polynomial_decay_args polynomial_decay;
        kolo_cosine_decay_args cosine_decay;
        kolo_cosine_restarts_args cosine_restarts;
        kolo_one_cycle_args one_cycle;
    };
} kolo_schedule;

#define kolo_constant(...) ((kolo_schedule){.kind = &kolo_constant_kind, .constant = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_piecewise_constant(...)                                                                                   \
    ((kolo_schedule){.kind = &kolo_piecewise_constant_kind, .piecewise_constant = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_exponential_decay(...)                                                                                    \
    ((kolo_schedule){.kind = &kolo_exponential_decay_kind, .exponential_decay = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_inverse_time_decay(...)                                                                                   \
    ((kolo_schedule){.kind = &kolo_inverse_time_decay_kind, .inverse_time_decay = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_polynomial_decay(...)                                                                                     \
    ((kolo_schedule){.kind = &kolo_polynomial_decay_kind, .polynomial_decay = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_cosine_decay(...) ((kolo_schedule){.kind = &kolo_cosine_decay_kind, .cosine_decay = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_cosine_restarts(...)                                                                                      \
    ((kolo_schedule){.kind = &kolo_cosine_restarts_kind, .cosine_restarts = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_one_cycle(...) ((kolo_schedule){.kind = &kolo_one_cycle_kind, .one_cycle = {._ = #__VA_ARGS__, __VA_ARGS__}})

typedef struct kolo_warmup_args {
    const char *_;
    kolo_guard *guard;
    int steps;   /* required */
    double from; /* the rate at step 0, default 0 */
} kolo_warmup_args;

/* Goyal et al. 2017: in a line from .from to the schedule's first rate in .steps steps; the schedule, any of these,
 * begins then. */
#define kolo_warmup(schedule, ...) kolo_warmed_up((schedule), (kolo_warmup_args){._ = #__VA_ARGS__, __VA_ARGS__})
static inline kolo_schedule kolo_warmed_up(kolo_schedule schedule, kolo_warmup_args args)
{
    schedule.warmup_steps = args.steps > 0 ? args.steps : -1; /* which kolo_compile() refuses */
    schedule.warmup_from = args.from;
    return schedule;
}

/* The learning rate of a step, as kolo_compile() would follow it with that .learning_rate of the optimizer; NaN, with a
 * sentence, where an option is out of its range. */
#define kolo_schedule_rate(schedule, learning_rate, step)                                                              \
    kolo_schedule_rate_at((schedule), (learning_rate), (step), KOLO_HERE)
double kolo_schedule_rate_at(kolo_schedule schedule, double learning_rate, int64_t step, kolo_here here);

#endif
