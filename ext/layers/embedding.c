/* Embedding: row number x of a table for each token x. Only rows whose tokens occur get a gradient. */
#include "layers/common.h"

/* float32 represents every whole number up to this one. */
#define MOST_TOKENS (1 << 24)

static kolo_shape table_shape(const kolo_layer_node *node)
{
    const kolo_embedding_args *args = &node->recipe.embedding;
    return (kolo_shape){2, {args->vocabulary, args->size}};
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    const kolo_embedding_args *args = &node->recipe.embedding;
    if (args->vocabulary < 1 || args->vocabulary > MOST_TOKENS)
        return kolo_fail(KOLO_INVALID, "vocabulary: wanted 1 … %d, got %d", MOST_TOKENS, args->vocabulary);
    KOLO_TRY(kolo_check_size("size", args->size));
    if (node->from[0] != 0)
        return kolo_fail(KOLO_INVALID, "it takes numbers of tokens: wanted it right behind kolo_input()");
    if (node->in.rank == 4)
        return kolo_fail(KOLO_INVALID, "its input is %s, wanted 1 to 3 sizes, as {length}", kolo_shape_text(node->in));
    node->out = node->in;
    node->out.dim[node->out.rank++] = args->size;
    KOLO_TRY(kolo_check_elements("output", node->out));
    KOLO_TRY(kolo_check_elements("table", table_shape(node)));
    return kolo_declare_parameter(builder, node, "embeddings", table_shape(node), KOLO_INIT_UNIFORM, 0, 0);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    int vocabulary = node->recipe.embedding.vocabulary;
    kolo_op op = {.kind = KOLO_OP_EMBEDDING, .layer = node->number, .in = {flow->x}, .activation = KOLO_LINEAR};
    if (plan->tokens == 0 || plan->tokens > vocabulary) plan->tokens = vocabulary;
    KOLO_TRY(kolo_added(&op.in[1], kolo_plan_weights(plan, node->parameters[0], table_shape(node))));
    KOLO_TRY(kolo_added(&flow->y, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->out)));
    op.out[0] = flow->y;
    return kolo_plan_op(plan, op);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_op op = {.kind = KOLO_OP_EMBEDDING_BACKWARD,
                  .layer = node->number,
                  .in = {flow->dy, flow->x},
                  .activation = KOLO_LINEAR};
    flow->dx = -1;
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_gradient(plan, node->parameters[0], table_shape(node))));
    return kolo_plan_op(plan, op);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, embedding, vocabulary),
    KOLO_POSITIONAL(KOLO_FIELD_INT, embedding, size),
    KOLO_FIELDS_END(embedding),
};

const kolo_layer_kind kolo_embedding_kind = {.name = "embedding",
                                             .fields = fields,
                                             .wants_features = true,
                                             .build = build,
                                             .forward = forward,
                                             .backward = backward};
