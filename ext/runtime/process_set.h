/* The groups behind process sets. */
#ifndef KOLO_RUNTIME_PROCESS_SET_H
#define KOLO_RUNTIME_PROCESS_SET_H

#include "comm/comm.h"

/* The group of a call with this .process_set: all ranks if it is NULL. Fails if this rank is no member. */
kolo_status kolo_set_comm(const kolo_process_set *set, kolo_comm **comm);
/* The number in the set of a rank of the job; -1: it is no member. */
int kolo_process_set_member(const kolo_process_set *set, int rank);
/* The rank of the job of a member. */
int kolo_process_set_number(const kolo_process_set *set, int member);
/* Frees all sets. leave: the other members do the same; otherwise the job ends. */
void kolo_process_sets_close(bool leave);

#endif
