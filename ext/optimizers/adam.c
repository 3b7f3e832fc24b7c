/* Adam and its kin: AdamW, Adamax, Nadam. Read optimizers/optimizer.h first. */
#include "optimizers/optimizer.h"

#include <math.h>

#include "core/vector.h"

typedef struct numbers {
    float scale, beta_1, beta_2, rate, epsilon;
} numbers;

/* ---------------------------------------------------------------- Adam, AdamW */

KOLO_VECTORISED static void adam(float *restrict w, const float *restrict gradient, float *restrict m,
                                 float *restrict v, int64_t count, numbers n)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * n.scale;
        m[i] += (g - m[i]) * (1 - n.beta_1);
        v[i] += (g * g - v[i]) * (1 - n.beta_2);
        w[i] -= n.rate * m[i] / (__builtin_sqrtf(v[i]) + n.epsilon);
    }
}

KOLO_VECTORISED static void amsgrad(float *restrict w, const float *restrict gradient, float *restrict m,
                                    float *restrict v, float *restrict most, int64_t count, numbers n)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * n.scale;
        m[i] += (g - m[i]) * (1 - n.beta_1);
        v[i] += (g * g - v[i]) * (1 - n.beta_2);
        most[i] = most[i] > v[i] ? most[i] : v[i];
        w[i] -= n.rate * m[i] / (__builtin_sqrtf(most[i]) + n.epsilon);
    }
}

/* Kingma and Ba 2015, algorithm 1 in the order of its section 2's remark, as Keras has it: both corrections go into
 * the rate, η·√(1−β₂ᵗ)/(1−β₁ᵗ). */
static void adam_update(const kolo_update *u)
{
    const kolo_adam_args *args = &u->optimizer->adam;
    double t = (double)u->step;
    double rate = u->learning_rate * sqrt(1 - pow(args->beta_2, t)) / (1 - pow(args->beta_1, t));
    numbers n = {(float)u->scale, (float)args->beta_1, (float)args->beta_2, (float)rate, (float)args->epsilon};
    if (args->amsgrad) amsgrad(u->weights, u->gradient, u->slots[0], u->slots[1], u->slots[2], u->count, n);
    else adam(u->weights, u->gradient, u->slots[0], u->slots[1], u->count, n);
}

static int adam_slots(const kolo_optimizer *optimizer)
{
    return optimizer->adam.amsgrad ? 3 : 2;
}

static const kolo_option adam_options[] = {
    KOLO_NUMBER(adam, beta_1, 0.9, 0, 1),
    KOLO_NUMBER(adam, beta_2, 0.999, 0, 1),
    KOLO_NUMBER(adam, epsilon, 1e-7, 0, INFINITY),
    KOLO_SWITCH(adam, amsgrad),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_adam_kind = {
    .name = "adam", .options = adam_options, .learning_rate = 1e-3, .slot_count = adam_slots, .update = adam_update};
const kolo_optimizer_kind kolo_adamw_kind = {.name = "adamw",
                                             .options = adam_options,
                                             .learning_rate = 1e-3,
                                             .weight_decay = 0.004,
                                             .slot_count = adam_slots,
                                             .update = adam_update};

/* ---------------------------------------------------------------- Adamax */

KOLO_VECTORISED static void adamax(float *restrict w, const float *restrict gradient, float *restrict m,
                                   float *restrict u, int64_t count, numbers n)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * n.scale, size = __builtin_fabsf(g), before = n.beta_2 * u[i];
        m[i] += (g - m[i]) * (1 - n.beta_1);
        u[i] = before > size ? before : size;
        w[i] -= n.rate * m[i] / (u[i] + n.epsilon);
    }
}

static void adamax_update(const kolo_update *u)
{
    const kolo_adamax_args *args = &u->optimizer->adamax;
    double rate = u->learning_rate / (1 - pow(args->beta_1, (double)u->step));
    numbers n = {(float)u->scale, (float)args->beta_1, (float)args->beta_2, (float)rate, (float)args->epsilon};
    adamax(u->weights, u->gradient, u->slots[0], u->slots[1], u->count, n);
}

static const kolo_option adamax_options[] = {
    KOLO_NUMBER(adamax, beta_1, 0.9, 0, 1),
    KOLO_NUMBER(adamax, beta_2, 0.999, 0, 1),
    KOLO_NUMBER(adamax, epsilon, 1e-7, 0, INFINITY),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_adamax_kind = {
    .name = "adamax", .options = adamax_options, .learning_rate = 1e-3, .slots = 2, .update = adamax_update};

/* ---------------------------------------------------------------- Nadam */

typedef struct nadam_numbers {
    numbers n;
    float of_m, of_g, of_v; /* m̂ = of_m·m + of_g·g;  v̂ = of_v·v */
} nadam_numbers;

KOLO_VECTORISED static void nadam(float *restrict w, const float *restrict gradient, float *restrict m,
                                  float *restrict v, int64_t count, nadam_numbers k)
{
    numbers n = k.n;
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * n.scale;
        m[i] += (g - m[i]) * (1 - n.beta_1);
        v[i] += (g * g - v[i]) * (1 - n.beta_2);
        w[i] -= n.rate * (k.of_m * m[i] + k.of_g * g) / (__builtin_sqrtf(k.of_v * v[i]) + n.epsilon);
    }
}

/* µₜ and the product of all µ up to it, which soon is too small to matter. */
static void schedule_of_momentum(double beta_1, int64_t step, double *now, double *next, double *product)
{
    double decay = 1;
    *product = 1;
    for (int64_t t = 1; t <= step && *product > 1e-20; t++) {
        decay *= 0.96;
        *product *= beta_1 * (1 - 0.5 * decay);
    }
    *now = beta_1 * (1 - 0.5 * pow(0.96, (double)step));
    *next = beta_1 * (1 - 0.5 * pow(0.96, (double)step + 1));
}

/* Dozat 2016, algorithm 8: µₜ = β₁(1 − 0.96ᵗ/2). */
static void nadam_update(const kolo_update *u)
{
    const kolo_nadam_args *args = &u->optimizer->nadam;
    double now, next, product;
    schedule_of_momentum(args->beta_1, u->step, &now, &next, &product);
    nadam_numbers k = {
        {(float)u->scale, (float)args->beta_1, (float)args->beta_2, (float)u->learning_rate, (float)args->epsilon},
        (float)(next / (1 - product * next)),
        (float)((1 - now) / (1 - product)),
        (float)(1 / (1 - pow(args->beta_2, (double)u->step)))};
    nadam(u->weights, u->gradient, u->slots[0], u->slots[1], u->count, k);
}

const kolo_optimizer_kind kolo_nadam_kind = {
    .name = "nadam", .options = adamax_options, .learning_rate = 1e-3, .slots = 2, .update = nadam_update};
