/* What if? A recorded step on another machine. The public part is kolo_what_if.h, which has the formulas: read that
 * first.
 *
 * events.c     the events of a timeline that are needed
 * recording.c  what a replay takes from them
 * memory.c     how fast ranks of this host sum
 * links.c      how long a sum over N devices takes
 * replay.c     the modelled step
 * what_if.c    the call: options, recordings, answers
 * show.c       the table and the chart
 * main.c       kolo-what-if, the program behind %what_if; options.h: its words
 */
#ifndef KOLO_WHATIF_WHAT_IF_H
#define KOLO_WHATIF_WHAT_IF_H

#include "whatif/recording.h"

/* --- memory.c --- */

/* Bytes/s at which one core adds and writes gradients that ranks of this host share: KOLO_SUM_PASSES · bytes of an
 * all-reduce / its seconds. Takes some ten milliseconds. */
kolo_status kolo_measure_memory(double *rate);

/* --- links.c --- */

/* Array lengths that a rank works through in a sum, for any number of ranks: it reads its share of the gradients of all
 * ranks, and writes their sum to each of them. */
enum { KOLO_SUM_PASSES = 2 };

typedef struct kolo_replay_links {
    const kolo_link_model *model; /* NULL: the memory of a host */
    kolo_link_model *opened; /* the same, if it was opened here */
    kolo_algorithm algorithm;
    double memory; /* bytes/s at which one core adds and writes */
    char name[192];
} kolo_replay_links;

/* recorded_share: how many times as long a rank of the recording took because ranks shared cores. The caller closes the
 * links, after a failure, too. */
kolo_status kolo_replay_links_open(const kolo_what_if_args *args, const kolo_recording *recording,
                                   double recorded_share, int most, kolo_replay_links *links);
void kolo_replay_links_close(kolo_replay_links *links);
/* Seconds of an all-reduce of so many bytes over N devices, of which each has a core of its own. */
kolo_status kolo_replay_links_sum(const kolo_replay_links *links, int devices, double bytes, double *seconds);

/* --- replay.c --- */

typedef struct kolo_replay {
    const kolo_what_if_args *args;
    kolo_recording recording, other; /* other.steps 0: there is none */
    kolo_replay_links links;
    int cores; /* of a host */
    double batch; /* samples of a device in a step */
} kolo_replay;

/* The factor f of ranks that share the host. */
double kolo_replay_share(const kolo_replay *replay, int ranks);
/* Fails if the times of two batches leave none for this one. */
kolo_status kolo_replay_check(const kolo_replay *replay);
/* Fills in all of the answer; `devices` is given. */
kolo_status kolo_replay_answer(const kolo_replay *replay, int devices, kolo_answer *answer);

/* --- show.c --- */

kolo_status kolo_answers_show(const kolo_what_if_args *args, const kolo_replay *replay, const kolo_answers *answers);

#endif
