/* In the worker of a rank: joins the MPI job, and tells where a cell is that runs for long. Linked into kolo-worker;
 * other workers never call it. Read first: worker/worker.h, ranks/rank.c. */
#define _GNU_SOURCE
#include "worker/worker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

enum { SHOWN_FRAMES = 64, DEEPEST = 4000 };

typedef struct place {
    int file;
    unsigned depth;
    const char *cells;
} place;

static void put(int file, const char *words)
{
    (void)!write(file, words, strlen(words) + 1);
}

/* Frames of the cells, and the first call of a library's that led here: "MPI_Barrier". */
static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *closure)
{
    place *p = closure;
    int before = 0;
    uintptr_t at = _Unwind_GetIPInfo(context, &before);
    Dl_info info;
    if (!at || ++p->depth > DEEPEST || !dladdr((void *)(at - !before), &info) || !info.dli_fname)
        return _URC_END_OF_STACK;
    bool cell = !strncmp(info.dli_fname, p->cells, strlen(p->cells));
    bool call = info.dli_sname && (!strncmp(info.dli_sname, "MPI_", 4) || !strncmp(info.dli_sname, "PMPI_", 5));
    if (!cell && !call) return _URC_NO_REASON;
    char offset[32];
    snprintf(offset, sizeof offset, "%lx", (unsigned long)(at - !before - (uintptr_t)info.dli_fbase));
    put(p->file, info.dli_fname);
    put(p->file, offset);
    put(p->file, info.dli_sname ? info.dli_sname : "");
    return _URC_NO_REASON;
}

/* Leaves the main thread's frames in the file "where" of the rank's folder. The cell may hang in a lock or in MPI, so
 * that this calls only write(), snprintf(), dladdr() and the unwinder, whose tables are in memory by now. */
static void say_where(int number)
{
    (void)number;
    if (gettid() != running.process) {
        syscall(SYS_tgkill, getpid(), running.process, SIGNAL_WHERE);
        return;
    }
    running.asked++;
    static char path[400], ready[400];
    const char *cells = getenv("KOLO_KERNEL_CELLS");
    if (!cells || !running.active) return;
    snprintf(path, sizeof path, "%s/where.new", cells);
    snprintf(ready, sizeof ready, "%s/where", cells);
    place p = {.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), .cells = cells};
    if (p.file < 0) return;
    _Unwind_Backtrace(note_frame, &p);
    close(p.file);
    rename(path, ready);
}

/* Called once, so that the unwinder allocates its memory now and not in the handler. */
static _Unwind_Reason_Code stop_at_once(struct _Unwind_Context *context, void *closure)
{
    (void)context;
    (void)closure;
    return _URC_END_OF_STACK;
}

/* A cell's MPI_Abort ends its process as exit() does, and is reported with its line. */
int MPI_Abort(void *communicator, int code);
int MPI_Abort(void *communicator, int code)
{
    (void)communicator;
    fprintf(stderr, "MPI_Abort was called with code %d\n", code);
    exit(code);
}

/* Run as a cell is (MESSAGE_RUN with an empty path) once a rank's worker is up. MPI_Init is collective: it returns when
 * all ranks have come here. */
void kolo_cell_join_ranks(void);
void kolo_cell_join_ranks(void)
{
    enum { THREADS = 3 /* MPI_THREAD_MULTIPLE: libkolo communicates from a thread of its own */ };
    void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "Open MPI cannot be loaded: %s\n", dlerror());
        exit(1);
    }
    int (*init)(int *, char ***, int, int *) = NULL;
    *(void **)&init = dlsym(library, "PMPI_Init_thread");
    _Unwind_Backtrace(stop_at_once, NULL);
    struct sigaction where = {.sa_handler = say_where, .sa_flags = SA_ONSTACK | SA_RESTART};
    take_signal(SIGNAL_WHERE, &where);
    int provided;
    if (init) init(NULL, NULL, THREADS, &provided);
}
