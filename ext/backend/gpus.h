/* The GPUs of this process: whether its devices are GPUs, and what their driver tells. */
#ifndef KOLO_BACKEND_GPUS_H
#define KOLO_BACKEND_GPUS_H

#include <kolo.h>

/* The number of GPUs that this process may use. It is 0 where KOLO_DEVICES, or a KOLO_BACKEND of the host's, keeps to
 * the CPU, and where there are none. All GPUs of the driver count: masks such as CUDA_VISIBLE_DEVICES are not read. */
int kolo_gpus(void);
/* What their driver tells; NULL where kolo_gpus() is 0. */
const struct kolo_device_information *kolo_gpu_information(void);
/* Why this process sees no GPU: the end of a sentence. */
const char *kolo_gpus_why_none(void);
/* Fails with a sentence if KOLO_DEVICES holds what is neither "cpu" nor "gpu", or asks for GPUs where there are none.
 */
kolo_status kolo_gpus_check_environment(void);

#endif
