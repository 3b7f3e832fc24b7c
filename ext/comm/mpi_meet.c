/* The comparison of the ranks' calls, with which every collective begins, and the end of a job whose ranks do not make
 * the same calls.
 *
 * Ranks of one host meet in shared memory (shared.h). Ranks of several hosts meet by messages: each sends its call to
 * rank 0, which compares them and sends its verdict. This is a star instead of a tree because one rank then knows which
 * ranks have come, and what all of them have called. It costs two messages' time, and rank 0 as many messages as there
 * are ranks.
 *
 * A rank that waits too long for others ends the job. Rank 0 sees who is missing. Another rank only sees that there is
 * no verdict, which rank 0 owes it if rank 0 has come. Therefore a rank 0 that has waited for a moment says so (HERE)
 * to the ranks that have come. A rank that hears nothing for the whole limit knows that rank 0 is missing. */
#include "comm/mpi_comm.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/timeline.h"

enum {
    TAG_CALL = 1,
    TAG_VERDICT,
    TAG_REASON,
    TAG_NOTE,
    TAG_JOINED
}; /* on mpi_comm.handle, where exchanges have the tag 0 */
enum { SAME = 1, DIFFERENT, HERE, ALIVE, JOINED }; /* verdicts */

#define MOMENT 0.2 /* seconds after which rank 0 says that it is there */

/* ---------------------------------------------------------------- ending the job */

void kolo_mpi_end_job(kolo_comm *comm, int code)
{
    fflush(stdout);
    kolo_failure_say();
    fflush(stderr);
    (void)comm;
    MPI_Abort(MPI_COMM_WORLD, code); /* of a part it would end only that */
}

/* Ends the job after a failure that several ranks know of. The one that speaks prints the sentence and ends the others,
 * which sleep meanwhile. They only do so themselves if that one cannot; on a busy host it may need seconds. In a
 * notebook the call just fails, because the ranks of a notebook live on. */
static kolo_status end_together(mpi_comm *me, kolo_status status, bool speaks)
{
    if (status == KOLO_OK || kolo_in_notebook()) return status;
    if (!speaks) sleep(10);
    kolo_mpi_end_job(&me->comm, 1);
    return status;
}

kolo_status kolo_mpi_end_after(mpi_comm *me, kolo_status status)
{
    return end_together(me, status, true);
}

kolo_status kolo_mpi_shared_result(mpi_comm *me, const kolo_shared *shared, kolo_status status)
{
    return end_together(me, status, shared->speaks);
}

/* ---------------------------------------------------------------- notes */

/* A message of a rank to all others, which none of them waits for. Ranks that share memory see there who lives and who
 * has left, and only note that they have given up. */
typedef struct note {
    int32_t kind;
    int32_t call; /* GAVE_UP: the number of the learner's all-reduce */
    char why[MPI_WHY];
} note;
enum { LIVES = 1, LEAVES, GAVE_UP };

static void send_notes(mpi_comm *me, const note *sent)
{
    size_t bytes = sent->kind == GAVE_UP ? sizeof *sent : offsetof(note, why);
    for (int i = 0; i < me->comm.size; i++)
        if (i != me->comm.rank) MPI_Send(sent, (int)bytes, MPI_BYTE, i, TAG_NOTE, me->handle);
}

static void keep_note(mpi_comm *me, const note *taken, int from)
{
    if (me->partners && taken->kind == LIVES) me->partners[from].life++;
    if (me->partners && taken->kind == LEAVES) me->partners[from].left = true;
    if (taken->kind != GAVE_UP || taken->call <= me->given_up) return;
    me->given_up = taken->call;
    memcpy(me->why, taken->why, sizeof me->why);
}

kolo_status kolo_mpi_take_notes(mpi_comm *me)
{
    for (int there = 1; there;) {
        MPI_Status status;
        note taken = {0};
        KOLO_TRY(kolo_mpi_check(me, MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTE, me->handle, &there, &status), "MPI_Iprobe"));
        if (!there) return KOLO_OK;
        KOLO_TRY(kolo_mpi_check(me,
                                MPI_Recv(&taken, (int)sizeof taken, MPI_BYTE, status.MPI_SOURCE, TAG_NOTE, me->handle,
                                         &status),
                                "MPI_Recv"));
        keep_note(me, &taken, status.MPI_SOURCE);
    }
    return KOLO_OK;
}

void kolo_mpi_give_up(kolo_comm *comm, int call, const char *why)
{
    note sent = {.kind = GAVE_UP, .call = call};
    snprintf(sent.why, sizeof sent.why, "%.*s", MPI_WHY - 1, why);
    kolo_mpi_lock();
    send_notes((mpi_comm *)comm, &sent);
    kolo_mpi_unlock();
}

bool kolo_mpi_has_left(const mpi_comm *me, int rank)
{
    if (!me->shared && !me->partners) return false; /* a world of one rank */
    for (int i = 0; i < me->comm.size; i++) {
        bool asked = rank == KOLO_ANY_RANK ? i != me->comm.rank : i == rank;
        if (asked && !(me->shared ? kolo_shared_has_left(me->shared, i) : me->partners[i].left)) return false;
    }
    return true;
}

uint64_t kolo_mpi_life_of_others(const mpi_comm *me)
{
    uint64_t sum = 0;
    if (me->shared) return kolo_shared_life_of_others(me->shared);
    for (int i = 0; i < me->comm.size && me->partners; i++) sum += me->partners[i].life;
    return sum;
}

/* ---------------------------------------------------------------- meeting by messages */

/* Rank 0's side of one meeting. */
typedef struct meeting {
    mpi_comm *me;
    MPI_Request *requests; /* [size] the calls that are received; [0] is none */
    bool *came; /* [size] */
    int count; /* of those that came */
    kolo_stall stall;
    double begun;
    bool said; /* rank 0 has said that it is here */
} meeting;

static kolo_status tell(mpi_comm *me, int rank, int verdict)
{
    return kolo_mpi_check(me, MPI_Send(&verdict, 1, MPI_INT, rank, TAG_VERDICT, me->handle), "MPI_Send");
}

static kolo_status tell_all(meeting *m, int verdict)
{
    for (int i = 1; i < m->me->comm.size; i++)
        if (m->came[i]) KOLO_TRY(tell(m->me, i, verdict));
    return KOLO_OK;
}

static kolo_status note_arrivals(meeting *m)
{
    for (int i = 1; i < m->me->comm.size; i++) {
        int done = 0;
        if (m->came[i]) continue;
        KOLO_TRY(kolo_mpi_check(m->me, MPI_Test(&m->requests[i], &done, MPI_STATUS_IGNORE), "MPI_Test"));
        m->came[i] = done;
        m->count += done;
        if (done && m->said) KOLO_TRY(tell(m->me, i, HERE));
    }
    if (m->said || kolo_now() - m->begun < MOMENT) return KOLO_OK;
    m->said = true;
    return tell_all(m, HERE);
}

/* Signs of life of the ranks that have not come. */
static uint64_t life_of_missing(const meeting *m)
{
    uint64_t life = 0;
    for (int i = 0; i < m->me->comm.size; i++)
        if (!m->came[i]) life += m->me->partners[i].life;
    return life;
}

/* With MPI's lock held. All ranks hear of it, since any of them may wait for a message; those that wait for a verdict
 * hear it from rank 0 as one. */
static void show_life(mpi_comm *me)
{
    double now = kolo_now();
    if (me->stall_limit <= 0 || now - me->met < me->stall_limit / 4) return;
    me->met = now;
    if (kolo_mpi_take_notes(me) != KOLO_OK) kolo_failure_take(); /* the next call will fail */
    send_notes(me, &(note){.kind = LIVES});
    for (int i = 1, alive = ALIVE; i < me->comm.size && me->comm.rank == 0; i++)
        MPI_Send(&alive, 1, MPI_INT, i, TAG_VERDICT, me->handle);
}

/* Only the thread that joined the ranks calls this, while it computes. If MPI is taken, this rank is in a collective,
 * where the others see it. */
void kolo_mpi_show_life(void)
{
    if (!kolo_mpi_process.messaging || pthread_mutex_trylock(&kolo_mpi_process.lock) != 0) return;
    for (mpi_comm *me = kolo_mpi_process.messaging; me; me = me->next) show_life(me);
    kolo_mpi_unlock();
}

void kolo_mpi_close_meetings(mpi_comm *me)
{
    for (mpi_comm **at = &kolo_mpi_process.messaging; *at; at = &(*at)->next) {
        if (*at != me) continue;
        *at = me->next;
        break;
    }
    if (!kolo_mpi_process.messaging) kolo_life_tell(NULL);
    free(me->calls);
    free(me->joined);
    free(me->partners);
}

static kolo_calls calls_of(const mpi_comm *me)
{
    return (kolo_calls){.first = me->calls,
                        .stride = sizeof *me->calls,
                        .size = me->comm.size,
                        .who = "rank",
                        .numbers = me->numbers,
                        .group = me->numbers ? me->name : NULL};
}

/* Waits until all ranks have come. */
static kolo_status gather_calls(meeting *m)
{
    mpi_comm *me = m->me;
    kolo_calls calls = calls_of(me);
    for (int i = 1; i < me->comm.size; i++)
        KOLO_TRY(kolo_mpi_check(me,
                                MPI_Irecv(&me->calls[i], (int)sizeof *me->calls, MPI_BYTE, i, TAG_CALL, me->handle,
                                          &m->requests[i]),
                                "MPI_Irecv"));
    for (int turn = 0;; turn++) {
        KOLO_TRY(note_arrivals(m));
        if (m->count == me->comm.size) return KOLO_OK;
        if (m->said) KOLO_TRY(kolo_mpi_take_notes(me));
        if (kolo_stall_passed(&m->stall, m->count, life_of_missing(m)))
            return end_together(me, kolo_calls_stalled(&calls, m->came, m->stall.limit), true);
        kolo_mpi_pause(me, turn);
    }
}

/* Ends a meeting of ranks that make the same call, or have joined: tells the others which of them have, and what the
 * call is, if any have. */
static kolo_status tell_same(meeting *m)
{
    mpi_comm *me = m->me;
    kolo_calls calls = calls_of(me);
    me->joined_count = kolo_calls_joined(&calls, me->joined, &me->made);
    KOLO_TRY(tell_all(m, me->joined_count > 0 ? JOINED : SAME));
    for (int i = 1; i < me->comm.size && me->joined_count > 0; i++) {
        KOLO_TRY(kolo_mpi_check(me, MPI_Send(&me->made, (int)sizeof me->made, MPI_BYTE, i, TAG_JOINED, me->handle),
                                "MPI_Send"));
        KOLO_TRY(kolo_mpi_check(me, MPI_Send(me->joined, me->comm.size, MPI_BYTE, i, TAG_JOINED, me->handle),
                                "MPI_Send"));
    }
    return KOLO_OK;
}

static kolo_status hear_joined(mpi_comm *me)
{
    KOLO_TRY(kolo_mpi_check(me,
                            MPI_Recv(&me->made, (int)sizeof me->made, MPI_BYTE, 0, TAG_JOINED, me->handle,
                                     MPI_STATUS_IGNORE),
                            "MPI_Recv"));
    KOLO_TRY(kolo_mpi_check(me,
                            MPI_Recv(me->joined, me->comm.size, MPI_BYTE, 0, TAG_JOINED, me->handle, MPI_STATUS_IGNORE),
                            "MPI_Recv"));
    me->joined_count = 0;
    for (int i = 0; i < me->comm.size; i++) me->joined_count += me->joined[i];
    return KOLO_OK;
}

/* Sends the failure of the comparison to the other ranks. */
static kolo_status give_reasons(meeting *m)
{
    kolo_failure failure = kolo_failure_take();
    kolo_status status = tell_all(m, DIFFERENT);
    for (int i = 1; i < m->me->comm.size && status == KOLO_OK; i++)
        status = kolo_mpi_check(m->me, MPI_Send(&failure, (int)sizeof failure, MPI_BYTE, i, TAG_REASON, m->me->handle),
                                "MPI_Send");
    kolo_failure_give(&failure);
    return end_together(m->me, failure.code, true);
}

static kolo_status meet_as_first(mpi_comm *me, const kolo_collective *call, bool leaves)
{
    size_t size = (size_t)me->comm.size;
    meeting m = {.me = me, .count = 1, .begun = kolo_now(), .stall.limit = leaves ? 0 : me->stall_limit};
    kolo_status status = KOLO_MEMORY;
    m.requests = malloc(size * sizeof *m.requests);
    m.came = calloc(size, sizeof *m.came);
    if (!m.requests || !m.came) kolo_fail_memory(size * sizeof *m.requests, "a meeting of ranks");
    else {
        me->calls[0] = *call;
        m.came[0] = true;
        kolo_calls calls = calls_of(me);
        status = gather_calls(&m);
        if (status == KOLO_OK) {
            status = kolo_calls_compare(&calls);
            if (status != KOLO_OK) status = give_reasons(&m);
            else if (!leaves) status = tell_same(&m);
        }
    }
    free(m.requests);
    free(m.came);
    return status;
}

/* The rank in the job. */
static int number_of(const mpi_comm *me, int rank)
{
    return me->numbers ? me->numbers[rank] : rank;
}

/* The end for a rank to which rank 0 does not answer. */
static kolo_status miss_the_first(mpi_comm *me, const kolo_collective *call)
{
    const kolo_calls calls = {.who = "rank", .numbers = me->numbers};
    kolo_status status =
        kolo_fail(KOLO_COMM, "rank %d has not come for %g s (KOLO_STALL_LIMIT)%s%s: rank %d waits in %s",
                  number_of(me, 0), me->stall_limit, me->numbers ? " to " : "", me->numbers ? me->name : "",
                  number_of(me, me->comm.rank), kolo_call_text(&calls, call));
    return end_together(me, status, true);
}

/* Waits for the verdict. If rank 0 is missing, all ranks notice it at the same time; the lower ones end the job a
 * little earlier, so that one of them speaks for all. */
static kolo_status hear_verdict(mpi_comm *me, const kolo_collective *call, int *verdict)
{
    MPI_Request request;
    int behind = me->comm.rank < 6 ? me->comm.rank - 1 : 5; /* seconds, in which a lower rank ends the job */
    double limit = me->stall_limit > 0 ? me->stall_limit + behind : 0, begun = kolo_now();
    for (*verdict = HERE; *verdict == HERE || *verdict == ALIVE;) {
        int done = 0;
        KOLO_TRY(kolo_mpi_check(me, MPI_Irecv(verdict, 1, MPI_INT, 0, TAG_VERDICT, me->handle, &request), "MPI_Irecv"));
        for (int turn = 0; !done; turn++) {
            KOLO_TRY(kolo_mpi_check(me, MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
            if (!done && limit > 0 && turn % 64 == 63 && kolo_now() - begun > limit) return miss_the_first(me, call);
            if (!done) kolo_mpi_pause(me, turn);
        }
        if (*verdict == HERE) limit = 0; /* rank 0 watches over the others */
        begun = kolo_now();
    }
    return KOLO_OK;
}

static kolo_status meet_as_other(mpi_comm *me, const kolo_collective *call, bool leaves)
{
    kolo_failure failure;
    int verdict;
    KOLO_TRY(kolo_mpi_check(me, MPI_Send(call, (int)sizeof *call, MPI_BYTE, 0, TAG_CALL, me->handle), "MPI_Send"));
    if (leaves) return KOLO_OK;
    KOLO_TRY(hear_verdict(me, call, &verdict));
    me->joined_count = 0;
    if (verdict == SAME) return KOLO_OK;
    if (verdict == JOINED) return hear_joined(me);
    KOLO_TRY(kolo_mpi_check(me,
                            MPI_Recv(&failure, (int)sizeof failure, MPI_BYTE, 0, TAG_REASON, me->handle,
                                     MPI_STATUS_IGNORE),
                            "MPI_Recv"));
    kolo_failure_give(&failure);
    return end_together(me, failure.code, false);
}

static kolo_status meet(mpi_comm *me, const kolo_collective *call, bool leaves)
{
    if (me->comm.size == 1) return KOLO_OK;
    kolo_mpi_lock();
    int64_t begun = kolo_timeline_begin();
    kolo_status status = me->comm.rank == 0 ? meet_as_first(me, call, leaves) : meet_as_other(me, call, leaves);
    kolo_timeline_end(begun, KOLO_SPAN_WAIT, "ranks");
    me->met = kolo_now();
    kolo_mpi_unlock();
    return status;
}

static kolo_status meet_in_memory(mpi_comm *me, const kolo_collective *call)
{
    KOLO_TRY(kolo_mpi_shared_result(me, me->shared, kolo_shared_meet(me->shared, call)));
    me->joined = me->shared->joined;
    me->joined_count = me->shared->joined_count;
    if (me->joined_count > 0) me->made = me->shared->made;
    return KOLO_OK;
}

kolo_status kolo_mpi_meet(kolo_comm *comm, const kolo_collective *call)
{
    mpi_comm *me = (mpi_comm *)comm;
    if (kolo_mpi_process.lost)
        return kolo_fail(KOLO_COMM, "a rank of this job is gone, so the others can call no collectives");
    if (me->shared) return meet_in_memory(me, call);
    if (me->numbers) kolo_show_life(); /* to ranks that wait for this one in the world */
    return meet(me, call, false);
}

/* In shared memory no rank waits. By messages, rank 0 waits for the calls of the others, which nobody else would
 * receive; MPI would wait for them at the end of the process, anyway. */
void kolo_mpi_leave(mpi_comm *me)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_FINISH, 0);
    if (kolo_mpi_process.lost) return;
    if (!me->shared && !me->numbers) {
        kolo_mpi_lock();
        send_notes(me, &(note){.kind = LEAVES});
        kolo_mpi_unlock();
    }
    if (me->shared) kolo_shared_leave(me->shared);
    else if (meet(me, &call, true) != KOLO_OK) kolo_failure_take();
}
