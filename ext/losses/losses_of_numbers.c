/* Losses of regressions: the mean over the row of a function of the error e = z − t. Read losses/loss.h first;
 * losses/rows.h has the formulas. */
#include "core/error.h"
#include "core/lanes.h"
#include "losses/loss.h"
#include "losses/rows.h"

#include <math.h>

KOLO_INLINE double mean_of(kolo_formula loss, const kolo_row *row, float *gradient)
{
    double n = (double)row->count, sum = 0, slope;
    for (int64_t i = 0; i < row->count; i++) {
        sum += kolo_mean_part(loss, (double)row->outputs[i], (double)row->targets[i], row->number, &slope);
        if (gradient) gradient[i] = (float)(slope / n);
    }
    return sum / n;
}

static double mse(const kolo_row *row, float *gradient)
{
    return mean_of(KOLO_FORMULA_MSE, row, gradient);
}
static double mae(const kolo_row *row, float *gradient)
{
    return mean_of(KOLO_FORMULA_MAE, row, gradient);
}
static double huber(const kolo_row *row, float *gradient)
{
    return mean_of(KOLO_FORMULA_HUBER, row, gradient);
}
static double log_cosh(const kolo_row *row, float *gradient)
{
    return mean_of(KOLO_FORMULA_LOG_COSH, row, gradient);
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
