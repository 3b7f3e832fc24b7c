/* Which thread works with a model: one at a time, since its engines, feeds and weights are one set. */
#ifndef KOLO_CORE_VISIT_H
#define KOLO_CORE_VISIT_H

#include "core/error.h"

#include <pthread.h>
#include <sys/types.h>

typedef struct kolo_visit {
    const char *call; /* "kolo_fit()"; this and what follows are meaningless while depth is 0 */
    bool changes;     /* the call changes the model */
    pthread_t thread;
    pid_t process; /* a forked child has none of its parent's other threads */
    int depth;     /* calls of that thread, one in a callback of another; 0: nobody is there */
} kolo_visit;

/* Begins a public call's visit to a model, which kolo_visit_end() ends. A thread that is there already, whose callback
 * calls, goes on. Calls that only look (scores, outputs, gradients) wait for one another. A call that changes the model
 * fails with a sentence beside any other thread's, and so does any call beside one that changes it. */
kolo_status kolo_visit_begin(kolo_visit *visit, const char *call, bool changes);
void kolo_visit_end(kolo_visit *visit);
/* Whether another thread is there. */
bool kolo_visit_is_taken(kolo_visit *visit);

/* Of a thread that Kolo started to work for a call: it must not wait for that call's end. */
void kolo_thread_helps(void);

#endif
