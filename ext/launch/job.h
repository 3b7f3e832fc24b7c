/* One running job, from kolorun's side: mpirun, the connections to its ranks' watchers, and what is known of each rank.
 * links.c takes what ranks report; watch.c runs the loop and ends the job; report.c says how it ended. */
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
    bool started; /* its watcher has reported */
    bool ended; /* and so has its end */
    bool asked; /* it had been told to end before it did */
    bool lost; /* its watcher went without a word */
    int exec_error; /* errno, when the program could not be started */
    int code; /* its exit code, or */
    int signal; /* the signal that ended it */
    long ended_at; /* clock_date() of its host */
    struct wire *wire; /* of its link; NULL when that is closed */
};

struct job_link {
    struct wire wire;
    int rank; /* -1 until it has said hello */
};

struct job {
    const struct launch_options *options;
    const struct launch_hosts *hosts;
    struct contact contact;
    struct output output;
    struct job_rank *rank;
    int ranks, started, ended;
    struct job_link **link; /* open ones */
    size_t links;

    sigset_t mask; /* as kolorun found it, for mpirun */
    int signals;
    pid_t mpirun;
    bool mpirun_ended, mpirun_told; /* told: kolorun has sent it a signal */
    int mpirun_status;
    int mpirun_says; /* pipe from its stdout and stderr */
    char mpirun_text[8192];
    size_t mpirun_text_length;

    bool stdin_open, stdin_untaken; /* rank 0 has not taken the last piece yet */
    int interrupted; /* the signal that ended the job, or 0 */
    bool ending;
    bool start_timed_out;
    long first_failed_at; /* clock_now(), or CLOCK_NEVER */
    long term_mpirun_at, kill_all_at, start_by;
    long leftovers_at; /* when whoever still reports after mpirun's end is ended */
    long remark_at; /* when to remark that a rank has ended while others go on */
};

/* links.c */
/* Accepts what waits on the listening socket. */
void job_accept(struct job *job);
/* Serves a link that poll() marked; closes and removes it when the other side is gone. */
void job_serve(struct job *job, struct job_link *link, short events);
/* Closes all links. */
void job_close_links(struct job *job);

/* watch.c */
/* Starts mpirun and runs the job to its end, with all its output. False when mpirun could not be started. */
bool job_run(struct job *job, char **mpirun);
/* Ends the job: every rank gets `signal`, and is killed `grace` ms later. */
void job_end(struct job *job, int signal, long grace);

/* report.c */
/* Queues what there is to say of the end of the job and returns kolorun's exit code. */
int job_report(struct job *job);

#endif
