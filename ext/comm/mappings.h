/* What one member of a group has mapped of the shareable memory (shareable.h) of all members.
 *
 * The members of a group must all know whether an all-reduce can work in place. So each of them looks at the same
 * places in the same order, and keeps the same list of blocks for each member: those that the member used last. A block
 * that is not in the list is mapped by all members at once, who then tell each other whether they could
 * (kolo_mappings_settle()).
 */
#ifndef KOLO_COMM_MAPPINGS_H
#define KOLO_COMM_MAPPINGS_H

#include "comm/shareable.h"
#include "core/error.h"

/* Blocks that are kept of each member: one for each model that trains in turn with others. The least recently used one
 * is unmapped when another is needed. */
enum { KOLO_MAPPINGS_KEPT = 8 };

typedef struct kolo_mappings kolo_mappings;

kolo_status kolo_mappings_open(int size, kolo_mappings **mappings);
/* Unmaps everything. */
void kolo_mappings_close(kolo_mappings **mappings);

/* Whether the block is in the member's list; it then counts as used. */
bool kolo_mappings_has(kolo_mappings *mappings, int member, const kolo_shareable_place *place);
/* Puts a block into the list and maps it. Returns whether that worked; it is not usable before
 * kolo_mappings_settle(). */
bool kolo_mappings_add(kolo_mappings *mappings, int member, const kolo_shareable_place *place);
/* all: every member has mapped all blocks that were added since the last call. Otherwise none of them is used. */
void kolo_mappings_settle(kolo_mappings *mappings, bool all);
/* The address of a place in a block of the list; NULL: the block cannot be used, on any member. */
void *kolo_mappings_at(const kolo_mappings *mappings, int member, const kolo_shareable_place *place);

#endif
