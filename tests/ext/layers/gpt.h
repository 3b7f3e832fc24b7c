/* A one-block GPT, as the introduction's program has it, in any size. */
#ifndef KOLO_TESTS_GPT_H
#define KOLO_TESTS_GPT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kolo.h>

typedef struct gpt {
    int vocabulary, length, size, heads, hidden;
    double dropout;
} gpt;

/* add & norm around attention, and around two dense layers. */
static inline kolo_model *gpt_model(gpt g)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, g.length);
    x = kolo_apply(kolo_position_embedding(), kolo_apply(kolo_embedding(g.vocabulary, g.size), x));
    kolo_tensor y = kolo_apply(kolo_multi_head_attention(g.heads, .causal = true, .dropout = g.dropout), x);
    x = kolo_apply(kolo_layer_norm(), kolo_apply(kolo_add(), x, kolo_apply(kolo_dropout(g.dropout), y)));
    y = kolo_apply(kolo_dense(g.size), kolo_apply(kolo_dense(g.hidden, .activation = KOLO_RELU), x));
    x = kolo_apply(kolo_layer_norm(), kolo_apply(kolo_add(), x, kolo_apply(kolo_dropout(g.dropout), y)));
    assert_int_equal(kolo_graph_output(model, kolo_apply(kolo_dense(g.vocabulary), x)), KOLO_OK);
    return model;
}

#endif
