/* Signals and the library's threads. */
#ifndef KOLO_CORE_SIGNALS_H
#define KOLO_CORE_SIGNALS_H

#include <signal.h>

/* Blocks signals in this thread, and in the threads that it starts before kolo_release_signals(before), so that only
 * the program's own threads handle them. Faults (SIGSEGV and so on) are not blocked: a blocked fault ends the process
 * without running its handler, which may report where it occurred. */
void kolo_hold_signals(sigset_t *before);
void kolo_release_signals(const sigset_t *before);

#endif
