/* The offsets between the clocks of hosts: see timeline.h.
 *
 * A rank on another host sends a message to rank 0, which answers with its time. The rank takes that for the time in
 * the middle of the round trip. The error is at most half of the round trip, so the shortest one of several counts
 * (Cristian 1989, "Probabilistic clock synchronization"). */
#include "runtime/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 32 };

/* CLOCK_MONOTONIC counts from the host's start, and a time namespace may shift it. */
void kolo_clock_name(char name[KOLO_CLOCK_NAME])
{
    char boot[48] = "", space[48] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof boot, file)) boot[0] = 0;
    if (file) fclose(file);
    boot[strcspn(boot, "\n")] = 0;
    ssize_t length = readlink("/proc/self/ns/time", space, sizeof space - 1);
    if (length < 0) length = 0;
    snprintf(name, KOLO_CLOCK_NAME, "%s %.*s", boot, (int)length, space);
    if (!boot[0]) gethostname(name, KOLO_CLOCK_NAME - 1);
}

static kolo_status answer(kolo_comm *comm, int64_t (*clock)(void), int rank)
{
    kolo_message message;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t now = 0;
        KOLO_TRY(comm->kind->receive(comm, &now, sizeof now, rank, KOLO_TAG_TIMELINE, &message));
        now = clock();
        KOLO_TRY(comm->kind->send(comm, &now, sizeof now, rank, KOLO_TAG_TIMELINE));
    }
    return KOLO_OK;
}

static kolo_status ask(kolo_comm *comm, int64_t (*clock)(void), int64_t *offset, int64_t *error)
{
    kolo_message message;
    *error = INT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t sent = clock(), theirs = 0;
        KOLO_TRY(comm->kind->send(comm, &sent, sizeof sent, 0, KOLO_TAG_TIMELINE));
        KOLO_TRY(comm->kind->receive(comm, &theirs, sizeof theirs, 0, KOLO_TAG_TIMELINE, &message));
        int64_t trip = clock() - sent;
        if (trip / 2 >= *error) continue;
        *error = trip / 2;
        *offset = theirs - (sent + trip / 2);
    }
    return KOLO_OK;
}

static kolo_status measure(kolo_comm *comm, const char *names, int64_t (*clock)(void), int64_t *offset, int64_t *error)
{
    const char *mine = names + (ptrdiff_t)comm->rank * KOLO_CLOCK_NAME;
    *offset = *error = 0;
    if (comm->rank > 0) return strcmp(mine, names) == 0 ? KOLO_OK : ask(comm, clock, offset, error);
    for (int r = 1; r < comm->size; r++)
        if (strcmp(names + (ptrdiff_t)r * KOLO_CLOCK_NAME, names) != 0) KOLO_TRY(answer(comm, clock, r));
    return KOLO_OK;
}

kolo_status kolo_clock_offset(kolo_comm *comm, const char *where, int64_t (*clock)(void), int64_t *offset,
                              int64_t *error)
{
    char mine[KOLO_CLOCK_NAME] = "";
    size_t bytes = (size_t)comm->size * sizeof mine;
    char *names = malloc(bytes);
    if (!names) return kolo_fail_memory(bytes, "the clocks of the ranks");
    snprintf(mine, sizeof mine, "%s", where);
    kolo_status status = comm->kind->allgather(comm, mine, sizeof mine, names);
    if (status == KOLO_OK) status = measure(comm, names, clock, offset, error);
    free(names);
    return status;
}
