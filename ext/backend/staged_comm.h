/* A comm for memory that no comm of its own reaches: every sum goes by way of the host. */
#ifndef KOLO_BACKEND_STAGED_COMM_H
#define KOLO_BACKEND_STAGED_COMM_H

#include "backend/stream.h"

/* Over the members of `group`, for memory of the stream. The caller closes it before the group. Only its all-reduce may
 * be called; it waits. */
kolo_status kolo_staged_comm_open(const kolo_stream_kind *streams, kolo_stream *stream, kolo_comm *group,
                                  kolo_comm **comm);

#endif
