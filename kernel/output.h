/* A cell's output on its way to the notebook: in order, in whole characters, coalesced, paced below the rate at
 * which a Jupyter server drops messages (1 MB/s over 3 s), and capped. Read first: front.h. */
#ifndef KERNEL_OUTPUT_H
#define KERNEL_OUTPUT_H

#include "cells/text.h"
#include "front.h"

typedef struct output {
    const front *front;
    text pending;
    int stream;         /* 1 or 2: of what is pending */
    double since;       /* when the first pending byte came */
    char partial[3][8]; /* by stream: the first bytes of a character that is not complete yet */
    size_t partial_size[3];
    size_t total; /* bytes of this cell */
    size_t lines; /* of this cell that have been shown, and of those that were left out */
    size_t left_lines, left_bytes;
    text last;    /* the end of what was left out */
    bool capped, silent;
    bool holds;   /* the cell may ask for input: an unfinished line may be its question */
    double sent_last;           /* seconds_now() */
    double credit, credit_time; /* bytes that may be sent now */
} output;

void output_begin(output *o, const front *f, bool silent); /* a cell begins */
void output_add(output *o, int stream, const char *bytes, size_t size);
void output_flush(output *o);
void output_end(output *o); /* the cell's last words, incomplete characters included */
void output_free(output *o);

/* The line that stdout has begun and that has not been sent yet: the question of a cell that asks for input. "" when
 * there is none. The output before it is sent. The caller frees. */
char *output_take_question(output *o);

/* Seconds until output_tick has something to do; negative: never. */
double output_delay(const output *o);
void output_tick(output *o);

/* May more be read from the cell now, or would it outrun the server? */
bool output_has_room(output *o);

/* Would a message of so many bytes get through now? What is larger than a burst waits until nothing else counts. */
bool output_may_publish(output *o, size_t bytes);

/* Publishes a message that is not a stream, in order, and counts it against the pace. */
void output_publish(output *o, const char *type, const char *content);

double seconds_now(void);

#endif
