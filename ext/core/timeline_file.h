/* The file in which a rank records its timeline, and the Chrome trace that is made of such files. For libkolo
 * (core/timeline.h records, runtime/timeline.c collects), and for kolorun, which is not linked with libkolo and makes
 * the trace where ranks have died.
 *
 * The file is a header with a table of rows, and behind it room for the events of each row. A row is one thread in one
 * place: "device 0", "communication". The file is mapped into memory while it is recorded, so what a rank had recorded
 * when it was killed is in the file. A row keeps its newest events: event number n is in slot n modulo
 * KOLO_TIMELINE_EVENTS.
 *
 * The trace is JSON as Chrome's trace viewer and Perfetto read it: https://docs.google.com/document/d/
 * 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format"). It is written as text, line by line, and not
 * with jansson, which would keep about a kilobyte for each of some million events. Every event is a line of its own. */
#ifndef KOLO_CORE_TIMELINE_FILE_H
#define KOLO_CORE_TIMELINE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define KOLO_TIMELINE_ROWS   256
#define KOLO_TIMELINE_EVENTS (1 << 16) /* that a row keeps: 5 MiB */
#define KOLO_TIMELINE_NAME   47        /* bytes of an event's name */

/* What an event is. Its name in the trace is in kolo_timeline_spans. */
typedef enum kolo_timeline_span {
    KOLO_SPAN_STEP,       /* a whole training step of a replica */
    KOLO_SPAN_INPUT,      /* samples are gathered, or waited for */
    KOLO_SPAN_FORWARD,    /* a layer */
    KOLO_SPAN_BACKWARD,   /* a layer */
    KOLO_SPAN_WAIT,       /* for other ranks, replicas or threads */
    KOLO_SPAN_PACK,       /* gradients are copied to the array that is summed */
    KOLO_SPAN_REDUCE,     /* sums over ranks or replicas */
    KOLO_SPAN_UNPACK,     /* new weights are copied to the layout that the kernels read */
    KOLO_SPAN_UPDATE,     /* the optimizer */
    KOLO_SPAN_EXCHANGE,   /* a worker with the centre */
    KOLO_SPAN_COLLECTIVE, /* another collective than an all-reduce */
    KOLO_SPAN_VALIDATION,
    KOLO_SPAN_SAVE,
    KOLO_SPAN_ENQUEUE, /* work is handed to a device, which computes later */
    KOLO_SPANS
} kolo_timeline_span;
extern const char *const kolo_timeline_spans[KOLO_SPANS]; /* "forward" */

typedef struct kolo_timeline_event {
    int64_t begun, nanoseconds; /* CLOCK_MONOTONIC of the rank's host, and the duration */
    int64_t bytes;              /* that were moved; of a backward event those of the layer's gradient; 0: none */
    int32_t step;               /* of the training, from 0; -1: none */
    int32_t number;             /* of the microbatch or the bucket; of a step its samples; -1: none */
    uint8_t span;               /* kolo_timeline_span */
    char name[KOLO_TIMELINE_NAME];
} kolo_timeline_event;

typedef struct kolo_timeline_row {
    char name[56];  /* "device 0" */
    uint64_t count; /* events so far; set behind an event */
} kolo_timeline_row;

/* How the rank's clock is converted to rank 0's: its offset at two moments, between which it is interpolated. */
typedef struct kolo_timeline_clock {
    int64_t at[2], offset[2]; /* nanoseconds; offset: rank 0's clock minus this one */
    int64_t error[2];         /* the most by which the offset may be wrong; 0 on rank 0's host */
} kolo_timeline_clock;

typedef struct kolo_timeline_header {
    char magic[8]; /* KOLO_TIMELINE_MAGIC */
    int32_t rank, size; /* of the job */
    int32_t cores, threads; /* that the rank may use, and that it computes with */
    char host[64];
    kolo_timeline_clock clock;
    int64_t zero;     /* rank 0's clock when the recording began: the trace's time 0 */
    int64_t unplaced; /* threads that found no row or no room on the disk, and were not recorded */
    int32_t rows;     /* in use */
    kolo_timeline_row row[KOLO_TIMELINE_ROWS];
} kolo_timeline_header;
#define KOLO_TIMELINE_MAGIC "KOLOTL2" /* with its 0 */

/* Where the events of a row begin: a multiple of 4096. */
static inline int64_t kolo_timeline_place_of(int row)
{
    int64_t head = ((int64_t)sizeof(kolo_timeline_header) + 4095) / 4096 * 4096;
    return head + row * (int64_t)(KOLO_TIMELINE_EVENTS * sizeof(kolo_timeline_event));
}
/* The number of events of a row that the file still has. */
int kolo_timeline_kept(const kolo_timeline_row *row);

/* The name of a rank's file: FILE.rank3.part. False: it is too long. */
bool kolo_timeline_part_name(const char *path, int rank, char name[PATH_MAX]);
/* Whether there are files of ranks. The second removes them. */
bool kolo_timeline_has_parts(const char *path);
void kolo_timeline_remove_parts(const char *path);

/* Reads a header, and checks it. False: the file is no such file, or cannot be read. */
bool kolo_timeline_read_header(int fd, kolo_timeline_header *header);
/* Reads the events that a row has kept, in the order of their numbers: events[KOLO_TIMELINE_EVENTS]. Returns their
 * number; -1: they cannot be read. */
int kolo_timeline_read_row(int fd, const kolo_timeline_header *header, int row, kolo_timeline_event *events);

/* A trace that is being written. */
typedef struct kolo_timeline_trace {
    FILE *out;
    int ranks; /* of which there is a part */
    int64_t left_out; /* older events that rows have not kept */
    int64_t unplaced; /* see kolo_timeline_header */
    int64_t error;    /* the largest one of a clock, in nanoseconds */
} kolo_timeline_trace;

void kolo_timeline_begin_trace(kolo_timeline_trace *trace, FILE *out);
/* Adds a rank: its name, then its rows. */
void kolo_timeline_add_rank(kolo_timeline_trace *trace, const kolo_timeline_header *header);
/* Adds a row. Sorts the events by their begin, a longer one before those within it. */
void kolo_timeline_add_row(kolo_timeline_trace *trace, const kolo_timeline_header *header, int row,
                           kolo_timeline_event *events, int count);
/* Returns whether the whole trace was written; does not close trace->out. */
bool kolo_timeline_end_trace(kolo_timeline_trace *trace);
/* Adds a rank with all rows of its file. False: the file cannot be read, or there is no memory. */
bool kolo_timeline_add_part(kolo_timeline_trace *trace, int fd);
/* Adds the files of all ranks that are beside `path`. Returns whether there was one. */
bool kolo_timeline_add_parts(kolo_timeline_trace *trace, const char *path);

#endif
