/* --local-ranks-filter: which ranks' output is shown. Named like torchrun's option. */
#ifndef KOLO_LAUNCH_FILTER_H
#define KOLO_LAUNCH_FILTER_H

#include <stdbool.h>

/* Refuses a text that is not a list of whole numbers, as in "0,3"; NULL is accepted. Returns KOLORUN_GO_ON, or an exit
 * code after one sentence. */
int filter_check(const char *list);
/* Refuses a number that no rank on a host can have if there are `ranks` ranks. Returns as filter_check(). */
int filter_check_ranks(const char *list, int ranks);
/* Whether the list has the number; true for NULL. */
bool filter_shows(const char *list, long local_rank);

#endif
