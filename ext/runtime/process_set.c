/* Process sets: some of the ranks as a group. See kolo_tools.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "runtime/process_set.h"
#include "runtime/runtime.h"

struct kolo_process_set {
    kolo_comm *comm; /* NULL: this rank is no member */
    int size;
    int *numbers;    /* [size] the members' ranks, in order */
    char ranks[200]; /* the same, for sentences */
    kolo_process_set *next; /* in all_sets */
};

static kolo_process_set *all_sets; /* the newest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list: asynchronous calls look for their sets in it */

/* ---------------------------------------------------------------- the ranks that are wanted */

/* The arguments of a rank, which all ranks compare. */
typedef struct wish {
    uint64_t hash; /* of the ranks in order; 0: they are invalid, and text says why */
    char text[240];
} wish;

static void add_text(char *text, size_t room, int rank)
{
    size_t length = strlen(text);
    snprintf(text + length, room - length, "%s%d", length ? ", " : "", rank);
}

/* Marks the ranks in member[size]. */
static bool are_valid(const int *ranks, int count, bool *member, char text[240])
{
    int size = kolo_size();
    if (!ranks || count < 1 || count > size) {
        snprintf(text, 240, "wanted 1 to %d ranks, got %s", size, ranks ? kolo_phrase("%d", count) : "NULL");
        return false;
    }
    for (int i = 0; i < count; i++) {
        bool exists = ranks[i] >= 0 && ranks[i] < size, twice = exists && member[ranks[i]];
        if (exists && !twice) member[ranks[i]] = true;
        else if (twice) snprintf(text, 240, "wanted each rank once, got rank %d twice", ranks[i]);
        else snprintf(text, 240, "wanted ranks from 0 to %d, got %d", size - 1, ranks[i]);
        if (!exists || twice) return false;
    }
    return true;
}

static wish make_wish(const int *ranks, int count, bool *member)
{
    wish mine = {.hash = 0};
    if (!are_valid(ranks, count, member, mine.text)) return mine;
    mine.hash = kolo_hash_add(KOLO_HASH_START, member, (size_t)kolo_size() * sizeof *member);
    for (int r = 0; r < kolo_size(); r++)
        if (member[r]) add_text(mine.text, sizeof mine.text, r);
    return mine;
}

static kolo_status compare_wishes(const wish *all)
{
    for (int r = 0; r < kolo_size(); r++)
        if (all[r].hash == 0) return kolo_fail(KOLO_INVALID, "rank %d: %s", r, all[r].text);
    for (int r = 1; r < kolo_size(); r++)
        if (all[r].hash != all[0].hash)
            return kolo_fail(KOLO_INVALID, "wanted the same ranks on all ranks, got %s on rank 0, %s on rank %d",
                             all[0].text, all[r].text, r);
    return KOLO_OK;
}

/* Fails on all ranks if one of them was given others than rank 0, or invalid ones. */
static kolo_status agree(const int *ranks, int count, bool *member, wish *mine)
{
    kolo_comm *world = kolo_world_comm();
    wish *all = calloc((size_t)world->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)world->size * sizeof *all, "the ranks of a process set");
    *mine = make_wish(ranks, count, member);
    kolo_status status = world->kind->allgather(world, mine, sizeof *mine, all);
    if (status == KOLO_OK) status = compare_wishes(all);
    free(all);
    return status;
}

/* ---------------------------------------------------------------- sets */

static kolo_status open_set(kolo_process_set *set, const int *ranks, int count, bool *member)
{
    kolo_comm *world = kolo_world_comm();
    wish mine;
    if (!world->kind->split)
        return kolo_fail(KOLO_UNSUPPORTED, "wanted ranks of MPI, got ranks that TF_CONFIG names, which have no process "
                                           "sets: start them with kolorun");
    KOLO_TRY(agree(ranks, count, member, &mine));
    set->numbers = malloc((size_t)count * sizeof *set->numbers);
    if (!set->numbers) return kolo_fail_memory((size_t)count * sizeof *set->numbers, "a process set");
    for (int r = 0; r < world->size; r++)
        if (member[r]) set->numbers[set->size++] = r;
    snprintf(set->ranks, sizeof set->ranks, "%.*s", (int)sizeof set->ranks - 1, mine.text);
    return world->kind->split(world, member[world->rank] ? 0 : -1, &set->comm);
}

static kolo_status add_set(const int *ranks, int count, kolo_process_set **set)
{
    kolo_process_set *made = calloc(1, sizeof *made);
    bool *member = calloc((size_t)kolo_size(), sizeof *member);
    kolo_status status = KOLO_MEMORY;
    if (!made || !member) kolo_fail_memory(sizeof *made, "a process set");
    else status = open_set(made, ranks, count, member);
    free(member);
    if (status != KOLO_OK) {
        if (made) free(made->numbers);
        free(made);
        return status;
    }
    pthread_mutex_lock(&lock);
    made->next = all_sets;
    *set = all_sets = made;
    pthread_mutex_unlock(&lock);
    return KOLO_OK;
}

kolo_process_set *kolo_add_process_set_at(const int *ranks, int count, kolo_here here)
{
    kolo_process_set *set = NULL;
    kolo_scope scope = kolo_enter("kolo_add_process_set", here);
    return kolo_leave(scope, add_set(ranks, count, &set)) == KOLO_OK ? set : NULL;
}

/* A program may keep a pointer to a set that kolo_process_set_free() or kolo_finish() has freed. */
static bool is_open(const kolo_process_set *set)
{
    pthread_mutex_lock(&lock);
    const kolo_process_set *at = all_sets;
    while (at && at != set) at = at->next;
    pthread_mutex_unlock(&lock);
    return at;
}

static void take_out(kolo_process_set *set)
{
    pthread_mutex_lock(&lock);
    kolo_process_set **at = &all_sets;
    while (*at != set) at = &(*at)->next;
    *at = set->next;
    pthread_mutex_unlock(&lock);
}

/* A set of a program of one rank has that program's own group, which is never closed. Closing waits for asynchronous
 * calls, which must still find the set in the list. */
static void close_set(kolo_process_set *set, bool leave)
{
    if (leave && set->comm && set->comm != kolo_comm_self()) set->comm->kind->close(set->comm);
    take_out(set);
    free(set->numbers);
    free(set);
}

void kolo_process_set_free(kolo_process_set **set)
{
    if (!set) return;
    if (*set && is_open(*set)) close_set(*set, true);
    *set = NULL;
}

void kolo_process_sets_close(bool leave)
{
    while (all_sets) close_set(all_sets, leave);
}

int kolo_process_set_rank(const kolo_process_set *set)
{
    if (!set) return kolo_rank();
    return is_open(set) && set->comm ? set->comm->rank : -1;
}

int kolo_process_set_size(const kolo_process_set *set)
{
    if (!set) return kolo_size();
    return is_open(set) ? set->size : 0;
}

int kolo_process_set_member(const kolo_process_set *set, int rank)
{
    if (!set) return rank;
    for (int i = 0; i < set->size; i++)
        if (set->numbers[i] == rank) return i;
    return -1;
}

int kolo_process_set_number(const kolo_process_set *set, int member)
{
    return set ? set->numbers[member] : member;
}

kolo_status kolo_set_comm(const kolo_process_set *set, kolo_comm **comm)
{
    if (set && !is_open(set))
        return kolo_fail(KOLO_INVALID, ".process_set: wanted a set of kolo_add_process_set(), got one that was freed");
    if (!set) KOLO_TRY(kolo_check_joined());
    *comm = set ? set->comm : kolo_world_comm();
    if (*comm) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".process_set: wanted a call by its members alone, ranks %s, got one by rank %d",
                     set->ranks, kolo_rank());
}
