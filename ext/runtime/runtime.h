/* The process: its ranks, its devices, its cores, and requests to stop. */
#ifndef KOLO_RUNTIME_RUNTIME_H
#define KOLO_RUNTIME_RUNTIME_H

#include "backend/backend.h"
#include "backend/gpus.h"
#include "comm/comm.h"

/* The exit codes of a program that failed, and of one whose command line or environment is invalid. */
#define KOLO_EXIT_FAILED 1
#define KOLO_EXIT_USE    2

/* Whether the ranks of this job are all on one host and, with their threads, outnumber its cores. The same on all
 * ranks. */
bool kolo_ranks_share_cores(void);
/* The communicator of all ranks of the job; of this process alone if there is no job. */
kolo_comm *kolo_world_comm(void);
/* Fails if a launcher has started this process as one of several ranks, and it has not joined them. For calls that
 * would have the result of one rank then. */
kolo_status kolo_check_joined(void);
/* asynchronous.c. Waits for all asynchronous calls, and frees their handles. */
void kolo_asynchronous_finish(void);
/* collectives.c. Checks what all collectives require: a count of at least 0, and an array unless it is 0. `times` is
 * the number of ranks whose elements the array holds. */
kolo_status kolo_check_array(const void *array, int64_t count, int times, kolo_type type, const char *name);

/* backends.c. Finds and opens the backend of that name; name NULL: the one that KOLO_BACKEND names, else the fastest
 * that loads. Fails with a list of the backends if there is none of that name; also if it does not load or does not
 * support the precision. */
kolo_status kolo_backend_find(const char *name, kolo_precision precision, const kolo_backend **backend);
/* Fails in the same way if KOLO_BACKEND is set and names no backend that loads. */
kolo_status kolo_backend_check_environment(void);

/* The devices that CUDA_VISIBLE_DEVICES and kolo_set_visible_devices() leave. */
typedef struct kolo_visible {
    int gpus;  /* number of GPUs: device n is on GPU n modulo this; 0: the devices are the CPU's */
    int there; /* number of devices without the masks */
    int count, device[KOLO_DEVICES_MAX]; /* device[count]: numbers of the visible ones among all, from 0 */
} kolo_visible;
kolo_visible kolo_visible_now(void);
/* The number of devices that a strategy may use: the visible ones, or 1 after kolo_pin_device(). 0: none, the host
 * computes. */
int kolo_visible_devices(void);
/* The device on which replica `index` of this process computes: the pinned one, or the visible one of number `index`
 * modulo their count. Returns its number among the CPU devices, or that of its GPU. */
int kolo_replica_device(int index);
/* The number among the visible devices that "cpu:1" or "gpu:1" names; KOLO_HOST for "host"; KOLO_NO_DEVICE for
 * anything else. */
#define KOLO_HOST      (-1)
#define KOLO_NO_DEVICE (-2)
int kolo_device_number(const char *name);
/* The number in "cpu:1" or "gpu:1", even if there is no such device; -1: not the name of a device. */
int kolo_device_parse(const char *name);
/* "cpu" or "gpu", the kind of this process's devices; the environment variable that sets their number. */
const char *kolo_device_word(void);
const char *kolo_device_variable(void);
/* Undoes kolo_pin_device() and kolo_set_visible_devices(). */
void kolo_devices_reset(void);

/* Fails if KOLO_THREADS, KOLO_DEVICES, KOLO_CPU_DEVICES or KOLO_GPU_DEVICES is not valid. Only warns about an invalid
 * CUDA_VISIBLE_DEVICES, once until its value changes. */
kolo_status kolo_check_environment(void);

/* Whether kolo_request_stop() was called. The call is also a sign of life: other ranks that wait for this one go on
 * waiting. */
bool kolo_stop_requested(void);
bool kolo_stop_is_set(void); /* the same without a sign of life */
/* Cancels the request, after a call has stopped. Does nothing within a hook of another call, which must stop too. */
void kolo_stop_obeyed(void);
/* For calls that have no result if they are stopped: if `status` is KOLO_INTERRUPTED, cancels the request and fails
 * with a sentence. Returns any other status unchanged. */
kolo_status kolo_obey_stop(kolo_status status);

#endif
