/* What the shims of CUDA's libraries share of library_types.h. See cuda_runtime.h here. */
#ifndef KOLO_SHIM_LIBRARY_TYPES_H
#define KOLO_SHIM_LIBRARY_TYPES_H
typedef enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType;
#ifndef __cplusplus
typedef enum cudaDataType_t cudaDataType_t;
#endif
#endif
