/* The borders of a plan: features come in, the loss goes out. */
#include "backend/onednn/onednn.h"

/* The layout of the network's input is what its reader would like, so that no other step reorders it. */
kolo_status kolo_onednn_input(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    dnnl_memory_desc_t features, wish;
    kolo_place x, from;
    KOLO_TRY(kolo_desc_plain(plan, op->in[0], dnnl_f32, &features));
    KOLO_TRY(kolo_layout_set(plan, op->in[0], &features));
    KOLO_TRY(kolo_desc_plain(plan, op->out[0], kolo_onednn_type(plan, op->out[0]), &wish));
    for (int i = 0; i < plan->op_count; i++) {
        const kolo_op *reader = &plan->ops[i];
        if (reader->kind == KOLO_OP_CONV2D && reader->in[0] == op->out[0]) {
            KOLO_TRY(kolo_conv2d_wish(plan, reader, &wish));
        }
    }
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &wish));
    from = kolo_place_of(kernel, op->in[0]);
    x = kolo_place_of(kernel, op->out[0]);
    return kolo_step_reorder(kernel, &from, &x);
}

static void compute_loss(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    int64_t outputs = step->elements / kernel->plan->leaf;
    float *gradient = step->count > 1 ? kolo_place_pointer(&step->place[1], call) : NULL;
    kolo_host_loss(kernel->plan, call, kolo_place_pointer(&step->place[0], call), outputs, gradient);
}

kolo_status kolo_onednn_loss(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    bool trained = op->out[0] >= 0;
    kolo_place places[2] = {kolo_place_of(kernel, op->in[0])};
    if (trained) {
        KOLO_TRY(kolo_layout_set(plan, op->out[0], &places[0].desc));
        places[1] = kolo_place_of(kernel, op->out[0]);
    }
    return kolo_step_own(kernel, compute_loss, trained ? 2 : 1, places) ? KOLO_OK : KOLO_INTERNAL;
}
