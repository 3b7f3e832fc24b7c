/* The members of a communicator: see nccl_members.h. */
#include "nccl_members.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blocks.h"
#include "streams.h"

struct kolo_shim_members::Member {
    std::atomic<bool> in, left;
    int device; /* by its number on the bus */
    ncclDataType_t type;
    size_t count; /* of the sum at hand */
    std::atomic<size_t> wrote, read; /* pieces */
};

namespace
{

const int MOST = 32;
const size_t PIECE = 1 << 20; /* bytes of a member's, at a time */

} // namespace

struct kolo_shim_members::Memory {
    std::atomic<int> size; /* 0: nobody has said it yet */
    std::atomic<bool> broken;
    Member members[MOST];
    alignas(4096) char pieces[MOST][PIECE];
};

kolo_shim_members::kolo_shim_members(int file) : file(file)
{
    void *found = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memory = found == MAP_FAILED ? nullptr : (Memory *)found;
}

kolo_shim_members::~kolo_shim_members()
{
    if (memory) munmap(memory, sizeof(Memory));
    close(file);
}

std::shared_ptr<kolo_shim_members> kolo_shim_members::begin(ncclUniqueId *id)
{
    struct stat about;
    int file = memfd_create("kolo-shim-nccl", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(Memory)) != 0 || fstat(file, &about) != 0) return nullptr;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%d %d %llu", (int)getpid(), file, (unsigned long long)about.st_ino);
    std::shared_ptr<kolo_shim_members> made(new kolo_shim_members(file));
    return made->memory ? made : nullptr;
}

std::shared_ptr<kolo_shim_members> kolo_shim_members::find(const ncclUniqueId &id)
{
    int process, number;
    unsigned long long inode;
    char path[60];
    struct stat about;
    if (sscanf(id.internal, "%d %d %llu", &process, &number, &inode) != 3) return nullptr;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, number);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return nullptr;
    std::shared_ptr<kolo_shim_members> found(new kolo_shim_members(file));
    return fstat(file, &about) == 0 && about.st_ino == inode && found->memory ? found : nullptr;
}

bool kolo_shim_members::enter(int rank, int size, int device)
{
    int said = 0;
    Member &member = memory->members[rank];
    if (size > MOST || (!memory->size.compare_exchange_strong(said, size) && said != size)) return false;
    if (member.in) return false;
    member.device = device;
    member.in = true;
    return true;
}

int kolo_shim_members::size() const
{
    return memory->size;
}

bool kolo_shim_members::all_in() const
{
    for (int r = 0; r < memory->size; r++)
        if (!memory->members[r].in || memory->members[r].left) return false;
    return memory->size > 0;
}

bool kolo_shim_members::same_devices() const
{
    for (int a = 0; a < memory->size; a++)
        for (int b = 0; b < a; b++)
            if (memory->members[a].device == memory->members[b].device) return true;
    return false;
}

void kolo_shim_members::break_up()
{
    memory->broken = true;
}
bool kolo_shim_members::broken() const
{
    return memory->broken;
}

void kolo_shim_members::leave(int rank)
{
    memory->members[rank].left = true;
}

bool kolo_shim_members::is_waited_for() const
{
    for (int r = 0; r < memory->size; r++)
        if (memory->members[r].wrote > turn) return true;
    return false;
}

/* What other processes do is looked for: the shim's own work may go on between. */
bool kolo_shim_members::wait_for(std::atomic<size_t> Member::*pieces, const std::function<bool()> &ended)
{
    for (int r = 0; r < memory->size; r++) {
        while (memory->members[r].*pieces <= turn) {
            if (ended()) return false;
            changed.wait_for(whole, std::chrono::microseconds(100));
        }
    }
    return true;
}

template <typename T> void kolo_shim_members::sum_piece(const kolo_shim_sum &sum, size_t at, size_t count)
{
    std::vector<T> total(count, 0);
    for (int r = 0; r < memory->size; r++)
        for (size_t i = 0; i < count; i++) total[i] += ((const T *)memory->pieces[r])[i];
    for (void *to : sum.to) {
        kolo_shim_came((T *)to + at, nullptr, count * sizeof(T));
        memcpy((T *)to + at, total.data(), count * sizeof(T));
    }
}

void kolo_shim_members::check(const kolo_shim_sum &sum) const
{
    for (int r = 0; r < memory->size; r++) {
        const Member &member = memory->members[r];
        if (member.count != sum.count || member.type != sum.type)
            kolo_shim_refuse("members sum %zu and %zu numbers, or of two types", sum.count, member.count);
    }
}

/* A member's place is written again when everybody has read what was there. */
bool kolo_shim_members::add_up(const kolo_shim_sum &sum, const std::function<bool()> &ended)
{
    size_t width = sum.type == ncclDouble ? sizeof(double) : sizeof(float);
    for (size_t at = 0; at < sum.count; at += PIECE / width, turn++) {
        size_t count = std::min(sum.count - at, PIECE / width);
        for (size_t i = 0; i < sum.ranks.size(); i++) {
            Member &member = memory->members[sum.ranks[i]];
            member.count = sum.count;
            member.type = sum.type;
            memcpy(memory->pieces[sum.ranks[i]], (const char *)sum.from[i] + at * width, count * width);
            member.wrote = turn + 1;
        }
        if (!wait_for(&Member::wrote, ended)) return false;
        check(sum);
        sum.type == ncclDouble ? sum_piece<double>(sum, at, count) : sum_piece<float>(sum, at, count);
        for (int rank : sum.ranks) memory->members[rank].read = turn + 1;
        if (!wait_for(&Member::read, ended)) return false;
    }
    return true;
}
