/* For conv2d.c: convolutions with a max pooling behind them that are one with it (conv_pooled.cu), and the way back
 * through one that is. */
#ifndef KOLO_CUDA_POOLED_CONV2D_H
#define KOLO_CUDA_POOLED_CONV2D_H

#include "backend/cuda/cuda.h"

/* KOLO_FUSE_POOL. */
bool kolo_cuda_fuses_pooled_conv2d(const kolo_plan *plan, const kolo_fusion *fusion);
kolo_status kolo_cuda_make_pooled_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                         const kolo_conv *conv);
kolo_status kolo_cuda_make_pooled_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                                  const kolo_conv *conv);

#endif
