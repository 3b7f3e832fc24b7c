/* The messages between a worker of another rank and a server: what center_link.c sends and center_server.c answers. A
 * message is a request or a reply, and the arrays behind it. */
#ifndef KOLO_REPLICA_CENTER_MESSAGE_H
#define KOLO_REPLICA_CENTER_MESSAGE_H

#include "replica/center.h"

typedef enum kolo_request_kind {
    KOLO_REQUEST_HELLO = 1,
    KOLO_REQUEST_PART, /* the exchange with a part. Arrays: the part's ranges of the offer's */
    KOLO_REQUEST_GET,  /* a part between two exchanges. The reply has its bytes (center_parts.h) */
    /* Only to rank 0: */
    KOLO_REQUEST_NEXT,     /* the next task */
    KOLO_REQUEST_ADMIT,    /* an exchange with parts on several ranks */
    KOLO_REQUEST_CHECK,    /* whether the epoch has failed */
    KOLO_REQUEST_EXCHANGE, /* the whole exchange. Arrays: the offer's */
    KOLO_REQUEST_HEAR,     /* news */
    KOLO_REQUEST_HEARD,    /* they have arrived */
    KOLO_REQUEST_RECORD    /* the worker's record (worker_records.h), which follows */
} kolo_request_kind;

typedef struct kolo_request {
    kolo_request_kind kind;
    int64_t number;     /* NEXT: the epoch; HEAR, HEARD: of the news */
    double samples;     /* of the offer */
    int part, batches;  /* PART, GET: the part; PART: batches since the worker's last exchange */
    kolo_ticket ticket; /* PART, GET */
    bool reports;       /* to rank 0: `totals` are those of a batch that the worker has trained on */
    bool exchanged;     /* to rank 0: the worker has exchanged with all parts, as it was admitted to */
    kolo_totals totals;
} kolo_request;

typedef struct kolo_reply {
    kolo_status status;
    bool again;    /* others have to come first: ask again */
    char why[200]; /* the sentence of a failure */
    kolo_task task;           /* NEXT */
    kolo_admission admission; /* ADMIT */
} kolo_reply;

/* The arrays that a worker sends with its offer, in their order: its weights, what it began with, its gradient. */
static inline int kolo_offer_arrays(const kolo_strategy_kind *kind)
{
    return 1 + kind->writes_start + kind->updates_center;
}

#endif
