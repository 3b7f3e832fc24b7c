/* The state of a running job in kolorun: mpirun, the connections to the ranks' watchers, and the state of each rank.
 * links.c handles reports of the ranks; watch.c has the main loop and ends the job; report.c reports how it ended. */
#ifndef KOLO_LAUNCH_JOB_H
#define KOLO_LAUNCH_JOB_H

#include "launch/contact.h"
#include "launch/hosts.h"
#include "launch/options.h"
#include "launch/output.h"
#include "launch/wire.h"

#include <signal.h>
#include <sys/types.h>

struct job_rank {
    char host[256];
    long pid; /* of the program */
    bool started; /* its watcher has connected */
    bool ended; /* its watcher has reported its end, or is gone */
    bool asked; /* it was asked to end before it ended */
    int lost_by; /* errno of its connection if its host does not answer any more, or 0 */
    bool lost; /* its watcher disconnected without reporting its end */
    int exec_error; /* errno if the program could not be started, else 0 */
    int code; /* the program's exit code; 0 if a signal ended it */
    int signal; /* the signal that ended the program, or 0 */
    long ended_at; /* clock_date() of its host */
    bool released; /* its watcher may end: see FRAME_LEAVE */
    bool reported; /* its failure was reported while the others went on */
    long computed; /* milliseconds, when it was last asked */
    long seen_at, busy_at; /* when it was asked, and when it was last seen computing */
    struct wire *wire; /* of its link; NULL: the link is closed */
};

struct job_link {
    struct wire wire;
    int rank; /* -1 before its FRAME_HELLO */
};

struct job {
    const struct launch_options *options;
    int restart; /* how many starts were before this one */
    const struct launch_hosts *hosts;
    struct contact contact;
    struct output output;
    struct job_rank *rank;
    int ranks, started, ended;
    struct job_link **link; /* [links], the open links */
    size_t links;

    sigset_t mask; /* kolorun's original signal mask, for mpirun */
    int signals;   /* signalfd */
    pid_t mpirun;
    bool mpirun_ended, mpirun_signalled; /* signalled: kolorun has sent it a signal */
    int mpirun_status;              /* of waitpid() */
    int mpirun_output;              /* pipe from its stdout and stderr; -1: closed */
    char mpirun_text[8192];         /* the end of its output */
    size_t mpirun_text_length;

    bool stdin_open, stdin_untaken; /* untaken: rank 0 has not taken the last piece yet */
    int interrupted; /* the signal that ended the job, or 0 */
    int stops;       /* how many such signals kolorun itself has received: the second one kills the ranks at once */
    bool ending;
    char why[400]; /* the cause of another start, such as "rank 2 was killed by signal 9"; "": there is none */
    bool start_timed_out;
    bool idle; /* the job was ended because its ranks did nothing */
    long look_at; /* when to look for ranks that do nothing */
    long term_mpirun_at, kill_all_at, start_by; /* when to end mpirun, to kill all, to give up starting */
    long leftovers_at; /* when to end the watchers that are still connected after mpirun's end */
    long remark_at; /* when to print that a rank has ended while others are running */
    long stop_remark_at; /* when to print how long the ranks may take to stop */
};

/* links.c */
/* Accepts waiting connections. */
void job_accept(struct job *job);
/* Reads and writes a link after poll(); closes and removes it if the other side is gone. */
void job_serve(struct job *job, struct job_link *link, short events);
/* Closes all links. */
void job_close_links(struct job *job);

/* watch.c */
/* Starts mpirun and runs the job until it has ended. False if mpirun could not be started. */
bool job_run(struct job *job, char **mpirun);
/* Ends the job: sends `signal` to every rank, and kills it `grace` milliseconds later. */
void job_end(struct job *job, int signal, long grace);
/* Writes the rest of the output after the end of the job. True if a signal ended this because nobody was reading. */
bool job_finish_output(struct job *job);
/* Ends the job because of a signal that a user or SLURM has sent. The ranks have --stop-timeout to save their state.
 * Does nothing if the job was interrupted before. */
void job_interrupt(struct job *job, int signal);
/* Lets mpirun see the ends of ranks, at once or, if the others need time, when all have ended. */
void job_release(struct job *job);

/* idle.c. Under --keep-going, after the end of a rank: looks from time to time whether the others still compute, and
 * ends the job when none has for twice the stall limit. */
void job_begin_looks(struct job *job);
void job_look(struct job *job);
void job_take_computed(struct job *job, int number, long computed);

/* report.c */
/* Queues the sentences about the end of the job and returns kolorun's exit code. */
int job_report(struct job *job);
/* Queues the sentence about a rank that has failed while the others go on. */
void job_report_failed(struct job *job, int number);

#endif
