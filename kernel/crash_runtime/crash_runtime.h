/* When a fault ends a program of %%run it leaves a note beside its file, with CRASH_NOTE behind the name: a `message`
 * and its payload, as a worker's MESSAGE_FATAL has them. Written by crash_runtime.c, read by magics/program_exit.c.
 * Read first: worker/protocol.h. */
#ifndef KERNEL_CRASH_RUNTIME_H
#define KERNEL_CRASH_RUNTIME_H

#define CRASH_NOTE ".crash"

#endif
