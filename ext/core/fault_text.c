/* Reads faults: see fault_text.h. */
#include "core/fault_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"kill", "segv", "exit", "hang", "skip", "drop", "cut", "slow", "flip"};

const char *kolo_fault_name(kolo_fault_kind kind)
{
    return names[kind];
}

/* Reads "kill" or "slow:5x". */
static bool read_what(const char *what, kolo_fault_wish *wish)
{
    size_t length = strcspn(what, ":");
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strlen(names[k]) != length || strncmp(names[k], what, length) != 0) continue;
        char *end = NULL;
        wish->kind = (kolo_fault_kind)k;
        if (wish->kind != KOLO_FAULT_SLOW) return !what[length];
        wish->factor = what[length] ? strtod(what + length + 1, &end) : 0;
        return wish->factor >= 1 && wish->factor <= 1e6 && (!*end || strcmp(end, "x") == 0);
    }
    return false;
}

bool kolo_fault_add(kolo_fault_wishes *wishes, int64_t rank, int64_t step, const char *what, char *why, size_t size)
{
    kolo_fault_wish wish = {.rank = (int)rank, .step = step};
    const char *given = what ? what : "";
    if (wishes->count == KOLO_FAULTS_MAX) snprintf(why, size, "wanted at most %d faults, got more", KOLO_FAULTS_MAX);
    else if (rank < 0 || rank > INT32_MAX) snprintf(why, size, ".rank: wanted at least 0, got %lld", (long long)rank);
    else if (step < 0) snprintf(why, size, ".step: wanted at least 0, got %lld", (long long)step);
    else if (!read_what(given, &wish)) snprintf(why, size, ".what: wanted " KOLO_FAULT_KINDS ", got \"%.40s\"", given);
    else {
        wishes->wish[wishes->count++] = wish;
        return true;
    }
    return false;
}

/* Reads a part like "rank=3". False: it is another, or has no number. */
static bool read_number(const char *part, const char *name, int64_t *number)
{
    size_t length = strlen(name);
    char *end;
    if (strncmp(part, name, length) != 0) return false;
    *number = strtoll(part + length, &end, 10);
    return end != part + length && !*end && *number <= INT32_MAX && *number >= INT32_MIN;
}

/* Notes in *seen that the fault has this part; false if it had one of that name before. */
static bool is_first(const char *part, unsigned *seen)
{
    static const char *const parts[] = {"rank=", "step=", "what="};
    unsigned bit = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        if (strncmp(part, parts[p], strlen(parts[p])) == 0) bit = 1u << p;
    bool first = !(*seen & bit);
    *seen |= bit;
    return first;
}

/* Reads one fault, whose text is changed. */
static bool read_fault(kolo_fault_wishes *wishes, char *text, char *why, size_t size)
{
    int64_t rank = 0, step = 0;
    unsigned seen = 0;
    char *rest, *what = NULL;
    for (char *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        if (!is_first(part, &seen)) {
            snprintf(why, size, "wanted rank, step and what once each, got \"%.40s\" as another", part);
            return false;
        }
        if (strncmp(part, "what=", 5) == 0) {
            what = part + 5;
        } else if (!read_number(part, "rank=", &rank) && !read_number(part, "step=", &step)) {
            snprintf(why, size, "wanted rank=N,step=N,what=W with W " KOLO_FAULT_KINDS ", got \"%.40s\"", part);
            return false;
        }
    }
    return kolo_fault_add(wishes, rank, step, what, why, size);
}

bool kolo_faults_read(kolo_fault_wishes *wishes, const char *text, char *why, size_t size)
{
    char *copy = strdup(text), *rest;
    int before = wishes->count;
    bool read = copy != NULL;
    if (!copy) snprintf(why, size, "out of memory");
    for (char *one = copy ? strtok_r(copy, ";", &rest) : NULL; one && read; one = strtok_r(NULL, ";", &rest))
        read = read_fault(wishes, one, why, size);
    if (!read) wishes->count = before;
    free(copy);
    return read;
}
