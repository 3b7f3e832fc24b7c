/* The GPUs of this process: whether its devices are GPUs, and what their driver reports. */
#ifndef KOLO_BACKEND_GPUS_H
#define KOLO_BACKEND_GPUS_H

#include <kolo.h>

/* The number of GPUs that this process may use: 0 if there are none, if KOLO_DEVICES is "cpu", or if KOLO_DEVICES is
 * not set and KOLO_BACKEND is a backend of the host. All GPUs of the driver count: masks such as CUDA_VISIBLE_DEVICES
 * are not read. */
int kolo_gpus(void);
/* The information of their driver; NULL if kolo_gpus() is 0. */
const struct kolo_device_information *kolo_gpu_information(void);
/* Why this process sees no GPU: the end of a sentence. */
const char *kolo_gpus_why_none(void);
/* Fails with a sentence if KOLO_DEVICES is neither "cpu" nor "gpu", or is "gpu" although there are none. */
kolo_status kolo_gpus_check_environment(void);

#endif
