/* The fully connected layer as a product of matrices.
 *
 * A flattened image keeps its tiling: the columns of the matrix x are then its elements in the order of memory, and the
 * kernel's rows are packed in that order. So only the weights are reordered, once for each update.
 */
#include "backend/onednn/onednn.h"

typedef struct product {
    bool flat;         /* x: one row a sample, in the order of its tiling; else several, canonical */
    kolo_tiling order; /* of the columns of x, if flat */
    int64_t rows, inputs, units;
    dnnl_memory_desc_t x, kernel, bias, y; /* as oneDNN gets them */
    dnnl_memory_desc_t plain_kernel;       /* [inputs][units], float32; its gradient has it, too */
} product;

static kolo_status product_of(const kolo_plan *plan, int x, kolo_shape kernel, dnnl_data_type_t y_type, product *p)
{
    dnnl_data_type_t type = kolo_activation_type(plan);
    kolo_shape shape = plan->values[x].shape;
    p->flat = shape.rank == 1;
    p->rows = plan->microbatch * (kolo_shape_count(shape) / kernel.dim[0]);
    p->inputs = kernel.dim[0];
    p->units = kernel.dim[1];
    if (p->flat && !kolo_tiling_of(&kolo_layout_of(plan, x)->desc, &p->order)) {
        return kolo_fail(KOLO_INTERNAL, "a flattened image whose layout is no tiling");
    }
    if (p->flat) p->inputs = kolo_tiling_count(p->order);
    dnnl_dims_t weights = {p->units, p->inputs}, bias = {p->units};
    KOLO_TRY(kolo_desc_rows(p->rows, p->inputs, type, &p->x));
    KOLO_TRY(kolo_desc_rows(p->rows, p->units, y_type, &p->y));
    KOLO_DNNL(dnnl_memory_desc_init_by_tag(&p->kernel, 2, weights, type, dnnl_format_tag_any), "a kernel");
    KOLO_DNNL(dnnl_memory_desc_init_by_tag(&p->plain_kernel, 2, weights, dnnl_f32, dnnl_ba), "a kernel");
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(&p->bias, 1, bias, dnnl_f32, dnnl_a), "a bias");
}

static kolo_status describe_forward(const kolo_plan *plan, const product *p, bool bias, bool relu,
                                    dnnl_primitive_desc_t *made)
{
    dnnl_inner_product_desc_t operation;
    dnnl_prop_kind_t kind = plan->training ? dnnl_forward_training : dnnl_forward_inference;
    KOLO_DNNL(dnnl_inner_product_forward_desc_init(&operation, kind, &p->x, &p->kernel, bias ? &p->bias : NULL, &p->y),
              "a dense layer");
    return kolo_describe(&operation, relu, NULL, "a dense layer", made);
}

/* *operand becomes x as the matrix of the product. If flat, a sample's elements form its row in the order of memory. */
static kolo_status rows_of(kolo_kernel *kernel, int x, const product *p, kolo_operand *operand)
{
    *operand = kolo_operand_of(kernel, x);
    if (!p->flat) KOLO_TRY(kolo_plain_in(kernel, x, operand->desc.data_type, operand));
    return kolo_desc_rows(p->rows, p->inputs, operand->desc.data_type, &operand->desc);
}

static kolo_product steps_of(kolo_kernel *kernel, kolo_plan *plan, const product *p)
{
    return (kolo_product){.kernel = kernel,
                          .plan = plan,
                          .canonical = &p->plain_kernel,
                          .bias = &p->bias,
                          .rows = p->flat ? &p->order : NULL};
}

kolo_status kolo_onednn_dense(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    product p;
    dnnl_primitive_desc_t forward;
    dnnl_memory_desc_t y;
    dnnl_data_type_t type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(kolo_desc_plain(plan, op->out[0], type, &y));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &y));
    KOLO_TRY(product_of(plan, op->in[0], plan->values[op->in[1]].shape, type, &p));
    kolo_operand x;
    KOLO_TRY(rows_of(kernel, op->in[0], &p, &x));
    KOLO_TRY(describe_forward(plan, &p, op->in[2] >= 0, op->activation == KOLO_RELU, &forward));
    const kolo_product steps = steps_of(kernel, plan, &p);
    return kolo_product_forward(&steps, forward, x, op->in[1], op->in[2], op->out[0]);
}

/* ---- backward */

/* dK = xᵀ·dz and db = Σ dz. */
static kolo_status add_by_kernel(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const product *p,
                                 dnnl_primitive_desc_t forward, kolo_operand dz)
{
    dnnl_inner_product_desc_t operation;
    dnnl_primitive_desc_t made;
    kolo_operand x;
    KOLO_TRY(rows_of(kernel, op->in[2], p, &x));
    KOLO_DNNL(dnnl_inner_product_backward_weights_desc_init(&operation, &p->x, &p->plain_kernel,
                                                            op->out[2] >= 0 ? &p->bias : NULL, &p->y),
              "a dense kernel's gradient");
    KOLO_TRY(kolo_describe(&operation, false, forward, "a dense kernel's gradient", &made));
    const kolo_product steps = steps_of(kernel, plan, p);
    return kolo_product_gradient(&steps, made, x, dz, op->out[1], op->out[2]);
}

/* dx = dz·Kᵀ, in the layout of x. */
static kolo_status add_by_x(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const product *p,
                            dnnl_primitive_desc_t forward, kolo_operand dz)
{
    dnnl_inner_product_desc_t operation;
    dnnl_primitive_desc_t made;
    dnnl_memory_desc_t dx = kolo_layout_of(plan, op->in[2])->desc;
    if (!p->flat) KOLO_TRY(kolo_desc_plain(plan, op->out[0], p->x.data_type, &dx));
    dx.data_type = p->x.data_type;
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &dx));
    KOLO_DNNL(dnnl_inner_product_backward_data_desc_init(&operation, &p->x, &p->kernel, &p->y),
              "a dense input's gradient");
    KOLO_TRY(kolo_describe(&operation, false, forward, "a dense input's gradient", &made));
    const kolo_product steps = steps_of(kernel, plan, p);
    kolo_operand result = kolo_output_buffer(kernel, op->out[0], &dx);
    KOLO_TRY(kolo_product_backward(&steps, made, dz, op->in[3], result));
    return kolo_reorder_out(kernel, result, op->out[0]);
}

kolo_status kolo_onednn_dense_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    product p;
    dnnl_primitive_desc_t forward;
    kolo_operand dz;
    dnnl_data_type_t type = kolo_activation_type(plan);
    KOLO_TRY(product_of(plan, op->in[2], plan->values[op->out[1]].shape, type, &p));
    KOLO_TRY(kolo_relu_backward(kernel, op, &dz));
    KOLO_TRY(kolo_reorder_in(kernel, dz, &p.y, &dz));
    KOLO_TRY(describe_forward(plan, &p, op->out[2] >= 0, false, &forward));
    kolo_status status = add_by_kernel(kernel, plan, op, &p, forward, dz);
    if (status == KOLO_OK && op->out[0] >= 0) status = add_by_x(kernel, plan, op, &p, forward, dz);
    dnnl_primitive_desc_destroy(forward);
    return status;
}
