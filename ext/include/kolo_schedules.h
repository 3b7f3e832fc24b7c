/* Section 5 of kolo.h: schedules, the learning rate of each step. Included by kolo_optimizers.h: read that after this.
 *
 *     .optimizer = kolo_adam(.schedule = kolo_warmup(kolo_cosine_decay(.decay_steps = 4000), .steps = 200))
 *
 * A schedule gives the learning rate of step t = 0, 1, 2, …, where t is the number of updates since kolo_compile(). A
 * schedule without an initial rate of its own begins at the optimizer's .learning_rate. Names, defaults and formulas
 * are Keras's, except for one_cycle, which is PyTorch's. kolo_set_learning_rate() fails on a model whose optimizer has
 * a schedule, as in Keras.
 */
#ifndef KOLO_SCHEDULES_H
#define KOLO_SCHEDULES_H

#include "kolo.h"

typedef struct kolo_schedule_kind kolo_schedule_kind; /* defined in optimizers/optimizer.h; yours is one, too */
extern const kolo_schedule_kind kolo_constant_kind, kolo_piecewise_constant_kind, kolo_exponential_decay_kind,
    kolo_inverse_time_decay_kind, kolo_polynomial_decay_kind, kolo_cosine_decay_kind, kolo_cosine_restarts_kind,
    kolo_one_cycle_kind;

/* η₀ at every step. */
typedef struct kolo_constant_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate; /* η₀; default: the optimizer's */
} kolo_constant_args;

#define KOLO_BOUNDARIES_MAX 15

/* values[0] up to and including step boundaries[0], then values[1] up to and including step boundaries[1], and so
 * on. */
typedef struct kolo_piecewise_constant_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;       /* not used */
    int boundaries[KOLO_BOUNDARIES_MAX]; /* steps ≥ 1 in rising order, at least one */
    double values[KOLO_BOUNDARIES_MAX + 1]; /* learning rates, one more than boundaries */
} kolo_piecewise_constant_args;

/* η₀ · decay_rate^(t / decay_steps). */
typedef struct kolo_exponential_decay_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate; /* η₀; default: the optimizer's */
    int decay_steps;              /* required */
    double decay_rate;            /* required, above 0 */
    bool staircase;               /* rounds t / decay_steps down: the rate changes only every decay_steps steps */
} kolo_exponential_decay_args;

/* η₀ / (1 + decay_rate · t / decay_steps). */
typedef kolo_exponential_decay_args kolo_inverse_time_decay_args;

/* (η₀ − end) · (1 − t / decay_steps)^power + end; `end` is end_learning_rate, and the rate from step decay_steps on. */
typedef struct kolo_polynomial_decay_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;
    int decay_steps;          /* required */
    double end_learning_rate; /* default 1e-4 */
    double power;             /* default 1: linear */
    bool cycle;               /* after decay_steps the formula takes the next multiple of decay_steps, again and
                                 again: the rate jumps up and decays more slowly */
} kolo_polynomial_decay_args;

/* Loshchilov and Hutter 2017: η₀ · ((1−α)·(1 + cos(π t / decay_steps)) / 2 + α), and η₀·α after decay_steps. With
 * .warmup_target, the rate first rises linearly from η₀ to .warmup_target in .warmup_steps; then the formula begins at
 * t = 0, with .warmup_target for η₀. */
typedef struct kolo_cosine_decay_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;
    int decay_steps;      /* required */
    double alpha;         /* α in [0, 1], default 0 */
    double warmup_target; /* default: no warm-up */
    int warmup_steps;
} kolo_cosine_decay_args;

/* The same curve with restarts (Loshchilov and Hutter 2017). The first period has first_decay_steps steps. Each later
 * period has t_mul times as many steps as the one before, and begins at m_mul times its rate. */
typedef struct kolo_cosine_restarts_args {
    const char *_;
    kolo_guard *guard;
    double initial_learning_rate;
    int first_decay_steps; /* required */
    double t_mul;          /* at least 1, default 2 */
    double m_mul;          /* default 1 */
    double alpha;          /* α in [0, 1], default 0 */
} kolo_cosine_restarts_args;

/* Smith 2018, with PyTorch's defaults: the rate rises from max / div_factor to max in the first pct_start of the steps,
 * then falls to max / div_factor / final_div_factor; max is max_learning_rate. */
typedef struct kolo_one_cycle_args {
    const char *_;
    kolo_guard *guard;
    double max_learning_rate; /* default: the optimizer's */
    int total_steps;          /* required, at least 2; the last rate stays after them */
    double pct_start;         /* above 0 and below 1, with .three_phase at most 0.5; default 0.3 */
    double div_factor;        /* at least 1, default 25 */
    double final_div_factor;  /* at least 1, default 1e4 */
    bool linear;              /* linear phases; default: half waves of a cosine */
    bool three_phase;         /* falls to max / div_factor in as many steps as it rose, then to the last rate */
} kolo_one_cycle_args;

typedef struct kolo_schedule {
    const kolo_schedule_kind *kind; /* NULL: no schedule */
    int warmup_steps;               /* set by kolo_warmup(); 0: no warm-up */
    double warmup_from;             /* set by kolo_warmup() */
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

/* Goyal et al. 2017: the rate changes linearly from .from to the schedule's first rate in .steps steps; then the
 * schedule begins at its step 0. */
#define kolo_warmup(schedule, ...) kolo_warmed_up((schedule), (kolo_warmup_args){._ = #__VA_ARGS__, __VA_ARGS__})
static inline kolo_schedule kolo_warmed_up(kolo_schedule schedule, kolo_warmup_args args)
{
    schedule.warmup_steps = args.steps > 0 ? args.steps : -1; /* kolo_compile() fails for -1 */
    schedule.warmup_from = args.from;
    return schedule;
}

/* The learning rate of a step (from 0) under this schedule with this .learning_rate of the optimizer. NaN, with a
 * message, if an option is out of its range. */
#define kolo_schedule_rate(schedule, learning_rate, step)                                                              \
    kolo_schedule_rate_at((schedule), (learning_rate), (step), KOLO_HERE)
double kolo_schedule_rate_at(kolo_schedule schedule, double learning_rate, int64_t step, kolo_here here);

#endif
