/* The modelled time of a training step. See kolo_link_model.h, which has the formula, and link_model.h. */
#include <math.h>

#include "link/link_model.h"

#define BACKWARD_USUAL                                                                                                 \
    (2.0 / 3) /* of a step: a backward pass computes two products where a forward pass computes one */
enum { BUCKETS_MAX = 100000 };

typedef struct step {
    const kolo_modelled_step_args *args;
    kolo_task task;
    double backward; /* seconds */
} step;

static bool is_share(double value)
{
    return value >= 0 && value <= 1;
}

static bool is_time(double value)
{
    return value >= 0 && value <= 1e9;
}

static kolo_status check_numbers(const kolo_modelled_step_args *args)
{
    if (!(args->device_seconds > 0 && args->device_seconds <= 1e9))
        return kolo_fail(KOLO_INVALID, "device_seconds: wanted more than 0, at most 1e9, got %g", args->device_seconds);
    if (!(args->gradient_bytes >= 0 && args->gradient_bytes <= 1e15))
        return kolo_fail(KOLO_INVALID, "gradient_bytes: wanted 0 to 1e15, got %g", args->gradient_bytes);
    if (!is_share(args->backward) && args->backward != KOLO_NONE)
        return kolo_fail(KOLO_INVALID, ".backward: wanted a share from 0 to 1, got %g", args->backward);
    if (!is_share(args->early))
        return kolo_fail(KOLO_INVALID, ".early: wanted a share from 0 to 1, got %g", args->early);
    if (!is_time(args->each_step) || !is_time(args->each_doubling) || !is_time(args->each_device))
        return kolo_fail(KOLO_INVALID, ".each_step, .each_doubling, .each_device: wanted 0 to 1e9, got %g, %g, %g",
                         args->each_step, args->each_doubling, args->each_device);
    if (args->bucket_bytes == 0 || (args->bucket_bytes > 0 && args->gradient_bytes / args->bucket_bytes <= BUCKETS_MAX))
        return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".bucket_bytes: wanted at least a %dth of gradient_bytes, got %g", BUCKETS_MAX,
                     args->bucket_bytes);
}

static kolo_status read_step(const kolo_modelled_step_args *args, step *s)
{
    double share = args->backward == KOLO_NONE ? 0 : args->backward == 0 ? BACKWARD_USUAL : args->backward;
    if (!args->model) return kolo_fail(KOLO_INVALID, "wanted a kolo_link_model, got NULL");
    KOLO_TRY(check_numbers(args));
    *s = (step){.args = args,
                .task = {args->model, args->gradient_bytes, args->devices, KOLO_MODELLED_ALLREDUCE},
                .backward = share * args->device_seconds};
    return kolo_link_check_devices(args->model, &s->task.devices);
}

/* When the first so many bytes are ready, in seconds from the beginning of the step. */
static double ready(const step *s, double bytes)
{
    double early = s->args->early * s->args->gradient_bytes, late = s->args->gradient_bytes - early;
    double share = bytes <= early || late <= 0 ? 0 : (bytes - early) / late;
    return s->args->device_seconds - s->backward * (1 - share);
}

static kolo_status sum_seconds(const step *s, double bytes, double *seconds)
{
    kolo_modelled_time time;
    kolo_task task = s->task;
    task.bytes = bytes;
    KOLO_TRY(kolo_task_time(&task, s->args->algorithm, &time));
    *seconds = time.seconds;
    return KOLO_OK;
}

/* Sums the buckets one after the other. All but the last have the same size, so two sizes are simulated. */
static kolo_status sum_buckets(const step *s, kolo_modelled_step *result)
{
    double all = s->args->gradient_bytes, each = s->args->bucket_bytes, whole, rest, weights = 0, end = 0;
    bool server = s->args->algorithm == KOLO_ALGORITHM_PARAMETER_SERVER;
    if (each == 0 || each > all) each = all;
    int64_t buckets = all > 0 ? (int64_t)ceil(all / each - 1e-9) : 1;
    KOLO_TRY(sum_seconds(s, each, &whole));
    KOLO_TRY(sum_seconds(s, all - (double)(buckets - 1) * each, &rest));
    if (server) { /* half of a sum is the way up; links are as fast in one direction as in the other */
        KOLO_TRY(sum_seconds(s, all, &weights));
        weights /= 2;
    }
    for (int64_t i = 0; i < buckets; i++) {
        bool last = i == buckets - 1;
        double from = ready(s, last ? all : (double)(i + 1) * each), sum = last ? rest : whole;
        end = (from > end ? from : end) + (server ? sum / 2 : sum);
        result->communication += server ? sum / 2 : sum;
    }
    result->communication += weights;
    result->exposed = fmax(end - s->args->device_seconds, 0) + weights;
    return KOLO_OK;
}

static kolo_status model_step(const step *s, kolo_modelled_step *result)
{
    const kolo_modelled_step_args *args = s->args;
    int n = s->task.devices;
    *result = (kolo_modelled_step){.seconds = args->device_seconds};
    if (n > 1) {
        KOLO_TRY(sum_buckets(s, result));
        result->seconds +=
            result->exposed + args->each_step + args->each_doubling * log2(n) + args->each_device * (n - 1);
    }
    result->efficiency = args->device_seconds / result->seconds;
    result->rate = n / result->seconds;
    return KOLO_OK;
}

kolo_modelled_step kolo_link_model_step_at(const kolo_modelled_step_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_link_model_step", here);
    kolo_modelled_step result = {0};
    step s;
    kolo_status status = read_step(args, &s);
    if (status == KOLO_OK) status = model_step(&s, &result);
    if (kolo_leave(scope, status) != KOLO_OK)
        result =
            (kolo_modelled_step){.seconds = NAN, .communication = NAN, .exposed = NAN, .efficiency = NAN, .rate = NAN};
    return result;
}
