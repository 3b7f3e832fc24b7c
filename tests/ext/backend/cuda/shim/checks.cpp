/* What kernels do in memory, looked at as compute-sanitizer does on a device: addresses that are not the device's, what
 * nobody has written, and what two threads do to one byte with nothing between them that brings them in order. Read
 * blocks.h here first.
 *
 * The .cu files are compiled with -fsanitize=thread, which calls a function at every access; it is not GCC's that is
 * called, but those below. Of each byte of memory a cell keeps who wrote it last, and who has read it since. "Who" is a
 * turn: what a thread does between two waits. Turns of a block are ordered by its barriers, those of a warp by
 * __syncwarp(), but not by shuffles and votes; turns of two blocks by what both have counted atomically. Where the
 * build has a sanitizer of its own nobody calls, and nothing is looked at.
 */
#include "blocks.h"
#include "trace.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

namespace
{

const uint32_t NOBODY = 0, HOST = 1, SEVERAL = 1u << 31, SEVERAL_WARPS = 1u << 30, NUMBER = SEVERAL_WARPS - 1;
const size_t WARP = 32, STATIC_MOST = 48 << 10;

struct Cell {
    uint32_t wrote, read; /* turns; read: the latest, with SEVERAL where others did, too, in no order to it */
};

struct Turn {
    uint32_t block, thread, barriers, syncs;
};

/* Memory that kernels may use. Of a block's: nothing in it lasts longer. */
struct Region {
    char *begin = nullptr;
    size_t bytes = 0;
    bool of_block = false;
    Cell *cells = nullptr;
};

std::map<char *, Region> on_device; /* by their ends */
Region dynamic, statics; /* shared memory; and all that the plugin has of variables */
std::vector<Cell> dynamic_cells;
const char *constants, *constants_end;
Region *latest;

std::vector<Turn> turns; /* of this launch */
Turn own; /* the last of them */
uint32_t first_turn = HOST + 1, first_of_block, now;
size_t static_bytes; /* of shared memory, that the block has come to */

/* What blocks of the launch counted with: by the counter, each block's turn when it did; and those that the running
 * block has met. */
std::unordered_map<const void *, std::unordered_map<uint32_t, uint32_t>> counters;
std::vector<const std::unordered_map<uint32_t, uint32_t> *> met;

Cell *cells_for(size_t bytes)
{
    void *cells =
        mmap(nullptr, bytes * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) kolo_shim_refuse("no memory to watch %zu bytes", bytes);
    return (Cell *)cells;
}

/* ---- the plugin's own memory ---- */

int find_segments(struct dl_phdr_info *info, size_t, void *)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) &segment = info->dlpi_phdr[i];
        char *begin = (char *)info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X)) continue;
        if (segment.p_flags & PF_W) statics.begin = begin, statics.bytes = segment.p_memsz;
        else if (!constants || begin < constants) constants = begin;
        if (!(segment.p_flags & PF_W) && begin + segment.p_memsz > constants_end)
            constants_end = begin + segment.p_memsz;
    }
    return (char *)&running >= statics.begin && (char *)&running < statics.begin + statics.bytes;
}

void find_own_memory()
{
    if (statics.cells) return;
    constants = nullptr;
    dl_iterate_phdr(
        [](struct dl_phdr_info *info, size_t size, void *) {
            constants = constants_end = nullptr;
            return find_segments(info, size, nullptr);
        },
        nullptr);
    statics.of_block = dynamic.of_block = true;
    statics.cells = cells_for(statics.bytes);
}

/* ---- turns ---- */

enum Relation { OWN, BEFORE, UNORDERED };

Relation of_blocks(uint32_t turn, const Turn &other)
{
    for (auto *counted : met) {
        auto found = counted->find(other.block);
        if (found == counted->end() || turn > found->second) continue;
        const Turn &then = turns[found->second - first_turn];
        if (other.thread == then.thread || other.barriers < then.barriers) return BEFORE;
    }
    return UNORDERED;
}

inline Relation relation(uint32_t turn)
{
    if (turn < first_turn) return BEFORE; /* of an earlier launch */
    const Turn &other = turns[turn - first_turn];
    if (other.block != own.block) return of_blocks(turn, other);
    if (other.thread == own.thread) return OWN;
    bool synced = other.thread / WARP == own.thread / WARP && other.syncs < own.syncs;
    return other.barriers < own.barriers || synced ? BEFORE : UNORDERED;
}

/* Whether the running thread, which read then, may know that all others have read who did. */
bool all_have_read(uint32_t read)
{
    const Turn &then = turns[(read & NUMBER) - first_turn];
    return !(read & SEVERAL) || then.barriers < own.barriers || (!(read & SEVERAL_WARPS) && then.syncs < own.syncs);
}

/* ---- accesses ---- */

Region *region_of(char *address)
{
    if (latest && (size_t)(address - latest->begin) < latest->bytes) return latest;
    if ((size_t)(address - dynamic.begin) < dynamic.bytes) return latest = &dynamic;
    if ((size_t)(address - statics.begin) < statics.bytes) return latest = &statics;
    auto found = on_device.upper_bound(address);
    if (found != on_device.end() && address >= found->second.begin) return latest = &found->second;
    return nullptr;
}

/* The access is none that may be: says where it would be. */
[[noreturn]] void refuse_place(const char *does, char *address, size_t bytes, const void *code)
{
    Dl_info at = {};
    dladdr(code, &at);
    size_t offset = (size_t)((const char *)code - (const char *)at.dli_fbase);
    auto next = on_device.upper_bound(address);
    Region *before = next == on_device.begin() ? nullptr : &std::prev(next)->second;
    ptrdiff_t behind = before ? address - (before->begin + before->bytes) : 0;
    ptrdiff_t behind_shared = address - (dynamic.begin + dynamic.bytes);
    if (dynamic.bytes && behind_shared >= 0 && behind_shared < 4096)
        kolo_shim_refuse("%s %zu bytes, %td behind the block's %zu of shared memory (code at +0x%zx)", does, bytes,
                         behind_shared, dynamic.bytes, offset);
    if (before && behind < 4096)
        kolo_shim_refuse("%s %zu bytes, %td behind an array of %zu (code at +0x%zx)", does, bytes, behind,
                         before->bytes, offset);
    kolo_shim_refuse("%s %zu bytes at %p, which is no memory of the device's (code at +0x%zx)", does, bytes,
                     (void *)address, offset);
}

[[noreturn]] void refuse_race(const char *does, uint32_t turn, const char *did, const Region &region, char *address,
                              const void *code)
{
    Dl_info at = {};
    dladdr(code, &at);
    const Turn &other = turns[turn - first_turn];
    kolo_shim_refuse("%s byte %td of %s, which thread %u of block %u %s with nothing in between (code at +0x%zx)", does,
                     address - region.begin,
                     &region == &dynamic   ? "its dynamic memory"
                     : &region == &statics ? "static memory"
                                           : "an array",
                     other.thread, other.block, did, (size_t)((const char *)code - (const char *)at.dli_fbase));
}

[[noreturn]] void refuse_unknown(const Region &region, char *address, const void *code)
{
    Dl_info at = {};
    dladdr(code, &at);
    kolo_shim_refuse("reads byte %td of %s of %zu bytes, which nobody has written (code at +0x%zx)",
                     address - region.begin, region.of_block ? "shared memory" : "an array", region.bytes,
                     (size_t)((const char *)code - (const char *)at.dli_fbase));
}

void read_cell(const Region &region, Cell &cell, char *address, const void *code)
{
    uint32_t oldest = region.of_block ? first_of_block : HOST, before = cell.read & NUMBER, several = 0;
    if (cell.wrote < oldest) refuse_unknown(region, address, code);
    if (cell.wrote >= first_turn && cell.wrote != now && relation(cell.wrote) == UNORDERED)
        refuse_race("reads", cell.wrote, "wrote", region, address, code);
    if (before == now) return;
    if (before >= first_turn && before >= oldest) {
        Relation to = relation(before);
        bool same_warp = turns[before - first_turn].thread / WARP == running.thread / WARP;
        if (to == UNORDERED) several = SEVERAL | (cell.read & SEVERAL_WARPS) | (same_warp ? 0 : SEVERAL_WARPS);
        if (to == OWN && !all_have_read(cell.read)) several = cell.read & ~NUMBER;
    }
    cell.read = now | several;
}

void write_cell(const Region &region, Cell &cell, char *address, const void *code)
{
    uint32_t oldest = region.of_block ? first_of_block : first_turn, read = cell.read & NUMBER;
    if (cell.wrote >= oldest && cell.wrote != now && relation(cell.wrote) == UNORDERED)
        refuse_race("writes", cell.wrote, "wrote", region, address, code);
    if (read >= oldest) {
        Relation to = relation(read);
        if (to == UNORDERED || (to == OWN && !all_have_read(cell.read)))
            refuse_race("writes", read, to == OWN ? "and others read" : "read", region, address, code);
    }
    cell.wrote = now;
    cell.read = NOBODY;
}

enum Access { READ, WRITE, ATOMIC };

/* Most often bytes share all that has happened to them, and often it is this turn that it happened in. */
inline void look_at(void *memory, size_t bytes, Access access, const void *code)
{
    char *address = (char *)memory;
    if ((size_t)(address - running.stacks) < running.stack_bytes) return; /* a thread's own */
    if ((size_t)(address - (char *)&kolo_shim_place) < sizeof kolo_shim_place) return;
    Region *region = region_of(address);
    if (!region && access == READ && address >= constants && address < constants_end) return;
    if (!region || (size_t)(address - region->begin) + bytes > region->bytes)
        refuse_place(access == READ ? "reads" : "writes", address, bytes, code);
    Cell *cells = region->cells + (address - region->begin);
    for (size_t i = 0, next; i < bytes; i = next) {
        const Cell before = cells[i];
        for (next = i + 1; next < bytes && cells[next].wrote == before.wrote && cells[next].read == before.read;)
            next++;
        if (access == WRITE ? before.wrote == now && before.read == NOBODY : (before.read & NUMBER) == now) continue;
        if (access == WRITE) write_cell(*region, cells[i], address + i, code);
        else read_cell(*region, cells[i], address + i, code);
        for (size_t k = i + 1; k < next; k++) cells[k] = cells[i];
        if (access == WRITE && region == &statics && before.wrote < first_of_block) static_bytes += next - i;
    }
}

/* Host code of the same files goes on another stack. */
inline bool in_kernel(const void *frame)
{
    return (size_t)((const char *)frame - running.stacks) < running.stack_bytes;
}

bool traces, checks, compiled_in; /* the last: kernels say what they do */

inline void see(void *memory, size_t bytes, Access access, const void *code)
{
    if (traces) kolo_shim_note(memory, bytes, access == WRITE);
    else if (checks) look_at(memory, bytes, access, code);
}

} // namespace

/* ---- for the shim ---- */

void kolo_shim_begin_launch(size_t)
{
    find_own_memory();
    const char *wanted = getenv("KOLO_SHIM_CHECKS");
    traces = kolo_shim_traces();
    checks = compiled_in && (!wanted || *wanted != '0');
    if (first_turn + turns.size() > NUMBER / 2) { /* long ago is all the same */
        for (auto &place : on_device)
            for (size_t i = 0; i < place.second.bytes; i++)
                place.second.cells[i] = {place.second.cells[i].wrote ? HOST : NOBODY, NOBODY};
        memset(statics.cells, 0, statics.bytes * sizeof(Cell));
        dynamic_cells.clear();
        first_turn = HOST + 1;
        turns.clear();
    }
    first_turn += (uint32_t)turns.size();
    turns.clear();
    counters.clear();
    met.clear();
    first_of_block = now = first_turn;
    dynamic.begin = (char *)running.shared;
    dynamic.bytes = running.shared_bytes;
    if (dynamic_cells.size() < dynamic.bytes) dynamic_cells.resize(dynamic.bytes);
    dynamic.cells = dynamic_cells.data();
    latest = nullptr;
}

void kolo_shim_end_block()
{
    if (static_bytes + running.shared_bytes >
        (running.shared_bytes > STATIC_MOST ? kolo_shim_shared_limit() : STATIC_MOST))
        kolo_shim_refuse("%zu bytes of static and %zu of dynamic shared memory", static_bytes, running.shared_bytes);
    static_bytes = 0;
    met.clear();
    first_of_block = first_turn + (uint32_t)turns.size();
}

void kolo_shim_turn(uint32_t barriers, uint32_t syncs)
{
    now = first_turn + (uint32_t)turns.size();
    own = {running.block, running.thread, barriers, syncs};
    turns.push_back(own);
}

void kolo_shim_refuse(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "shim: ");
    if (running.kernel) {
        Dl_info at = {};
        dladdr(running.kernel, &at);
        int status = -1;
        char *name = at.dli_sname ? abi::__cxa_demangle(at.dli_sname, nullptr, nullptr, &status) : nullptr;
        fprintf(stderr, "thread %u of block %u of %s: ", running.thread, running.block, name ? name : "a kernel");
    }
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    abort();
}

void kolo_shim_misaligned(const void *address, size_t multiple)
{
    kolo_shim_refuse("wanted an address that is a multiple of %zu, got %p", multiple, address);
}

void kolo_shim_watch(char *memory, size_t bytes)
{
    Region region;
    region.begin = memory;
    region.bytes = bytes;
    region.cells = cells_for(bytes ? bytes : 1);
    on_device[memory + bytes] = region;
    latest = nullptr;
}

void kolo_shim_unwatch(char *memory)
{
    auto found = on_device.upper_bound(memory);
    if (found == on_device.end() || found->second.begin != memory) return;
    munmap(found->second.cells, (found->second.bytes ? found->second.bytes : 1) * sizeof(Cell));
    on_device.erase(found);
    latest = nullptr;
}

void kolo_shim_came(void *to, const void *from, size_t bytes)
{
    auto in = on_device.upper_bound((char *)to), out = on_device.upper_bound((char *)from);
    if (in == on_device.end() || (char *)to < in->second.begin) return;
    bool device = from && out != on_device.end() && (char *)from >= out->second.begin;
    Cell *cells = in->second.cells + ((char *)to - in->second.begin);
    const Cell *others = device ? out->second.cells + ((char *)from - out->second.begin) : nullptr;
    size_t room = (size_t)(in->second.begin + in->second.bytes - (char *)to);
    for (size_t i = 0; i < bytes && i < room; i++) cells[i] = {others && !others[i].wrote ? NOBODY : HOST, NOBODY};
}

void kolo_shim_reads(const void *memory, size_t bytes)
{
    see((void *)memory, bytes, READ, __builtin_return_address(0));
}
void kolo_shim_writes(void *memory, size_t bytes)
{
    see(memory, bytes, WRITE, __builtin_return_address(0));
}
void kolo_shim_counts(void *memory, size_t bytes)
{
    Region *region = region_of((char *)memory);
    if (region && !region->of_block) {
        auto &counted = counters[memory];
        if (counted.count(running.block) == 0) met.push_back(&counted);
        counted[running.block] = now;
    }
    see(memory, bytes, ATOMIC, __builtin_return_address(0));
}
void kolo_shim_reads_constant(const void *memory, size_t bytes)
{
    Region *region = region_of((char *)memory);
    for (size_t i = 0; region && i < bytes; i++)
        if (region->cells[(char *)memory - region->begin + i].wrote >= first_turn)
            kolo_shim_refuse("__ldg() of what this kernel has written");
    kolo_shim_reads(memory, bytes);
}

/* ---- what GCC calls ---- */

extern "C" {

#define KOLO_SHIM_LOOK(name, bytes, access, multiple)                                                                  \
    void name(void *memory)                                                                                            \
    {                                                                                                                  \
        if (!in_kernel(__builtin_frame_address(0))) return;                                                            \
        if ((uintptr_t)memory % (multiple) != 0) kolo_shim_misaligned(memory, multiple);                               \
        see(memory, bytes, access, __builtin_return_address(0));                                                       \
    }
#define KOLO_SHIM_LOOKS(bytes)                                                                                         \
    KOLO_SHIM_LOOK(__tsan_read##bytes, bytes, READ, bytes)                                                             \
    KOLO_SHIM_LOOK(__tsan_write##bytes, bytes, WRITE, bytes)                                                           \
    KOLO_SHIM_LOOK(__tsan_unaligned_read##bytes, bytes, READ, 1)                                                       \
    KOLO_SHIM_LOOK(__tsan_unaligned_write##bytes, bytes, WRITE, 1)
KOLO_SHIM_LOOKS(1)
KOLO_SHIM_LOOKS(2)
KOLO_SHIM_LOOKS(4)
KOLO_SHIM_LOOKS(8)
KOLO_SHIM_LOOKS(16)

void __tsan_read_range(void *memory, size_t bytes)
{
    if (in_kernel(__builtin_frame_address(0))) see(memory, bytes, READ, __builtin_return_address(0));
}
void __tsan_write_range(void *memory, size_t bytes)
{
    if (in_kernel(__builtin_frame_address(0))) see(memory, bytes, WRITE, __builtin_return_address(0));
}
void __tsan_init()
{
    compiled_in = true;
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}
void __tsan_vptr_update(void *, void *)
{
}
/* Of std::shared_ptr, on the host. */
int __tsan_atomic32_fetch_add(int *to, int value, int)
{
    return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
}
}
