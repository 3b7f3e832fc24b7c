/* What --help prints, of libkolo's programs and of kolorun alike. */
#ifndef KOLO_CORE_HELP_H
#define KOLO_CORE_HELP_H

#include <argp.h>
#include <stdbool.h>

/* Prints to stdout what argp_help() makes of `argp` and its ARGP_HELP_ flags, without the lines of blanks that it adds
 * to a text that ends at the right margin. False without memory, or where stdout cannot be written. */
bool kolo_print_help(const struct argp *argp, unsigned flags, const char *program);

#endif
