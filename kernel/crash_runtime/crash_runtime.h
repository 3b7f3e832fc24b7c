/* What a program of %%run leaves behind when a fault ends it: a file beside it, CRASH_NOTE behind its name. In it are
 * the signal, why, the address of the fault, and the program's own frames, innermost first, as offsets in its file:
 * "11 0 7ffd10 1159 1180", the first two decimal, the others hexadecimal. Written by crash_runtime/crash_runtime.c, read by
 * magics/program_exit.c. */
#ifndef KERNEL_CRASH_RUNTIME_H
#define KERNEL_CRASH_RUNTIME_H

#define CRASH_NOTE ".crash"

enum { CRASH_FAULT, CRASH_UNREACHABLE, CRASH_INDEX, CRASH_STACK, CRASH_SMASHED };

#endif
