/* The optimizers' rules for one element. The host's loops (optimizers/rules.c) and the devices' kernels share them, so
 * this file uses only what C and CUDA C have in common. Read optimizers/optimizer.h first; include/kolo_optimizers.h
 * has the formulas' sources.
 *
 * A rule has numbers, which the host computes for each update (kolo_rule_numbers() in optimizer.h). They are the same
 * for every element. A rule that needs sums over a whole array changes some of them for each array (kolo_rule_…_array()
 * below). */
#ifndef KOLO_OPTIMIZERS_RULES_H
#define KOLO_OPTIMIZERS_RULES_H

#include <math.h>
#include <stddef.h>

#include "core/philox.h"

#define KOLO_RULE_NUMBERS 12 /* room for the numbers of a rule */

/* The host's loops are compiled for several instruction sets (core/vector.h). The compiler inlines a function without
 * these sets into them only if it is always_inline. */
#define KOLO_RULE KOLO_EVERYWHERE __attribute__((always_inline))

/* The list of rules. From each entry, X(name, number of slots, function), come the rule's constant, its loop on the
 * host and its kernel on a device. The function gets as many slots as the entry says. LARS needs Σw² and Σg² of the
 * array first, LAMB Σw² and Σr², NOVOGRAD Σg². */
#define KOLO_RULES(X)                                                                                                  \
    X(SGD, 0, kolo_rule_sgd)                                                                                           \
    X(MOMENTUM, 1, kolo_rule_momentum)                                                                                 \
    X(NESTEROV, 1, kolo_rule_nesterov)                                                                                 \
    X(ADAGRAD, 1, kolo_rule_adagrad)                                                                                   \
    X(ADADELTA, 2, kolo_rule_adadelta)                                                                                 \
    X(RMSPROP, 1, kolo_rule_rms)                                                                                       \
    X(RMSPROP_ROLLING, 2, kolo_rule_rms_rolling)                                                                       \
    X(RMSPROP_CENTERED, 2, kolo_rule_rms_centered)                                                                     \
    X(RMSPROP_BOTH, 3, kolo_rule_rms_both)                                                                             \
    X(ADAM, 2, kolo_rule_adam)                                                                                         \
    X(AMSGRAD, 3, kolo_rule_amsgrad)                                                                                   \
    X(ADAMAX, 2, kolo_rule_adamax)                                                                                     \
    X(NADAM, 2, kolo_rule_nadam)                                                                                       \
    X(LARS, 1, kolo_rule_lars)                                                                                         \
    X(LAMB, 2, kolo_rule_lamb)                                                                                         \
    X(NOVOGRAD, 1, kolo_rule_novograd)

typedef enum kolo_rule_kind {
#define KOLO_RULE_CONSTANT(name, slots, function) KOLO_RULE_##name,
    KOLO_RULES(KOLO_RULE_CONSTANT)
#undef KOLO_RULE_CONSTANT
        KOLO_RULE_KINDS
} kolo_rule_kind;

/* Indices of a rule's numbers in kolo_step_parameters.rule. */
enum {
    KOLO_RULE_LEARNING_RATE, /* η: in every rule */
    KOLO_RULE_RATE, /* η with the rule's corrections for the first steps */
    KOLO_RULE_BETA_1, /* β₁, ρ, or the momentum µ */
    KOLO_RULE_BETA_2, /* β₂; RMSProp's µ */
    KOLO_RULE_EPSILON,
    KOLO_RULE_OF_M, /* m̂ = of_m·m + of_g·g */
    KOLO_RULE_OF_G,
    KOLO_RULE_OF_V, /* v̂ = of_v·v */
    KOLO_RULE_DECAY, /* λ of a rule that applies weight decay itself */
    KOLO_RULE_TRUST, /* LARS's trust coefficient */
    KOLO_RULE_PLAIN_VECTORS, /* 1: arrays of one axis are neither scaled nor decayed, their rate is η */
    KOLO_RULE_USED
};

/* The numbers that an element's formula uses, in float32. */
typedef struct kolo_rule {
    float rate, beta_1, beta_2, epsilon, of_m, of_g, of_v, decay;
} kolo_rule;

KOLO_RULE kolo_rule kolo_rule_floats(const double *rule)
{
    kolo_rule n = {(float)rule[KOLO_RULE_RATE],    (float)rule[KOLO_RULE_BETA_1], (float)rule[KOLO_RULE_BETA_2],
                   (float)rule[KOLO_RULE_EPSILON], (float)rule[KOLO_RULE_OF_M],   (float)rule[KOLO_RULE_OF_G],
                   (float)rule[KOLO_RULE_OF_V],    (float)rule[KOLO_RULE_DECAY]};
    return n;
}

/* ---------------------------------------------------------------- before the rule */

/* The mean gradient plus the gradient l2·w of the L2 penalty λw²; l2 = 2λ. */
KOLO_RULE float kolo_mean_gradient(float g, float w, float scale, float l2)
{
    return g * scale + l2 * w;
}

/* The same, multiplied by the factor of clipping by norm, and then clipped to ± most. */
KOLO_RULE float kolo_clipped_gradient(float g, float w, float scale, float l2, float factor, float most)
{
    float x = kolo_mean_gradient(g, w, scale, l2) * factor;
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

/* The factor that clips a gradient of this squared norm to the norm `most`; at most 1. As in Keras, there is no
 * division by a norm of 0. */
KOLO_RULE double kolo_clip_factor(double sum_of_squares, double most)
{
    return most / fmax(sqrt(sum_of_squares), most);
}

KOLO_RULE float kolo_shrunk(float w, float rate)
{
    return w - rate * w;
}

/* The new value of a running mean. `sum` is from the gradient's array: the layer's statistic, summed over samples;
 * sum · scale is the batch's mean. */
KOLO_RULE float kolo_moved(float mean, float sum, double momentum, double scale)
{
    return (float)(momentum * (double)mean + (1 - momentum) * scale * (double)sum);
}

/* Micikevicius et al. 2018, section 3.2, with Keras's numbers: a gradient that is not finite halves the loss scale, and
 * KOLO_GOOD_UPDATES finite ones in a row double it. */
#define KOLO_GOOD_UPDATES 2000
KOLO_RULE void kolo_adapt_scale(bool finite, double *loss_scale, int64_t *good)
{
    *good += 1;
    if (finite && *good < KOLO_GOOD_UPDATES) return;
    *loss_scale *= finite ? 2 : 0.5;
    *good = 0;
}

/* ---------------------------------------------------------------- SGD */

KOLO_RULE void kolo_rule_sgd(float *w, float g, kolo_rule n)
{
    *w -= n.rate * g;
}

KOLO_RULE void kolo_rule_momentum(float *w, float g, float *v, kolo_rule n)
{
    *v = n.beta_1 * *v - n.rate * g;
    *w += *v;
}

KOLO_RULE void kolo_rule_nesterov(float *w, float g, float *v, kolo_rule n)
{
    *v = n.beta_1 * *v - n.rate * g;
    *w += n.beta_1 * *v - n.rate * g;
}

/* ---------------------------------------------------------------- Adagrad, Adadelta, RMSProp */

KOLO_RULE void kolo_rule_adagrad(float *w, float g, float *a, kolo_rule n)
{
    *a += g * g;
    *w -= n.rate * g / sqrtf(*a + n.epsilon);
}

KOLO_RULE void kolo_rule_adadelta(float *w, float g, float *a, float *b, kolo_rule n)
{
    *a = n.beta_1 * *a + (1 - n.beta_1) * g * g;
    float d = -g * sqrtf(*b + n.epsilon) / sqrtf(*a + n.epsilon);
    *b = n.beta_1 * *b + (1 - n.beta_1) * d * d;
    *w += n.rate * d;
}

/* m: NULL unless .centered; u: NULL without .momentum. */
KOLO_RULE void kolo_rule_rms_any(float *w, float g, float *v, float *m, float *u, kolo_rule n)
{
    float square = 0;
    *v = n.beta_1 * *v + (1 - n.beta_1) * g * g;
    if (m) *m = n.beta_1 * *m + (1 - n.beta_1) * g;
    if (m) square = *m * *m;
    float d = n.rate * g / sqrtf(*v - square + n.epsilon);
    if (u) d = *u = n.beta_2 * *u + d;
    *w -= d;
}
KOLO_RULE void kolo_rule_rms(float *w, float g, float *v, kolo_rule n)
{
    kolo_rule_rms_any(w, g, v, NULL, NULL, n);
}
KOLO_RULE void kolo_rule_rms_rolling(float *w, float g, float *v, float *u, kolo_rule n)
{
    kolo_rule_rms_any(w, g, v, NULL, u, n);
}
KOLO_RULE void kolo_rule_rms_centered(float *w, float g, float *v, float *m, kolo_rule n)
{
    kolo_rule_rms_any(w, g, v, m, NULL, n);
}
KOLO_RULE void kolo_rule_rms_both(float *w, float g, float *v, float *m, float *u, kolo_rule n)
{
    kolo_rule_rms_any(w, g, v, m, u, n);
}

/* ---------------------------------------------------------------- Adam and its variants */

KOLO_RULE void kolo_rule_moments(float g, float *m, float *v, kolo_rule n)
{
    *m += (g - *m) * (1 - n.beta_1);
    *v += (g * g - *v) * (1 - n.beta_2);
}

KOLO_RULE void kolo_rule_adam(float *w, float g, float *m, float *v, kolo_rule n)
{
    kolo_rule_moments(g, m, v, n);
    *w -= n.rate * *m / (sqrtf(*v) + n.epsilon);
}

KOLO_RULE void kolo_rule_amsgrad(float *w, float g, float *m, float *v, float *most, kolo_rule n)
{
    kolo_rule_moments(g, m, v, n);
    *most = *most > *v ? *most : *v;
    *w -= n.rate * *m / (sqrtf(*most) + n.epsilon);
}

KOLO_RULE void kolo_rule_adamax(float *w, float g, float *m, float *u, kolo_rule n)
{
    float size = fabsf(g), before = n.beta_2 * *u;
    *m += (g - *m) * (1 - n.beta_1);
    *u = before > size ? before : size;
    *w -= n.rate * *m / (*u + n.epsilon);
}

KOLO_RULE void kolo_rule_nadam(float *w, float g, float *m, float *v, kolo_rule n)
{
    kolo_rule_moments(g, m, v, n);
    *w -= n.rate * (n.of_m * *m + n.of_g * g) / (sqrtf(n.of_v * *v) + n.epsilon);
}

/* ---------------------------------------------------------------- rules that need sums over a whole array */

/* Whether the rule neither scales nor decays this array. */
KOLO_RULE bool kolo_rule_plain(const double *rule, bool vector)
{
    return vector && rule[KOLO_RULE_PLAIN_VECTORS] != 0;
}

/* The numbers of LARS for one array. sums: Σw² and Σg², where g is the clipped gradient. */
KOLO_RULE kolo_rule kolo_rule_lars_array(const double *rule, bool vector, const double *sums)
{
    double weight = sqrt(sums[0]), gradient = sqrt(sums[1]), rate = rule[KOLO_RULE_LEARNING_RATE];
    bool plain = kolo_rule_plain(rule, vector);
    double decay = plain ? 0 : rule[KOLO_RULE_DECAY];
    if (!plain && weight > 0 && gradient > 0)
        rate *= rule[KOLO_RULE_TRUST] * weight / (gradient + decay * weight + rule[KOLO_RULE_EPSILON]);
    kolo_rule n = kolo_rule_floats(rule);
    n.rate = (float)rate;
    n.decay = (float)decay;
    return n;
}

KOLO_RULE void kolo_rule_lars(float *w, float g, float *v, kolo_rule n)
{
    *v = n.beta_1 * *v + n.rate * (g + n.decay * *w);
    *w -= *v;
}

/* The fraction of each weight that is subtracted before the step: η·λ, or 0. */
KOLO_RULE float kolo_rule_lamb_decay(const double *rule, bool vector)
{
    return kolo_rule_plain(rule, vector) ? 0 : (float)(rule[KOLO_RULE_LEARNING_RATE] * rule[KOLO_RULE_DECAY]);
}

/* Adam's step r, not yet scaled. */
KOLO_RULE float kolo_rule_lamb_step(float g, float *m, float *v, kolo_rule n)
{
    kolo_rule_moments(g, m, v, n);
    return n.of_m * *m / (sqrtf(n.of_v * *v) + n.epsilon);
}

/* r: the result of kolo_rule_lamb_step(), which has updated the slots. */
KOLO_RULE void kolo_rule_lamb(float *w, float r, float *m, float *v, kolo_rule n)
{
    (void)m, (void)v;
    kolo_rule_sgd(w, r, n);
}

/* The numbers of LAMB for one array. sums: Σw² and Σr². The update is then SGD's with r as its gradient. */
KOLO_RULE kolo_rule kolo_rule_lamb_array(const double *rule, bool vector, const double *sums)
{
    bool scaled = !kolo_rule_plain(rule, vector) && sums[0] > 0 && sums[1] > 0;
    kolo_rule n = kolo_rule_floats(rule);
    n.rate = (float)((scaled ? sqrt(sums[0] / sums[1]) : 1) * rule[KOLO_RULE_LEARNING_RATE]);
    return n;
}

/* The new value of the array's number, its second moment. */
KOLO_RULE float kolo_rule_novograd_number(const double *rule, float number, double sum_of_squares)
{
    double beta_2 = rule[KOLO_RULE_BETA_2];
    return (float)(beta_2 * (double)number + (1 - beta_2) * sum_of_squares);
}

/* The numbers of NovoGrad for one array. number: its new value; scale: gradient · scale is the mean gradient. */
KOLO_RULE kolo_rule kolo_rule_novograd_array(const double *rule, float number, double scale)
{
    kolo_rule n = kolo_rule_floats(rule);
    n.of_g = (float)(scale / (sqrt((double)number) + rule[KOLO_RULE_EPSILON]));
    return n;
}

KOLO_RULE void kolo_rule_novograd(float *w, float g, float *m, kolo_rule n)
{
    *m = n.beta_1 * *m + n.of_g * g + n.decay * *w;
    *w -= n.rate * *m;
}

/* ---------------------------------------------------------------- rules by their constants */

KOLO_EVERYWHERE int kolo_rule_slots(kolo_rule_kind rule)
{
#define KOLO_RULE_SLOTS(name, slots, function)                                                                         \
    if (rule == KOLO_RULE_##name) return slots;
    KOLO_RULES(KOLO_RULE_SLOTS)
#undef KOLO_RULE_SLOTS
    return 0;
}

/* The call of a rule's function for element i, by its number of slots. A number that does not fit the function does not
 * compile. */
#define KOLO_RULE_CALL_0(function) function(&w[i], g, n)
#define KOLO_RULE_CALL_1(function) function(&w[i], g, &a[i], n)
#define KOLO_RULE_CALL_2(function) function(&w[i], g, &a[i], &b[i], n)
#define KOLO_RULE_CALL_3(function) function(&w[i], g, &a[i], &b[i], &c[i], n)

/* Runs the rule's step for element i of the weights and slots, with its gradient g. Callers pass a constant `rule`, so
 * the compiler removes the switch. */
KOLO_RULE void kolo_rule_step(kolo_rule_kind rule, kolo_rule n, float *w, float g, float *a, float *b, float *c,
                              int64_t i)
{
    switch (rule) {
#define KOLO_RULE_STEP(name, slots, function)                                                                          \
    case KOLO_RULE_##name: KOLO_RULE_CALL_##slots(function); break;
        KOLO_RULES(KOLO_RULE_STEP)
#undef KOLO_RULE_STEP
    default: break;
    }
}

#endif
