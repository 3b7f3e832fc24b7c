/* For conv2d.c: convolutions that are fused with the max pooling behind them (conv_pooled.cu), and their backward. */
#ifndef KOLO_CUDA_POOLED_CONV2D_H
#define KOLO_CUDA_POOLED_CONV2D_H

#include "backend/cuda/cuda.h"

/* Whether there is a kernel for this KOLO_FUSE_POOL. */
bool kolo_cuda_fuses_pooled_conv2d(const kolo_plan *plan, const kolo_fusion *fusion);
kolo_status kolo_cuda_make_pooled_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                         const kolo_conv *conv);
kolo_status kolo_cuda_make_pooled_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                                  const kolo_conv *conv);

#endif
