#define _GNU_SOURCE
#include "worker/reaper.h"
#include "worker/family.h"
#include "worker/segments.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pause_for(long milliseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static bool end_one(const relative *r, void *closure)
{
    (void)closure;
    return r->state != 'Z' && kill(r->process, SIGKILL) == 0;
}

static void end_what_is_left(void)
{
    for (int i = 0; i < 200 && family_each(end_one, NULL); i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        pause_for(5);
    }
}

static void delete_folders(const char *folder)
{
    char *segments = segments_folder(folder);
    folder_delete(segments);
    folder_delete(folder);
    free(segments);
}

/* A kernel that lives has heard of the supervisor's end too, and ends the reaper before it starts another supervisor.
 */
static void follow(pid_t kernel, const char *folder)
{
    end_what_is_left();
    for (int i = 0; i < 200 && getppid() == kernel; i++) pause_for(10);
    if (getppid() != kernel) delete_folders(folder);
}

void fork_supervisor(int socket, const char *folder)
{
    pid_t kernel = getppid(), ended;
    int status = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t supervisor = fork();
    if (supervisor <= 0) return; /* in the child; or fork() has failed, and there is no reaper */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    close(socket);
    for (;;) {
        ended = waitpid(-1, &status, WUNTRACED);
        if (ended < 0 && errno != EINTR) break;
        if (ended == supervisor && WIFSTOPPED(status))
            kill(supervisor, SIGCONT); /* by a cell, which a stopped supervisor cannot end */
        else if (ended == supervisor) break;
    }
    if (WIFSIGNALED(status)) follow(kernel, folder);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
