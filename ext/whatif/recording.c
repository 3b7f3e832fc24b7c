/* What a replay takes from a timeline: see recording.h. */
#include "whatif/recording.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/median.h"
#include "whatif/events.h"

#define MOST_TIMES (1 << 26) /* of layers in all steps: half a gigabyte */
#define LARGE      65536 /* bytes of a sum whose time is that of its bytes, not of its messages */

/* A step of the row "device 0". */
typedef struct step {
    int number;
    double begin, end, next; /* next: the begin of the following step; NaN: there is none */
    double backward_end;     /* the last end of a backward event in any thread of the device; -INFINITY: none */
    double outside[2];       /* seconds of waits and sums until then, and behind it */
    int samples, microbatches;
} step;

typedef struct reading {
    const char *path;
    kolo_recorded_events events;
    step *steps; /* [count], in the order of time */
    size_t count, first; /* first: the first one that counts */
    double *complete;    /* [count][names] when a layer's last backward event ends; 0: it has none */
    double *bytes;       /* [names] of a layer's gradient */
    double *sorted;      /* [most of the counts] for medians */
} reading;

static kolo_status lacks(const reading *r, const char *what)
{
    return kolo_fail(KOLO_FORMAT, "%s: wanted a timeline with %s, got one without", r->path, what);
}

static double quantile(const double *ascending, size_t count, double share)
{
    double at = share * (double)(count - 1), below = floor(at);
    size_t i = (size_t)below;
    if (i + 1 >= count) return ascending[count - 1];
    return ascending[i] + (at - below) * (ascending[i + 1] - ascending[i]);
}

/* ---------------------------------------------------------------- steps */

static kolo_status allocate(reading *r)
{
    size_t steps = r->count + 1, names = r->events.name_count + 1, events = r->events.count + 1;
    if (steps > MOST_TIMES / names)
        return kolo_fail(KOLO_UNSUPPORTED, "%s: wanted at most %d times of layers in steps, got %zu steps of %zu names",
                         r->path, MOST_TIMES, steps - 1, names - 1);
    r->steps = calloc(steps, sizeof *r->steps);
    r->complete = calloc(steps * names, sizeof *r->complete);
    r->bytes = calloc(names, sizeof *r->bytes);
    r->sorted = calloc(events, sizeof *r->sorted);
    if (r->steps && r->complete && r->bytes && r->sorted) return KOLO_OK;
    return kolo_fail_memory(steps * names * sizeof *r->complete, "a timeline");
}

static bool is_step(const reading *r, const kolo_recorded_event *event)
{
    return event->span == KOLO_SPAN_STEP && event->thread == r->events.main_row && event->step >= 0;
}

static kolo_status find_steps(reading *r)
{
    const kolo_recorded_events *events = &r->events;
    if (events->devices > 1)
        return kolo_fail(KOLO_UNSUPPORTED, "%s: wanted a timeline of one device a rank, got %d devices of rank 0",
                         r->path, events->devices);
    for (size_t i = 0; i < events->count; i++) r->count += is_step(r, &events->event[i]);
    if (r->count == 0) return lacks(r, "the training steps of a device");
    KOLO_TRY(allocate(r));
    r->count = 0;
    for (size_t i = 0; i < events->count; i++) {
        const kolo_recorded_event *event = &events->event[i];
        if (!is_step(r, event)) continue;
        if (r->count > 0 && event->step == r->steps[r->count - 1].number + 1)
            r->steps[r->count - 1].next = event->begin;
        r->steps[r->count++] = (step){.number = event->step,
                                      .begin = event->begin,
                                      .end = event->end,
                                      .next = NAN,
                                      .backward_end = -INFINITY,
                                      .samples = event->number};
    }
    r->first = r->count > 1 ? (r->count + 9) / 10 : 0;
    return KOLO_OK;
}

/* The step that an event is in, by its time; NULL: it is in none. Trainings of one program may number steps alike. */
static step *step_of(const reading *r, const kolo_recorded_event *event)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->steps[middle].begin <= event->begin) low = middle + 1;
        else high = middle;
    }
    return low > 0 && event->begin < r->steps[low - 1].end ? &r->steps[low - 1] : NULL;
}

/* ---------------------------------------------------------------- the backward pass */

static void see_backward(reading *r, const kolo_recorded_event *event)
{
    step *in = step_of(r, event);
    if (!in) return;
    double *complete = &r->complete[(size_t)(in - r->steps) * r->events.name_count + (size_t)event->name];
    if (event->end > *complete) *complete = event->end;
    if (event->end > in->backward_end) in->backward_end = event->end;
    if (event->number + 1 > in->microbatches) in->microbatches = event->number + 1;
    if (event->bytes > r->bytes[event->name]) r->bytes[event->name] = event->bytes;
}

/* Whether the device does not compute in the meantime. Where its first thread waits for the others, these compute. */
static bool is_outside(const reading *r, const kolo_recorded_event *event)
{
    if (event->span == KOLO_SPAN_WAIT) return strcmp(r->events.names[event->name], "wait for threads") != 0;
    return event->span == KOLO_SPAN_REDUCE || event->span == KOLO_SPAN_COLLECTIVE;
}

/* Waits and sums may overlap, so the time outside of computing is that of their union. */
static void see_outside(reading *r)
{
    const kolo_recorded_events *events = &r->events;
    double covered = -INFINITY;
    for (size_t i = 0; i < events->count; i++) {
        const kolo_recorded_event *event = &events->event[i];
        bool outside = event->thread == events->main_row && is_outside(r, event);
        step *in = outside ? step_of(r, event) : NULL;
        if (!in || event->end <= covered) continue;
        double begin = fmax(event->begin, covered), middle = fmin(fmax(in->backward_end, begin), event->end);
        in->outside[0] += middle - begin;
        in->outside[1] += event->end - middle;
        covered = event->end;
    }
}

static kolo_status see_events(reading *r)
{
    for (size_t i = 0; i < r->events.count; i++)
        if (r->events.event[i].span == KOLO_SPAN_BACKWARD) see_backward(r, &r->events.event[i]);
    for (size_t i = r->first; i < r->count; i++) {
        if (!isfinite(r->steps[i].backward_end))
            return lacks(r, r->events.enqueues ? "backward events (a GPU computes later than a timeline shows)"
                                               : "backward events in each step");
        if (r->steps[i].samples < 1) return lacks(r, "the samples of each step: one that this version recorded");
    }
    see_outside(r);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- what a replay needs */

static kolo_status fill_steps(reading *r, kolo_recording *made)
{
    size_t count = r->count - r->first, gaps = 0;
    const step *usual = &r->steps[r->first + count / 2];
    double update, gap;
    made->computing = calloc(count + 1, sizeof *made->computing);
    if (!made->computing) return kolo_fail_memory(count * sizeof *made->computing, "a timeline");
    made->samples = usual->samples;
    made->microbatches = usual->microbatches > 0 ? usual->microbatches : 1;
    for (size_t i = r->first; i < r->count; i++) { /* the last batch of an epoch may be smaller */
        const step *s = &r->steps[i];
        if (s->samples != made->samples) continue;
        made->computing[made->steps] = s->backward_end - s->begin - s->outside[0];
        r->sorted[made->steps++] = s->end - s->backward_end - s->outside[1];
    }
    kolo_sort_numbers(made->computing, made->steps);
    update = kolo_median(r->sorted, made->steps);
    for (size_t i = r->first; i < r->count; i++)
        if (!isnan(r->steps[i].next)) r->sorted[gaps++] = r->steps[i].next - r->steps[i].end;
    gap = gaps > 0 ? kolo_median(r->sorted, gaps) : 0;
    made->update = fmax(update, 0) + fmax(gap, 0);
    return KOLO_OK;
}

static int compare_gradients(const void *one, const void *other)
{
    const kolo_recorded_gradient *a = one, *b = other;
    return (a->before_end < b->before_end) - (a->before_end > b->before_end);
}

static double before_end(reading *r, size_t name, int samples)
{
    size_t count = 0;
    for (size_t i = r->first; i < r->count; i++) {
        double complete = r->complete[i * r->events.name_count + name];
        if (complete > 0 && r->steps[i].samples == samples) r->sorted[count++] = r->steps[i].backward_end - complete;
    }
    return count > 0 ? kolo_median(r->sorted, count) : 0;
}

static kolo_status fill_gradients(reading *r, kolo_recording *made)
{
    size_t names = r->events.name_count;
    made->gradients = calloc(names + 1, sizeof *made->gradients);
    if (!made->gradients) return kolo_fail_memory(names * sizeof *made->gradients, "a timeline");
    for (size_t n = 0; n < names; n++) {
        if (r->bytes[n] <= 0) continue;
        kolo_recorded_gradient *gradient = &made->gradients[made->count++];
        *gradient = (kolo_recorded_gradient){.bytes = r->bytes[n], .before_end = before_end(r, n, made->samples)};
        snprintf(gradient->name, sizeof gradient->name, "%s", r->events.names[n]);
    }
    if (made->count == 0) return lacks(r, "the bytes of gradients: one that this version recorded");
    qsort(made->gradients, made->count, sizeof *made->gradients, compare_gradients);
    return KOLO_OK;
}

/* The rate of large sums, in any thread of rank 0, without what they wait for other ranks. */
static double sum_rate(reading *r)
{
    const kolo_recorded_events *events = &r->events;
    size_t count = 0;
    for (size_t i = 0; events->ranks > 1 && i < events->count; i++) {
        const kolo_recorded_event *event = &events->event[i];
        bool sum = event->span == KOLO_SPAN_REDUCE && strcmp(events->names[event->name], "allreduce") == 0;
        double seconds = event->end - event->begin;
        if (!sum || event->bytes < LARGE) continue;
        for (size_t k = i + 1;
             k < events->count && events->event[k].thread == event->thread && events->event[k].begin < event->end; k++)
            if (events->event[k].span == KOLO_SPAN_WAIT) seconds -= events->event[k].end - events->event[k].begin;
        if (seconds > 0) r->sorted[count++] = event->bytes / seconds;
    }
    return kolo_median(r->sorted, count);
}

static kolo_status read_all(reading *r, kolo_recording *made)
{
    KOLO_TRY(kolo_recorded_events_read(r->path, &r->events));
    KOLO_TRY(find_steps(r));
    KOLO_TRY(see_events(r));
    KOLO_TRY(fill_steps(r, made));
    KOLO_TRY(fill_gradients(r, made));
    made->ranks = r->events.ranks;
    made->cores = r->events.cores > 0 ? r->events.cores : 1;
    made->threads = r->events.threads > 0 ? r->events.threads : 1;
    made->sum_rate = sum_rate(r);
    if (made->computing[0] > 0) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted steps that compute, got one in which waits and sums take all the time",
                     r->path);
}

kolo_status kolo_recording_read(const char *path, kolo_recording *recording)
{
    reading r = {.path = path};
    *recording = (kolo_recording){0};
    kolo_status status = read_all(&r, recording);
    kolo_recorded_events_close(&r.events);
    free(r.steps);
    free(r.complete);
    free(r.bytes);
    free(r.sorted);
    return status;
}

void kolo_recording_close(kolo_recording *recording)
{
    free(recording->computing);
    free(recording->gradients);
    *recording = (kolo_recording){0};
}

double kolo_recording_bytes(const kolo_recording *recording)
{
    double bytes = 0;
    for (size_t i = 0; i < recording->count; i++) bytes += recording->gradients[i].bytes;
    return bytes;
}

double kolo_recording_quantile(const kolo_recording *recording, double share)
{
    return quantile(recording->computing, recording->steps, share);
}
