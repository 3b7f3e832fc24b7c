/* What an optimizer is: a rule for each element of the weights, over flat arrays; and what a schedule is. One file of
 * ext/optimizers/ for each family. What all of them share (mean, L2, clipping, decay, accumulation) is not theirs:
 * replica/update.c does it before it calls the rule. One of a learner's own is a kolo_optimizer_kind. */
#ifndef KOLO_OPTIMIZERS_OPTIMIZER_H
#define KOLO_OPTIMIZERS_OPTIMIZER_H

#include "core/error.h"
#include "core/field.h"
#include "optimizers/rules.h"

#define KOLO_OPTIMIZER_SLOTS 3

/* A part of one array of weights, and what is known of the step. */
typedef struct kolo_update {
    const kolo_optimizer *optimizer; /* defaults filled in: a 0 is a 0 */
    double learning_rate;
    int64_t step;      /* 1 at the first update */
    float *weights;    /* [count] */
    float *gradient;   /* [count], summed over samples; may be written over */
    double scale;      /* gradient · scale is the mean gradient */
    float *slots[KOLO_OPTIMIZER_SLOTS]; /* [count] each: momenta and the like */
    int64_t count;
    bool vector;       /* the array has one axis: a bias, the scales of a norm */
    /* For rules that look at a whole array (kind->measure): */
    double sums[2];    /* what measure() added, over the whole array */
    float *number;     /* the array's own number (kind->number), zero at the start */
} kolo_update;

/* An option: its field, the value that 0 means, and the range [least, most), most itself too where it is `closed`.
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
    const kolo_option *options; /* of its own, beside the common ones; NULL: none */
    double learning_rate, weight_decay; /* what 0 means */
    int slots;                  /* arrays of state that it keeps for each weight, at most KOLO_OPTIMIZER_SLOTS; or: */
    int (*slot_count)(const kolo_optimizer *optimizer); /* as its options say; neither where it has .rule */
    float (*slot_start)(const kolo_optimizer *optimizer, int slot); /* NULL: slots begin with zeros */
    bool decays; /* it does .weight_decay itself */
    bool number; /* it keeps one number for each array of weights, too */
    kolo_status (*check)(const kolo_optimizer *optimizer); /* NULL: ranges say it all */
    /* For rules that look at whole arrays, else NULL. First measure() over all parts of an array, which may write
     * slots and gradient, adding to sums; then settle() once for the array, with all the sums; then update(). */
    void (*measure)(kolo_update *update);
    void (*settle)(const kolo_update *update);
    void (*update)(const kolo_update *update); /* any part of an array, in any thread */
    /* Which rule of optimizers/rules.h its options make of it; numbers[KOLO_RULE_NUMBERS], where the learning rate is
     * already, and zeros are, become what that takes of this update. Devices have these rules, too. NULL: what stands
     * above is all there is of it, and it runs on the host. */
    kolo_rule_kind (*rule)(const kolo_optimizer *optimizer, int64_t step, double *numbers);
};

struct kolo_schedule_kind {
    const char *name;
    const kolo_option *options;
    /* The rate of a step ≥ 0; the schedule's defaults are filled in. */
    double (*rate)(const kolo_schedule *schedule, double step);
    kolo_status (*check)(const kolo_schedule *schedule); /* NULL: ranges say it all */
};

/* optimizers/options.c. The recipe with its defaults filled in, or a sentence for an option out of its range; a
 * schedule begins from the optimizer's rate. */
kolo_status kolo_optimizer_complete(const kolo_optimizer *given, kolo_optimizer *complete);
kolo_status kolo_schedule_complete(const kolo_schedule *given, double learning_rate, kolo_schedule *complete);
/* Options that are in every optimizer, but for the schedule. */
extern const kolo_option kolo_common_options[];

/* optimizers/rules.c. For a kind that has .rule: which it is, and what it takes of an update. */
kolo_rule_kind kolo_rule_numbers(const kolo_optimizer *optimizer, double learning_rate, int64_t step,
                                 double rule[KOLO_RULE_NUMBERS]);
/* The rule over a part of the arrays, with the gradient times `scale`. */
void kolo_rule_run(kolo_rule_kind rule, kolo_rule numbers, const kolo_update *update, double scale);
/* kind->update of a rule that does not look at whole arrays. */
void kolo_rule_update(const kolo_update *update);

/* Of a completed recipe. */
int kolo_optimizer_slots(const kolo_optimizer *optimizer);
/* The rate of a step, from 0 on. */
double kolo_optimizer_rate(const kolo_optimizer *optimizer, int64_t step);

#endif
