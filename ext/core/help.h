/* Printing the text of --help, for libkolo's programs and for kolorun. */
#ifndef KOLO_CORE_HELP_H
#define KOLO_CORE_HELP_H

#include <argp.h>
#include <stdbool.h>

/* Prints the text of argp_help() for `argp` and the ARGP_HELP_ flags to stdout, without the lines of spaces that
 * argp_help() adds to a text that ends at the right margin. False if memory is out or stdout cannot be written. */
bool kolo_print_help(const struct argp *argp, unsigned flags, const char *program);

#endif
