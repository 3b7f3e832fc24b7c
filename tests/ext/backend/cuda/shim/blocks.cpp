/* Kernels on the host: block after block, each thread of a block on a stack of its own that is left where the thread
 * waits for others. Read cuda_runtime.h here first.
 *
 * What a thread does between two waits is done at once; in which order a warp's lanes, and the warps, come to their
 * turns is what KOLO_SHIM_ORDER says: "forward", "backward", or a number (1), from which chance takes it. Between two
 * waits a device may run them in any order, too. A stack takes one thread after another for as long as none waits, so
 * that a kernel without barriers needs only one.
 */
#include "blocks.h"
#include "cuda_pipeline.h"
#include "trace.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

kolo_shim_places kolo_shim_place;
kolo_shim_running running;

namespace
{

const size_t STACK = 64 << 10, PAGE = 4096, THREADS = 1024, WARP = 32;

enum State { READY, AT_BARRIER, AT_EXCHANGE, ENDED };

struct Copy {
    void *to;
    const void *from;
    size_t bytes, zeros;
};

/* One of the block's threads, as far as it has come; on a stack from when it begins. */
struct Thread {
    State state = READY;
    struct Stack *stack = nullptr;
    kolo_shim_meeting kind = KOLO_SHIM_SYNC; /* what it waits for, with whom, and what it brings */
    unsigned mask = 0;
    uint64_t partials = 0;
};

struct Stack {
    jmp_buf place; /* where it waits */
    char *memory = nullptr;
    size_t thread = 0;
    bool made = false;
};

struct Block {
    std::vector<std::unique_ptr<Stack>> stacks;
    std::vector<Stack *> idle;
    std::vector<Thread> threads;
    std::vector<size_t> to_begin; /* of a warp whose turn it is: the last comes next */
    jmp_buf scheduler;
    Stack *running = nullptr;
    const kolo_shim_body *body = nullptr;
    size_t count = 0;
    kolo_shim_shown shown[WARP][WARP]; /* to the lanes of a warp, by the first of those that met */
    uint32_t syncs[WARP], barriers;    /* so far: of a warp's lanes, and of all threads */
};
Block block;
std::vector<std::vector<Copy>> copies_of[THREADS]; /* a thread's groups on their way, the last not complete */
std::vector<unsigned char> shared_memory;

/* ---- bank conflicts ---- */

struct Loads {
    long squares = 0, waits = 0;
};
std::map<const void *, Loads> loads_of; /* by kernel */

/* A warp loads four squares of eight rows of sixteen bytes. Shared memory gives rows of one square at once as far as no
 * two of them are in the same four banks; each further one of those waits for a turn of its own. */
void count_conflicts(const uint64_t rows[WARP])
{
    Loads &loads = loads_of[running.kernel];
    for (const uint64_t *square = rows; square < rows + WARP; square += 8) {
        long most = 0, of_banks[8] = {0};
        for (size_t r = 0; r < 8; r++) {
            bool known = std::find(square, square + r, square[r]) != square + r;
            long turns = of_banks[square[r] / 16 % 8] += !known;
            most = turns > most ? turns : most;
        }
        loads.squares++;
        loads.waits += most - 1;
    }
}

/* ---- whose turn it is ---- */

uint64_t chance = 0;
enum Order { FORWARD, BACKWARD, BY_CHANCE } order = BY_CHANCE;

void begin_order()
{
    const char *text = getenv("KOLO_SHIM_ORDER");
    if (chance != 0) return;
    order = !text ? BY_CHANCE : !strcmp(text, "forward") ? FORWARD : !strcmp(text, "backward") ? BACKWARD : BY_CHANCE;
    chance = text && order == BY_CHANCE ? strtoull(text, nullptr, 10) * 2 + 1 : 1;
}

size_t roll(size_t sides)
{
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(chance >> 33) % sides;
}

/* The numbers below `count`, as they are taken from behind. */
void shuffle(size_t count, size_t *numbers)
{
    for (size_t i = 0; i < count; i++) {
        size_t j = order == BY_CHANCE ? roll(i + 1) : i;
        numbers[i] = numbers[j];
        numbers[j] = order == FORWARD ? count - 1 - i : i;
    }
}

/* ---- stacks ---- */

/* AddressSanitizer clears its marks on the stack in its longjmp(), and before each call that does not return, which
 * takes most of a test's time. No frame with marks is dropped here, so this is libc's own, and not declared
 * [[noreturn]]. */
void jump(jmp_buf place)
{
#ifdef __SANITIZE_ADDRESS__
    static const auto of_libc = (void (*)(jmp_buf, int))dlsym(dlopen("libc.so.6", RTLD_LAZY), "_longjmp");
    of_libc(place, 1);
#else
    _longjmp(place, 1);
#endif
}

void set_thread(size_t thread)
{
    threadIdx = {(unsigned)(thread % blockDim.x), (unsigned)(thread / blockDim.x % blockDim.y),
                 (unsigned)(thread / blockDim.x / blockDim.y)};
    running.thread = (uint32_t)thread;
    kolo_shim_turn(block.barriers, block.syncs[thread / WARP]);
}

/* Threads one after another, until one has waited and is through. */
void run_stack()
{
    for (;;) {
        Stack *own = block.running;
        block.body->run(block.body->arguments.get());
        block.threads[own->thread].state = ENDED;
        copies_of[own->thread].clear();
        if (!block.to_begin.empty()) {
            own->thread = block.to_begin.back();
            block.to_begin.pop_back();
            block.threads[own->thread].stack = own;
            set_thread(own->thread);
            continue;
        }
        block.idle.push_back(own);
        if (_setjmp(own->place) == 0) jump(block.scheduler);
    }
}

/* They lie side by side, so that an address tells whether it is a thread's own; below each is a page for nobody. */
Stack *free_stack()
{
    if (block.idle.empty()) {
        size_t number = block.stacks.size();
        if (!running.stacks) {
            void *all = mmap(nullptr, THREADS * STACK, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            running.stacks = all == MAP_FAILED ? nullptr : (char *)all;
            running.stack_bytes = THREADS * STACK;
        }
        if (!running.stacks || number == THREADS) kolo_shim_refuse("no memory for %zu threads", number + 1);
        block.stacks.emplace_back(new Stack);
        block.stacks.back()->memory = running.stacks + number * STACK;
        mprotect(block.stacks.back()->memory, PAGE, PROT_NONE);
        block.idle.push_back(block.stacks.back().get());
    }
    Stack *stack = block.idle.back();
    block.idle.pop_back();
    return stack;
}

/* A context of its own where it has not been before; from then on jumps do, which make no system calls. This frame is
 * the only one that is dropped: it has no marks. */
__attribute__((no_sanitize_address)) void enter(Stack *stack)
{
    ucontext_t context;
    stack->made = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stack->memory + PAGE;
    context.uc_stack.ss_size = STACK - PAGE;
    context.uc_link = nullptr;
    makecontext(&context, run_stack, 0);
    setcontext(&context);
}

void go_on(Stack *stack)
{
    block.running = stack;
    set_thread(stack->thread);
    if (_setjmp(block.scheduler) != 0) return;
    if (stack->made) jump(stack->place);
    enter(stack);
}

void wait_as(State state)
{
    Stack *own = block.running;
    block.threads[own->thread].state = state;
    if (_setjmp(own->place) == 0) jump(block.scheduler);
}

/* ---- warps ---- */

size_t lanes_of(size_t warp)
{
    return block.count - warp * WARP < WARP ? block.count - warp * WARP : WARP;
}

/* The warp's lanes that can, one after another, until each waits or has ended; whether there was one. */
bool run_lanes(size_t warp)
{
    size_t turns[WARP], lanes = lanes_of(warp);
    bool any = false;
    shuffle(lanes, turns);
    for (size_t i = lanes; i-- > 0;) {
        size_t number = warp * WARP + turns[i];
        Thread &thread = block.threads[number];
        if (thread.state != READY || !thread.stack) continue;
        any = true;
        go_on(thread.stack);
    }
    if (block.threads[warp * WARP].stack) return any;
    for (size_t i = 0; i < lanes; i++) block.to_begin.push_back(warp * WARP + turns[i]);
    while (!block.to_begin.empty()) {
        Stack *stack = free_stack();
        stack->thread = block.to_begin.back();
        block.to_begin.pop_back();
        block.threads[stack->thread].stack = stack;
        go_on(stack);
    }
    return true;
}

/* Lanes that wait for one another get what each has brought, if all are there that are named and have not ended. */
bool overlap(size_t warp)
{
    size_t lanes = lanes_of(warp);
    Thread *threads = &block.threads[warp * WARP];
    bool any = false;
    for (size_t first = 0; first < lanes; first++) {
        if (threads[first].state != AT_EXCHANGE) continue;
        unsigned mask = threads[first].mask, there = 0;
        kolo_shim_shown shown = {};
        bool all = (mask >> first & 1) && (unsigned)__builtin_ctz(mask) <= first;
        for (size_t t = 0; all && t < lanes; t++) {
            if (!(mask >> t & 1) || threads[t].state == ENDED) continue;
            all = threads[t].state == AT_EXCHANGE && threads[t].mask == mask && threads[t].kind == threads[first].kind;
            there |= 1u << t;
            shown.values[t] = threads[t].partials;
        }
        if (!all) continue;
        shown.there = there;
        block.shown[warp][__builtin_ctz(mask)] = shown;
        if (threads[first].kind == KOLO_SHIM_MATRIX && shown.values[0]) count_conflicts(shown.values);
        block.syncs[warp] += threads[first].kind == KOLO_SHIM_SYNC;
        for (size_t t = 0; t < lanes; t++)
            if (there >> t & 1) threads[t].state = READY;
        any = true;
    }
    return any;
}

/* Whether all threads that have not ended are at the barrier, and go on. */
bool pass_barrier()
{
    bool any = false;
    for (Thread &thread : block.threads) {
        if (thread.state == ENDED) continue;
        if (thread.state != AT_BARRIER) return false;
        any = true;
    }
    for (Thread &thread : block.threads)
        if (thread.state == AT_BARRIER) thread.state = READY;
    block.barriers += any;
    return any;
}

void run_block()
{
    size_t warps = (block.count + WARP - 1) / WARP, turns[WARP];
    block.threads.assign(block.count, Thread());
    block.barriers = 0;
    memset(block.syncs, 0, sizeof block.syncs);
    for (bool moved = true; moved;) {
        moved = false;
        shuffle(warps, turns);
        for (size_t i = warps; i-- > 0;) {
            bool goes = true;
            for (size_t steps = order == BY_CHANCE ? 1 + roll(4) : 1; goes && steps > 0; steps--) {
                goes = run_lanes(turns[i]);
                goes = overlap(turns[i]) || goes;
                moved = moved || goes;
            }
        }
        if (!moved) moved = pass_barrier();
    }
    for (size_t t = 0; t < block.count; t++) {
        if (block.threads[t].state == ENDED) continue;
        running.thread = (uint32_t)t;
        kolo_shim_refuse("a %s that not all threads come to",
                         block.threads[t].state == AT_BARRIER ? "barrier" : "shuffle, vote or __syncwarp()");
    }
}

} // namespace

/* ---- for kernels ---- */

void kolo_shim_wait_block()
{
    wait_as(AT_BARRIER);
}

const kolo_shim_shown *kolo_shim_meet(kolo_shim_meeting kind, unsigned mask, uint64_t own)
{
    size_t number = block.running->thread, lane = number % WARP;
    Thread &thread = block.threads[number];
    if (!(mask >> lane & 1)) kolo_shim_refuse("a lane that its mask %08x does not name", mask);
    thread.kind = kind;
    thread.mask = mask;
    thread.partials = own;
    wait_as(AT_EXCHANGE);
    return &block.shown[number / WARP][__builtin_ctz(mask)];
}

uint64_t kolo_shim_from_lane(unsigned mask, uint64_t own, int lane)
{
    const kolo_shim_shown *shown = kolo_shim_meet(KOLO_SHIM_SHUFFLE, mask, own);
    if (lane < 0 || lane >= (int)WARP) return own;
    if (!(shown->there >> lane & 1))
        kolo_shim_refuse("what lane %d has, which has ended or is not in the mask %08x", lane, mask);
    return shown->values[lane];
}

/* A device may copy at once: from here on what was there is gone. */
void kolo_shim_copy_later(void *shared, const void *global, size_t bytes, size_t zeros)
{
    std::vector<std::vector<Copy>> &copies = copies_of[block.running->thread];
    if (zeros < bytes) kolo_shim_reads(global, bytes - zeros);
    kolo_shim_writes(shared, bytes);
    memset(shared, 0xFF, bytes);
    if (copies.empty()) copies.emplace_back();
    copies.back().push_back({shared, global, bytes, zeros});
}

void kolo_shim_commit_copies()
{
    std::vector<std::vector<Copy>> &copies = copies_of[block.running->thread];
    if (copies.empty()) copies.emplace_back();
    copies.emplace_back();
}

/* All groups but the last `left` that are complete. */
void kolo_shim_wait_copies(size_t left)
{
    std::vector<std::vector<Copy>> &copies = copies_of[block.running->thread];
    while (copies.size() > left + 1) {
        for (const Copy &copy : copies.front()) {
            kolo_shim_writes(copy.to, copy.bytes);
            memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
            memset((char *)copy.to + copy.bytes - copy.zeros, 0, copy.zeros);
        }
        copies.erase(copies.begin());
    }
}

unsigned char *kolo_shim_shared()
{
    return running.shared;
}

bool kolo_shim_can_run(dim3 blocks, dim3 threads)
{
    size_t all = (size_t)threads.x * threads.y * threads.z;
    bool some = blocks.x > 0 && blocks.y > 0 && blocks.z > 0 && all > 0;
    return some && blocks.x <= INT32_MAX && blocks.y < 65536 && blocks.z < 65536 && threads.x <= 1024 &&
           threads.y <= 1024 && threads.z <= 64 && all <= 1024;
}

/* Shared memory begins with numbers that are none. */
void kolo_shim_run_blocks(const void *kernel, dim3 blocks, dim3 threads, size_t shared, const kolo_shim_body &body)
{
    begin_order();
    gridDim = blocks;
    blockDim = threads;
    block.body = &body;
    block.count = (size_t)threads.x * threads.y * threads.z;
    shared_memory.resize(shared + 128);
    running.kernel = kernel;
    running.shared = (unsigned char *)(((uintptr_t)shared_memory.data() + 127) / 128 * 128);
    running.shared_bytes = shared;
    kolo_shim_begin_launch((size_t)blocks.x * blocks.y * blocks.z);
    running.block = 0;
    for (unsigned z = 0; z < blocks.z; z++)
        for (unsigned y = 0; y < blocks.y; y++)
            for (unsigned x = 0; x < blocks.x; x++, running.block++) {
                memset(running.shared, 0xFF, shared);
                blockIdx = {x, y, z};
                run_block();
                kolo_shim_end_block();
            }
    running.kernel = nullptr;
}

void kolo_shim_tell_conflicts(void (*tell)(const char *kernel, long squares, long waits))
{
    for (auto &kernel : loads_of)
        tell(kolo_shim_kernel_name(kernel.first).c_str(), kernel.second.squares, kernel.second.waits);
    loads_of.clear();
}
