/* The events of a timeline that a replay needs. */
#ifndef KOLO_WHATIF_EVENTS_H
#define KOLO_WHATIF_EVENTS_H

#include "show/trace.h"

/* An event of rank 0's device, in one of its rows. */
typedef struct kolo_recorded_event {
    double begin, end; /* seconds */
    double bytes;
    int thread;        /* of the row */
    int step, number;  /* -1: none */
    int name;          /* in kolo_recorded_events.names, of a backward event or a sum */
    kolo_timeline_span span;
} kolo_recorded_event;

/* Steps, backward events, waits, sums and collectives, in the file's order: row by row, in each by their begin, a
 * longer one before those within it. */
typedef struct kolo_recorded_events {
    kolo_recorded_event *event; /* [count] */
    size_t count, room;
    char (*names)[64]; /* [name_count] */
    size_t name_count, name_room;
    int process;              /* rank 0's; -1: none yet */
    int ranks, cores, threads; /* the latter two of rank 0; 0: the file does not say them */
    int main_row;             /* the thread of the row "device 0"; -1: none */
    int devices;              /* rows of devices, without their further threads */
    bool enqueues;            /* work is only handed to a device */
} kolo_recorded_events;

/* The caller closes the events, after a failure, too. */
kolo_status kolo_recorded_events_read(const char *path, kolo_recorded_events *events);
void kolo_recorded_events_close(kolo_recorded_events *events);

#endif
