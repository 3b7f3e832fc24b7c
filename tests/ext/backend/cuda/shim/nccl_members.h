/* Inside the shim: what the members of a communicator know of one another, be they threads of one process or of several
 * on this machine. It lies in memory without a name, which is gone when they are. With the Turn of streams.h. */
#ifndef KOLO_SHIM_NCCL_MEMBERS_H
#define KOLO_SHIM_NCCL_MEMBERS_H

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "nccl.h"

struct kolo_shim_sum { /* a process's part: of so many numbers, from and to its own members' arrays */
    ncclDataType_t type;
    size_t count;
    std::vector<int> ranks; /* its own */
    std::vector<const void *> from;
    std::vector<void *> to;
};

class kolo_shim_members
{
  public:
    /* Nobody yet, and what others find them by; NULL: they cannot be had. */
    static std::shared_ptr<kolo_shim_members> begin(ncclUniqueId *id);
    /* NULL: whoever began them is gone. */
    static std::shared_ptr<kolo_shim_members> find(const ncclUniqueId &id);
    ~kolo_shim_members();

    /* False: that rank is taken, or others said that there are more or fewer of them. */
    bool enter(int rank, int size, int device);
    int size() const;
    bool all_in() const;
    bool same_devices() const; /* of all */
    /* One of them is lost, or has left before all were in: they can do no more. */
    void break_up();
    bool broken() const;
    void leave(int rank);

    /* Whether members of other processes are at a sum that this process has not come to. */
    bool is_waited_for() const;
    /* The sum over all, in the order of ranks, a piece at a time. False: `ended`, asked while it waits for others, said
     * so. */
    bool add_up(const kolo_shim_sum &sum, const std::function<bool()> &ended);

  private:
    struct Member;
    struct Memory;
    Memory *memory;
    int file;
    size_t turn = 0; /* pieces so far */

    kolo_shim_members(int file);
    bool wait_for(std::atomic<size_t> Member::*pieces, const std::function<bool()> &ended);
    void check(const kolo_shim_sum &sum) const;
    template <typename T> void sum_piece(const kolo_shim_sum &sum, size_t at, size_t count);
};

#endif
