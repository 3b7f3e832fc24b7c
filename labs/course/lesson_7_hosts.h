/* Lesson 7: the check of an all-reduce by hosts (7.c), which the learner writes for eight ranks. The ranks run on this
 * machine; that ranks 0 to 3 are one host and 4 to 7 another is pretended. Included by lesson_7.h. */
#ifndef COURSE_LESSON_7_HOSTS_H
#define COURSE_LESSON_7_HOSTS_H

#include "course.h"

#include <fcntl.h>
#include <unistd.h>

#define LESSON_7_PER_HOST 4
#define LESSON_7_ALL      8

typedef kolo_status lesson_7_allreduce(float *values, int64_t count, void *user);

/* What the check gathers on each rank. */
static struct {
    lesson_7_allreduce *learners;
    double crossed, summed; /* floats: sent to the other host, and of all arrays */
    bool probed;
    float seen;
} lesson_7_hosts;

static inline int host_of(int rank)
{
    return rank / LESSON_7_PER_HOST;
}

/* kolo_send() and kolo_receive() of floats. The first counts what passes from one pretended host to the other. */
static inline kolo_status host_send(const float *values, int64_t count, int to)
{
    if (host_of(to) != host_of(kolo_rank())) lesson_7_hosts.crossed += (double)count;
    return kolo_send(values, count, to);
}

static inline kolo_status host_receive(float *values, int64_t count, int from)
{
    return kolo_receive(values, count, from);
}

/* Calls the learner's function; at first with 4^rank in an array of one float. The sum's digits in base 4 then tell how
 * often each rank was counted: 21845 is once each. */
static inline kolo_status lesson_7_counted(float *values, int64_t count, void *user)
{
    if (!lesson_7_hosts.probed) {
        float digits = (float)(1 << 2 * kolo_rank());
        lesson_7_hosts.probed = true;
        kolo_status status = lesson_7_hosts.learners(&digits, 1, user);
        lesson_7_hosts.seen = digits;
        lesson_7_hosts.crossed = 0;
        if (status != KOLO_OK) return status;
    }
    lesson_7_hosts.summed += (double)count;
    return lesson_7_hosts.learners(values, count, user);
}

/* kolo_check_comm() without its sentence, which every rank would print; the sentence is kolo_last_error()'s. */
static inline kolo_comm_scores lesson_7_quiet_check(const kolo_own_comm *comm)
{
    fflush(stderr);
    int kept = dup(STDERR_FILENO), nothing = open("/dev/null", O_WRONLY);
    if (kept >= 0 && nothing >= 0) dup2(nothing, STDERR_FILENO);
    kolo_comm_scores scores = kolo_check_comm(comm, .count = 1 << 16, .seconds = 3, .quiet = true);
    if (kept >= 0) dup2(kept, STDERR_FILENO), close(kept);
    if (nothing >= 0) close(nothing);
    return scores;
}

/* How often the sum has rank r, or -1 if it is no sum of whole numbers of these. */
static inline int lesson_7_times(float sum, int r)
{
    long whole = lrintf(sum);
    return (float)whole == sum && whole >= 0 ? (int)(whole >> 2 * r & 3) : -1;
}

/* Which mistake leaves these values on the eight ranks. NULL: they are the sum. */
static inline const char *lesson_7_mistake(const float seen[LESSON_7_ALL])
{
    const float all = 21845, hosts[2] = {85, 21760};
    int same = 0, whole = 0, own = 0, mean = 0, leaders = 0, twice = 0;
    for (int r = 0; r < LESSON_7_ALL; r++) {
        int first = r % LESSON_7_PER_HOST == 0;
        same += seen[r] == (float)(1 << 2 * r);
        whole += seen[r] == all;
        own += seen[r] == hosts[host_of(r)];
        mean += seen[r] == all / LESSON_7_ALL;
        leaders += first && seen[r] == all;
        for (int k = 0; k < LESSON_7_ALL; k++) twice += lesson_7_times(seen[r], k) > 1;
    }
    if (whole == LESSON_7_ALL) return NULL;
    if (same == LESSON_7_ALL) return "Not done yet: every rank still has its own values.";
    if (mean == LESSON_7_ALL) return "That is the mean. An all-reduce gives the sum.";
    if (own == LESSON_7_ALL) return "Each rank has its own host's sum: the two leaders have not exchanged theirs.";
    if (leaders == 2) return "Both leaders have the sum, and other ranks do not: each leader must send it to its host.";
    if (seen[0] == all) return "Rank 0 has the sum, and rank 4 does not: the leaders must both have the other's sum.";
    if (twice) return "Some values are counted twice: add what arrives exactly once, and send what is not yet added.";
    if (lesson_7_times(seen[0], 4) == 1 && lesson_7_times(seen[0], 5) == 0)
        return "The leaders exchanged before they had added the values of their hosts.";
    return "Some ranks' values are missing in the sum.";
}

static inline bool lesson_7_judge(const float seen[LESSON_7_ALL], const char *error, double crossed)
{
    const char *mistake = lesson_7_mistake(seen);
    if (strstr(error, "has waited") && seen[0] == 21845 && !mistake)
        return course_check("7.c", false,
                            "The sum of one float was right; with a long array two ranks wait for each other. A send "
                            "of a "
                            "long array ends when the other rank receives: both leaders must not send first. %s",
                            error);
    if (strstr(error, "has waited"))
        return course_check("7.c", false, "Two ranks wait for each other, or for a message that nobody sends. %s",
                            error);
    if (mistake)
        return course_check("7.c", false,
                            "%s Expected 21845 on every rank, got %g on rank 0, %g on rank 1, %g on rank 4.", mistake,
                            seen[0], seen[1], seen[4]);
    if (*error) return course_check("7.c", false, "The first sum was right, a longer one failed: %s", error);
    printf("between the hosts: %.2f times the array\n", crossed);
    if (crossed == 0)
        return course_check("7.c", false,
                            "The sums are right, but host_send() carried nothing: send with host_send().");
    return course_check("7.c", crossed <= 2.01,
                        "The sums are right. But expected at most 2 arrays between the hosts, one each way, got %.2f: "
                        "only "
                        "the leaders may send to the other host, and only once each.",
                        crossed);
}

/* Checks the learner's all-reduce. A %%ranks cell of eight ranks calls it on all of them. */
static inline void lesson_7_check_by_host(lesson_7_allreduce *learners)
{
    kolo_init(NULL, NULL);
    if (kolo_size() != LESSON_7_ALL) {
        if (kolo_rank() == 0)
            printf("There are %d ranks here, and 8 are wanted: run the cell with %%ranks 8.\n", kolo_size());
        return;
    }
    lesson_7_hosts.learners = learners;
    lesson_7_hosts.crossed = lesson_7_hosts.summed = 0;
    lesson_7_hosts.probed = false;
    lesson_7_hosts.seen = NAN;
    kolo_own_comm comm = {.name = "by_host", .allreduce = lesson_7_counted};
    kolo_comm_scores scores = lesson_7_quiet_check(&comm);
    char error[LESSON_7_LINE] = "";
    if (isnan(scores.bus_bandwidth)) snprintf(error, sizeof error, "%s", kolo_last_error().text);
    kolo_clear_error();
    float seen[LESSON_7_ALL];
    double sent = lesson_7_hosts.crossed;
    if (kolo_allgather(&lesson_7_hosts.seen, 1, seen) != KOLO_OK || kolo_allreduce(&sent, 1) != KOLO_OK) return;
    if (kolo_rank() == 0) lesson_7_judge(seen, error, sent / fmax(1, lesson_7_hosts.summed));
}

#endif
