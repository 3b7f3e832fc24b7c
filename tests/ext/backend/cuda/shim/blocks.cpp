/* Kernels on the host: block after block, each thread of a block on a stack of its own that is left where the thread
 * waits for others. Read cuda_runtime.h here first.
 *
 * A stack takes one thread after another for as long as none waits, so that a kernel without barriers needs only one.
 */
#include "cuda_pipeline.h"
#include "cuda_runtime.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

#include "trace.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

const size_t STACK = 64 << 10, WARP = 32;

enum State { READY, AT_BARRIER, AT_EXCHANGE };

struct Copy {
    void *to;
    const void *from;
    size_t bytes, zeros;
};

/* One of the block's threads that has begun and not ended. */
struct Stack {
    jmp_buf place; /* where it waits */
    std::unique_ptr<char[]> memory{new char[STACK]};
    size_t thread = 0;
    State state = READY;
    bool busy = false, made = false;
    uint64_t brought = 0; /* to its warp */
    std::deque<std::vector<Copy>> copies; /* groups that are on their way, the last not complete */
};

struct Block {
    std::vector<std::unique_ptr<Stack>> stacks;
    std::vector<Stack *> by_thread; /* those that have begun and not ended */
    jmp_buf scheduler;
    Stack *running = nullptr;
    const std::function<void()> *body = nullptr;
    size_t count = 0, next = 0;
    uint64_t shown[32]; /* to the thread that goes on, by its warp */
};
Block block;
std::vector<unsigned char> shared_memory;

void set_thread(size_t thread)
{
    threadIdx = {(unsigned)(thread % blockDim.x), (unsigned)(thread / blockDim.x % blockDim.y),
                 (unsigned)(thread / blockDim.x / blockDim.y)};
}

/* Threads one after another, until one has waited and is through. */
void run_stack()
{
    for (;;) {
        Stack *own = block.running;
        (*block.body)();
        own->copies.clear();
        block.by_thread[own->thread] = nullptr;
        if (block.next < block.count) {
            own->thread = block.next++;
            block.by_thread[own->thread] = own;
            set_thread(own->thread);
            continue;
        }
        own->busy = false;
        if (_setjmp(own->place) == 0) _longjmp(block.scheduler, 1);
    }
}

Stack *free_stack()
{
    for (auto &stack : block.stacks)
        if (!stack->busy) return stack.get();
    block.stacks.emplace_back(new Stack);
    return block.stacks.back().get();
}

/* A context of its own where it has not been before; from then on jumps do, which make no system calls. */
void enter(Stack *stack)
{
    ucontext_t context;
    stack->made = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stack->memory.get();
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, run_stack, 0);
    setcontext(&context);
}

void go_on(Stack *stack)
{
    block.running = stack;
    stack->state = READY;
    set_thread(stack->thread);
    if (_setjmp(block.scheduler) != 0) return;
    if (stack->made) _longjmp(stack->place, 1);
    enter(stack);
}

void begin(Stack *stack)
{
    stack->busy = true;
    stack->thread = block.next++;
    block.by_thread[stack->thread] = stack;
    go_on(stack);
}

/* Every thread of the warp that has not ended waits for an exchange: all get what the others brought. */
bool exchange(size_t warp)
{
    size_t first = warp * WARP, end = first + WARP < block.count ? first + WARP : block.count;
    bool any = false;
    uint64_t all[WARP] = {0};
    for (size_t t = first; t < end; t++) {
        Stack *stack = block.by_thread[t];
        if (!stack) continue;
        if (stack->state != AT_EXCHANGE) return false;
        all[t - first] = stack->brought;
        any = true;
    }
    for (size_t t = first; any && t < end; t++) {
        Stack *stack = block.by_thread[t];
        if (!stack) continue;
        memcpy(block.shown, all, sizeof all); /* another warp's thread may come between */
        go_on(stack);
    }
    return any;
}

bool barrier()
{
    bool any = false;
    for (Stack *stack : block.by_thread) {
        if (!stack) continue;
        if (stack->state != AT_BARRIER) return false;
        any = true;
    }
    for (size_t t = 0; any && t < block.count; t++)
        if (block.by_thread[t] && block.by_thread[t]->state == AT_BARRIER) go_on(block.by_thread[t]);
    return any;
}

void wait_as(State state)
{
    Stack *own = block.running;
    own->state = state;
    if (_setjmp(own->place) == 0) _longjmp(block.scheduler, 1);
}

void run_block()
{
    block.next = 0;
    block.by_thread.assign(block.count, nullptr);
    while (block.next < block.count) begin(free_stack());
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t warp = 0; warp * WARP < block.count; warp++) moved = exchange(warp) || moved;
        moved = barrier() || moved;
    }
    for (Stack *stack : block.by_thread) {
        if (!stack) continue;
        fprintf(stderr, "shim: a barrier or a shuffle that not all threads of the block or warp come to\n");
        abort();
    }
}

} // namespace

void kolo_shim_wait_block()
{
    wait_as(AT_BARRIER);
}

uint64_t kolo_shim_exchange(uint64_t own, int lane)
{
    block.running->brought = own;
    wait_as(AT_EXCHANGE);
    return lane >= 0 && lane < (int)WARP ? block.shown[lane] : own;
}

void kolo_shim_exchange_all(uint64_t own, uint64_t all[32])
{
    block.running->brought = own;
    wait_as(AT_EXCHANGE);
    memcpy(all, block.shown, sizeof block.shown);
}

void kolo_shim_copy_later(void *shared, const void *global, size_t bytes, size_t zeros)
{
    std::deque<std::vector<Copy>> &copies = block.running->copies;
    if (copies.empty()) copies.emplace_back();
    copies.back().push_back({shared, global, bytes, zeros});
}

void kolo_shim_commit_copies()
{
    if (block.running->copies.empty()) block.running->copies.emplace_back();
    block.running->copies.emplace_back();
}

/* All groups but the last `left` that are complete. */
void kolo_shim_wait_copies(size_t left)
{
    std::deque<std::vector<Copy>> &copies = block.running->copies;
    while (copies.size() > left + 1) {
        for (const Copy &copy : copies.front()) {
            kolo_shim_note_read(copy.from, copy.bytes - copy.zeros);
            memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
            memset((char *)copy.to + copy.bytes - copy.zeros, 0, copy.zeros);
        }
        copies.pop_front();
    }
}

void kolo_shim_misaligned(const void *address, size_t multiple)
{
    fprintf(stderr, "shim: wanted an address that is a multiple of %zu, got %p\n", multiple, address);
    abort();
}

unsigned char *kolo_shim_shared()
{
    return (unsigned char *)(((uintptr_t)shared_memory.data() + 127) / 128 * 128);
}

/* Shared memory begins with numbers that are none. */
void kolo_shim_run_blocks(dim3 blocks, dim3 threads, size_t shared, const std::function<void()> &body)
{
    gridDim = blocks;
    blockDim = threads;
    block.body = &body;
    block.count = (size_t)threads.x * threads.y * threads.z;
    for (unsigned z = 0; z < blocks.z; z++)
        for (unsigned y = 0; y < blocks.y; y++)
            for (unsigned x = 0; x < blocks.x; x++) {
                shared_memory.assign(shared + 128, 0xFF);
                blockIdx = {x, y, z};
                run_block();
            }
}
