/* L2 regularisation of layers with .l2 (Krogh and Hertz 1991). As in Keras, λ Σ w² is added to the loss in training and
 * evaluation, and 2λw to the gradient. Read model/model.h first. */
#include "model/model.h"

double kolo_model_penalty(const kolo_model *model, const float *weights)
{
    double penalty = 0;
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        int64_t count = parameter->l2 > 0 ? kolo_shape_count(parameter->shape) : 0;
        const float *w = weights + parameter->offset;
        double sum = 0;
        for (int64_t i = 0; i < count; i++) sum += (double)w[i] * (double)w[i];
        penalty += parameter->l2 * sum;
    }
    return penalty;
}

void kolo_model_add_penalty_gradient(const kolo_model *model, const float *weights, float *gradient)
{
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        int64_t first = parameter->offset, end = first + kolo_shape_count(parameter->shape);
        for (int64_t i = first; parameter->l2 > 0 && i < end; i++)
            gradient[i] += (float)(2 * parameter->l2 * (double)weights[i]);
    }
}
