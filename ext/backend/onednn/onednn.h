/* The backend on oneDNN: libkolo_onednn.so.
 *
 * An operation becomes a kernel of a few steps. Each step is one oneDNN primitive or one custom loop. Each operand of a
 * step lies in a value of the plan or in scratch memory. The first operation that touches a value decides its layout:
 * convolutions ask oneDNN for the fastest one, the other operations keep the layout of their input. Where an operation
 * needs another layout, its kernel has a reorder step; the layouts are chosen so that there are few of them.
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

/* How the elements of one sample lie in memory: [blocks][height][width][block], with channel c in block c / block.
 * Channels last is one block of all channels; channels first is blocks of one channel. Where the channels do not fill
 * the last block, the rest of it is padding, which is always zero. A value that is not an image has one pixel, whose
 * channels are its elements. */
typedef struct kolo_tiling {
    int64_t channels, height, width, block, blocks;
} kolo_tiling;

/* Elements of one sample in memory, with the padding. */
static inline int64_t kolo_tiling_count(kolo_tiling t)
{
    return t.blocks * t.block * t.height * t.width;
}
/* Whether the elements are in the canonical order, without padding. */
static inline bool kolo_tiling_canonical(kolo_tiling t)
{
    bool last = t.blocks == 1 || t.height * t.width == 1; /* channels run fastest */
    return last && t.blocks * t.block == t.channels;
}
/* Returns false if the layout is no tiling. */
bool kolo_tiling_of(const dnnl_memory_desc_t *desc, kolo_tiling *tiling);
/* Zeros the padding of `samples` samples, whose elements have `size` bytes. */
void kolo_tiling_clear(kolo_tiling tiling, void *memory, int64_t samples, size_t size);

/* The target of kolo_value.layout. */
typedef struct kolo_layout {
    dnnl_memory_desc_t desc;
    /* For WEIGHTS and GRADIENT only: */
    dnnl_memory_desc_t plain;   /* the canonical array; if permuted, its rows are in the order of `rows` */
    dnnl_primitive_t convert;   /* plain to desc for WEIGHTS, desc to plain for GRADIENT; NULL if they are equal */
    kolo_tiling rows;           /* the order in memory of the rows of a dense kernel whose x is a flattened image */
    bool permuted;              /* rows is not the canonical order, and `convert` does not permute them */
    bool sparse;                /* of a GRADIENT: rows that are not marked as touched count as zero */
} kolo_layout;

/* The type of a value's elements: bf16 with KOLO_MIXED_BF16, but f32 for the features and for canonical values. */
dnnl_data_type_t kolo_onednn_type(const kolo_plan *plan, int value);
/* The type of the activations: bf16 with KOLO_MIXED_BF16, else f32. */
static inline dnnl_data_type_t kolo_activation_type(const kolo_plan *plan)
{
    return plan->precision == KOLO_MIXED_BF16 ? dnnl_bf16 : dnnl_f32;
}
kolo_status kolo_desc_plain(const kolo_plan *plan, int value, dnnl_data_type_t type, dnnl_memory_desc_t *desc);
kolo_status kolo_desc_any(const kolo_plan *plan, kolo_shape shape, dnnl_data_type_t type, dnnl_memory_desc_t *desc);
/* An image in blocks of `block` channels: 1 (channels first), 4, 8 or 16; 0: channels last. */
kolo_status kolo_desc_blocked(const kolo_plan *plan, kolo_shape image, int64_t block, dnnl_data_type_t type,
                              dnnl_memory_desc_t *desc);
/* An image of the shape `image`, in blocks of as many channels as those of `desc`. */
kolo_status kolo_desc_resized(const kolo_plan *plan, const dnnl_memory_desc_t *desc, kolo_shape image,
                              dnnl_memory_desc_t *resized);
/* For operations on images that keep the layout of their input: the image's layout in memory, in the precision's type.
 * It is the canonical layout if the image is a view of a value of another shape. */
kolo_status kolo_desc_image(const kolo_plan *plan, int value, dnnl_memory_desc_t *desc);
/* The descriptor of a whole operand, from that of the part which one of `rounds` rounds computes; 0 counts as 1. */
dnnl_memory_desc_t kolo_desc_of_rounds(const dnnl_memory_desc_t *part, int rounds);
/* A matrix in row-major order. */
kolo_status kolo_desc_rows(int64_t rows, int64_t columns, dnnl_data_type_t type, dnnl_memory_desc_t *desc);

/* Gives a value its layout unless it has one. The layout is plain if the value must be canonical or `desc` is no
 * tiling. */
kolo_status kolo_layout_set(kolo_plan *plan, int value, const dnnl_memory_desc_t *desc);
const kolo_layout *kolo_layout_of(const kolo_plan *plan, int value);
/* Sets the layout of a WEIGHTS or GRADIENT value that has none yet, and prepares the reorder from or to the canonical
 * array `plain`. rows: NULL, or kolo_layout.rows. */
kolo_status kolo_layout_set_parameter(kolo_plan *plan, int value, const dnnl_memory_desc_t *desc,
                                      const dnnl_memory_desc_t *plain, const kolo_tiling *rows);
/* For WEIGHTS that the kernel reads from the canonical weights, without a packed copy. */
kolo_status kolo_layout_set_in_place(kolo_plan *plan, int value);
/* For a GRADIENT of shape {count, size} whose unmarked rows count as zero. kolo_rows_touched() returns the marks, one
 * byte for each row, which lie behind the rows. */
kolo_status kolo_layout_set_sparse(kolo_plan *plan, int value);
uint8_t *kolo_rows_touched(const kolo_plan *plan, int value, void *memory);
/* Gives a value of any kind the canonical float32 layout, unless it has a layout or is -1. */
kolo_status kolo_layout_set_plain(kolo_plan *plan, int value);
void kolo_layout_free(kolo_value *value);
kolo_status kolo_onednn_pack(const kolo_plan *plan, int value, const float *canonical, void *packed);
/* The same, rounded to halves with KOLO_MIXED_FP16 (half.c). */
kolo_status kolo_onednn_pack_any(const kolo_plan *plan, int value, const float *canonical, void *packed);
void kolo_onednn_accumulate(const kolo_plan *plan, int value, void *to, const void *from);
kolo_status kolo_onednn_unpack(const kolo_plan *plan, int value, const void *packed, float *canonical);

/* ---- kernels */

/* Where an operand of a step lies: in a value of the plan, or at an offset in scratch memory. */
typedef struct kolo_operand {
    dnnl_memory_desc_t desc;
    int value; /* -1: in scratch memory */
    size_t offset, advance; /* bytes: in scratch memory; added to the address from one round to the next */
} kolo_operand;

typedef struct kolo_kernel kolo_kernel;
typedef struct kolo_step kolo_step;

typedef void kolo_loop(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call);
typedef kolo_status kolo_loop_or_fail(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call);

#define KOLO_STEP_OPERANDS (KOLO_OP_INS + 2)
#define KOLO_KERNEL_STEPS  20

struct kolo_step {
    dnnl_primitive_t primitive; /* NULL: one of these two functions runs instead */
    kolo_loop *loop;
    kolo_loop_or_fail *loop_or_fail;
    int count;
    int argument[KOLO_STEP_OPERANDS]; /* of the primitive: DNNL_ARG_SRC and so on */
    kolo_operand operand[KOLO_STEP_OPERANDS];
    int from, to;     /* runs in rounds from … to-1; 0 and 1 if there is one round */
    int64_t rows;     /* rows of a round, if there are several rounds */
    int64_t elements; /* of operand[0] in memory, with padding */
    bool bfloat16;    /* operand[0] is bfloat16, not float32 */
    kolo_tiling x, y; /* for loops over images; kolo_step_images(): of operands 0, 1 */
    bool flag;        /* a parameter of the custom loop */
    int64_t number[2]; /* parameters of the custom loop */
};

struct kolo_kernel {
    const kolo_plan *plan;
    int op;
    int step_count;
    int rounds; /* how many times the steps run; 0: once */
    kolo_step step[KOLO_KERNEL_STEPS];
    size_t scratch;    /* bytes of the operands in scratch memory */
    size_t scratchpad; /* bytes of the largest scratchpad; it lies behind the operands */
    pthread_mutex_t mutex;
    struct kolo_memories *idle; /* sets of oneDNN's memory objects that no thread is using; a run needs one */
};

dnnl_engine_t kolo_onednn_engine(void);
/* Makes oneDNN generate the code of its matrix products now, not in their first run (warm.c). */
kolo_status kolo_onednn_warm_up(bool bfloat16);
/* Fails with a sentence if `bytes` bytes cannot be allocated; oneDNN itself would end the process. */
kolo_status kolo_onednn_check_room(size_t bytes, const char *what);
#define KOLO_KERNEL_ROOM ((size_t)6 << 20) /* more than oneDNN allocates for an operation's primitives */
/* Reports a failure of oneDNN in words; returns KOLO_OK for success. */
kolo_status kolo_onednn_check(dnnl_status_t status, const char *what);
#define KOLO_DNNL(call, what) KOLO_TRY(kolo_onednn_check((call), (what)))

kolo_operand kolo_operand_of(const kolo_kernel *kernel, int value);
kolo_operand kolo_operand_scratch(kolo_kernel *kernel, const dnnl_memory_desc_t *desc);
void *kolo_operand_pointer(const kolo_operand *operand, const kolo_call *call);

/* *to becomes `from` in the layout `wanted`: `from` itself, or a copy that a new step makes in scratch memory. */
kolo_status kolo_reorder_in(kolo_kernel *kernel, kolo_operand from, const dnnl_memory_desc_t *wanted, kolo_operand *to);
/* The output buffer of a step that computes `value` in the layout `written`: the value itself, or scratch memory if
 * the layouts differ. kolo_reorder_out() then appends the reorder from scratch memory to the value, if one is needed.
 */
kolo_operand kolo_output_buffer(kolo_kernel *kernel, int value, const dnnl_memory_desc_t *written);
kolo_status kolo_reorder_out(kolo_kernel *kernel, kolo_operand written, int value);
/* The same in the plain layout, in that type; the second function gives the value that layout unless it has one. */
kolo_status kolo_plain_in(kolo_kernel *kernel, int value, dnnl_data_type_t type, kolo_operand *operand);
kolo_status kolo_plain_buffer(kolo_kernel *kernel, kolo_plan *plan, int value, dnnl_data_type_t type,
                              kolo_operand *operand);

/* Appends a step that runs a primitive on `count` operands, arguments[i] at operands[i]. Destroys the descriptor, even
 * if it fails. */
kolo_status kolo_step_primitive(kolo_kernel *kernel, dnnl_primitive_desc_t descriptor, int count, const int *arguments,
                                const kolo_operand *operands);
/* Append a custom step; bfloat16 and elements are of operand 0. */
kolo_step *kolo_step_loop(kolo_kernel *kernel, kolo_loop *loop, int count, const kolo_operand *operands);
kolo_step *kolo_step_loop_or_fail(kolo_kernel *kernel, kolo_loop_or_fail *loop, int count,
                                  const kolo_operand *operands);
kolo_status kolo_step_reorder(kolo_kernel *kernel, const kolo_operand *from, const kolo_operand *to);
/* Appends a custom step that reads the value x in the layout `from` and computes the value y in the layout `to`. */
kolo_step *kolo_step_images(kolo_kernel *kernel, int x, const dnnl_memory_desc_t *from, int y,
                            const dnnl_memory_desc_t *to, kolo_loop *loop);

/* If the kernel has several rounds, the steps from number `first` on will run in the last one only. */
void kolo_steps_last(kolo_kernel *kernel, int first);

/* With KOLO_MIXED_FP16, appends a step that rounds an activation to halves in place, if it must be canonical and
 * `canonical` is true, or if it need not be and `canonical` is false; does nothing for other values (half.c). */
kolo_status kolo_onednn_round(kolo_kernel *kernel, int value, bool canonical);

/* Attributes of a primitive whose caller supplies the scratchpad. relu: a ReLU is fused as post-op. */
kolo_status kolo_attributes(bool relu, dnnl_primitive_attr_t *attributes);
kolo_status kolo_kernel_run(void *prepared, const kolo_call *call);
void kolo_kernel_release(void *prepared);

/* ---- y = x ∘ kernel + bias (product.c) */

typedef struct kolo_product {
    kolo_kernel *kernel;
    kolo_plan *plan;
    const dnnl_memory_desc_t *canonical; /* the canonical kernel, float32 */
    const dnnl_memory_desc_t *bias;      /* float32; NULL: there is none */
    const kolo_tiling *rows;             /* the order of a dense kernel's rows in memory; NULL: canonical */
    int rounds;       /* forward, input gradient: a round computes 1/rounds of the microbatch; 0: all of it */
    bool relu_behind; /* forward: a separate step applies the ReLU */
} kolo_product;

/* Makes the descriptor of an operation's primitive. relu: fused as post-op; forward: the hint for a backward
 * operation, or NULL; what: names the operation in a failure's message. */
kolo_status kolo_describe(const void *operation, bool relu, const_dnnl_primitive_desc_t forward, const char *what,
                          dnnl_primitive_desc_t *made);
/* The same without the implementations of oneDNN whose names begin with `avoided`; NULL: with all. */
kolo_status kolo_describe_without(const char *avoided, const void *operation, bool relu,
                                  const_dnnl_primitive_desc_t forward, const char *what, dnnl_primitive_desc_t *made);
/* The same for a backward operation; destroys the hint, even if it fails. */
kolo_status kolo_describe_backward(const void *operation, dnnl_primitive_desc_t forward, const char *what,
                                   dnnl_primitive_desc_t *made);
/* Each function appends the primitive's step and destroys the descriptor, even if it fails. The first gives y the
 * primitive's layout unless y has one, and appends the reorder to it if one is needed. bias and dbias: -1 for none. */
kolo_status kolo_product_forward(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand x, int kernel,
                                 int bias, int y);
/* dx: the operand to write; the caller appends the reorder from it, if it is an output buffer. */
kolo_status kolo_product_backward(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand dz, int kernel,
                                  kolo_operand dx);
kolo_status kolo_product_gradient(const kolo_product *p, dnnl_primitive_desc_t made, kolo_operand x, kolo_operand dz,
                                  int dkernel, int dbias);

/* ---- operations: kolo_onednn_conv2d() appends the steps of the kernel of KOLO_OP_CONV2D, and so on */

/* The operation that op's kernel also computes (plan/fusion.h); NULL: none. */
static inline const kolo_op *kolo_onednn_fused(const kolo_plan *plan, const kolo_op *op)
{
    return op->also_computes < 0 ? NULL : &plan->ops[op->also_computes];
}

typedef kolo_status kolo_make_steps(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_make_steps kolo_onednn_input, kolo_onednn_conv2d, kolo_onednn_conv2d_backward, kolo_onednn_conv2d_transpose,
    kolo_onednn_conv2d_transpose_backward, kolo_onednn_dense, kolo_onednn_dense_backward, kolo_onednn_max_pool2d,
    kolo_onednn_max_pool2d_backward, kolo_onednn_average_pool2d, kolo_onednn_average_pool2d_backward, kolo_onednn_pad2d,
    kolo_onednn_crop2d, kolo_onednn_upsample2d, kolo_onednn_upsample2d_backward, kolo_onednn_concatenate,
    kolo_onednn_slice, kolo_onednn_multiply, kolo_onednn_multiply_sum, kolo_onednn_activation,
    kolo_onednn_activation_backward, kolo_onednn_dropout, kolo_onednn_dropout_backward, kolo_onednn_add,
    kolo_onednn_embedding, kolo_onednn_embedding_backward, kolo_onednn_position, kolo_onednn_position_backward,
    kolo_onednn_layer_norm, kolo_onednn_layer_norm_backward, kolo_onednn_attention, kolo_onednn_attention_backward,
    kolo_onednn_batch_norm_moments, kolo_onednn_batch_norm, kolo_onednn_batch_norm_sums,
    kolo_onednn_batch_norm_backward, kolo_onednn_dense_loss, kolo_onednn_custom, kolo_onednn_loss;

/* Activations that are functions of one element (pointwise.c). */
kolo_make_steps kolo_onednn_pointwise, kolo_onednn_pointwise_backward;
/* Biases that no primitive adds (bias.c): y = z + bias, then ReLU if `relu`; dbias = Σ dz over the pixels of a
 * microbatch. y has the layout of z; it may be z itself, or be bfloat16 where z is float32. bias and dbias are values;
 * bias may be -1: none. */
kolo_status kolo_bias_add(kolo_kernel *kernel, kolo_operand z, int bias, bool relu, kolo_operand y);
kolo_status kolo_bias_sum(kolo_kernel *kernel, kolo_operand dz, int dbias);
/* The layout that a convolution prefers for its input (conv2d.c). */
kolo_status kolo_conv2d_spec(const kolo_plan *plan, const kolo_op *op, dnnl_memory_desc_t *desc);
/* dz = dy·[y > 0] for an operation with a fused ReLU, else dy itself (activation.c). */
kolo_status kolo_relu_backward(kolo_kernel *kernel, const kolo_op *op, kolo_operand *dz);

#endif
