/* Which thread is using a model: only one at a time, because a model has one set of engines, feeds and weights. */
#ifndef KOLO_CORE_VISIT_H
#define KOLO_CORE_VISIT_H

#include "core/error.h"

#include <pthread.h>
#include <sys/types.h>

typedef struct kolo_visit {
    const char *call; /* "kolo_fit"; all members but depth are undefined while depth is 0 */
    bool changes;     /* the call changes the model */
    pthread_t thread; /* the thread that is using the model */
    pid_t process;    /* its process; a forked child does not have its parent's other threads */
    int depth;        /* nested calls of that thread; 0: no thread is using the model */
} kolo_visit;

/* Begins a public call on a model; kolo_visit_end() ends it. A thread that is already using the model, from a callback,
 * continues. Calls that do not change the model (scores, outputs, gradients) wait for one another. A call that changes
 * the model fails while another thread is using it, and any call fails while another thread is changing it. */
kolo_status kolo_visit_begin(kolo_visit *visit, const char *call, bool changes);
void kolo_visit_end(kolo_visit *visit);
/* Whether another thread is using the model. */
bool kolo_visit_is_taken(kolo_visit *visit);

/* Marks this thread as one that Kolo started for a call. It fails where it would wait, because the call that it would
 * wait for waits for this thread. */
void kolo_thread_helps(void);

#endif
