#define _GNU_SOURCE
#include "worker/worker.h"
#include "worker/clock.h"
#include "worker/heap.h"
#include "worker/statics.h"
#include "worker/unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct worker {
    uint64_t token;
    int control, out, error;
    const void *value;
    void *copy; /* of the value */
    const void *handle; /* the value, where it is a pointer of libkolo's */
    size_t size;
} worker;

static worker self;
running_cell running;

bool on_cell_thread(void)
{
    return running.active && getpid() == running.process && gettid() == running.process;
}

static char *payload_buffer(void)
{
    static char payload[MESSAGE_LIMIT];
    return payload;
}

static void answer(int code, const void *payload, size_t size)
{
    message m = {.token = self.token, .kind = MESSAGE_ANSWER, .code = code};
    if (message_send(self.control, &m, payload, size, NULL, 0)) return;
    static const char why[] = "the answer is larger than a message may be";
    m.code = -1;
    message_send(self.control, &m, why, sizeof why, NULL, 0);
}

static void answer_text(int code, const char *why)
{
    answer(code, why, strlen(why) + 1);
}

static void make_good(int input)
{
    restore_process(input, self.out, self.error);
}

static void clear_library_error(void)
{
    void (*clear)(void) = NULL;
    *(void **)&clear = dlsym(RTLD_DEFAULT, "kolo_clear_error");
    if (clear) clear();
}

/* The name of an undefined function, and what was refused, stand before the frames. */
static void add_missing_name(int status)
{
    size_t size = running.missing ? strnlen(running.missing, MISSING_SHOWN - 1) + 1 : 0;
    bool named = status == STATUS_UNDEFINED || status == STATUS_REFUSED;
    if (!named || !size || !running.frames) return;
    memmove(running.frames + size, running.frames, running.frames_size); /* there is room: FRAMES_SIZE */
    memcpy(running.frames, running.missing, size - 1);
    running.frames[size - 1] = 0;
    running.frames_size += size;
}

static void send_done(void)
{
    add_missing_name(running.status);
    message m = {.token = self.token,
                 .kind = MESSAGE_DONE,
                 .number = running.status,
                 .code = running.code,
                 .address = self.value ? (uint64_t)(uintptr_t)self.value : (uint64_t)(uintptr_t)running.address,
                 .size = self.size};
    clock_tell(&m);
    message_send(self.control, &m, running.frames, running.frames_size, NULL, 0);
}

typedef void (*cell_function)(void);

/* A forked child that comes to the end of the cell ends there, as at the end of a program. */
static _Noreturn void end_child(void)
{
    fflush(NULL);
    _exit(running.status == STATUS_EXIT ? running.code : 0);
}

static void look_at_heap(void)
{
    if (running.status != STATUS_RETURNED) return;
    const char *said = heap_look();
    if (!said || !running.frames) return;
    running.missing = said;
    running.status = STATUS_REFUSED;
}

/* The one place from which cells are entered, and to which recover.c returns. */
void kolo_cell_enter(cell_function function, char *const *arguments);
__attribute__((noinline)) void kolo_cell_enter(cell_function function, char *const *arguments)
{
    running.status = function ? STATUS_RETURNED : STATUS_PROGRAM;
    running.code = 0;
    running.address = NULL;
    running.frames_size = 0;
    running.missing = NULL;
    running.smashed = 0;
    running.entry = __builtin_frame_address(0);
    heap_begin();
    clock_begin();
    if (sigsetjmp(running.out, 1) == 0) {
        running.active = 1;
        if (function) function();
        else running.code = run_program(arguments);
    }
    running.active = 0;
    clock_end();
    if (getpid() != running.process) end_child();
    look_at_heap();
    if (running.status != STATUS_RETURNED) release_streams();
    flush_output();
    relax_process();
}

static void run(const char *path, const char *name, int input)
{
    self.value = NULL;
    self.size = 0;
    void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    cell_function function = NULL;
    if (handle) *(void **)&function = dlsym(handle, name);
    make_good(input);
    close(input);
    clear_library_error();
    if (function) kolo_cell_enter(function, NULL);
    send_done();
}

static void shell(char *payload, size_t size, int input)
{
    char *arguments[1024];
    size_t count = 0;
    for (size_t at = 0; at < size && count < 1023; at += strlen(payload + at) + 1) arguments[count++] = payload + at;
    arguments[count] = NULL;
    self.value = NULL;
    self.size = 0;
    make_good(input);
    close(input);
    kolo_cell_enter(NULL, arguments);
    send_done();
}

static const char *next_text(const char **at, const char *end)
{
    const char *here = *at;
    if (here >= end) return "";
    *at = here + strlen(here) + 1;
    return here;
}

/* "one.so:two.so", or "". */
static bool load_libraries(const char *list)
{
    bool loaded = true;
    while (*list && loaded) {
        size_t size = strcspn(list, ":");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)size, list);
        loaded = dlopen(name, RTLD_NOW | RTLD_GLOBAL) != NULL;
        list += size + (list[size] == ':');
    }
    return loaded;
}

/* payload: object, libraries or "", then slot and definition by turns. A slot may be another object's. */
static void load(const char *payload, size_t size)
{
    const char *at = payload, *end = payload + size;
    const char *path = next_text(&at, end), *library = next_text(&at, end);
    if (!load_libraries(library)) {
        answer_text(-1, dlerror());
        return;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        answer_text(-1, dlerror());
        return;
    }
    statics_take(path, handle, at, (size_t)(end - at));
    while (at < end) {
        const char *slot = next_text(&at, end), *definition = next_text(&at, end);
        definition += *definition == KEEPS_STATICS;
        void **place = dlsym(RTLD_DEFAULT, slot);
        void *function = dlsym(handle, definition);
        if (!function) function = dlsym(RTLD_DEFAULT, definition); /* the trap of an earlier object's stub */
        if (place && function) *place = function;
    }
    answer(0, NULL, 0);
}

static void resolve(const char *payload, size_t size)
{
    static char missing[MESSAGE_LIMIT];
    size_t used = 0;
    for (const char *at = payload, *end = payload + size; at < end;) {
        const char *name = next_text(&at, end);
        if (dlsym(RTLD_DEFAULT, name)) continue;
        memcpy(missing + used, name, strlen(name) + 1);
        used += strlen(name) + 1;
    }
    answer(0, missing, used);
}

static void name_function(const char *payload, size_t size)
{
    void *address = NULL;
    Dl_info found;
    if (size >= sizeof address) memcpy(&address, payload, sizeof address);
    bool exact = dladdr(address, &found) && found.dli_sname && found.dli_saddr == address;
    const char *name = exact ? found.dli_sname : "";
    bool same = exact && dlsym(RTLD_DEFAULT, plain_name(name)) == address;
    answer_text(exact ? 0 : -1, same ? plain_name(name) : name);
}

static void find_address(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    message m = {
        .token = self.token, .kind = MESSAGE_ANSWER, .code = found ? 0 : -1, .address = (uint64_t)(uintptr_t)found};
    message_send(self.control, &m, NULL, 0, NULL, 0);
}

/* The kernel reads a value's memory through a packet that the system copies: a bad address is an error, not a fault. */
static void peek(uint64_t address, uint64_t size)
{
    message m = {.token = self.token, .kind = MESSAGE_ANSWER};
    bool there = size < MESSAGE_LIMIT - 1024 && address >= 4096;
    if (there && message_send(self.control, &m, (const void *)(uintptr_t)address, size, NULL, 0)) return;
    answer(-1, NULL, 0);
}

/* The system copies what goes into a value's memory, too. */
static void poke(uint64_t address, const char *bytes, size_t size)
{
    int ends[2];
    bool put = size && size <= PIPE_BUF && pipe2(ends, O_CLOEXEC) == 0;
    if (put) {
        put = write(ends[1], bytes, size) == (ssize_t)size &&
              read(ends[0], (void *)(uintptr_t)address, size) == (ssize_t)size;
        close(ends[0]);
        close(ends[1]);
    }
    answer(put ? 0 : -1, NULL, 0);
}

static void go_to(const char *folder)
{
    int failed = chdir(folder);
    answer_text(failed ? -1 : 0, failed ? strerror(errno) : "");
}

static void set_environment(const char *payload, size_t size, bool unset)
{
    const char *at = payload, *end = payload + size;
    const char *name = next_text(&at, end), *value = next_text(&at, end);
    int failed = unset ? unsetenv(name) : setenv(name, value, 1);
    answer(failed ? -1 : 0, NULL, 0);
}

/* Where a cell has closed its streams a received descriptor takes their number. */
static int above_streams(int descriptor)
{
    if (descriptor < 0 || descriptor > 2) return descriptor;
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    close(descriptor);
    return moved;
}

static void refuse_broken(void)
{
    static const char why[] = "what the kernel sent was cut, or is of another version of Kolo";
    message m = {.token = self.token, .kind = MESSAGE_ANSWER, .code = -1, .number = STATUS_REFUSED};
    message_send(self.control, &m, why, sizeof why, NULL, 0);
}

static bool serve(void)
{
    char *payload = payload_buffer();
    int descriptors[MESSAGE_DESCRIPTORS];
    message m;
    ssize_t got = message_receive(self.control, self.token, &m, payload, descriptors);
    if (got == MESSAGE_GONE) return false;
    if (got == MESSAGE_BROKEN) refuse_broken();
    if (got < 0) return true;
    size_t size = (size_t)got;
    int input = above_streams(descriptors[0]);
    if (m.kind == MESSAGE_RUN) run(payload, payload + strlen(payload) + 1, input);
    else if (m.kind == MESSAGE_SHELL) shell(payload, size, input);
    else if (m.kind == MESSAGE_LOAD) load(payload, size);
    else if (m.kind == MESSAGE_RESOLVE) resolve(payload, size);
    else if (m.kind == MESSAGE_NAME) name_function(payload, size);
    else if (m.kind == MESSAGE_ADDRESS) find_address(payload);
    else if (m.kind == MESSAGE_PEEK) peek(m.address, m.size);
    else if (m.kind == MESSAGE_POKE) poke(m.address, payload, size);
    else if (m.kind == MESSAGE_FOLDER) go_to(payload);
    else if (m.kind == MESSAGE_SETENV) set_environment(payload, size, m.number == 1);
    return true;
}

static void load_library(void)
{
    const char *path = getenv("KOLO_KERNEL_LIBRARY");
    if (path && *path && !dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        fprintf(stderr, "libkolo cannot be loaded: %s\n", dlerror());
    unsetenv("KOLO_KERNEL_LIBRARY");
}

/* The least distance between the stack and the mappings below it. */
static size_t cell_stack(void)
{
    enum { GAP = 128 << 20 };
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    return limit.rlim_cur < GAP ? (size_t)limit.rlim_cur : GAP;
}

int worker_main(uint64_t token, const int *descriptors)
{
    struct rlimit descriptor_limit;
    getrlimit(RLIMIT_NOFILE, &descriptor_limit);
    rlim_t place = place_descriptors(&descriptor_limit);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptor_limit.rlim_max, descriptor_limit.rlim_max});
    self.token = token;
    self.control = keep_descriptor(descriptors[0], place);
    self.out = keep_descriptor(descriptors[2], place);
    self.error = keep_descriptor(descriptors[3], place);
    running.process = getpid();
    running.thread = pthread_self();
    reserve_signals();
    remember_process(&descriptor_limit);
    running.stack_size = cell_stack();
    static char no_name[1];
    program_invocation_short_name = no_name; /* assert prints it */
    make_good(descriptors[1]);
    close(descriptors[1]);
    load_library();
    message m = {.token = token, .kind = MESSAGE_READY};
    message_send(self.control, &m, NULL, 0, NULL, 0);
    while (serve()) continue;
    make_good(-1);
    kolo_cell_enter(run_exit_handlers, NULL);
    return 0;
}

void last_words(int status, int code, void *address)
{
    message m = {.token = self.token,
                 .kind = MESSAGE_FATAL,
                 .code = code,
                 .number = status,
                 .address = (uint64_t)(uintptr_t)address,
                 .size = gettid() != running.process};
    if (getpid() != running.process) return;
    add_missing_name(status);
    message_send(self.control, &m, running.frames, running.frames_size, NULL, 0);
}

void die_of(int number, void *address)
{
    die_refused(STATUS_SIGNAL, number, address);
}

/* The default action, without the C library: a cell may have written over what that needs. */
static void die_at_once(int number)
{
    static const uint64_t default_action[4]; /* the system's own sigaction: SIG_DFL, no flags, an empty mask */
    syscall(SYS_rt_sigaction, number, default_action, NULL, sizeof *default_action);
    syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), number);
}

void die_refused(int status, int number, void *address)
{
    static volatile pid_t dying;
    pid_t thread = (pid_t)syscall(SYS_gettid);
    if (dying == thread) die_at_once(number); /* what follows has faulted */
    dying = thread;
    last_words(status, number, address);
    take_signal(number, &(struct sigaction){.sa_handler = SIG_DFL});
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(128 + number);
}

enum { COPIED = 1 << 17 }; /* bytes of a value that are kept: more than is shown */

/* Called by a cell's last expression. The system copies the value, since an array may lie at a bad address.
 * Where the copy fails, or the value has no size, the address itself is handed over. */
void kolo_cell_value(const void *value, unsigned long size);
void kolo_cell_value(const void *value, unsigned long size)
{
    size_t kept = size < COPIED ? size : COPIED;
    void *copy = kept ? malloc(kept) : NULL;
    struct iovec into = {copy, kept}, from = {(void *)(uintptr_t)value, kept};
    bool copied = copy && process_vm_readv(getpid(), &into, 1, &from, 1, 0) == (ssize_t)kept;
    if (copy && !copied && errno != EFAULT) { /* a container may forbid that call */
        memcpy(copy, value, kept);
        copied = true;
    }
    free(self.copy);
    self.copy = copied ? copy : NULL;
    if (!copied) free(copy);
    self.value = copied ? copy : value;
    self.size = size;
}

/* A handle of libkolo's: `shower` makes its MIME bundle, as JSON. An object without one is shown as a pointer. */
void kolo_cell_show(const void *object, const char *shower);
void kolo_cell_show(const void *object, const char *shower)
{
    char *(*show)(const void *) = NULL;
    *(void **)&show = dlsym(RTLD_DEFAULT, shower);
    char *bundle = object && show ? show(object) : NULL;
    if (bundle) {
        free(self.copy);
        self.value = self.copy = bundle;
        self.size = strlen(bundle) + 1;
    } else {
        self.handle = object;
        kolo_cell_value(&self.handle, sizeof self.handle);
    }
}
