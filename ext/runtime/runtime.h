/* The process: its ranks, its devices, its cores, and the wish to stop. */
#ifndef KOLO_RUNTIME_RUNTIME_H
#define KOLO_RUNTIME_RUNTIME_H

#include "comm/comm.h"

/* What a program ends with that failed, and one whose command line or environment asked for what cannot be. */
#define KOLO_EXIT_FAILED 1
#define KOLO_EXIT_USE    2

/* All ranks of the job; a group of one when there is no job. */
kolo_comm *kolo_world_comm(void);

/* GPUs that this process may have, if its devices are GPUs: 0 where KOLO_DEVICES, or a KOLO_BACKEND of the host's,
 * keeps to the CPU, and where there are none. All that the driver has: masks are not looked at. */
int kolo_gpus(void);
/* Who computes on them; NULL where kolo_gpus() is 0. */
const struct kolo_device_information *kolo_gpu_information(void);
/* The end of a sentence about a process that sees no GPU. */
const char *kolo_gpus_why_none(void);
/* KOLO_DEVICES holds what it should, or a sentence. */
kolo_status kolo_gpus_check_environment(void);

/* Devices that are left by CUDA_VISIBLE_DEVICES and kolo_set_visible_devices(), by their numbers among all. */
typedef struct kolo_visible {
    int gpus;  /* number n is GPU n modulo this; 0: they are the CPU's */
    int there; /* devices without the masks */
    int count, device[KOLO_DEVICES_MAX];
} kolo_visible;
kolo_visible kolo_visible_now(void);
/* How many a strategy may use: those, or 1 after kolo_pin_device(). 0: the host alone. */
int kolo_visible_devices(void);
/* The device that replica `index` of this process computes on, by its number among the CPU's, or for the accelerator:
 * the pinned one, or of the visible ones the next. */
int kolo_replica_device(int index);
/* The number of "cpu:1" or "gpu:1" among the visible ones; KOLO_HOST for "host"; KOLO_NO_DEVICE for anything else. */
#define KOLO_HOST      (-1)
#define KOLO_NO_DEVICE (-2)
int kolo_device_number(const char *name);
/* The same, whether there is such a device or not: -1 for what is no device's name. */
int kolo_device_parse(const char *name);
/* "cpu" or "gpu"; and the variable that says how many there are. */
const char *kolo_device_word(void);
const char *kolo_device_variable(void);
/* Forgets what was pinned and set. */
void kolo_devices_reset(void);

/* KOLO_THREADS, KOLO_DEVICES, KOLO_CPU_DEVICES and KOLO_GPU_DEVICES hold what they should, or a sentence; one of advice
 * about a CUDA_VISIBLE_DEVICES that does not, once for each value. */
kolo_status kolo_check_environment(void);

/* Whether kolo_request_stop() was called, and how the call that obeyed it takes it back; one in a hook of another
 * leaves that to the other, which is to end too. */
bool kolo_stop_requested(void);
void kolo_stop_obeyed(void);

#endif
