/* Launches and what they move, written down: see trace.h. */
#include "trace.h"

#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include "nvtx3/nvToolsExt.h"

uint64_t kolo_shim_operations; /* tensor.h counts them */

namespace
{

const size_t SECTOR = 32, SMALL = 1 << 16, MEMORY = (size_t)256 << 30; /* addresses, not memory */

FILE *file()
{
    static FILE *opened = [] {
        const char *name = getenv("KOLO_SHIM_TRACE");
        return name && *name ? fopen(name, "w") : nullptr;
    }();
    return opened;
}

bool is_dry()
{
    const char *given = getenv("KOLO_SHIM_DRY");
    return given && *given == '1';
}

template <typename T> T *reserve(size_t bytes)
{
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    return (T *)memory;
}

/* What the launch that runs has touched: the device's memory, and of each sector the last launch that did. */
char *first, *next;
uint32_t *readers, *writers, launch;
struct {
    uint64_t read, written, asked;
} seen;

inline bool is_there(const void *at)
{
    return launch && (size_t)((char *)at - first) < MEMORY;
}

inline void note(const void *at, size_t bytes, uint32_t *last, uint64_t *sum)
{
    if (!is_there(at)) return;
    seen.asked += bytes;
    size_t begin = (size_t)((char *)at - first) / SECTOR, end = (size_t)((char *)at - first + bytes - 1) / SECTOR;
    for (size_t s = begin; s <= end; s++) {
        if (last[s] == launch) continue;
        last[s] = launch;
        *sum += SECTOR;
    }
}

/* What the same launch wrote comes from a cache. */
void note_read(const void *at, size_t bytes)
{
    if (is_there(at) && writers[(size_t)((char *)at - first) / SECTOR] == launch) seen.asked += bytes;
    else note(at, bytes, readers, &seen.read);
}

void note_write(const void *at, size_t bytes)
{
    note(at, bytes, writers, &seen.written);
}

thread_local std::vector<std::string> ranges;

void write_down(const kolo_shim_record &r)
{
    fprintf(file(),
            "{\"range\": \"%s\", \"what\": \"%s\", \"blocks\": [%u, %u, %u], \"threads\": %u, \"shared\": %zu, "
            "\"read\": %llu, \"written\": %llu, \"asked\": %llu, \"operations\": %llu}\n",
            r.range.c_str(), r.what.c_str(), r.blocks.x, r.blocks.y, r.blocks.z,
            r.threads.x * r.threads.y * r.threads.z, r.shared, (unsigned long long)r.read,
            (unsigned long long)r.written, (unsigned long long)seen.asked, (unsigned long long)r.operations);
    fflush(file());
}

} // namespace

bool kolo_shim_traces()
{
    return file() != nullptr;
}

std::string kolo_shim_range()
{
    return ranges.empty() ? "" : ranges.back();
}

std::string kolo_shim_kernel_name(const void *kernel)
{
    Dl_info about;
    int status;
    if (!dladdr(kernel, &about) || !about.dli_sname) return "a kernel";
    char *plain = abi::__cxa_demangle(about.dli_sname, nullptr, nullptr, &status);
    std::string name = plain ? plain : about.dli_sname;
    free(plain);
    return name.substr(name.compare(0, 5, "void ") == 0 ? 5 : 0);
}

/* A small copy is made in any case: a step's numbers, or sums of losses. */
static bool shall_run(const kolo_shim_record &record, kolo_shim_kind kind)
{
    if (kind == KOLO_SHIM_LIBRARY) return false;
    return !is_dry() || (kind == KOLO_SHIM_COPY && record.written < SMALL);
}

Work kolo_shim_written_down(kolo_shim_record record, kolo_shim_kind kind, Work work)
{
    return [=] {
        static uint32_t launches;
        kolo_shim_record told = record;
        kolo_shim_operations = 0;
        seen = {};
        launch = kind == KOLO_SHIM_KERNEL ? ++launches : 0;
        if (shall_run(record, kind)) work();
        launch = 0;
        told.read += seen.read;
        told.written += seen.written;
        told.operations += kolo_shim_operations;
        write_down(told);
    };
}

void kolo_shim_note(const void *at, size_t bytes, bool writes)
{
    if (writes) note_write(at, bytes);
    else note_read(at, bytes);
}

void *kolo_shim_traced_memory(size_t bytes)
{
    if (!first) {
        first = next = reserve<char>(MEMORY);
        readers = reserve<uint32_t>(MEMORY / SECTOR * sizeof *readers);
        writers = reserve<uint32_t>(MEMORY / SECTOR * sizeof *writers);
    }
    void *memory = next;
    next += (bytes + 255) / 256 * 256;
    return next <= first + MEMORY ? memory : nullptr;
}

extern "C" {

int nvtxRangePushA(const char *text)
{
    ranges.push_back(text);
    return (int)ranges.size();
}
int nvtxRangePop(void)
{
    if (!ranges.empty()) ranges.pop_back();
    return (int)ranges.size();
}
}
