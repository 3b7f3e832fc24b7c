/* kolo_standardize and kolo_min_max: features that are shifted and scaled, column by column, by statistics from one
 * pass over a data set. Read view.h first. */
#include "runtime/runtime.h"
#include "core/written.h"
#include "data/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* (x - subtract)·multiply + add, each [elements of a sample]. */
typedef struct scaling {
    kolo_view view;
    float *subtract, *multiply, add;
} scaling;

/* Statistics of a column. `sum` and `squares` are of x - base, where base is the column's first number, so that a
 * mean far from zero costs no precision. */
typedef struct column {
    int64_t count; /* numbers other than NaN */
    double base, sum, squares, least, most;
} column;

/* ------------------------------------------------------------------------------------------ gathering */

static kolo_status gather_scaled(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                 const kolo_gathered *to)
{
    const scaling *s = (const scaling *)data->view;
    int64_t elements = kolo_shape_count(data->shape);
    const float *restrict subtract = s->subtract, *restrict multiply = s->multiply;
    KOLO_TRY(kolo_data_gather(kolo_view_source(data), call, rows, 0, count, to));
    for (int i = 0; to->features && i < count; i++) {
        float *restrict x = to->features + i * elements;
        for (int64_t e = 0; e < elements; e++) x[e] = (x[e] - subtract[e]) * multiply[e] + s->add;
    }
    return KOLO_OK;
}

static void free_scaling(kolo_view *view)
{
    free(((scaling *)view)->subtract);
    free(((scaling *)view)->multiply);
}

static const kolo_view_kind standardized = {.name = "standardized", .gather = gather_scaled, .free = free_scaling},
                            min_max = {.name = "scaled to a range", .gather = gather_scaled, .free = free_scaling};

/* ------------------------------------------------------------------------------------------ statistics */

static kolo_status add_number(column *c, float value, int64_t sample, int64_t number)
{
    if (isnan(value)) return KOLO_OK;
    if (isinf(value))
        return kolo_fail(KOLO_INVALID, "sample %" PRId64 ", feature %" PRId64 ": wanted a finite number, got %g",
                         sample, number, (double)value);
    if (c->count == 0) *c = (column){.base = value, .least = value, .most = value};
    double from_base = (double)value - c->base;
    c->count++;
    c->sum += from_base;
    c->squares += from_base * from_base;
    if (value < c->least) c->least = value;
    if (value > c->most) c->most = value;
    return KOLO_OK;
}

static kolo_status measure_block(const kolo_data *data, int64_t first, int count, int64_t period, float *features,
                                 column *columns)
{
    int64_t elements = kolo_shape_count(data->shape);
    kolo_gather_call call = {.stoppable = true};
    KOLO_TRY(kolo_data_gather(data, &call, NULL, first, count, &(kolo_gathered){.features = features}));
    for (int i = 0; i < count; i++)
        for (int64_t e = 0; e < elements; e++)
            KOLO_TRY(add_number(&columns[e % period], features[i * elements + e], first + i, e));
    return KOLO_OK;
}

static kolo_status measure(const kolo_data *data, int64_t period, column *columns)
{
    size_t bytes = KOLO_VIEW_ROWS * (size_t)kolo_shape_count(data->shape) * sizeof(float);
    float *features = malloc(bytes);
    if (!features) return kolo_fail_memory(bytes, "samples");
    kolo_status status = KOLO_OK;
    for (int64_t at = 0; at < data->samples && status == KOLO_OK; at += KOLO_VIEW_ROWS) {
        int64_t left = data->samples - at;
        status = kolo_stop_requested() ? KOLO_INTERRUPTED : KOLO_OK;
        if (status == KOLO_OK)
            status =
                measure_block(data, at, left < KOLO_VIEW_ROWS ? (int)left : KOLO_VIEW_ROWS, period, features, columns);
    }
    free(features);
    return kolo_obey_stop(status);
}

/* ------------------------------------------------------------------------------------------ making one */

/* The ranges to which columns are scaled. */
typedef struct terms {
    const kolo_view_kind *kind;
    bool per_element;
    double low, high;
} terms;

/* Sets the scaling of one element. A column of equal values has a deviation or range of 0, by which it is not
 * divided. */
static void fill_element(scaling *s, int64_t element, const terms *t, const column *c)
{
    double mean = 0, divisor = c->most - c->least, range = t->high - t->low;
    if (c->count > 0) mean = c->sum / (double)c->count;
    if (t->kind == &standardized) divisor = c->count ? sqrt(fmax(c->squares / (double)c->count - mean * mean, 0)) : 0;
    s->subtract[element] = (float)(t->kind == &standardized ? c->base + mean : c->least);
    s->multiply[element] = divisor > 0 ? (float)(range / divisor) : 1;
}

static kolo_status fill_by(scaling *s, const kolo_data *by, const terms *t)
{
    int64_t elements = kolo_shape_count(by->shape);
    int64_t period = t->per_element ? elements : by->shape.dim[by->shape.rank - 1];
    column *columns = calloc((size_t)period, sizeof *columns);
    if (!columns) return kolo_fail_memory((size_t)period * sizeof *columns, "statistics");
    kolo_status status = measure(by, period, columns);
    for (int64_t e = 0; status == KOLO_OK && e < elements; e++) fill_element(s, e, t, &columns[e % period]);
    free(columns);
    return status;
}

/* The scaling of this kind that made a data set's features; NULL if there is none, or another view changed them after
 * it. */
static const scaling *scaling_of(const kolo_data *data, const kolo_view_kind *kind)
{
    while (data->view && data->view->kind != kind && data->view->kind->keeps_features) data = kolo_view_source(data);
    return data->view && data->view->kind == kind ? (const scaling *)data->view : NULL;
}

static kolo_status open_scaling(const kolo_data *data, const kolo_data *like, const terms *t, kolo_data **out)
{
    size_t bytes = (size_t)kolo_shape_count(data->shape) * sizeof(float);
    if (data->has_tokens) return kolo_fail(KOLO_INVALID, "wanted numbers, got words");
    if (like && !kolo_shape_equal(like->shape, data->shape))
        return kolo_fail(KOLO_INVALID, ".like: wanted samples of %s, got %s", kolo_shape_text(data->shape),
                         kolo_shape_text(like->shape));
    KOLO_TRY(kolo_view_open(t->kind, sizeof(scaling), data, out));
    scaling *s = kolo_view_of(*out);
    s->add = (float)t->low;
    s->subtract = malloc(bytes);
    s->multiply = malloc(bytes);
    return s->subtract && s->multiply ? KOLO_OK : kolo_fail_memory(2 * bytes, "statistics");
}

static kolo_status scale(const kolo_data *data, const kolo_data *like, const terms *t, kolo_data **out)
{
    size_t bytes = (size_t)kolo_shape_count(data->shape) * sizeof(float);
    KOLO_TRY(open_scaling(data, like, t, out));
    scaling *s = kolo_view_of(*out);
    const scaling *known = like ? scaling_of(like, t->kind) : NULL;
    if (!known) return fill_by(s, like ? like : data, t);
    memcpy(s->subtract, known->subtract, bytes);
    memcpy(s->multiply, known->multiply, bytes);
    s->add = known->add;
    return KOLO_OK;
}

kolo_data *kolo_standardize_at(const kolo_standardize_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_standardize", here);
    const terms t = {.kind = &standardized, .per_element = args->per_element, .high = 1};
    return kolo_view_leave(scope, scale(args->data, args->like, &t, &data), &data);
}

/* ------------------------------------------------------------------------------------------ kolo_min_max */

static double number_or(double given, double missing)
{
    return given == KOLO_NONE ? 0 : given == 0 ? missing : given;
}

static kolo_status fit_range(const kolo_min_max_args *args, kolo_data **out)
{
    double high = args->high;
    kolo_keep_zero(args->_, "high", &high);
    terms t = {&min_max, args->per_element, number_or(args->low, 0), number_or(high, 1)};
    double from_low = number_or(args->from_low, 0), from_high = number_or(args->from_high, 0);
    if (!(isfinite(t.low) && isfinite(t.high) && t.low < t.high))
        return kolo_fail(KOLO_INVALID, "wanted .low below .high, got %g and %g", t.low, t.high);
    bool given = args->from_low != 0 || args->from_high != 0 || kolo_written(args->_, "from_high");
    if (!given) return scale(args->data, args->like, &t, out);
    if (!(isfinite(from_low) && isfinite(from_high) && from_low < from_high))
        return kolo_fail(KOLO_INVALID, "wanted .from_low below .from_high, got %g and %g", from_low, from_high);
    if (args->like) return kolo_fail(KOLO_INVALID, "wanted .like or .from_high, got both");
    KOLO_TRY(open_scaling(args->data, NULL, &t, out));
    const column all = {.count = 1, .least = from_low, .most = from_high};
    for (int64_t e = 0; e < kolo_shape_count(args->data->shape); e++) fill_element(kolo_view_of(*out), e, &t, &all);
    return KOLO_OK;
}

kolo_data *kolo_min_max_at(const kolo_min_max_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_min_max", here);
    return kolo_view_leave(scope, fit_range(args, &data), &data);
}
