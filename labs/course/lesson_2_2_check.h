/* How lesson 2.2 checks an all-reduce that the learner wrote, and trains with it. All of it runs on ranks, in %%ranks
 * cells. Included by lesson_2_2.h. */
#ifndef COURSE_LESSON_2_2_CHECK_H
#define COURSE_LESSON_2_2_CHECK_H

#include "lesson_2.h"

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

enum { LESSON_RANKS = 4, LESSON_EVEN = 8, LESSON_ODD = 7 };

typedef kolo_status (*lesson_allreduce)(float *values, int64_t count, void *user);

/* Sends one array and receives another. Ranks with an even number send first, and ranks with an odd number receive
 * first: a large message is only sent when it is received, so a ring in which all ranks sent first would wait for ever.
 */
static inline void lesson_exchange(const float *give, int64_t give_count, int to, float *take, int64_t take_count,
                                   int from)
{
    if (kolo_rank() % 2 == 0) kolo_send(give, give_count, to);
    kolo_receive(take, take_count, from);
    if (kolo_rank() % 2 == 1) kolo_send(give, give_count, to);
}

/* ---------------------------------------------------------------- probing */

enum { LESSON_GUARD = 16 /* floats */ };

/* What the learner's function made of two small arrays, in which each element of rank r was 16^r: the digits of a
 * result in base 16 say how often each rank's value was added. The guards beside them take what a chunk with a
 * negative number writes. */
typedef struct lesson_probe {
    float low[LESSON_GUARD], even[LESSON_EVEN], middle[LESSON_GUARD], odd[LESSON_ODD], high[LESSON_GUARD];
    float fine; /* 1 if no message failed, -1 if a guard was written to */
    bool probed;
    lesson_allreduce function;
} lesson_probe;

static inline bool lesson_is_inside(const lesson_probe *probe)
{
    bool inside = true;
    for (int i = 0; i < LESSON_GUARD; i++) inside = inside && !probe->low[i] && !probe->middle[i] && !probe->high[i];
    return inside;
}

/* Stands in front of the learner's function in kolo_check_comm(), which ends messages that wait for ever. */
static inline kolo_status lesson_probing(float *values, int64_t count, void *user)
{
    lesson_probe *probe = user;
    if (!probe->probed) {
        probe->probed = true;
        for (int i = 0; i < LESSON_EVEN; i++) probe->even[i] = (float)pow(16, kolo_rank());
        for (int i = 0; i < LESSON_ODD; i++) probe->odd[i] = (float)pow(16, kolo_rank());
        probe->function(probe->even, LESSON_EVEN, NULL);
        probe->function(probe->odd, LESSON_ODD, NULL);
        probe->fine = !lesson_is_inside(probe) ? -1 : kolo_last_error().code == KOLO_OK;
    }
    if (probe->fine < 0) return KOLO_INVALID; /* with larger arrays it would write to anything */
    return probe->function(values, count, NULL);
}

/* ---------------------------------------------------------------- judging */

/* The probes of all ranks, as rank 0 has them. */
typedef struct lesson_probes {
    float even[LESSON_RANKS][LESSON_EVEN], odd[LESSON_RANKS][LESSON_ODD], fine[LESSON_RANKS];
} lesson_probes;

static inline float lesson_sum(void)
{
    return 1 + 16 + 256 + 4096;
}

/* The elements of a rank that are `wanted`. */
static inline int lesson_elements(const lesson_probes *probes, int rank, float wanted)
{
    int count = 0;
    for (int i = 0; i < LESSON_EVEN; i++) count += probes->even[rank][i] == wanted;
    return count;
}

static inline int lesson_right(const lesson_probes *probes, int rank)
{
    return lesson_elements(probes, rank, lesson_sum());
}

/* How often rank r's value is in a result; -1 if the result is no whole number. */
static inline int lesson_times(float value, int r)
{
    if (value != floorf(value) || value < 0 || value >= 65536) return -1;
    return (int)value >> 4 * r & 15;
}

/* Of all ranks: the smallest number of right elements, the largest, those of ranks other than 0. */
static inline void lesson_count_right(const lesson_probes *probes, int *least, int *most, int *others)
{
    *least = LESSON_EVEN, *most = 0, *others = 0;
    for (int r = 0; r < LESSON_RANKS; r++) {
        int right = lesson_right(probes, r);
        if (right < *least) *least = right;
        if (right > *most) *most = right;
        if (r > 0) *others += right;
    }
}

/* Whether a rank's value was added more than once anywhere. */
static inline bool lesson_has_repeats(const lesson_probes *probes)
{
    bool repeats = false;
    for (int r = 0; r < LESSON_RANKS; r++)
        for (int i = 0; i < LESSON_EVEN; i++)
            for (int q = 0; q < LESSON_RANKS; q++) repeats = repeats || lesson_times(probes->even[r][i], q) > 1;
    return repeats;
}

static inline bool lesson_is_untouched(const lesson_probes *probes)
{
    int untouched = 0;
    for (int r = 0; r < LESSON_RANKS; r++) untouched += lesson_elements(probes, r, (float)pow(16, r)) == LESSON_EVEN;
    return untouched == LESSON_RANKS;
}

/* What one wrong value says: which ranks' values are in it. */
static inline const char *lesson_name_value(float value, int rank)
{
    int missing = 0, repeated = 0, present = 0;
    if (value == lesson_sum() / LESSON_RANKS) return "That is the mean. An all-reduce gives the sum.";
    if (lesson_times(value, 0) < 0) return "That is no sum of the ranks' values.";
    for (int r = 0; r < LESSON_RANKS; r++) {
        int times = lesson_times(value, r);
        missing += times == 0, repeated += times > 1, present += times == 1;
    }
    if (repeated) return "The values of a rank were added more than once.";
    if (present == 1 && lesson_times(value, rank) == 1) return "Nothing was added to this rank's own value.";
    if (present == 1)
        return "A received value replaced the sum. Add what arrives, and copy only what is the whole sum already.";
    if (missing == 1 && lesson_times(value, rank) == 0) return "The rank's own values are missing from the sum.";
    return "The values of some ranks are missing from the sum.";
}

/* A wrong element, and what it says: the first one that is not the rank's own value, or else the first one. */
static inline void lesson_say_value(const char *exercise, const lesson_probes *probes)
{
    int rank = -1, element = 0;
    bool own = true;
    for (int r = 0; r < LESSON_RANKS; r++)
        for (int i = 0; i < LESSON_EVEN; i++) {
            bool is_own = probes->even[r][i] == (float)pow(16, r);
            if (probes->even[r][i] == lesson_sum() || (rank >= 0 && !(own && !is_own))) continue;
            rank = r, element = i, own = is_own;
        }
    if (rank < 0) return;
    float value = probes->even[rank][element];
    course_check(exercise, false,
                 "Ranks 0 to 3 had 1, 16, 256 and 4096 in each of 8 elements. Element %d on rank %d: expected %g, got "
                 "%g. "
                 "%s",
                 element, rank, (double)lesson_sum(), (double)value, lesson_name_value(value, rank));
}

static inline bool lesson_odd_right(const lesson_probes *probes)
{
    int right = 0;
    for (int r = 0; r < LESSON_RANKS; r++)
        for (int i = 0; i < LESSON_ODD; i++) right += probes->odd[r][i] == lesson_sum();
    return right == LESSON_RANKS * LESSON_ODD;
}

/* The sentence that the counts of right elements give; NULL if a value must be looked at. */
static inline const char *lesson_name_counts(const lesson_probes *probes, bool fine)
{
    int least, most, others;
    lesson_count_right(probes, &least, &most, &others);
    if (lesson_is_untouched(probes) && fine)
        return "Every rank still has its own values: the function is not written yet.";
    if (!fine)
        return "A message was sent that no rank receives, or a rank waits for a message that no rank sends. Every "
               "kolo_receive() needs one kolo_send() of the same count, to this rank.";
    if (lesson_right(probes, 0) == LESSON_EVEN && others == 0)
        return "Expected the sum on all ranks, got it on rank 0 alone: rank 0 must send it back.";
    if (least == LESSON_EVEN / LESSON_RANKS && most == least && !lesson_has_repeats(probes))
        return "Expected the sum in all 4 chunks, got it in one chunk on each rank: the rounds of copying are missing.";
    if (least == 1 && most <= LESSON_EVEN && probes->even[1][0] == lesson_sum())
        return "Only the first element is right: send and receive `count` elements.";
    if (least == LESSON_EVEN && !lesson_odd_right(probes))
        return "8 elements are right and 7 are not: the chunks do not cover the array. Chunk c begins at count * c / n "
               "and ends where chunk c + 1 begins.";
    return NULL;
}

/* Says what is wrong; true if the probes are right. */
static inline bool lesson_judge_probes(const char *exercise, const lesson_probes *probes)
{
    bool fine = true, inside = true;
    int right = 0;
    for (int r = 0; r < LESSON_RANKS; r++) {
        fine = fine && probes->fine[r] == 1, inside = inside && probes->fine[r] >= 0;
        right += lesson_right(probes, r) == LESSON_EVEN;
    }
    if (fine && right == LESSON_RANKS && lesson_odd_right(probes)) return true;
    const char *sentence = lesson_name_counts(probes, fine);
    if (!inside)
        sentence = "The function wrote before the start or after the end of the array. In C the remainder of a "
                   "negative number is negative: add n before you take it.";
    if (sentence) course_check(exercise, false, "%s", sentence);
    else lesson_say_value(exercise, probes);
    return false;
}

/* ---------------------------------------------------------------- the check */

/* The functions that passed on this rank. */
static inline bool *lesson_passed(const char *exercise)
{
    static bool passed[26];
    return &passed[(exercise[strlen(exercise) - 1] - 'a') % 26];
}

/* Compares 1009 whole numbers with the sums of MPI_Allreduce(). */
static inline bool lesson_equals_mpi(lesson_allreduce function)
{
    float mine[1009], mpi[1009];
    for (int i = 0; i < 1009; i++) mine[i] = mpi[i] = (float)((i * 7 + kolo_rank() * 11) % 100);
    function(mine, 1009, NULL);
    MPI_Allreduce(MPI_IN_PLACE, mpi, 1009, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return memcmp(mine, mpi, sizeof mine) == 0;
}

static inline bool lesson_all(bool here)
{
    int all = here;
    return kolo_allreduce(&all, 1, .op = KOLO_REDUCE_MIN) == KOLO_OK && all;
}

/* What kolo_check_comm() found after the small arrays were right. */
static inline void lesson_judge_comm(const char *exercise, bool waited, const char *why)
{
    const char *sentence = strstr(why, "comm yours: ");
    printf("kolo_check_comm(): %s\n", sentence ? sentence : why);
    course_check(exercise, false, "%s",
                 waited
                     ? "Small arrays are right, but a large message waits for ever. A large message is only sent when "
                       "it is received. If all ranks send first, no rank receives: use lesson_exchange()."
                     : "Small arrays are right, but another one is not. kolo_check_comm() says which, above.");
}

/* Keeps stderr of this process away, and gives it back: all ranks would print the sentence of kolo_check_comm(). */
static inline void lesson_hide_stderr(bool hide)
{
    static int kept = -1;
    int nowhere = hide ? open("/dev/null", O_WRONLY) : kept;
    fflush(stderr);
    if (hide) kept = dup(STDERR_FILENO);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO), close(nowhere);
}

/* kolo_check_comm(); its sentence about a failure goes to why[size], "" if there is none. */
static inline bool lesson_comm_is_right(const kolo_own_comm *comm, char *why, size_t size)
{
    double wait = course_quick() ? 2 : 10;
    int64_t timed = course_quick() ? 10000 : 1 << 20;
    kolo_clear_error();
    lesson_hide_stderr(true);
    bool right = kolo_check_comm(comm, .seconds = wait, .count = timed).bus_bandwidth > 0;
    lesson_hide_stderr(false);
    snprintf(why, size, "%s", kolo_last_error().text);
    kolo_clear_error();
    return right;
}

/* Checks the learner's all-reduce against the sum, with kolo_check_comm() and against MPI_Allreduce(). All four ranks.
 */
static inline void lesson_check_allreduce(const char *exercise, lesson_allreduce function)
{
    if (kolo_size() != LESSON_RANKS) {
        printf("Exercise %s wants four ranks, got %d: run the cells with %%ranks 4 and kolo_init() first.\n", exercise,
               kolo_size());
        return;
    }
    char why[600];
    lesson_probe probe = {.function = function};
    lesson_probes all;
    kolo_own_comm mine = {.name = "yours", .allreduce = lesson_probing, .user = &probe};
    bool right = lesson_comm_is_right(&mine, why, sizeof why), waited = strstr(why, "waited") != NULL;
    kolo_allgather(probe.even, LESSON_EVEN, &all.even[0][0]);
    kolo_allgather(probe.odd, LESSON_ODD, &all.odd[0][0]);
    kolo_allgather(&probe.fine, 1, all.fine);
    waited = !lesson_all(!waited);
    right = lesson_all(right);
    bool same = right && lesson_all(lesson_equals_mpi(function));
    *lesson_passed(exercise) = same;
    if (kolo_rank() != 0) return;
    if (!same && !lesson_judge_probes(exercise, &all)) return;
    if (!right) lesson_judge_comm(exercise, waited, why);
    else course_check(exercise, same, "The sums are not those of MPI_Allreduce().");
}

/* ---------------------------------------------------------------- training */

/* Counts the calls, and passes them on. */
static inline int *lesson_calls(void)
{
    static int calls;
    return &calls;
}

static inline kolo_status lesson_counting(float *values, int64_t count, void *user)
{
    ++*lesson_calls();
    return ((lesson_allreduce *)user)[0](values, count, NULL);
}

/* The learner's function as a comm for kolo_distributed(), if it has passed its check on this rank; otherwise NULL, and
 * rank 0 says that libkolo's own all-reduce trains. */
static inline const kolo_own_comm *lesson_comm(const char *exercise, lesson_allreduce function)
{
    static lesson_allreduce kept;
    static kolo_own_comm comm = {.name = "mine", .allreduce = lesson_counting, .user = &kept};
    *lesson_calls() = 0;
    kept = function;
    if (*lesson_passed(exercise)) return &comm;
    if (kolo_rank() == 0)
        printf("Exercise %s has not passed its check yet, so libkolo's own all-reduce trains.\n", exercise);
    return NULL;
}

#endif
