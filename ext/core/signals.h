/* Signals and the library's threads. */
#ifndef KOLO_CORE_SIGNALS_H
#define KOLO_CORE_SIGNALS_H

#include <signal.h>

/* Holds the signals of this thread, and of those that it starts meanwhile, since they belong to the program's own
 * threads; *before is for kolo_release_signals(). Faults are let through: one that is held ends the process without the
 * handler that would have said where. */
void kolo_hold_signals(sigset_t *before);
void kolo_release_signals(const sigset_t *before);

#endif
