/* The text of the faults that are asked for: "rank=3,step=10,what=slow:5x", several with ; between them. For libkolo
 * (runtime/fault.h), and for kolorun, which is not linked with libkolo. */
#ifndef KOLO_CORE_FAULT_TEXT_H
#define KOLO_CORE_FAULT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Those before KOLO_FAULT_SLOW happen before the step, the others after it. */
typedef enum kolo_fault_kind {
    KOLO_FAULT_KILL,
    KOLO_FAULT_SEGV,
    KOLO_FAULT_EXIT,
    KOLO_FAULT_HANG,
    KOLO_FAULT_SKIP,
    KOLO_FAULT_DROP,
    KOLO_FAULT_CUT,
    KOLO_FAULT_SLOW,
    KOLO_FAULT_FLIP
} kolo_fault_kind;

#define KOLO_FAULT_KINDS "kill, segv, exit, hang, skip, drop, cut, slow:5x or flip"
#define KOLO_FAULTS_MAX  32

typedef struct kolo_fault_wish {
    kolo_fault_kind kind;
    int rank;
    int64_t step;
    double factor; /* of KOLO_FAULT_SLOW */
} kolo_fault_wish;

typedef struct kolo_fault_wishes {
    kolo_fault_wish wish[KOLO_FAULTS_MAX];
    int count;
} kolo_fault_wishes;

const char *kolo_fault_name(kolo_fault_kind kind); /* "kill" */
/* Adds a fault. False: it is none, and why[size] becomes a sentence that says what was wanted, without a full stop. */
bool kolo_fault_add(kolo_fault_wishes *wishes, int64_t rank, int64_t step, const char *what, char *why, size_t size);
/* Adds all faults of a text. False: one of them is none, and nothing was added. */
bool kolo_faults_read(kolo_fault_wishes *wishes, const char *text, char *why, size_t size);

#endif
