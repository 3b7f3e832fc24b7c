/* The schedules of kolo_schedules.h. The formulas are from Keras, optimizers/schedules/learning_rate_schedule.py; that
 * of the one-cycle schedule is from PyTorch, optim/lr_scheduler.py. Read optimizers/optimizer.h first. */
#include "optimizers/optimizer.h"

#include <math.h>

#define PI 3.14159265358979323846

/* ---------------------------------------------------------------- constant, piecewise constant */

static double constant(const kolo_schedule *s, double step)
{
    (void)step;
    return s->constant.initial_learning_rate;
}

const kolo_schedule_kind kolo_constant_kind = {.name = "constant", .rate = constant};

static double value(double given)
{
    return given == KOLO_NONE ? 0 : given;
}

static int boundary_count(const kolo_piecewise_constant_args *args)
{
    int count = 0;
    while (count < KOLO_BOUNDARIES_MAX && args->boundaries[count] > 0) count++;
    return count;
}

static double piecewise_constant(const kolo_schedule *s, double step)
{
    const kolo_piecewise_constant_args *args = &s->piecewise_constant;
    int piece = 0, count = boundary_count(args);
    while (piece < count && step > args->boundaries[piece]) piece++;
    return value(args->values[piece]);
}

static kolo_status check_pieces(const kolo_schedule *s)
{
    const kolo_piecewise_constant_args *args = &s->piecewise_constant;
    int count = boundary_count(args), given = 0;
    for (int i = 0; i < KOLO_BOUNDARIES_MAX; i++) {
        bool fine = i < count ? i == 0 || args->boundaries[i] > args->boundaries[i - 1] : args->boundaries[i] == 0;
        if (!fine || count == 0)
            return kolo_fail(KOLO_INVALID, "piecewise_constant: wanted .boundaries of at least 1 that rise, got %d",
                             args->boundaries[i]);
    }
    for (int i = 0; i <= KOLO_BOUNDARIES_MAX; i++) {
        if (args->values[i] != 0) given = i + 1;
        if (!isfinite(args->values[i]) || value(args->values[i]) < 0)
            return kolo_fail(KOLO_INVALID, "piecewise_constant: wanted .values of at least 0, got %g", args->values[i]);
    }
    if (given == count + 1) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "piecewise_constant: wanted %d .values, one more than .boundaries (KOLO_NONE for 0), got %d",
                     count + 1, given);
}

static const kolo_option pieces[] = {
    {{"boundaries", KOLO_FIELD_INT, offsetof(kolo_piecewise_constant_args, boundaries), KOLO_BOUNDARIES_MAX, false},
     0,
     0,
     0,
     false},
    {{"values", KOLO_FIELD_DOUBLE, offsetof(kolo_piecewise_constant_args, values), KOLO_BOUNDARIES_MAX + 1, false},
     0,
     0,
     0,
     false},
    KOLO_OPTIONS_END,
};
const kolo_schedule_kind kolo_piecewise_constant_kind = {
    .name = "piecewise_constant", .options = pieces, .rate = piecewise_constant, .check = check_pieces};

/* ---------------------------------------------------------------- exponential, inverse time */

static double periods(const kolo_exponential_decay_args *args, double step)
{
    double count = step / args->decay_steps;
    return args->staircase ? floor(count) : count;
}

static double exponential_decay(const kolo_schedule *s, double step)
{
    const kolo_exponential_decay_args *args = &s->exponential_decay;
    return args->initial_learning_rate * pow(args->decay_rate, periods(args, step));
}

static double inverse_time_decay(const kolo_schedule *s, double step)
{
    const kolo_inverse_time_decay_args *args = &s->inverse_time_decay;
    return args->initial_learning_rate / (1 + args->decay_rate * periods(args, step));
}

static kolo_status check_decay_rate(const kolo_schedule *s)
{
    if (s->exponential_decay.decay_rate > 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted a .decay_rate above 0, got %g", s->kind->name,
                     s->exponential_decay.decay_rate);
}

static const kolo_option decays[] = {
    KOLO_COUNT(exponential_decay, decay_steps, 0, 1),
    KOLO_NUMBER(exponential_decay, decay_rate, 0, 0, INFINITY),
    KOLO_SWITCH(exponential_decay, staircase),
    KOLO_OPTIONS_END,
};
const kolo_schedule_kind kolo_exponential_decay_kind = {
    .name = "exponential_decay", .options = decays, .rate = exponential_decay, .check = check_decay_rate};
const kolo_schedule_kind kolo_inverse_time_decay_kind = {
    .name = "inverse_time_decay", .options = decays, .rate = inverse_time_decay, .check = check_decay_rate};

/* ---------------------------------------------------------------- polynomial */

static double polynomial_decay(const kolo_schedule *s, double step)
{
    const kolo_polynomial_decay_args *args = &s->polynomial_decay;
    double steps = args->decay_steps;
    if (args->cycle && step > steps) steps *= ceil(step / steps);
    if (step > steps) step = steps;
    return (args->initial_learning_rate - args->end_learning_rate) * pow(1 - step / steps, args->power) +
           args->end_learning_rate;
}

static const kolo_option polynomial[] = {
    KOLO_COUNT(polynomial_decay, decay_steps, 0, 1),
    KOLO_NUMBER(polynomial_decay, end_learning_rate, 1e-4, 0, INFINITY),
    KOLO_NUMBER(polynomial_decay, power, 1, 0, INFINITY),
    KOLO_SWITCH(polynomial_decay, cycle),
    KOLO_OPTIONS_END,
};
const kolo_schedule_kind kolo_polynomial_decay_kind = {
    .name = "polynomial_decay", .options = polynomial, .rate = polynomial_decay};

/* ---------------------------------------------------------------- cosine */

/* Falls from (1 − alpha) · height + alpha to alpha as share goes from 0 to 1. */
static double half_wave(double share, double height, double alpha)
{
    return (1 - alpha) * height * (1 + cos(PI * share)) / 2 + alpha;
}

static double cosine_decay(const kolo_schedule *s, double step)
{
    const kolo_cosine_decay_args *args = &s->cosine_decay;
    bool warms = args->warmup_target > 0;
    double first = args->initial_learning_rate, target = warms ? args->warmup_target : first;
    double warmup = warms ? args->warmup_steps : 0;
    if (step < warmup) return first + (target - first) * step / warmup;
    return target * half_wave(fmin((step - warmup) / args->decay_steps, 1), 1, args->alpha);
}

static kolo_status check_cosine(const kolo_schedule *s)
{
    const kolo_cosine_decay_args *args = &s->cosine_decay;
    if (args->warmup_steps == 0 || args->warmup_target > 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "cosine_decay: wanted a .warmup_target above 0 with .warmup_steps, got %g",
                     args->warmup_target);
}

static const kolo_option cosine[] = {
    KOLO_COUNT(cosine_decay, decay_steps, 0, 1),
    {KOLO_FIELD(KOLO_FIELD_DOUBLE, cosine_decay, alpha), 0, 0, 1, true},
    KOLO_NUMBER(cosine_decay, warmup_target, 0, 0, INFINITY),
    KOLO_COUNT(cosine_decay, warmup_steps, 0, 0),
    KOLO_OPTIONS_END,
};
const kolo_schedule_kind kolo_cosine_decay_kind = {
    .name = "cosine_decay", .options = cosine, .rate = cosine_decay, .check = check_cosine};

/* Restart i begins after (1 − tⁱ)/(1 − t) first periods and lasts tⁱ of them. */
static double cosine_restarts(const kolo_schedule *s, double step)
{
    const kolo_cosine_restarts_args *args = &s->cosine_restarts;
    double period = 1, height = 1, begun = step / args->first_decay_steps;
    if (args->t_mul == 1) {
        height = pow(args->m_mul, floor(begun));
        begun -= floor(begun);
    }
    while (begun >= period) {
        begun -= period;
        period *= args->t_mul;
        height *= args->m_mul;
    }
    return args->initial_learning_rate * half_wave(begun / period, height, args->alpha);
}

static const kolo_option restarts[] = {
    KOLO_COUNT(cosine_restarts, first_decay_steps, 0, 1),
    KOLO_NUMBER(cosine_restarts, t_mul, 2, 1, INFINITY),
    KOLO_NUMBER(cosine_restarts, m_mul, 1, 0, INFINITY),
    {KOLO_FIELD(KOLO_FIELD_DOUBLE, cosine_restarts, alpha), 0, 0, 1, true},
    KOLO_OPTIONS_END,
};
const kolo_schedule_kind kolo_cosine_restarts_kind = {
    .name = "cosine_restarts", .options = restarts, .rate = cosine_restarts};

/* ---------------------------------------------------------------- one cycle */

static double between(const kolo_one_cycle_args *args, double from, double to, double share)
{
    return args->linear ? from + (to - from) * share : to + (from - to) * (1 + cos(PI * share)) / 2;
}

static double one_cycle(const kolo_schedule *s, double step)
{
    const kolo_one_cycle_args *args = &s->one_cycle;
    double most = args->max_learning_rate, first = most / args->div_factor, last = first / args->final_div_factor;
    double up = args->pct_start * args->total_steps - 1, end = args->total_steps - 1;
    double down = args->three_phase ? 2 * up : up; /* where the last phase begins */
    if (step > end) step = end;
    if (step <= up) return between(args, first, most, up > 0 ? step / up : 1);
    if (step <= down) return between(args, most, first, (step - up) / (down - up));
    return between(args, args->three_phase ? first : most, last, (step - down) / (end - down));
}

static kolo_status check_cycle(const kolo_schedule *s)
{
    const kolo_one_cycle_args *args = &s->one_cycle;
    double most = args->three_phase ? 0.5 : 1;
    if (args->div_factor < 1 || args->final_div_factor < 1)
        return kolo_fail(KOLO_INVALID,
                         "one_cycle: wanted .div_factor and .final_div_factor of at least 1, got %g and %g",
                         args->div_factor, args->final_div_factor);
    bool below = args->pct_start < most || (args->three_phase && args->pct_start == most);
    if (args->pct_start > 0 && below) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "one_cycle: wanted a .pct_start above 0 and %s %g, got %g",
                     args->three_phase ? "at most" : "below", most, args->pct_start);
}

static const kolo_option cycle[] = {
    KOLO_COUNT(one_cycle, total_steps, 0, 2),
    KOLO_NUMBER(one_cycle, pct_start, 0.3, 0, 1),
    KOLO_NUMBER(one_cycle, div_factor, 25, 0, INFINITY),
    KOLO_NUMBER(one_cycle, final_div_factor, 1e4, 0, INFINITY),
    KOLO_SWITCH(one_cycle, linear),
    KOLO_SWITCH(one_cycle, three_phase),
    KOLO_OPTIONS_END,
};
const kolo_schedule_kind kolo_one_cycle_kind = {
    .name = "one_cycle", .options = cycle, .rate = one_cycle, .check = check_cycle};
