/* Tells whose code each frame of the stack runs, and lists the calls of the C library that hold no lock. See unwind.h.
 */
#define _GNU_SOURCE
#include "worker/unwind.h"
#include "worker/worker.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

enum {
    SHOWN_FRAMES = 48,
    SMALLEST_FRAME = 16,
    PATH_SHOWN = 401,
    OFFSET_SHOWN = 17,
    SYMBOL_SHOWN = 151, /* bytes of a frame's parts, their ends included */
    FRAMES_SIZE = MISSING_SHOWN + SHOWN_FRAMES * (PATH_SHOWN + OFFSET_SHOWN + SYMBOL_SHOWN) + NULL_SHOWN,
};

typedef enum owner { OWNER_CELL, OWNER_OURS, OWNER_LIBRARY, OWNER_ENTRY, OWNER_OTHER } owner;

const char *cells_folder(void)
{
    static char folder[256];
    if (!*folder) {
        const char *from = getenv("KOLO_KERNEL_CELLS");
        snprintf(folder, sizeof folder, "%s", from ? from : "/nowhere");
    }
    return folder;
}

const char *plain_name(const char *name)
{
    static const char *const before[] = {"_IO_", "__libc_", "__GI_", "__", NULL};
    for (const char *const *b = before; *b; b++) {
        if (!strncmp(name, *b, strlen(*b))) return name + strlen(*b);
    }
    return name;
}

static bool one_of(const char *name, const char *const *list)
{
    for (; *list; list++) {
        if (!strcmp(name, *list)) return true;
    }
    return false;
}

/* Calls that may be abandoned when a cell made them directly: they wait, or only write, or are pure, or end the cell.
 */
/* clang-format off */
static const char *const abandonable[] = {
    "sleep", "usleep", "nanosleep", "clock_nanosleep", "pause", "sigsuspend", "poll", "ppoll", "select", "pselect",
    "read", "write", "readv", "writev", "recv", "recvfrom", "send", "sendto", "accept", "connect", "wait", "waitpid",
    "wait4", "waitid", "pthread_join", "pthread_cond_wait", "pthread_cond_timedwait", "pthread_mutex_lock",
    "sem_wait", "pthread_barrier_wait", "raise", "abort", "__assert_fail", "kill", "killpg", "pthread_kill", "exit", "scanf",
    "__isoc99_scanf", "__isoc99_fscanf", "__isoc99_sscanf", "fgets", "fgetc", "getc", "getchar", "gets", "fread",
    "printf", "fprintf", "vprintf", "vfprintf", "dprintf", "puts", "fputs", "putchar", "putc", "fputc", "fwrite",
    "snprintf", "sprintf", "fflush", "qsort", "bsearch", "epoll_wait", "system", "__printf_chk", "__fprintf_chk",
    "strtol", "atoi", "atof", "strtod", "sched_yield", "msgrcv", "flock", "fcntl", "open", "getline", "getdelim",
    "_IO_getc", "putchar_unlocked", "__sched_yield", "tgkill", "__stack_chk_fail", "syscall", "clock_gettime", "gettimeofday",
    "time", "rand", "random", "strtok", "strcasecmp", "strncasecmp", "memmem", "perror", "strsep", "strerror",
    "ungetc", "vsnprintf", "vsprintf", NULL
};
/* clang-format on */

/* The C library has several names for one place, and the loader tells any of them: places are compared too. */
static uintptr_t abandonable_places[sizeof abandonable / sizeof *abandonable];

static void find_places(void)
{
    for (size_t i = 0; abandonable[i]; i++) {
        if (!abandonable_places[i]) abandonable_places[i] = (uintptr_t)dlsym(RTLD_NEXT, abandonable[i]);
    }
}

static bool may_be_abandoned(const char *name, const void *place)
{
    for (size_t i = 0; place && abandonable[i]; i++) {
        if (abandonable_places[i] == (uintptr_t)place) return true;
    }
    return one_of(name, abandonable) || one_of(plain_name(name), abandonable);
}

static bool holds_the_heap(const char *name)
{
    static const char *const list[] = {"malloc",         "free",          "calloc", "realloc",
                                       "posix_memalign", "aligned_alloc", "fork",   NULL};
    return one_of(plain_name(name), list);
}

static const char *exact_symbol(uintptr_t at, Dl_info *info)
{
    const ElfW(Sym) *symbol = NULL;
    if (!dladdr1((void *)at, info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT)) {
        info->dli_fname = NULL;
        return NULL;
    }
    if (!symbol || !info->dli_sname) return NULL;
    return at < (uintptr_t)info->dli_saddr + symbol->st_size ? info->dli_sname : NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static owner owner_of(const Dl_info *info, const char *symbol)
{
    const char *file = info->dli_fname ? info->dli_fname : "";
    if (!strncmp(file, cells_folder(), strlen(cells_folder()))) return OWNER_CELL;
    const char *base = base_name(file);
    if (!strncmp(base, "libm.so", 7) || !strncmp(base, "linux-vdso", 10)) return OWNER_CELL;
    if (!strncmp(base, "libc.so", 7)) return OWNER_LIBRARY;
    if (!strncmp(base, "kolo-worker", 11))
        return symbol && !strcmp(symbol, "kolo_cell_enter") ? OWNER_ENTRY : OWNER_OURS;
    return OWNER_OTHER;
}

/* The function that the call before this return address calls, through the cell's PLT, whose slots are all filled. The
 * C library's own frames do not name it, since its functions leave theirs by tail calls. 0: another kind of call. */
static uintptr_t called_from(uintptr_t back)
{
#if defined(__x86_64__)
    const unsigned char *code = (const unsigned char *)back;
    int32_t offset;
    memcpy(&offset, code - 4, sizeof offset);
    if (code[-6] == 0xff && code[-5] == 0x15) return *(const uintptr_t *)(back + (uintptr_t)(intptr_t)offset);
    if (code[-5] != 0xe8) return 0;
    const unsigned char *plt = (const unsigned char *)(back + (uintptr_t)(intptr_t)offset);
    if (plt[0] == 0xf3 && plt[1] == 0x0f) plt += 4; /* endbr64 */
    if (plt[0] == 0xf2) plt++;                      /* bnd */
    if (plt[0] != 0xff || plt[1] != 0x25) return 0;
    memcpy(&offset, plt + 2, sizeof offset);
    return *(const uintptr_t *)((uintptr_t)plt + 6 + (uintptr_t)(intptr_t)offset);
#else
    const uint32_t call = ((const uint32_t *)back)[-1];
    if (call >> 26 != 0x25) return 0; /* bl */
    const uint32_t *plt = (const uint32_t *)(back - 4 + (uintptr_t)((int64_t)((uint64_t)call << 38) >> 36));
    if (*plt == 0xd503245f) plt++;                                              /* bti c */
    if ((plt[0] & 0x9f00001f) != 0x90000010 || plt[1] >> 22 != 0x3e5) return 0; /* adrp x16; ldr x17, [x16, …] */
    int64_t pages = (int64_t)((uint64_t)(plt[0] >> 5 & 0x7ffff) << 45) >> 43 | (plt[0] >> 29 & 3);
    uintptr_t page = ((uintptr_t)plt & ~(uintptr_t)0xfff) + (uintptr_t)(pages * 4096);
    return *(const uintptr_t *)(page + (plt[1] >> 10 & 0xfff) * 8);
#endif
}

/* The run of library frames that ends at this frame of the cell's. A callee without a name is a string function's
 * variant for this CPU, which holds nothing. */
static void end_library_run(unwound *w, uintptr_t at)
{
    if (!w->library_depth) return;
    uintptr_t callee = called_from(at + 1);
    if (callee) {
        Dl_info info;
        const char *name = exact_symbol(callee, &info);
        if (name && !may_be_abandoned(name, info.dli_saddr)) w->unsafe = true;
    } else if (!w->library_allowed && (w->library_named || w->library_depth > 1)) {
        w->unsafe = true;
    }
    w->library_depth = 0;
}

static void judge(unwound *w, uintptr_t at)
{
    Dl_info info;
    if (at == w->last && !w->library_depth) {
        w->cells++;
        return;
    }
    const char *symbol = exact_symbol(at, &info);
    switch (owner_of(&info, symbol)) {
    case OWNER_LIBRARY:
        if (symbol && holds_the_heap(symbol)) w->unsafe = true;
        w->library_depth++;
        w->library_named = symbol != NULL;
        w->library_allowed = symbol && may_be_abandoned(symbol, info.dli_saddr);
        break;
    case OWNER_CELL:
        if (!w->in_cell) w->cell = at;
        w->in_cell = true;
        w->last = at;
        w->cells++;
        end_library_run(w, at);
        break;
    case OWNER_OURS: w->library_depth = 0; break;
    case OWNER_ENTRY: w->reached_entry = w->in_cell; break;
    default: w->unsafe = true; w->foreign |= !info.dli_fname;
    }
}

static void remember(uintptr_t at)
{
    Dl_info info;
    const char *symbol = exact_symbol(at, &info);
    if (!info.dli_fname) return;
    running.frames_size +=
        (size_t)snprintf(running.frames + running.frames_size, PATH_SHOWN, "%.400s", info.dli_fname) + 1;
    running.frames_size += (size_t)snprintf(running.frames + running.frames_size, OFFSET_SHOWN, "%lx",
                                            (unsigned long)(at - (uintptr_t)info.dli_fbase)) +
                           1;
    running.frames_size +=
        (size_t)snprintf(running.frames + running.frames_size, SYMBOL_SHOWN, "%.150s", symbol ? symbol : "") + 1;
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *closure)
{
    unwound *w = closure;
    int before = 0;
    uintptr_t at = _Unwind_GetIPInfo(context, &before);
    if (!w->started) {
        if (w->start && at != w->start) return _URC_NO_REASON;
        w->started = true;
    }
    if (!at) return _URC_END_OF_STACK;
    uintptr_t inside = before ? at : at - 1; /* a return address points behind its call */
    if (w->depth < SHOWN_FRAMES) remember(inside);
    judge(w, inside);
    w->depth++;
    bool enough = w->unsafe && (w->foreign || w->depth >= SHOWN_FRAMES);
    bool endless = w->depth > 10000 + running.stack_size / SMALLEST_FRAME;
    return w->reached_entry || enough || endless ? _URC_END_OF_STACK : _URC_NO_REASON;
}

unwound unwind_stack(uintptr_t start)
{
    unwound w = {.start = start, .started = !start};
    running.frames_size = 0;
    _Unwind_Backtrace(visit, &w);
    return w;
}

bool may_leave(const unwound *w)
{
    return w->reached_entry && !w->unsafe;
}

void unwind_prepare(void)
{
    if (!running.frames) running.frames = malloc(FRAMES_SIZE);
    cells_folder();
    find_places();
}
