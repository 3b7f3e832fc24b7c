/* What a program of %%run leaves behind when a fault ends it: a file beside it, PROGRAM_NOTE behind its name. In it are
 * the signal, why, the address of the fault, and the program's own frames, innermost first, as offsets in its file:
 * "11 0 7ffd10 1159 1180", the first two decimal, the others hexadecimal. Written by linked/program.c, read by
 * magics/program_exit.c. */
#ifndef KERNEL_LINKED_PROGRAM_H
#define KERNEL_LINKED_PROGRAM_H

#define PROGRAM_NOTE ".ending"

enum { PROGRAM_FAULT, PROGRAM_UNREACHABLE, PROGRAM_INDEX, PROGRAM_STACK, PROGRAM_SMASHED };

#endif
