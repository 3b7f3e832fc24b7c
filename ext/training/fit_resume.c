/* The line that a resumed fit prints: where it continues, and which settings have changed. See fit.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training/fit.h"

/* A line under construction. ": " comes before the first difference, ", " before the others. */
typedef struct line {
    char text[PATH_MAX + 1024];
    int differences;
} line;

static void add(line *l, const char *text)
{
    size_t length = strlen(l->text);
    snprintf(l->text + length, sizeof l->text - length, "%s", text);
}

static void add_difference(line *l, const char *text)
{
    add(l, l->differences++ ? ", " : ": ");
    add(l, text);
}

/* Adds the learning rate if it differs from the compiled one. A schedule computes the rate itself. */
static void add_rate(line *l, const kolo_model *model)
{
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    double wanted = kolo_optimizer_rate(optimizer, 0);
    if (optimizer->common.schedule.kind || wanted == model->compiled_rate) return;
    add_difference(l, kolo_phrase("a learning rate of %g instead of %g", model->learning_rate, wanted));
}

static void add_differences(line *l, const kolo_fit_state *state)
{
    const kolo_model *model = state->model;
    const kolo_position *at = &model->position;
    uint64_t seed = model->settings.seed;
    long long batch = state->batch, samples = state->data->samples;
    if (seed != KOLO_NEW_SEED && seed != model->seed)
        add_difference(l, kolo_phrase("seed %llu instead of %llu", (unsigned long long)model->seed,
                                      (unsigned long long)seed));
    add_rate(l, model);
    if (at->batch && at->batch != batch)
        add_difference(l, kolo_phrase("steps of %lld samples instead of %lld", batch, (long long)at->batch));
    if (at->samples && at->samples != samples)
        add_difference(l, kolo_phrase("%lld samples in the data instead of %lld", samples, (long long)at->samples));
}

/* "Goes on with epoch 2/6, 5/10 steps done, from backup/backup.safetensors: seed 5 instead of 7": the value in use
 * comes first. */
void kolo_fit_tell_resume(kolo_fit_state *state)
{
    kolo_model *model = state->model;
    const kolo_position *at = &model->position;
    line l = {{0}, 0};
    if (!model->resumed) return;
    add(&l, kolo_phrase("Goes on with epoch %d/%d", at->epoch + 1, state->epochs));
    if (at->step) add(&l, kolo_phrase(", %d/%d steps done", at->step, state->steps));
    if (state->epoch_anew) add(&l, ", which begins anew");
    if (model->checkpoint) {
        add(&l, at->step || state->epoch_anew ? ", from " : " from ");
        add(&l, model->checkpoint);
    }
    if (model->checkpoint || state->epoch_anew) add_differences(&l, state);
    kolo_progress_say(&state->progress, l.text);
    free(model->checkpoint);
    model->checkpoint = NULL;
}
