/* Concatenation along an axis, and slices of it. */
#include "backend/reference/reference.h"

#include <string.h>

/* Elements of a run, which spans the axis and the axes behind it. */
static int64_t run_of(kolo_shape shape, int axis)
{
    int64_t run = 1;
    for (int a = axis; a < shape.rank; a++) run *= shape.dim[a];
    return run;
}

void kolo_reference_concatenate(const kolo_reference_job *job)
{
    kolo_shape out = kolo_reference_out(job, 0);
    int64_t y_run = run_of(out, job->op->axis), runs = job->plan->microbatch * kolo_shape_count(out) / y_run, first = 0;
    double *y = job->out[0];
    for (int i = 0; i < KOLO_OP_INS && job->in[i]; i++) {
        const double *x = job->in[i];
        int64_t run = run_of(kolo_reference_in(job, i), job->op->axis);
        for (int64_t r = 0; r < runs; r++) memcpy(y + r * y_run + first, x + r * run, (size_t)run * sizeof *y);
        first += run;
    }
}

void kolo_reference_slice(const kolo_reference_job *job)
{
    kolo_shape in = kolo_reference_in(job, 0), out = kolo_reference_out(job, 0);
    int64_t x_run = run_of(in, job->op->axis), run = run_of(out, job->op->axis);
    int64_t runs = job->plan->microbatch * kolo_shape_count(in) / x_run;
    const double *x = (const double *)job->in[0] + job->op->first * (x_run / in.dim[job->op->axis]);
    double *y = job->out[0];
    for (int64_t r = 0; r < runs; r++) memcpy(y + r * run, x + r * x_run, (size_t)run * sizeof *y);
}
