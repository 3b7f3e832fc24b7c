/* Parts of the world: groups of some of its ranks, for process sets. A part has communicators of its own, and on one
 * host also shared memory of its own, so calls in a part and in the world cannot be mixed up. See mpi_comm.h. */
#include "comm/mpi_comm.h"

#include <stdio.h>
#include <stdlib.h>

/* Sets part->numbers to the world's numbers of its ranks. */
static kolo_status number_ranks(mpi_comm *part, int mine)
{
    size_t bytes = (size_t)part->comm.size * sizeof *part->numbers;
    part->numbers = malloc(bytes);
    if (!part->numbers) return kolo_fail_memory(bytes, "the ranks of a group");
    return kolo_mpi_check(part, MPI_Allgather(&mine, 1, MPI_INT, part->numbers, 1, MPI_INT, part->handle),
                          "MPI_Allgather");
}

/* "process set 2 (ranks 0, 1)": the second split of the world has made it. */
static void name_part(mpi_comm *part, int number)
{
    enum { SHOWN_RANKS = 8 };
    size_t room = sizeof part->name, used = (size_t)snprintf(part->name, room, "process set %d (ranks ", number);
    for (int i = 0; i < part->comm.size && i <= SHOWN_RANKS && used < room; i++)
        used += (size_t)(i == SHOWN_RANKS
                             ? snprintf(part->name + used, room - used, ", …")
                             : snprintf(part->name + used, room - used, "%s%d", i ? ", " : "", part->numbers[i]));
    if (used < room) snprintf(part->name + used, room - used, ")");
}

/* If the world shares no memory, a part does not, either. */
static kolo_status share_memory(mpi_comm *part, const mpi_comm *world)
{
    if (!world->shared || part->comm.size == 1) return KOLO_OK;
    KOLO_TRY(kolo_mpi_share_memory(part, part->handle, part->comm.rank, part->comm.size, &part->memory));
    if (!part->memory.address) return KOLO_OK;
    part->shared = calloc(1, sizeof *part->shared);
    if (!part->shared) return kolo_fail_memory(sizeof *part->shared, "a group of ranks");
    return kolo_shared_open_part(part->shared, world->shared, part->numbers, part->name, part->memory.address,
                                 part->comm.rank, part->comm.size);
}

static kolo_status open_part(mpi_comm *part, const mpi_comm *world)
{
    KOLO_TRY(kolo_mpi_check(part, MPI_Comm_set_errhandler(part->handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    KOLO_TRY(kolo_mpi_check(part, MPI_Comm_rank(part->handle, &part->comm.rank), "MPI_Comm_rank"));
    KOLO_TRY(kolo_mpi_check(part, MPI_Comm_size(part->handle, &part->comm.size), "MPI_Comm_size"));
    part->crowded = world->crowded;
    KOLO_TRY(number_ranks(part, world->comm.rank));
    name_part(part, world->parts);
    KOLO_TRY(share_memory(part, world));
    KOLO_TRY(kolo_mpi_prepare_meetings(part));
    return kolo_mpi_check(part, MPI_Comm_dup(part->handle, &part->points), "MPI_Comm_dup");
}

void kolo_mpi_close_part(mpi_comm *me)
{
    if (me->shared) kolo_shared_close(me->shared);
    free(me->shared);
    kolo_mpi_unmap(&me->memory);
    free(me->numbers);
}

static kolo_status split(mpi_comm *me, int color, MPI_Comm *handle)
{
    return kolo_mpi_check(me, MPI_Comm_split(me->handle, color < 0 ? MPI_UNDEFINED : color, me->comm.rank, handle),
                          "MPI_Comm_split");
}

/* A failure after the split leaves the part's memory and communicator to the end of the process, which is near. */
kolo_status kolo_mpi_split(kolo_comm *comm, int color, kolo_comm **part)
{
    mpi_comm *me = (mpi_comm *)comm, *made = calloc(1, sizeof *made);
    *part = NULL;
    if (!made) return kolo_fail_memory(sizeof *made, "a group of ranks");
    me->parts++;
    made->comm.kind = &kolo_mpi_kind;
    made->points = made->leaders = MPI_COMM_NULL;
    kolo_status status = split(me, color, &made->handle);
    if (status != KOLO_OK || made->handle == MPI_COMM_NULL) {
        free(made);
        return status;
    }
    KOLO_TRY(open_part(made, me));
    *part = &made->comm;
    return KOLO_OK;
}
