/* A comm for streams that have no open_comm(), or whose open_comm() has failed. It sums through the host's memory. */
#ifndef KOLO_BACKEND_STAGED_COMM_H
#define KOLO_BACKEND_STAGED_COMM_H

#include "backend/stream.h"

/* Opens a comm over the members of `group`, for memory of the stream. The caller closes it before the group. It only
 * has an all-reduce, which waits for the stream. */
kolo_status kolo_staged_comm_open(const kolo_stream_kind *streams, kolo_stream *stream, kolo_comm *group,
                                  kolo_comm **comm);
/* Opens a comm over the members of `comm`, which is of this stream kind's open_comm() or staged, for another stream of
 * the same device: see open_comm_beside() in stream.h. The caller closes it before `comm`. */
kolo_status kolo_comm_open_beside(const kolo_stream_kind *streams, kolo_stream *stream, kolo_comm *comm,
                                  kolo_comm **beside);

#endif
