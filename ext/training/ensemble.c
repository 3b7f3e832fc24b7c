/* The members of an ensemble, after a kolo_fit() under kolo_ensemble(): their weights, their losses, and the mean of
 * their predictions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "replica/workers.h"

static int size_of(const kolo_model *model)
{
    bool ensemble = model && model->trainer && kolo_model_strategy(model)->ensemble;
    return ensemble ? kolo_workers_members(model->trainer) : 0;
}

int kolo_ensemble_size(const kolo_model *model)
{
    return size_of(model);
}

static kolo_status check_member(const kolo_model *model, int member)
{
    int size = size_of(model);
    if (size == 0)
        return kolo_fail(KOLO_INVALID,
                         "wanted, on rank 0, a model that kolo_fit() has trained under kolo_ensemble(), got another");
    if (member >= 0 && member < size) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a member from 0 to %d, got %d", size - 1, member);
}

static kolo_status copy_member(kolo_model *model, int member, float *weights)
{
    KOLO_TRY(check_member(model, member));
    if (!weights) return kolo_fail(KOLO_INVALID, "weights: wanted room for the member's weights, got NULL");
    kolo_workers_member(model->trainer, member, weights);
    return KOLO_OK;
}

kolo_status kolo_ensemble_weights_at(kolo_model *model, int member, float *weights, kolo_here here)
{
    kolo_model_call call = kolo_model_enter(model, "kolo_ensemble_weights", false, here);
    if (call.status == KOLO_OK) call.status = copy_member(model, member, weights);
    return kolo_model_leave(&call);
}

double kolo_ensemble_loss(const kolo_model *model, int member, int epoch)
{
    return member >= 0 && member < size_of(model) ? kolo_workers_loss(model->trainer, member, epoch) : NAN;
}

/* ---------------------------------------------------------------- the mean of predictions */

/* Adds the members' outputs in their order. The model has each member's weights in turn. */
static kolo_status add_outputs(kolo_model *model, kolo_data *data, float *outputs, float *mean, int64_t count)
{
    int members = size_of(model);
    memset(mean, 0, (size_t)count * sizeof *mean);
    for (int m = 0; m < members; m++) {
        kolo_workers_member(model->trainer, m, model->weights);
        KOLO_TRY(kolo_predict_at(model, data, outputs, (kolo_here){0}));
        for (int64_t i = 0; i < count; i++) mean[i] += outputs[i] / (float)members;
    }
    memcpy(outputs, mean, (size_t)count * sizeof *mean);
    return KOLO_OK;
}

static kolo_status predict(kolo_model *model, kolo_data *data, float *outputs)
{
    KOLO_TRY(check_member(model, 0));
    KOLO_TRY(kolo_model_check_idle(model));
    if (!data) return kolo_fail(KOLO_INVALID, "data: wanted a data set, got NULL");
    int64_t count = data->samples * kolo_shape_count(model->layers[model->output].out);
    size_t bytes = (size_t)model->weight_count * sizeof(float);
    float *mean = malloc((size_t)count * sizeof *mean + 1), *own = malloc(bytes + 1);
    kolo_status status = mean && own ? KOLO_OK : kolo_fail_memory(bytes, "an ensemble's predictions");
    if (status == KOLO_OK) {
        memcpy(own, model->weights, bytes);
        status = add_outputs(model, data, outputs, mean, count);
        memcpy(model->weights, own, bytes);
    }
    free(mean);
    free(own);
    return status;
}

kolo_status kolo_ensemble_predict_at(kolo_model *model, kolo_data *data, float *outputs, kolo_here here)
{
    kolo_model_call call = kolo_model_enter(model, "kolo_ensemble_predict", true, here);
    if (call.status == KOLO_OK) call.status = predict(model, data, outputs);
    return kolo_model_leave(&call);
}
