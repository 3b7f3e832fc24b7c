#define _GNU_SOURCE
#include "trial.h"
#include "patience.h"

#include "output.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT = 5 }; /* seconds of an idle machine in which the copy has used no processor time: it waits for a file */
static const rlim_t MEMORY = 1280ull << 20; /* bytes beyond what the kernel has already: 1 GB, and the reader's stack */

static rlim_t present_size(void)
{
    char *numbers = read_whole_file("/proc/self/statm");
    rlim_t pages = numbers ? strtoul(numbers, NULL, 10) : 0; /* the first one */
    free(numbers);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

typedef struct trial {
    const analyser *a;
    struct CXUnsavedFile file;
} trial;

static void *read_text(void *closure)
{
    trial *t = closure;
    CXTranslationUnit made = NULL;
    const names *flags = &t->a->flags;
    enum CXErrorCode code =
        clang_parseTranslationUnit2(t->a->index, t->a->path, (const char *const *)flags->items, (int)flags->count,
                                    &t->file, 1, CXTranslationUnit_KeepGoing, &made);
    _exit(code == CXError_Success ? 0 : 1);
}

/* It reads without a preamble, which would leave a file behind, and reports by its exit status. In a thread of its own:
 * an exception for want of memory ends the copy there, and does not look for a handler among the kernel's functions. */
static _Noreturn void read_in_copy(const analyser *a, const text *unit, rlim_t memory, unsigned seconds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, 2);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_AS, &(struct rlimit){memory, memory});
    setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
    trial t = {a, {a->path, unit->data, unit->size}};
    pthread_t reader;
    if (pthread_create(&reader, NULL, read_text, &t) == 0) pthread_join(reader, NULL);
    _exit(1);
}

static double processor_time(pid_t process)
{
    clockid_t clock;
    struct timespec used = {0};
    if (clock_getcpuclockid(process, &clock) == 0) clock_gettime(clock, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* Until the copy has ended, or must end: TRIAL_PASSED while its status decides. */
static trial_end wait_for_copy(pid_t process, int copy, int wake)
{
    struct pollfd watched[] = {{copy, POLLIN, 0}, {wake, POLLIN, 0}};
    patience p = {0};
    double began = seconds_now(), used = 0;
    while (patience_passed(&p, began) < WAIT) {
        if (poll(watched, 2, 40) < 0) continue;
        if (watched[0].revents) return TRIAL_PASSED;
        if (watched[1].revents) return TRIAL_INTERRUPTED;
        double now = processor_time(process);
        if (now > used) began = seconds_now();
        used = now;
    }
    return TRIAL_WAIT;
}

trial_end trial_of(const analyser *a, const text *unit, unsigned seconds, int wake)
{
    if (!unit->size || !grows(unit->data, unit->size)) return TRIAL_PASSED;
    rlim_t memory = present_size() + MEMORY;
    pid_t process = fork();
    if (process == 0) read_in_copy(a, unit, memory, seconds);
    int copy = process > 0 ? pidfd_open(process, 0) : -1, status = 0;
    trial_end end = copy >= 0 ? wait_for_copy(process, copy, wake) : TRIAL_MEMORY;
    if (copy >= 0) close(copy);
    if (process <= 0) return end;
    if (end != TRIAL_PASSED) kill(process, SIGKILL);
    waitpid(process, &status, 0);
    if (end != TRIAL_PASSED || status == 0) return end;
    bool time = WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
    return time ? TRIAL_TIME : TRIAL_MEMORY;
}

#define AS_TEXT(x) #x
#define SECONDS(x) AS_TEXT(x)

const char *trial_sentence(trial_end end)
{
    switch (end) {
    case TRIAL_MEMORY:
        return "reading the cell takes more than 1 GB of memory: a macro or a range in it expands to too much, it is "
               "nested too deeply, or it includes a file that is too large";
    case TRIAL_TIME:
        return "reading the cell takes more than " SECONDS(TRIAL_OF_CELL) " seconds of processor time: a macro in it "
                                                                          "expands to too much, or it includes a file "
                                                                          "that is too large";
    case TRIAL_WAIT:
        return "reading the cell does not come to an end: it includes a pipe or a device, which gives it nothing";
    case TRIAL_INTERRUPTED: return "interrupted while it was read";
    case TRIAL_PASSED: break;
    }
    return "";
}
