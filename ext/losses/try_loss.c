/* Tries a loss when a model is compiled, since a gradient that its row() does not write would be whatever the memory
 * held before. Read losses/loss.h first. */
#include "core/error.h"
#include "losses/formulas.h"
#include "losses/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A NaN that no formula computes. */
static const uint32_t unwritten = 0x7FC0A5C3;

static bool is_unwritten(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == unwritten;
}

/* Outputs below 1, and the targets of class 0. */
static void fill(float *outputs, float *targets, float *gradient, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        outputs[i] = 0.25f + 0.5f / (float)(i + 2);
        targets[i] = i == 0;
        memcpy(&gradient[i], &unwritten, sizeof unwritten);
    }
}

static kolo_status try_row(const kolo_loss *loss, int64_t count, float *room)
{
    float *outputs = room, *targets = room + count, *gradient = room + 2 * count;
    fill(outputs, targets, gradient, count);
    kolo_row row = {.outputs = outputs, .count = count, .targets = targets, .number = loss->number};
    double value = loss->kind->row(&row, gradient);
    for (int64_t i = 0; i < count; i++)
        if (is_unwritten(gradient[i]))
            return kolo_fail(KOLO_INVALID,
                             "wanted a row() that writes gradient[0] to gradient[%lld], got nothing in [%lld]",
                             (long long)count - 1, (long long)i);
    if (!isnan(value) || kolo_loss_formula(loss->kind) == KOLO_FORMULA_NONE) return KOLO_OK;
    return kolo_fail(KOLO_INTERNAL, "wanted a case for its formula in kolo_mean_part() of losses/rows.h, got NaN");
}

kolo_status kolo_loss_try(const kolo_loss *loss, int64_t outputs)
{
    size_t bytes = 3 * (size_t)outputs * sizeof(float);
    float *room = malloc(bytes);
    if (!room) return kolo_fail_memory(bytes, "a loss");
    kolo_status status = try_row(loss, outputs, room);
    free(room);
    return status;
}
