/* The device's memory: each array ends where a page does that nobody may touch, and the host may touch it only while it
 * copies (whatever else it does there soon ends the program). What is freed stays nobody's. Read memory.h here first.
 */
#include "memory.h"

#include "blocks.h"
#include "trace.h"

#include <csignal>
#include <cstdio>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

const size_t PAGE = 4096, ALIGNMENT = 256;
size_t room_bytes = (size_t)1 << 42; /* of addresses, of which none is taken twice; a sanitizer leaves fewer */

struct Array {
    size_t bytes, rounded;
    char *pages;
    size_t page_bytes; /* without the last */
    int device;
};
std::map<char *, Array> arrays;
char *room, *next;
int open_for; /* how many are at work on the device */
bool open_now;
size_t closings;
struct sigaction before_us;

/* Says what it is, and lets it happen again, to whoever was to hear of it. */
void touched(int, siginfo_t *info, void *)
{
    char *address = (char *)info->si_addr;
    bool ours = room && address >= room && address < next;
    const char text[] = "shim: the device's memory was touched by the host, or behind its end, or after it was freed\n";
    if (ours && write(2, text, sizeof text - 1) < 0) return;
    sigaction(SIGSEGV, &before_us, nullptr);
}

void *reserve()
{
    return mmap(nullptr, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

bool begin()
{
    if (room) return true;
    void *all = reserve();
    while (all == MAP_FAILED && (room_bytes /= 2) >= (size_t)1 << 34) all = reserve();
    if (all == MAP_FAILED) return false;
    room = next = (char *)all;
    struct sigaction ours = {};
    ours.sa_sigaction = touched;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &ours, &before_us);
    return true;
}

void let(int what)
{
    for (auto &array : arrays)
        if (array.second.page_bytes > 0) mprotect(array.second.pages, array.second.page_bytes, what);
}

} // namespace

void kolo_shim_open_memory()
{
    if (open_for++ > 0 || open_now) return;
    open_now = true;
    let(PROT_READ | PROT_WRITE);
}

/* That takes its time: after the first hundred now and then. */
void kolo_shim_close_memory()
{
    if (--open_for > 0 || (++closings > 100 && closings % 16 != 0)) return;
    open_now = false;
    let(PROT_NONE);
}

/* What is traced may be too much to be filled. */
static void *take_traced(size_t bytes, size_t rounded, int device)
{
    char *memory = (char *)kolo_shim_traced_memory(rounded);
    if (memory) arrays[memory] = {bytes, rounded, memory, 0, device};
    return memory;
}

void *kolo_shim_take_memory(size_t bytes, int device)
{
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (kolo_shim_traces()) return take_traced(bytes, rounded, device);
    Array array = {bytes, rounded, next, (rounded + PAGE - 1) / PAGE * PAGE, device};
    if (!begin() || (size_t)(next - room) + array.page_bytes + PAGE > room_bytes) return nullptr;
    array.pages = next;
    if (mprotect(array.pages, array.page_bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
    next += array.page_bytes + PAGE;
    char *memory = array.pages + array.page_bytes - rounded;
    memset(memory, 0xFF, rounded);
    arrays[memory] = array;
    kolo_shim_watch(memory, bytes);
    if (!open_now) mprotect(array.pages, array.page_bytes, PROT_NONE);
    return memory;
}

size_t kolo_shim_free_memory(void *memory)
{
    auto found = arrays.find((char *)memory);
    if (found == arrays.end()) return 0;
    Array array = found->second;
    if (array.page_bytes > 0) {
        madvise(array.pages, array.page_bytes, MADV_DONTNEED);
        mprotect(array.pages, array.page_bytes, PROT_NONE);
    }
    kolo_shim_unwatch((char *)memory);
    arrays.erase(found);
    return array.rounded;
}

bool kolo_shim_in_memory(const void *memory, size_t bytes)
{
    auto after = arrays.upper_bound((char *)memory);
    if (after == arrays.begin()) return false;
    --after;
    return (char *)memory + bytes <= after->first + after->second.bytes &&
           (char *)memory < after->first + after->second.rounded;
}

int kolo_shim_memory_owner(const void *memory)
{
    return std::prev(arrays.upper_bound((char *)memory))->second.device;
}

void kolo_shim_fence_memory(int own, bool up)
{
    for (auto &array : arrays)
        if (array.second.device != own && array.second.page_bytes > 0)
            mprotect(array.second.pages, array.second.page_bytes, up ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void kolo_shim_forget_memory()
{
    while (!arrays.empty()) kolo_shim_free_memory(arrays.begin()->first);
}
