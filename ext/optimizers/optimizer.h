/* What an optimizer is: a rule that updates each element of the weights, over flat arrays; and what a schedule is. Each
 * family of optimizers has a file in ext/optimizers/. The rule gets its gradient from replica/update.c, which does what
 * all optimizers share: the mean, L2, clipping, decay and accumulation. A learner's own optimizer is a
 * kolo_optimizer_kind. */
#ifndef KOLO_OPTIMIZERS_OPTIMIZER_H
#define KOLO_OPTIMIZERS_OPTIMIZER_H

#include "core/error.h"
#include "core/field.h"
#include "optimizers/rules.h"

#define KOLO_OPTIMIZER_SLOTS 3

/* The arguments of an update: a part of one array of weights, and the step. */
typedef struct kolo_update {
    const kolo_optimizer *optimizer; /* with its defaults filled in, so that a 0 means 0 */
    double learning_rate;
    int64_t step; /* 1 at the first update */
    float *weights; /* [count] */
    float *gradient; /* [count], summed over samples; the rule may overwrite it */
    double scale; /* gradient · scale is the mean gradient */
    float *slots[KOLO_OPTIMIZER_SLOTS]; /* [count] each: momenta and the like */
    int64_t count;
    bool vector; /* the array has one axis: a bias, the scales of a normalisation */
    /* For rules that look at a whole array (kind->measure): */
    double sums[2]; /* what measure() added, over the whole array */
    float *number; /* the number that the rule keeps for this array (kind->number); zero at the start */
} kolo_update;

/* An option: its field, the value that 0 means, and the range [least, most), or [least, most] where it is `closed`.
 * Numbers are finite. */
typedef struct kolo_option {
    kolo_field field;
    double fallback, least, most;
    bool closed;
} kolo_option;
/* KOLO_NUMBER(adam, beta_1, 0.9, 0, 1) and its like; a list of them ends with KOLO_OPTIONS_END. */
#define KOLO_NUMBER(kind_, member_, fallback_, least_, most_)                                                          \
    {KOLO_FIELD(KOLO_FIELD_DOUBLE, kind_, member_), fallback_, least_, most_, false}
#define KOLO_COUNT(kind_, member_, fallback_, least_)                                                                  \
    {KOLO_FIELD(KOLO_FIELD_INT, kind_, member_), fallback_, least_, INFINITY, false}
#define KOLO_SWITCH(kind_, member_) {KOLO_FIELD(KOLO_FIELD_BOOL, kind_, member_), 0, 0, 0, false}
#define KOLO_OPTIONS_END            {{NULL, KOLO_FIELD_INT, 0, 0, false}, 0, 0, 0, false}

struct kolo_optimizer_kind {
    const char *name;
    const kolo_option *options; /* those that not every optimizer has; NULL: none */
    double learning_rate, weight_decay; /* the values that 0 means */
    int slots; /* arrays of state that it keeps for each weight, at most KOLO_OPTIMIZER_SLOTS; or: */
    int (*slot_count)(const kolo_optimizer *optimizer); /* NULL: .slots. Neither is set beside .rule */
    float (*slot_start)(const kolo_optimizer *optimizer, int slot); /* NULL: slots begin with zeros */
    bool decays; /* the rule applies .weight_decay itself */
    bool number; /* it also keeps one number for each array of weights */
    kolo_status (*check)(const kolo_optimizer *optimizer); /* beyond the ranges; NULL: nothing */
    /* For rules that look at whole arrays, else NULL. measure() is called for each part of an array: it adds to sums,
     * and may write slots and gradient. settle() follows once for the array, with all the sums; then update(). */
    void (*measure)(kolo_update *update);
    void (*settle)(const kolo_update *update);
    void (*update)(const kolo_update *update); /* for any part of an array, in any thread */
    /* The rule of optimizers/rules.h that the options choose, which runs on GPUs, too. It fills in the numbers that the
     * rule takes for this update: numbers[KOLO_RULE_NUMBERS] holds the learning rate, and zeros otherwise. NULL: the
     * functions above are the optimizer, and it runs on the host. */
    kolo_rule_kind (*rule)(const kolo_optimizer *optimizer, int64_t step, double *numbers);
};

struct kolo_schedule_kind {
    const char *name;
    const kolo_option *options;
    /* The rate of a step ≥ 0; the schedule's defaults are filled in. */
    double (*rate)(const kolo_schedule *schedule, double step);
    kolo_status (*check)(const kolo_schedule *schedule); /* NULL: ranges say it all */
};

/* options.c. Fills in the defaults, or fails with a sentence about an option out of its range. A schedule that names no
 * rate begins from the optimizer's. */
kolo_status kolo_optimizer_complete(const kolo_optimizer *given, kolo_optimizer *complete);
kolo_status kolo_schedule_complete(const kolo_schedule *given, double learning_rate, kolo_schedule *complete);
/* The options that every optimizer has, without the schedule. */
extern const kolo_option kolo_common_options[];

/* rules.c. For a kind that has .rule: the rule, and the numbers that it takes for an update. */
kolo_rule_kind kolo_rule_numbers(const kolo_optimizer *optimizer, double learning_rate, int64_t step,
                                 double rule[KOLO_RULE_NUMBERS]);
/* Runs the rule over a part of the arrays, with the gradient multiplied by `scale`. */
void kolo_rule_run(kolo_rule_kind rule, kolo_rule numbers, const kolo_update *update, double scale);
/* kind->update of a rule that does not look at whole arrays. */
void kolo_rule_update(const kolo_update *update);

/* Of a completed recipe. */
int kolo_optimizer_slots(const kolo_optimizer *optimizer);
/* The rate of a step, from 0 on. */
double kolo_optimizer_rate(const kolo_optimizer *optimizer, int64_t step);

#endif
