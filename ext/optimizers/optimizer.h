/* The interfaces of an optimizer and of a schedule. An optimizer is a rule that updates each element of the weights,
 * over flat arrays. Each family of optimizers has a file in ext/optimizers/. Other code does what all optimizers share:
 * replica/ accumulates batches, and an update (backend/update.h) forms the mean gradient, adds L2, clips, and decays
 * the weights before it runs the rule. A custom optimizer is a kolo_optimizer_kind, too. */
#ifndef KOLO_OPTIMIZERS_OPTIMIZER_H
#define KOLO_OPTIMIZERS_OPTIMIZER_H

#include "core/error.h"
#include "core/field.h"
#include "optimizers/rules.h"

#define KOLO_OPTIMIZER_SLOTS 3

/* The arguments of a rule: a part of one array of weights, and the update. */
typedef struct kolo_update {
    const kolo_optimizer *optimizer; /* with its defaults filled in, so that a 0 means 0 */
    double learning_rate;
    int64_t step; /* the number of the update, from 1 */
    float *weights; /* [count] */
    float *gradient; /* [count], summed over samples; the rule may overwrite it */
    double scale; /* gradient · scale is the mean gradient */
    float *slots[KOLO_OPTIMIZER_SLOTS]; /* [count] each: the rule's state, such as momenta */
    int64_t count;
    bool vector; /* the array has one axis: a bias, the scales of a normalisation */
    /* For rules that need sums over a whole array (kind->measure): */
    double sums[2]; /* the sums that measure() has added up, over the whole array */
    float *number; /* the number that the rule keeps for this array (kind->number); zero at the start */
} kolo_update;

/* An option: its field, the value that 0 means, and the range [least, most), or [least, most] where it is `closed`.
 * Numbers are finite. */
typedef struct kolo_option {
    kolo_field field;
    double fallback, least, most;
    bool closed;
} kolo_option;
/* They define an option, as in KOLO_NUMBER(adam, beta_1, 0.9, 0, 1). A list of options ends with KOLO_OPTIONS_END. */
#define KOLO_NUMBER(kind_, member_, fallback_, least_, most_)                                                          \
    {KOLO_FIELD(KOLO_FIELD_DOUBLE, kind_, member_), fallback_, least_, most_, false}
#define KOLO_COUNT(kind_, member_, fallback_, least_)                                                                  \
    {KOLO_FIELD(KOLO_FIELD_INT, kind_, member_), fallback_, least_, INFINITY, false}
#define KOLO_SWITCH(kind_, member_) {KOLO_FIELD(KOLO_FIELD_BOOL, kind_, member_), 0, 0, 0, false}
#define KOLO_OPTIONS_END            {{NULL, KOLO_FIELD_INT, 0, 0, false}, 0, 0, 0, false}

struct kolo_optimizer_kind {
    const char *name;
    const kolo_option *options; /* its options besides kolo_common_options; NULL: none */
    double learning_rate, weight_decay; /* the values that 0 means */
    int slots; /* the number of its arrays of state, [weights] each, at most KOLO_OPTIMIZER_SLOTS */
    int (*slot_count)(const kolo_optimizer *optimizer); /* the same by its options; NULL: .slots. With .rule leave
                                                           both 0: KOLO_RULES has the number */
    float (*slot_start)(const kolo_optimizer *optimizer, int slot); /* NULL: slots begin with zeros */
    bool decays; /* the rule applies .weight_decay itself */
    bool number; /* the rule also keeps one number for each array of weights */
    kolo_status (*check)(const kolo_optimizer *optimizer); /* further checks of the options; NULL: only the ranges */
    /* For rules that need sums over whole arrays, else NULL. First measure() is called for each part of an array: it
     * adds to sums, and may write slots and gradient. Then settle(), unless it is NULL, is called once for the array,
     * with the sums over all parts. Then update() is called for each part. */
    void (*measure)(kolo_update *update);
    void (*settle)(const kolo_update *update);
    void (*update)(const kolo_update *update); /* for any part of an array, in any thread */
    /* Returns the rule of optimizers/rules.h that the options choose; GPUs have kernels for these. Fills in the rule's
     * numbers for this update: before the call numbers[KOLO_RULE_NUMBERS] holds the learning rate (as
     * KOLO_RULE_LEARNING_RATE and KOLO_RULE_RATE), and NaN. A number that the rule reads and that stays NaN is refused
     * by kolo_compile(). NULL: the host runs the functions above. */
    kolo_rule_kind (*rule)(const kolo_optimizer *optimizer, int64_t step, double *numbers);
};

struct kolo_schedule_kind {
    const char *name;
    const kolo_option *options;
    /* The rate of a step ≥ 0; the schedule's defaults are filled in. */
    double (*rate)(const kolo_schedule *schedule, double step);
    kolo_status (*check)(const kolo_schedule *schedule); /* further checks of the options; NULL: only the ranges */
};

/* options.c. Copies `given` to `complete` with defaults filled in. Fails with a message if an option is out of its
 * range. A schedule without an initial rate begins from the optimizer's learning rate. */
kolo_status kolo_optimizer_complete(const kolo_optimizer *given, kolo_optimizer *complete);
kolo_status kolo_schedule_complete(const kolo_schedule *given, double learning_rate, kolo_schedule *complete);
/* The options that every optimizer has, without the schedule. */
extern const kolo_option kolo_common_options[];

/* rules.c. For a kind with .rule: returns the rule, and fills in its numbers for update number `step`. */
kolo_rule_kind kolo_rule_numbers(const kolo_optimizer *optimizer, double learning_rate, int64_t step,
                                 double rule[KOLO_RULE_NUMBERS]);
/* Runs the rule over a part of the arrays, with the gradient multiplied by `scale`. */
void kolo_rule_run(kolo_rule_kind rule, kolo_rule numbers, const kolo_update *update, double scale);
/* Decays weights: w -= rate · w. */
void kolo_rule_shrink(float *weights, int64_t count, float rate);
/* kind->update of a rule that does not look at whole arrays. */
void kolo_rule_update(const kolo_update *update);

/* try_rule.c. Runs one update of an optimizer with defaults filled in. Fails with a sentence if its .rule leaves out a
 * number that the rule reads, or .rule or a slot is missing. */
kolo_status kolo_optimizer_try(const kolo_optimizer *optimizer);

/* Both take an optimizer with defaults filled in. The number of its slots. */
int kolo_optimizer_slots(const kolo_optimizer *optimizer);
/* The learning rate of step number `step`, from 0: the schedule's, if there is one. */
double kolo_optimizer_rate(const kolo_optimizer *optimizer, int64_t step);

#endif
