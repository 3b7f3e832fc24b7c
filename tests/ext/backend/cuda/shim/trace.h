/* What a device is given, written down: with KOLO_SHIM_TRACE=FILE a line of JSON for each launch, library call and
 * copy, in the order of their running. With KOLO_NVTX=1 each has its layer, and steps are not recorded.
 *
 *     {"range": "conv2d_1 backward", "what": "kolo::bias_backward<float, float, 4>", "blocks": [132, 1, 1],
 *      "threads": 256, "shared": 0, "read": 1024, "written": 64, "asked": 2048, "operations": 0}
 *
 * Bytes are of whole sectors of 32, each counted once a launch, as if a cache held all: what memory must give and take.
 * `asked` is what the threads asked for. Of a kernel they are seen as checks.cpp sees them; of a library call they are
 * its operands, and it computes nothing. `operations` are those of matrix products. KOLO_SHIM_DRY=1: nothing is run at
 * all, so that any size is quick. */
#ifndef KOLO_SHIM_TRACE_H
#define KOLO_SHIM_TRACE_H

#include <string>

#include "streams.h"

struct kolo_shim_record {
    std::string range, what;
    dim3 blocks, threads;
    size_t shared = 0;
    uint64_t read = 0, written = 0, operations = 0;
};

bool kolo_shim_traces(); /* everything below needs that */
/* The range that the caller is in. */
std::string kolo_shim_range();
std::string kolo_shim_kernel_name(const void *kernel);
/* Work that is written down when it runs. A kernel's accesses are watched; a library's work is left out. */
enum kolo_shim_kind { KOLO_SHIM_KERNEL, KOLO_SHIM_COPY, KOLO_SHIM_LIBRARY };
Work kolo_shim_written_down(kolo_shim_record record, kolo_shim_kind kind, Work work);
/* An access of a kernel's. */
void kolo_shim_note(const void *at, size_t bytes, bool writes);
/* The device's memory, of which nothing is given back. */
void *kolo_shim_traced_memory(size_t bytes);

#endif
