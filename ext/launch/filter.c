/* Reading --local-ranks-filter: see filter.h. */
#include "launch/filter.h"

#include "launch/say.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 6 }; /* of the largest number */

int filter_check(const char *list)
{
    for (const char *at = list; at; at++) {
        size_t digits = strspn(at, "0123456789");
        if (!digits || digits > DIGITS || (at[digits] && at[digits] != ','))
            return launch_say(KOLORUN_WRONG_USE, "--local-ranks-filter: wanted numbers of ranks as 0,3, got '%s'",
                              list);
        at += digits;
        if (!*at) break;
    }
    return KOLORUN_GO_ON;
}

/* Reads the number at *at and moves to the next one. False at the end. */
static bool next_number(const char **at, long *number)
{
    char *end = NULL;
    if (!*at || !**at) return false;
    *number = strtol(*at, &end, 10);
    *at = end + (*end == ',');
    return true;
}

int filter_check_ranks(const char *list, int ranks)
{
    long number = 0;
    while (next_number(&list, &number))
        if (number >= ranks)
            return launch_say(KOLORUN_WRONG_USE, "--local-ranks-filter: wanted numbers from 0 to %d, got %ld",
                              ranks - 1, number);
    return KOLORUN_GO_ON;
}

bool filter_shows(const char *list, long local_rank)
{
    long number = 0;
    if (!list) return true;
    while (next_number(&list, &number))
        if (number == local_rank) return true;
    return false;
}
