/* The process: its ranks, its devices, its cores, and requests to stop. */
#ifndef KOLO_RUNTIME_RUNTIME_H
#define KOLO_RUNTIME_RUNTIME_H

#include "backend/backend.h"
#include "backend/gpus.h"
#include "comm/comm.h"

/* What a program ends with that failed, and one whose command line or environment asked for what cannot be. */
#define KOLO_EXIT_FAILED 1
#define KOLO_EXIT_USE    2

/* All ranks of the job; a group of one when there is no job. */
kolo_comm *kolo_world_comm(void);

/* backends.c. The backend of that name; NULL: the one that KOLO_BACKEND names, else the fastest that loads. Fails with
 * a sentence that lists the backends, or if it cannot serve the precision. */
kolo_status kolo_backend_find(const char *name, kolo_precision precision, const kolo_backend **backend);
/* Fails with that sentence if KOLO_BACKEND is set and names no backend that loads. */
kolo_status kolo_backend_check_environment(void);

/* Devices that are left by CUDA_VISIBLE_DEVICES and kolo_set_visible_devices(), by their numbers among all. */
typedef struct kolo_visible {
    int gpus;  /* number n is GPU n modulo this; 0: they are the CPU's */
    int there; /* devices without the masks */
    int count, device[KOLO_DEVICES_MAX];
} kolo_visible;
kolo_visible kolo_visible_now(void);
/* How many a strategy may use: those, or 1 after kolo_pin_device(). 0: the host alone. */
int kolo_visible_devices(void);
/* The device that replica `index` of this process computes on, by its number among the CPU's or the GPUs:
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
/* For a call that has no result when it was stopped: takes the request back and fails with a sentence if `status` is
 * KOLO_INTERRUPTED; returns every other status unchanged. */
kolo_status kolo_obey_stop(kolo_status status);

#endif
