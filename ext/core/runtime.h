/* The process: its ranks, its devices, its cores, and the wish to stop. */
#ifndef KOLO_CORE_RUNTIME_H
#define KOLO_CORE_RUNTIME_H

#include "comm/comm.h"

/* All ranks of the job; a group of one when there is no job. */
kolo_comm *kolo_world_comm(void);

/* Devices that a strategy may use: all, or 1 after kolo_pin_device(). */
int kolo_visible_devices(void);

/* KOLO_THREADS and KOLO_CPU_DEVICES hold what they should, or a sentence. */
kolo_status kolo_check_environment(void);

/* Whether kolo_request_stop() was called, and how the call that obeyed it takes it back. */
bool kolo_stop_requested(void);
void kolo_stop_clear(void);

#endif
