/* Results of MPI's calls, and waiting for them. See mpi_comm.h. */
#define _GNU_SOURCE
#include "comm/mpi_comm.h"

#include <sched.h>
#include <time.h>

kolo_status kolo_mpi_check(const mpi_comm *me, int result, const char *name)
{
    if (result == MPI_SUCCESS) return KOLO_OK;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length;
    MPI_Error_string(result, text, &length);
    return kolo_fail(KOLO_COMM, "%s failed on rank %d: %s", name, me->comm.rank, text);
}

void kolo_mpi_lock(void)
{
    pthread_mutex_lock(&kolo_mpi_process.lock);
}

void kolo_mpi_unlock(void)
{
    pthread_mutex_unlock(&kolo_mpi_process.lock);
}

bool kolo_mpi_sleeps(const mpi_comm *me)
{
    return me->crowded || kolo_call_is_in_background();
}

static void yield(int turn)
{
    enum { YIELDS = 200, SHORTEST = 20000, DOUBLINGS = 4 }; /* turns; nanoseconds; up to 320 µs */
    if (turn < YIELDS) {
        sched_yield();
        return;
    }
    int doublings = turn - YIELDS < DOUBLINGS ? turn - YIELDS : DOUBLINGS;
    nanosleep(&(struct timespec){.tv_nsec = (long)SHORTEST << doublings}, NULL);
}

void kolo_mpi_pause(const mpi_comm *me, int turn)
{
    kolo_mpi_unlock();
    if (kolo_mpi_sleeps(me)) yield(turn);
    kolo_mpi_lock();
}

/* The error of the first request that failed; MPI_Waitall only returns that there is one. */
static int first_error(int result, const MPI_Status *statuses, int count)
{
    for (int i = 0; result == MPI_ERR_IN_STATUS && i < count; i++) {
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return statuses[i].MPI_ERROR;
    }
    return result;
}

int kolo_mpi_wait_asleep(MPI_Request *requests, MPI_Status *statuses, int count)
{
    int result = MPI_SUCCESS, done = 0;
    for (int turn = 0; result == MPI_SUCCESS && !done; turn++) {
        if (turn > 0) {
            kolo_mpi_unlock();
            yield(turn);
            kolo_mpi_lock();
        }
        result = MPI_Testall(count, requests, &done, statuses);
    }
    return result;
}

kolo_status kolo_mpi_wait_all(const mpi_comm *me, MPI_Request *requests, MPI_Status *statuses, int count,
                              const char *name)
{
    int result =
        kolo_mpi_sleeps(me) ? kolo_mpi_wait_asleep(requests, statuses, count) : MPI_Waitall(count, requests, statuses);
    return kolo_mpi_check(me, first_error(result, statuses, count), name);
}

kolo_status kolo_mpi_wait_one(const mpi_comm *me, int result, MPI_Request *request, const char *name)
{
    MPI_Status status;
    KOLO_TRY(kolo_mpi_check(me, result, name));
    return kolo_mpi_wait_all(me, request, &status, 1, name);
}
