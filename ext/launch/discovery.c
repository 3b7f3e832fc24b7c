/* Running the script of --host-discovery-script: see discovery.h. */
#define _GNU_SOURCE 1 /* pipe2 */
#include "launch/discovery.h"

#include "launch/clock.h"
#include "launch/say.h"
#include "launch/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 65536, AGAIN_AFTER = 1000 /* ms between two runs */ };

struct run {
    const char *script;
    int signals; /* kolorun's signalfd; 0: none */
    long end;    /* when the script has taken too long */
    int stopped; /* the signal that ended the wait, or 0 */
    char text[LONGEST];
    char problem[300];
};

static void become_script(const struct run *run, int out, const sigset_t *mask)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (run->signals) sigprocmask(SIG_SETMASK, mask, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (nothing >= 0 && dup2(nothing, 0) == 0 && dup2(out, 1) == 1) execlp(run->script, run->script, (char *)NULL);
    _exit(127);
}

/* Waits until `fd` (or nothing, if -1) is readable, or `end`. False at the end, or if a signal to stop came. */
static bool wait_for(struct run *run, int fd, long end)
{
    while (!clock_passed(end)) {
        struct pollfd ready[] = {{.fd = fd, .events = POLLIN},
                                 {.fd = run->signals ? run->signals : -1, .events = POLLIN}};
        struct signalfd_siginfo info;
        int count = poll(ready, 2, clock_wait(end, 60000));
        while (count > 0 && ready[1].revents && read(run->signals, &info, sizeof info) == sizeof info)
            if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP)
                run->stopped = (int)info.ssi_signo;
        if (run->stopped) return false;
        if (count > 0 && ready[0].revents) return true;
    }
    return false;
}

/* Reads what the script prints until it closes its output. */
static bool listen_to(struct run *run, int from)
{
    size_t length = 0;
    while (wait_for(run, from, run->end)) {
        ssize_t got = read(from, run->text + length, sizeof run->text - 1 - length);
        if (got < 0 && errno == EINTR) continue;
        length += got > 0 ? (size_t)got : 0;
        run->text[length] = '\0';
        if (got <= 0) return true;
    }
    return false;
}

/* Runs the script once. False, with a problem or `stopped`, if it fails. */
static bool run_script(struct run *run, const sigset_t *mask)
{
    int ends[2], status = 0;
    run->problem[0] = run->text[0] = '\0';
    pid_t script = pipe2(ends, O_CLOEXEC) ? -1 : fork();
    if (script == 0) become_script(run, ends[1], mask);
    if (script < 0) {
        snprintf(run->problem, sizeof run->problem, "cannot be started: %s", strerror(errno));
        return false;
    }
    close(ends[1]);
    bool whole = listen_to(run, ends[0]);
    close(ends[0]);
    while (whole && !waitpid(script, &status, WNOHANG) && !run->stopped && !clock_passed(run->end))
        wait_for(run, -1, clock_now() + 10);
    tree_end(); /* and the processes that the script has started */
    if (strlen(run->text) == sizeof run->text - 1)
        snprintf(run->problem, sizeof run->problem, "wanted at most %d bytes of hosts, got more", LONGEST);
    else if (!whole) snprintf(run->problem, sizeof run->problem, "did not end in time (--start-timeout)");
    else if (WIFSIGNALED(status)) snprintf(run->problem, sizeof run->problem, "killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status))
        snprintf(run->problem, sizeof run->problem, "exited with code %d", WEXITSTATUS(status));
    return !*run->problem;
}

/* Takes the hosts that the script has named, if they have room for enough ranks. */
static int take_hosts(const struct launch_options *options, struct run *run, struct launch_hosts *hosts)
{
    int least = options->least ? options->least : options->ranks ? options->ranks : 1;
    hosts_free(hosts);
    int code = hosts_from_text(run->text, run->script, hosts);
    if (code != KOLORUN_GO_ON) return code;
    long slots = 0;
    for (size_t i = 0; i < hosts->count; i++) slots += hosts->host[i].slots;
    hosts->ranks = options->ranks && options->ranks < slots ? options->ranks : (int)slots;
    if (slots < least)
        snprintf(run->problem, sizeof run->problem, "wanted at least %d slots, its hosts offer %ld", least, slots);
    return KOLORUN_GO_ON;
}

int discovery_choose(const struct launch_options *options, int signals, const sigset_t *mask,
                     struct launch_hosts *hosts)
{
    static struct run run; /* large: not for the stack */
    run = (struct run){.script = options->discovery, .signals = signals};
    if (access(run.script, X_OK))
        return launch_say(KOLORUN_WRONG_USE, "--host-discovery-script %s: wanted a program: %s", run.script,
                          strerror(errno));
    tree_adopt_orphans();
    run.end = clock_now() + 1000L * options->start_timeout;
    do {
        bool ran = run_script(&run, mask);
        int code = ran ? take_hosts(options, &run, hosts) : KOLORUN_GO_ON;
        if (code != KOLORUN_GO_ON) return code;
        if (!*run.problem) return KOLORUN_GO_ON;
        if (!ran && !signals) break; /* a script that fails at the first start is wrong */
        if (!run.stopped) wait_for(&run, -1, clock_now() + AGAIN_AFTER);
    } while (!run.stopped && !clock_passed(run.end));
    if (run.stopped) return launch_say(128 + run.stopped, "interrupted");
    return launch_say(KOLORUN_FAILED, "--host-discovery-script %s: %s", run.script, run.problem);
}
