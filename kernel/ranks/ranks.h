/* The ranks of a session: an MPI job under kolorun, each rank a kolo-rank that runs cells as the kernel's own worker
 * does. The session's symbols and compiled cells are the ranks' too: an object is loaded here first, and goes to every
 * rank before the next cell runs there. Read first: wire.h, session.h. */
#ifndef KERNEL_RANKS_RANKS_H
#define KERNEL_RANKS_RANKS_H

#include "exit_status.h"
#include "ranks/transcript.h"
#include "ranks/wire.h"
#include "result.h"
#include "session.h"

/* One rank, as the kernel knows it. */
typedef struct peer {
    char name[RANK_NAME]; /* on the ROUTER */
    char *host;
    int process;   /* of its kolo-rank */
    bool ready;    /* it can run cells */
    bool chosen;   /* the present cell is for it */
    bool running;  /* the cell runs there */
    bool asks;     /* it waits for a line of input */
    char *question; /* the line that its stdout has begun: the user sees it where the answer is typed */
    const char *problem; /* why what it says cannot be understood, or it cannot be told anything; NULL: all is well */
    bool spared;   /* its cell was interrupted because another rank has failed */
    bool silent;   /* it has not been heard of for too long */
    bool asked_where;
    double heard;  /* when it last said something */
    exit_status end;     /* of its last cell, or of the rank; `frames` is owned */
    bool ended;    /* there is one */
    message times; /* of its last cell: wall, user, system */
    char *where;   /* "in MPI_Barrier at In[4]:2": where its cell was when it was last asked; NULL: not known */
} peer;

typedef struct ranks {
    session *s;
    worker_process
        launcher; /* its worker runs kolorun; a supervisor of its own: the ranks outlive the kernel's worker */
    output heard; /* of the launcher */
    front sink;
    text words; /* kolorun's */
    void *context, *socket;
    peer *peers;
    int count;
    bool live; /* there is a job */
    bool choosing; /* a %%ranks cell runs */
    bool launcher_gone;
    size_t loads_sent; /* of the session's */
    char *folder; /* where the ranks are */
    names environment; /* the session's variables that the ranks have */
    transcript said;
    rank_message bytes; /* the last answer to RANK_PEEK */
    bool bytes_here;
} ranks;

/* start.c */
/* Starts `count` ranks; `words` are more of kolorun's options. An earlier job is ended first. */
result ranks_start(session *s, int count, const names *words);
/* kolorun's messages about the failure, a line each; NULL: it has given none. The caller frees. */
char *ranks_reason(const ranks *r);
/* Is this line of the session's environment for its own worker alone? */
bool ranks_go_without(const char *line);
/* The kernel's folder, into which %cd takes it; NULL when that is gone. The caller frees. */
char *ranks_folder(void);

/* group.c */
/* Ends the job and every process of it, within 2 s: in order, so that MPI cleans up its files, and then by force. */
void ranks_end(session *s);
/* A descriptor to poll for news of the ranks; -1: there are none. */
int ranks_watch(const session *s);
void ranks_close(session *s);

bool ranks_live(const session *s);
/* A %%ranks cell is at work: its C is for the chosen ranks. */
bool ranks_chosen(const session *s);

/* One look at everything the ranks and kolorun say; at most `wait` ms. */
void ranks_turn(ranks *r, int wait);
/* To every rank, or to one. */
void ranks_tell(ranks *r, message head, const void *payload, size_t size);
void peer_tell(ranks *r, int rank, message head, const void *payload, size_t size);
/* The sentence that says how to go on after a job has ended. */
char *ranks_again(const ranks *r);

/* execute.c */
/* Runs a function of a loaded object on the chosen ranks. `data`: the bundle of the trailing expression's value, which
 * lies at `address` of that memory; NULL: the cell has none. */
typedef json_t *(*value_reader)(void *closure, const memory *from, uint64_t address, size_t size);
result ranks_run(session *s, const char *path, const char *function, value_reader data, void *closure);
/* values.c: shows what `data` reads at each chosen rank, equal values once. */
void ranks_publish_values(ranks *r, value_reader data, void *closure);

/* failures.c */
bool ranks_any_failed(const ranks *r);
/* The cell has failed on some ranks: have they all recovered, so that the job may go on? */
bool ranks_recovered(const ranks *r);
/* "ranks 0-2 in MPI_Barrier at In[4]:3, rank 5 at In[4]:9": those for which `which`, put together by where they are. */
char *ranks_places(const ranks *r, const bool *which);
/* The result of an interrupted cell. Ranks that did not recover are named, and the job is ended. */
result ranks_interrupted(ranks *r);
/* Names the ranks that have failed, if some have. The job goes on where all have recovered; else it ends.
 * False: all is well. */
bool ranks_failed(ranks *r, result *why);
/* Between cells: publishes what ranks print, and notices one that has died. */
void ranks_tend(session *s);

/* select.c */
/* Chooses by "0,3", "0-3,6" or "" (all). False, and a sentence, when the words mean no rank that there is. */
bool ranks_choose(ranks *r, const char *words, char **problem);
/* "rank 3", "ranks 0-3,6": those for which `which` is true. */
char *ranks_named(const ranks *r, const bool *which);
/* "0-3,6" */
char *ranks_listed(const bool *which, int count);

#endif
