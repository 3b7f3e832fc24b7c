/* Losses of regressions: means over the row of a function of the error e = z − t. Read losses/loss.h first. */
#include "core/error.h"
#include "losses/loss.h"

#include <math.h>

static double square(double e, double number, double *slope)
{
    (void)number;
    *slope = 2 * e;
    return e * e;
}

/* At 0, where there is no slope, 0: the one between both sides'. */
static double absolute(double e, double number, double *slope)
{
    (void)number;
    *slope = isnan(e) ? e : (double)((e > 0) - (e < 0));
    return fabs(e);
}

static double huber_part(double e, double number, double *slope)
{
    double delta = number > 0 ? number : 1;
    bool inside = fabs(e) <= delta;
    *slope = inside ? e : copysign(delta, e);
    return inside ? e * e / 2 : delta * fabs(e) - delta * delta / 2;
}

/* log cosh e = |e| + log (1 + exp(−2|e|)) − log 2, which cannot overflow. */
static double log_cosh_part(double e, double number, double *slope)
{
    (void)number;
    *slope = tanh(e);
    return fabs(e) + log1p(exp(-2 * fabs(e))) - log(2);
}

static double mean_of(double (*part)(double e, double number, double *slope), const kolo_row *row, float *gradient)
{
    double n = (double)row->count, sum = 0, slope;
    for (int64_t i = 0; i < row->count; i++) {
        sum += part((double)row->outputs[i] - (double)row->targets[i], row->number, &slope);
        if (gradient) gradient[i] = (float)(slope / n);
    }
    return sum / n;
}

static double mse(const kolo_row *row, float *gradient)
{
    return mean_of(square, row, gradient);
}
static double mae(const kolo_row *row, float *gradient)
{
    return mean_of(absolute, row, gradient);
}
static double huber(const kolo_row *row, float *gradient)
{
    return mean_of(huber_part, row, gradient);
}
static double log_cosh(const kolo_row *row, float *gradient)
{
    return mean_of(log_cosh_part, row, gradient);
}

static kolo_status check_delta(int64_t outputs, double number)
{
    (void)outputs;
    if (number >= 0 && isfinite(number)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "delta: wanted a number above 0, got %g", number);
}

const kolo_loss_kind kolo_mse_kind = {
    .name = "mse", .wants = KOLO_WANTS_TARGETS, .row = mse, .check = kolo_loss_without_number};
const kolo_loss_kind kolo_mae_kind = {
    .name = "mae", .wants = KOLO_WANTS_TARGETS, .row = mae, .check = kolo_loss_without_number};
const kolo_loss_kind kolo_huber_kind = {
    .name = "huber", .wants = KOLO_WANTS_TARGETS, .row = huber, .check = check_delta};
const kolo_loss_kind kolo_log_cosh_kind = {
    .name = "log_cosh", .wants = KOLO_WANTS_TARGETS, .row = log_cosh, .check = kolo_loss_without_number};

/* ------------------------------------------------------------------------------------------ as metrics */

static void add_square(const kolo_row *row, double weight, double *sums)
{
    sums[0] += weight * mse(row, NULL);
}
static void add_absolute(const kolo_row *row, double weight, double *sums)
{
    sums[0] += weight * mae(row, NULL);
}
static void add_mean(const kolo_row *row, double weight, double *sums)
{
    double sum = 0;
    for (int64_t i = 0; i < row->count; i++) sum += (double)row->outputs[i];
    sums[0] += weight * sum / (double)row->count;
}

const kolo_metric_kind kolo_metric_mse_kind = {
    .name = "mse", .wants = KOLO_WANTS_TARGETS, .probabilities = true, .row = add_square};
const kolo_metric_kind kolo_metric_mae_kind = {
    .name = "mae", .wants = KOLO_WANTS_TARGETS, .probabilities = true, .row = add_absolute};
const kolo_metric_kind kolo_mean_kind = {.name = "mean", .probabilities = true, .row = add_mean};
