/* For conv2d.c: convolutions that kolo_cuda_conv_first_fits() accepts, and their backward where dx is not wanted. */
#ifndef KOLO_CUDA_FIRST_CONV2D_H
#define KOLO_CUDA_FIRST_CONV2D_H

#include "backend/cuda/cuda.h"

kolo_status kolo_cuda_make_first_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                        const kolo_conv *conv);
kolo_status kolo_cuda_make_first_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                                 const kolo_conv *conv);

#endif
