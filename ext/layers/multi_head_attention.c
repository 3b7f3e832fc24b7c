/* Multi-head self-attention: x is projected to queries, keys and values, each head attends, and the heads' outputs are
 * projected back. Vaswani et al. 2017, "Attention is all you need", section 3.2. The projections are dense operations;
 * one operation computes queries, keys and values. */
#include "layers/common.h"

/* Indices into node->parameters if there are biases. Without biases the kernels are 0 and 1. */
enum { QKV_KERNEL, QKV_BIAS, OUTPUT_KERNEL, OUTPUT_BIAS };

static int key_size(const kolo_layer_node *node)
{
    const kolo_multi_head_attention_args *args = &node->recipe.multi_head_attention;
    return args->key_size ? args->key_size : node->in.dim[1] / args->heads;
}

/* The size of the queries of all heads together. */
static int width(const kolo_layer_node *node)
{
    return node->recipe.multi_head_attention.heads * key_size(node);
}

static kolo_shape rows(const kolo_layer_node *node, int columns)
{
    return (kolo_shape){2, {node->in.dim[0], columns}};
}

static kolo_status check(const kolo_layer_node *node)
{
    const kolo_multi_head_attention_args *args = &node->recipe.multi_head_attention;
    KOLO_TRY(kolo_check_size("heads", args->heads));
    if (node->in.rank != 2)
        return kolo_fail(KOLO_INVALID, "its input is %s, wanted {length, size}", kolo_shape_text(node->in));
    if (args->key_size == 0 && node->in.dim[1] % args->heads != 0)
        return kolo_fail(KOLO_INVALID, "wanted a key_size, since the input's size %d is no multiple of %d heads",
                         node->in.dim[1], args->heads);
    KOLO_TRY(kolo_check_size("key_size", key_size(node)));
    KOLO_TRY(kolo_check_l2(args->l2));
    if (!(args->dropout >= 0 && args->dropout < 1))
        return kolo_fail(KOLO_INVALID, "dropout: wanted 0 ≤ dropout < 1, got %g", args->dropout);
    int64_t wide = 3 * (int64_t)args->heads * key_size(node);
    if (wide > KOLO_SIZE_MAX)
        return kolo_fail(KOLO_INVALID, "wanted 3 · heads · key_size of at most %d, got %lld", KOLO_SIZE_MAX,
                         (long long)wide);
    KOLO_TRY(kolo_check_elements("projection", rows(node, (int)wide)));
    KOLO_TRY(kolo_check_elements("kernel", (kolo_shape){2, {node->in.dim[1], (int)wide}}));
    return kolo_check_elements("attention", (kolo_shape){3, {args->heads, node->in.dim[0], node->in.dim[0]}});
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    KOLO_TRY(check(node));
    const kolo_multi_head_attention_args *args = &node->recipe.multi_head_attention;
    int size = node->in.dim[1], all = width(node);
    kolo_shape qkv = {2, {size, 3 * all}}, output = {2, {all, size}};
    node->out = node->in;
    KOLO_TRY(kolo_declare_parameter(builder, node, "qkv_kernel", qkv, KOLO_INIT_GLOROT_UNIFORM, size, all));
    kolo_declared(builder)->l2 = args->l2;
    if (!args->no_bias)
        KOLO_TRY(kolo_declare_parameter(builder, node, "qkv_bias", (kolo_shape){1, {3 * all}}, KOLO_INIT_ZEROS, 0, 0));
    KOLO_TRY(kolo_declare_parameter(builder, node, "output_kernel", output, KOLO_INIT_GLOROT_UNIFORM, all, size));
    kolo_declared(builder)->l2 = args->l2;
    if (args->no_bias) return KOLO_OK;
    return kolo_declare_parameter(builder, node, "output_bias", (kolo_shape){1, {size}}, KOLO_INIT_ZEROS, 0, 0);
}

/* The projection whose kernel is `which`. */
typedef struct projection {
    int kernel, bias; /* the parameters' numbers in the model; bias -1: none */
    kolo_shape shape; /* of the kernel */
} projection;

static projection projection_of(const kolo_layer_node *node, int which)
{
    bool biased = node->parameter_count == 4;
    int inputs = which == QKV_KERNEL ? node->in.dim[1] : width(node);
    int units = which == QKV_KERNEL ? 3 * width(node) : node->in.dim[1];
    return (projection){.kernel = node->parameters[biased ? which : which / 2],
                        .bias = biased ? node->parameters[which + 1] : -1,
                        .shape = {2, {inputs, units}}};
}

static kolo_status project(kolo_plan *plan, const kolo_layer_node *node, int which, int x, int *y)
{
    projection p = projection_of(node, which);
    int units = p.shape.dim[1];
    kolo_op op = {.kind = KOLO_OP_DENSE, .layer = node->number, .in = {x, -1, -1}, .activation = KOLO_LINEAR};
    KOLO_TRY(kolo_added(&op.in[1], kolo_plan_weights(plan, p.kernel, p.shape)));
    if (p.bias >= 0) KOLO_TRY(kolo_added(&op.in[2], kolo_plan_weights(plan, p.bias, (kolo_shape){1, {units}})));
    KOLO_TRY(kolo_added(y, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, rows(node, units))));
    op.out[0] = *y;
    return kolo_plan_op(plan, op);
}

/* *dx becomes -1 if it is not needed. */
static kolo_status project_back(kolo_plan *plan, const kolo_layer_node *node, int which, int dy, int x, bool need_dx,
                                int *dx)
{
    projection p = projection_of(node, which);
    kolo_shape bias = {1, {p.shape.dim[1]}};
    kolo_op op = {.kind = KOLO_OP_DENSE_BACKWARD,
                  .layer = node->number,
                  .in = {dy, -1, x, -1},
                  .out = {-1, -1, -1},
                  .activation = KOLO_LINEAR};
    if (need_dx) {
        KOLO_TRY(kolo_added(&op.in[3], kolo_plan_weights(plan, p.kernel, p.shape)));
        KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, rows(node, p.shape.dim[0]))));
    }
    KOLO_TRY(kolo_added(&op.out[1], kolo_plan_gradient(plan, p.kernel, p.shape)));
    if (p.bias >= 0) KOLO_TRY(kolo_added(&op.out[2], kolo_plan_gradient(plan, p.bias, bias)));
    *dx = op.out[0];
    return kolo_plan_op(plan, op);
}

static kolo_op attend(const kolo_plan *plan, const kolo_layer_node *node, kolo_op_kind kind)
{
    const kolo_multi_head_attention_args *args = &node->recipe.multi_head_attention;
    return (kolo_op){.kind = kind,
                     .layer = node->number,
                     .activation = KOLO_LINEAR,
                     .heads = args->heads,
                     .causal = args->causal,
                     .rate = plan->dropout ? args->dropout : 0};
}

/* saved[0]: queries, keys and values; saved[1]: the heads' outputs; saved[2]: sums that the backend keeps for backward.
 */
static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_op op = attend(plan, node, KOLO_OP_ATTENTION);
    KOLO_TRY(project(plan, node, QKV_KERNEL, flow->x, &flow->saved[0]));
    KOLO_TRY(kolo_added(&flow->saved[1], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, rows(node, width(node)))));
    kolo_shape sums = {2, {node->recipe.multi_head_attention.heads, node->in.dim[0]}};
    if (plan->training) KOLO_TRY(kolo_added(&flow->saved[2], kolo_plan_value(plan, KOLO_VALUE_WORKSPACE, sums)));
    op.in[0] = flow->saved[0];
    op.out[0] = flow->saved[1];
    op.out[1] = flow->saved[2];
    KOLO_TRY(kolo_plan_op(plan, op));
    return project(plan, node, OUTPUT_KERNEL, flow->saved[1], &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_op op = attend(plan, node, KOLO_OP_ATTENTION_BACKWARD);
    KOLO_TRY(project_back(plan, node, OUTPUT_KERNEL, flow->dy, flow->saved[1], true, &op.in[0]));
    for (int i = 0; i < 3; i++) op.in[1 + i] = flow->saved[i];
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, rows(node, 3 * width(node)))));
    KOLO_TRY(kolo_plan_op(plan, op));
    return project_back(plan, node, QKV_KERNEL, op.out[0], flow->x, flow->need_dx, &flow->dx);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, multi_head_attention, heads),
    KOLO_FIELD(KOLO_FIELD_INT, multi_head_attention, key_size),
    KOLO_FIELD(KOLO_FIELD_BOOL, multi_head_attention, causal),
    KOLO_FIELD(KOLO_FIELD_DOUBLE, multi_head_attention, dropout),
    KOLO_FIELD(KOLO_FIELD_BOOL, multi_head_attention, no_bias),
    KOLO_FIELD(KOLO_FIELD_DOUBLE, multi_head_attention, l2),
    KOLO_FIELDS_END(multi_head_attention),
};

const kolo_layer_kind kolo_multi_head_attention_kind = {
    .name = "multi_head_attention", .fields = fields, .build = build, .forward = forward, .backward = backward};
