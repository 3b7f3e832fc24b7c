/* The steps of an operation y = x ∘ kernel + bias, where ∘ is a convolution, a transposed convolution or a product of
 * matrices: forward, for the input gradient, and for the weight gradient. The caller has the descriptor of the
 * primitive; these functions set its operands and their layouts. */
#include "backend/onednn/onednn.h"

#include <string.h>

static const dnnl_memory_desc_t *query(dnnl_primitive_desc_t descriptor, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(descriptor, what, 0);
}

static bool has_name(const_dnnl_primitive_desc_t descriptor, const char *begin)
{
    const char *name = NULL;
    dnnl_status_t status = dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, (void *)&name);
    return status == dnnl_success && name && strncmp(name, begin, strlen(begin)) == 0;
}

/* Takes the first of oneDNN's implementations, the fastest one, whose name does not begin with `avoided`. */
static dnnl_status_t find_implementation(const void *operation, const_dnnl_primitive_attr_t attributes,
                                         const_dnnl_primitive_desc_t forward, const char *avoided,
                                         dnnl_primitive_desc_t *made)
{
    dnnl_primitive_desc_iterator_t all;
    dnnl_status_t status =
        dnnl_primitive_desc_iterator_create(&all, operation, attributes, kolo_onednn_engine(), forward);
    if (status != dnnl_success) return status;
    for (; status == dnnl_success; status = dnnl_primitive_desc_iterator_next(all)) {
        *made = dnnl_primitive_desc_iterator_fetch(all);
        if (!*made) status = dnnl_out_of_memory;
        if (!*made || !has_name(*made, avoided)) break;
        dnnl_primitive_desc_destroy(*made);
        *made = NULL;
    }
    dnnl_primitive_desc_iterator_destroy(all);
    return status == dnnl_iterator_ends ? dnnl_unimplemented : status;
}

kolo_status kolo_describe_without(const char *avoided, const void *operation, bool relu,
                                  const_dnnl_primitive_desc_t forward, const char *what, dnnl_primitive_desc_t *made)
{
    dnnl_primitive_attr_t attributes;
    KOLO_TRY(kolo_attributes(relu, &attributes));
    dnnl_status_t status = avoided
                               ? find_implementation(operation, attributes, forward, avoided, made)
                               : dnnl_primitive_desc_create(made, operation, attributes, kolo_onednn_engine(), forward);
    dnnl_primitive_attr_destroy(attributes);
    return kolo_onednn_check(status, what);
}

kolo_status kolo_describe(const void *operation, bool relu, const_dnnl_primitive_desc_t forward, const char *what,
                          dnnl_primitive_desc_t *made)
{
    return kolo_describe_without(NULL, operation, relu, forward, what, made);
}

kolo_status kolo_describe_backward(const void *operation, dnnl_primitive_desc_t forward, const char *what,
                                   dnnl_primitive_desc_t *made)
{
    kolo_status status = kolo_describe(operation, false, forward, what, made);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

/* Sets the layouts of kernel and bias, or of their gradients. desc: of the kernel in the primitive; bias may be -1. */
static kolo_status set_parameters(const kolo_product *p, const dnnl_memory_desc_t *desc, int kernel, int bias)
{
    KOLO_TRY(kolo_layout_set_parameter(p->plan, kernel, desc, p->canonical, p->rows));
    return bias < 0 ? KOLO_OK : kolo_layout_set_parameter(p->plan, bias, p->bias, p->bias, NULL);
}

/* ---- rounds */

/* The part of a whole operand that a round computes. */
static kolo_operand part_of(const kolo_product *p, kolo_operand whole, const dnnl_memory_desc_t *desc)
{
    whole.desc = *desc;
    if (p->rounds > 1) whole.advance = dnnl_memory_desc_get_size(desc);
    return whole;
}

/* Makes the steps from number `from` on run in all rounds. */
static void in_rounds(const kolo_product *p, int from)
{
    if (p->rounds <= 1) return;
    p->kernel->rounds = p->rounds;
    for (int s = from; s < p->kernel->step_count; s++) p->kernel->step[s].to = p->rounds;
}

/* ---- the steps */

kolo_status kolo_product_forward(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand x, int kernel,
                                 int bias, int y)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    const dnnl_memory_desc_t written = kolo_desc_of_rounds(query(made, dnnl_query_dst_md), p->rounds);
    const dnnl_memory_desc_t read = kolo_desc_of_rounds(query(made, dnnl_query_src_md), p->rounds);
    const dnnl_memory_desc_t of_round = *query(made, dnnl_query_dst_md);
    kolo_operand operands[4], whole_y;
    kolo_status status;
    KOLO_GO(fail, kolo_layout_set(p->plan, y, &written));
    KOLO_GO(fail, set_parameters(p, query(made, dnnl_query_weights_md), kernel, bias));
    KOLO_GO(fail, kolo_reorder_in(p->kernel, x, &read, &operands[0]));
    operands[0] = part_of(p, operands[0], query(made, dnnl_query_src_md));
    operands[1] = kolo_operand_of(p->kernel, kernel);
    whole_y = kolo_output_buffer(p->kernel, y, &written);
    operands[2] = part_of(p, whole_y, &of_round);
    if (bias >= 0) operands[3] = kolo_operand_of(p->kernel, bias);
    int first = p->kernel->step_count;
    KOLO_TRY(kolo_step_primitive(p->kernel, made, bias >= 0 ? 4 : 3, arguments, operands));
    if (p->relu_behind) KOLO_TRY(kolo_bias_add(p->kernel, operands[2], -1, true, operands[2]));
    in_rounds(p, first);
    first = p->kernel->step_count;
    KOLO_TRY(kolo_reorder_out(p->kernel, whole_y, y));
    kolo_steps_last(p->kernel, first);
    return KOLO_OK;
fail:
    dnnl_primitive_desc_destroy(made);
    return status;
}

kolo_status kolo_product_backward(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand dz, int kernel,
                                  kolo_operand dx)
{
    const int arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    const dnnl_memory_desc_t read = kolo_desc_of_rounds(query(made, dnnl_query_diff_dst_md), p->rounds);
    kolo_operand operands[3];
    kolo_status status;
    KOLO_GO(fail, set_parameters(p, query(made, dnnl_query_weights_md), kernel, -1));
    KOLO_GO(fail, kolo_reorder_in(p->kernel, dz, &read, &operands[0]));
    operands[1] = kolo_operand_of(p->kernel, kernel);
    operands[0] = part_of(p, operands[0], query(made, dnnl_query_diff_dst_md));
    operands[2] = part_of(p, dx, query(made, dnnl_query_diff_src_md));
    int first = p->kernel->step_count;
    KOLO_TRY(kolo_step_primitive(p->kernel, made, 3, arguments, operands));
    in_rounds(p, first);
    return KOLO_OK;
fail:
    dnnl_primitive_desc_destroy(made);
    return status;
}

kolo_status kolo_product_gradient(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand x, kolo_operand dz,
                                  int dkernel, int dbias)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};
    kolo_operand operands[4];
    kolo_status status;
    KOLO_GO(fail, set_parameters(p, query(made, dnnl_query_diff_weights_md), dkernel, dbias));
    KOLO_GO(fail, kolo_reorder_in(p->kernel, x, query(made, dnnl_query_src_md), &operands[0]));
    KOLO_GO(fail, kolo_reorder_in(p->kernel, dz, query(made, dnnl_query_diff_dst_md), &operands[1]));
    operands[2] = kolo_operand_of(p->kernel, dkernel);
    if (dbias >= 0) operands[3] = kolo_operand_of(p->kernel, dbias);
    return kolo_step_primitive(p->kernel, made, dbias >= 0 ? 4 : 3, arguments, operands);
fail:
    dnnl_primitive_desc_destroy(made);
    return status;
}
