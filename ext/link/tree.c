/* The rounds of two binary trees at once. See link_model.h.
 *
 * The array is cut into halves, one for each tree, and each half into k pieces that follow each other: up, summed on
 * their way, and down from the root. In a tree of depth D piece c goes from depth d to its parent in round (D−d)+c, and
 * from the parent down to depth d in round D+(d−1)+c: 2D+k−1 rounds for an all-reduce, D+k−1 for a broadcast, which
 * only goes down. The first tree is that of NCCL: a device's parent follows from the bits of its number, so that most
 * links are within a host. The second one is the first with the numbers reversed, or, for an odd number of devices,
 * moved on by one; an inner device of one tree is a leaf of the other.
 */
#include <stdlib.h>

#include "link/link_model.h"

typedef struct tree {
    int devices, depth;
    int *parent, *level; /* [devices]; parent -1: the root */
} tree;

/* With b the lowest bit that is set: the number without b and with the next higher bit, or without b if there is no
 * such device; the root is 0. */
static int parent_of(int number, int devices)
{
    int bit = 1, up;
    if (number == 0) return -1;
    while (!(number & bit)) bit <<= 1;
    up = (number ^ bit) | bit << 1;
    return up < devices ? up : number ^ bit;
}

static int level_of(const tree *t, int number)
{
    int level = 0;
    while (t->parent[number] >= 0) number = t->parent[number], level++;
    return level;
}

static kolo_status open_tree(int devices, tree *t)
{
    size_t bytes = (size_t)devices * sizeof(int);
    *t = (tree){.devices = devices, .parent = calloc(1, bytes), .level = calloc(1, bytes)};
    if (!t->parent || !t->level) return kolo_fail_memory(2 * bytes, "a tree of devices");
    for (int i = 0; i < devices; i++) t->parent[i] = parent_of(i, devices);
    for (int i = 0; i < devices; i++) {
        t->level[i] = level_of(t, i);
        if (t->level[i] > t->depth) t->depth = t->level[i];
    }
    return KOLO_OK;
}

static void close_tree(tree *t)
{
    free(t->parent);
    free(t->level);
}

/* The device that stands at `number` in the first or the second tree. */
static int device_in(const tree *t, bool second, int number)
{
    if (!second) return number;
    return t->devices % 2 ? (number + 1) % t->devices : t->devices - 1 - number;
}

/* The levels whose links are used in a round; empty if the first is above the last. */
typedef struct levels {
    int first, last;
} levels;

static levels clipped(int64_t first, int64_t last, int depth)
{
    return (levels){first < 1 ? 1 : (int)first, last > depth ? depth : (int)last};
}

static bool in(levels l, int level)
{
    return level >= l.first && level <= l.last;
}

static bool alike(levels a, levels b)
{
    return (a.first == b.first && a.last == b.last) || (a.first > a.last && b.first > b.last);
}

static kolo_status add_links(kolo_round *round, const tree *t, levels up, levels down, double bytes)
{
    const kolo_link_model *model = round->model;
    for (int i = 0; i < 2 * t->devices; i++) {
        int number = i / 2, level = t->level[number];
        if (t->parent[number] < 0) continue;
        kolo_place child = kolo_device_at(model, device_in(t, i % 2, number));
        kolo_place parent = kolo_device_at(model, device_in(t, i % 2, t->parent[number]));
        if (in(up, level)) KOLO_TRY(kolo_round_add(round, child, parent, bytes));
        if (in(down, level)) KOLO_TRY(kolo_round_add(round, parent, child, bytes));
    }
    return KOLO_OK;
}

/* All rounds with k pieces. A round that uses the same levels as the one before takes as long. */
static kolo_status run(const kolo_task *task, const tree *t, kolo_round *round, int64_t pieces, double *seconds,
                       int64_t *rounds)
{
    bool both = task->operation == KOLO_MODELLED_ALLREDUCE;
    int64_t ascent = both ? t->depth : 0, count = ascent + t->depth + pieces - 1;
    levels up_before = {0, 0}, down_before = {0, 0};
    double one = 0;
    *seconds = 0;
    for (int64_t r = 0; r < count; r++) {
        levels up = clipped(t->depth - r, t->depth - r + pieces - 1, t->depth);
        levels down = clipped(r - ascent - pieces + 2, r - ascent + 1, t->depth);
        if (!both) up = (levels){1, 0};
        if (r == 0 || !alike(up, up_before) || !alike(down, down_before)) {
            KOLO_TRY(add_links(round, t, up, down, task->bytes / 2 / (double)pieces));
            one = kolo_round_seconds(round);
        }
        up_before = up;
        down_before = down;
        *seconds += one;
    }
    *rounds = count;
    return KOLO_OK;
}

kolo_status kolo_rounds_of_tree(const kolo_task *task, double *seconds, int64_t *rounds)
{
    kolo_round round = {0};
    tree t;
    kolo_status status;
    KOLO_GO(done, open_tree(task->devices, &t));
    KOLO_GO(done, kolo_round_open(task->model, &round));
    for (int64_t pieces = 1; pieces <= 1 << 16; pieces *= 2) {
        double all;
        int64_t count;
        KOLO_GO(done, run(task, &t, &round, pieces, &all, &count));
        if (pieces > 1 && all >= *seconds) break;
        *seconds = all;
        *rounds = count;
    }
done:
    kolo_round_close(&round);
    close_tree(&t);
    return status;
}
