/* The backend on oneDNN: libkolo_onednn.so.
 *
 * An operation becomes a kernel: a few steps, each one primitive of oneDNN or one loop of our own, with every operand
 * of a step lying in a value of the plan or in scratch memory. Whoever touches a value first decides its layout: the
 * convolutions ask oneDNN for the fastest, the others keep what they are given. Where two operations disagree a step
 * between them reorders; the layouts are chosen so that there are next to none.
 *
 * Read in this order: layout.c (where elements lie), kernel.c (steps), then an operation: dense.c is the shortest.
 * Every kernel runs on one thread; several threads run the same kernel at once, each on a microbatch of its own.
 */
#ifndef KOLO_ONEDNN_H
#define KOLO_ONEDNN_H

#include "backend/backend.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

/* ---- layouts */

/* How the elements of one sample lie in memory: [blocks][height][width][block], channel c in block c / block. Channels
 * last is one block of all the channels, channels first is blocks of one. Where channels do not fill the last block,
 * the rest of it is zeros, always. What is not an image has one pixel whose channels are its elements. */
typedef struct kolo_tiling {
    int64_t channels, height, width, block, blocks;
} kolo_tiling;

/* Elements in memory, of one sample. */
static inline int64_t kolo_tiling_count(kolo_tiling t)
{
    return t.blocks * t.block * t.height * t.width;
}
/* Whether memory is in the canonical order, with nothing between. */
static inline bool kolo_tiling_canonical(kolo_tiling t)
{
    bool last = t.blocks == 1 || t.height * t.width == 1; /* channels run fastest */
    return last && t.blocks * t.block == t.channels;
}
/* False for a layout that is none of these. */
bool kolo_tiling_of(const dnnl_memory_desc_t *desc, kolo_tiling *tiling);
/* Zeros into the rest of the last block of every pixel, of that many samples whose elements have `size` bytes. */
void kolo_tiling_clear(kolo_tiling tiling, void *memory, int64_t samples, size_t size);

/* What kolo_value.layout points to. */
typedef struct kolo_layout {
    dnnl_memory_desc_t desc;
    /* Of WEIGHTS and GRADIENT only. */
    dnnl_memory_desc_t plain;   /* the canonical array, or its rows in the order of `rows` */
    dnnl_primitive_t convert;   /* plain to desc for WEIGHTS, desc to plain for GRADIENT; NULL where they are equal */
    kolo_tiling rows;           /* of a dense kernel on the elements of an image: their order in memory */
    bool permuted;              /* rows is not the canonical order */
    bool sparse;                /* of a GRADIENT: rows that are not marked as touched count as zero */
} kolo_layout;

dnnl_data_type_t kolo_onednn_type(const kolo_plan *plan, int value); /* of activations and kernels: f32 or bf16 */
kolo_status kolo_desc_plain(const kolo_plan *plan, int value, dnnl_data_type_t type, dnnl_memory_desc_t *desc);
kolo_status kolo_desc_any(const kolo_plan *plan, kolo_shape shape, dnnl_data_type_t type, dnnl_memory_desc_t *desc);
/* An image in blocks of so many channels: 1 (channels first), 4, 8, 16; 0: channels last. */
kolo_status kolo_desc_blocked(const kolo_plan *plan, kolo_shape image, int64_t block, dnnl_data_type_t type,
                              dnnl_memory_desc_t *desc);
/* An image in the blocks of another. */
kolo_status kolo_desc_resized(const kolo_plan *plan, const dnnl_memory_desc_t *desc, kolo_shape image,
                              dnnl_memory_desc_t *resized);
/* For operations on images that keep the layout they are given: how an image lies in memory (as it would in the
 * canonical order, where it is a view of what is no image), in the precision's type. */
kolo_status kolo_desc_image(const kolo_plan *plan, int value, dnnl_memory_desc_t *desc);
/* The whole of an operand whose part in each of so many rounds is described; 0 rounds are one. */
dnnl_memory_desc_t kolo_desc_of_rounds(const dnnl_memory_desc_t *part, int rounds);
/* Rows of `columns` elements, the last fastest. */
kolo_status kolo_desc_rows(int64_t rows, int64_t columns, dnnl_data_type_t type, dnnl_memory_desc_t *desc);

/* Gives a value its layout unless it has one; what must be canonical or is no tiling becomes plain. */
kolo_status kolo_layout_set(kolo_plan *plan, int value, const dnnl_memory_desc_t *desc);
const kolo_layout *kolo_layout_of(const kolo_plan *plan, int value);
/* The same for a value of WEIGHTS or GRADIENT, with its way to or from the canonical array `plain`. */
kolo_status kolo_layout_set_parameter(kolo_plan *plan, int value, const dnnl_memory_desc_t *desc,
                                      const dnnl_memory_desc_t *plain, const kolo_tiling *rows);
/* WEIGHTS read where the canonical ones are. */
kolo_status kolo_layout_set_in_place(kolo_plan *plan, int value);
/* A GRADIENT of rows {count, size} of which only those count that are marked: behind them is a byte for each. */
kolo_status kolo_layout_set_rows(kolo_plan *plan, int value);
uint8_t *kolo_rows_touched(const kolo_plan *plan, int value, void *memory);
/* The canonical layout, for any kind of value, unless it has one. */
kolo_status kolo_layout_set_plain(kolo_plan *plan, int value);
void kolo_layout_free(kolo_value *value);
kolo_status kolo_onednn_pack(const kolo_plan *plan, int value, const float *canonical, void *packed);
/* The same, in halves with KOLO_MIXED_FP16 (half.c). */
kolo_status kolo_onednn_pack_any(const kolo_plan *plan, int value, const float *canonical, void *packed);
void kolo_onednn_accumulate(const kolo_plan *plan, int value, void *to, const void *from);
kolo_status kolo_onednn_unpack(const kolo_plan *plan, int value, const void *packed, float *canonical);

/* ---- kernels */

/* Where an operand of a step lies: in a value of the plan, or at an offset in scratch memory. */
typedef struct kolo_operand {
    dnnl_memory_desc_t desc;
    int value; /* -1: scratch */
    size_t offset, advance; /* bytes; advance: from one round to the next */
} kolo_operand;

typedef struct kolo_kernel kolo_kernel;
typedef struct kolo_step kolo_step;

#define KOLO_STEP_OPERANDS (KOLO_OP_INS + 2)
#define KOLO_KERNEL_STEPS  20

struct kolo_step {
    dnnl_primitive_t primitive; /* or NULL, then: */
    void (*own)(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call);
    kolo_status (*own_or_fail)(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call);
    int count;
    int argument[KOLO_STEP_OPERANDS]; /* DNNL_ARG_SRC and its like */
    kolo_operand place[KOLO_STEP_OPERANDS];
    int from, to;     /* the rounds in which it runs: 0 and 1, where the kernel has but one */
    int64_t rows;     /* of a round, where it has several */
    int64_t elements; /* of a loop over memory */
    bool bfloat16;    /* what its loop reads and writes */
    kolo_tiling x, y; /* of places 0 and 1, for loops over images */
    bool flag;        /* the loop's own */
    int64_t number[2]; /* likewise */
};

struct kolo_kernel {
    const kolo_plan *plan;
    int op;
    int step_count;
    int rounds; /* how often it goes through its steps; 0: once */
    kolo_step step[KOLO_KERNEL_STEPS];
    size_t scratch;    /* bytes that places take */
    size_t scratchpad; /* bytes that the greediest primitive takes, behind them */
    pthread_mutex_t mutex;
    struct kolo_memories *idle; /* sets of oneDNN's memory objects: one for each thread that runs at once */
};

dnnl_engine_t kolo_onednn_engine(void);
/* Makes the code that oneDNN's products would make when they first run (warm.c). */
kolo_status kolo_onednn_warm_up(bool bfloat16);
/* Fails with a sentence where so many bytes cannot be had; oneDNN itself would end the process. */
kolo_status kolo_onednn_check_room(size_t bytes, const char *what);
#define KOLO_KERNEL_ROOM ((size_t)6 << 20) /* more than oneDNN takes to make an operation's primitives */
/* A failure of oneDNN in words; KOLO_OK for success. */
kolo_status kolo_onednn_check(dnnl_status_t status, const char *what);
#define KOLO_DNNL(call, what) KOLO_TRY(kolo_onednn_check((call), (what)))

kolo_operand kolo_operand_of(const kolo_kernel *kernel, int value);
kolo_operand kolo_operand_scratch(kolo_kernel *kernel, const dnnl_memory_desc_t *desc);
void *kolo_operand_pointer(const kolo_operand *place, const kolo_call *call);

/* The operand `from` in the layout `wanted`: itself, or a copy that a new step makes in scratch memory. */
kolo_status kolo_reorder_in(kolo_kernel *kernel, kolo_operand from, const dnnl_memory_desc_t *wanted, kolo_operand *to);
/* Where a step may write what shall end up in value, when it writes in the layout `written`; kolo_reorder_out(), after
 * that step, adds the reorder if there must be one. */
kolo_operand kolo_output_buffer(kolo_kernel *kernel, int value, const dnnl_memory_desc_t *written);
kolo_status kolo_reorder_out(kolo_kernel *kernel, kolo_operand written, int value);

/* Appends a step. Takes the descriptor over, whether it fails or not. Operands: argument, place, … */
kolo_status kolo_step_primitive(kolo_kernel *kernel, dnnl_primitive_desc_t descriptor, int count, const int *arguments,
                                const kolo_operand *places);
kolo_step *kolo_step_own(kolo_kernel *kernel, void (*own)(const kolo_kernel *, const kolo_step *, const kolo_call *),
                         int count, const kolo_operand *places); /* bfloat16 and elements are of place 0 */
kolo_step *kolo_step_own_or_fail(kolo_kernel *kernel,
                                 kolo_status (*own)(const kolo_kernel *, const kolo_step *, const kolo_call *),
                                 int count, const kolo_operand *places);
kolo_status kolo_step_reorder(kolo_kernel *kernel, const kolo_operand *from, const kolo_operand *to);
/* A step from x (brought to the layout `from`) to y (in the layout `to`). */
kolo_step *kolo_step_images(kolo_kernel *kernel, int x, const dnnl_memory_desc_t *from, int y,
                            const dnnl_memory_desc_t *to,
                            void (*own)(const kolo_kernel *, const kolo_step *, const kolo_call *));

/* Where the kernel has several rounds, the steps from number `first` on run in the last alone. */
void kolo_steps_last(kolo_kernel *kernel, int first);

/* With KOLO_MIXED_FP16 a step that rounds a value to halves where it lies, if it is an activation and canonical or not
 * as asked for (half.c). */
kolo_status kolo_onednn_round(kolo_kernel *kernel, int value, bool canonical);

/* Scratchpad in our hands; relu: fused behind. */
kolo_status kolo_attributes(bool relu, dnnl_primitive_attr_t *attributes);
kolo_status kolo_kernel_run(void *prepared, const kolo_call *call);
void kolo_kernel_release(void *prepared);

/* ---- y = x ∘ kernel + bias (product.c) */

typedef struct kolo_product {
    kolo_kernel *kernel;
    kolo_plan *plan;
    const dnnl_memory_desc_t *canonical; /* the kernel as the library has it, float32 */
    const dnnl_memory_desc_t *bias;      /* float32; NULL: there is none */
    const kolo_tiling *rows;             /* the order of a dense kernel's rows in memory; NULL: as they come */
    int rounds;       /* > 1: forward and by x the primitive computes such a part of the microbatch each time */
    bool relu_behind; /* forward: relu as a step of its own */
} kolo_product;

/* A primitive of oneDNN's for that operation; relu: fused behind; what: for the message when it cannot be had. */
kolo_status kolo_describe(const void *operation, bool relu, const_dnnl_primitive_desc_t forward, const char *what,
                          dnnl_primitive_desc_t *made);
/* Each appends the primitive's step and takes the descriptor over, whether it fails or not. y gets the primitive's
 * layout unless it has one, and is delivered; bias is -1 where there is none. */
kolo_status kolo_product_forward(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand x, int kernel,
                                 int bias, int y);
/* dx: where to write, made by kolo_output_buffer(), and still to be delivered. */
kolo_status kolo_product_backward(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand dz, int kernel,
                                  kolo_operand dx);
kolo_status kolo_product_gradient(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand x, kolo_operand dz,
                                  int dkernel, int dbias);

/* ---- operations: each writes the steps of its kernel */

kolo_status kolo_onednn_input(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_conv2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_conv2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_conv2d_transpose(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_conv2d_transpose_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_dense(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_dense_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_max_pool2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_max_pool2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_average_pool2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_average_pool2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_pad2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_crop2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_upsample2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_upsample2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_concatenate(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_slice(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_multiply(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_multiply_sum(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_activation(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_activation_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_dropout(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_dropout_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_add(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_embedding(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_embedding_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_position(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_position_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_layer_norm(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_layer_norm_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_attention(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_attention_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_batch_norm_moments(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_batch_norm(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_batch_norm_sums(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_batch_norm_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_dense_loss(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_custom(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_loss(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);

/* Activations that are functions of one element (pointwise.c). */
kolo_status kolo_onednn_pointwise(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_status kolo_onednn_pointwise_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
/* Biases where no primitive adds them (bias.c): y = z + bias, and relu if asked for, from the place z to a place of the
 * same layout (it may be z, and of another type); and dbias = Σ dz over a microbatch's pixels. bias and dbias are
 * values; bias may be -1. */
kolo_status kolo_bias_add(kolo_kernel *kernel, kolo_operand z, int bias, bool relu, kolo_operand y);
kolo_status kolo_bias_sum(kolo_kernel *kernel, kolo_operand dz, int dbias);
/* The layout in which a convolution would like its input (conv2d.c). */
kolo_status kolo_conv2d_spec(const kolo_plan *plan, const kolo_op *op, dnnl_memory_desc_t *desc);
/* dz = dy·[y > 0], for an operation with a fused ReLU; dy itself for another (activation.c). */
kolo_status kolo_relu_undone(kolo_kernel *kernel, const kolo_op *op, kolo_operand *dz);

#endif
