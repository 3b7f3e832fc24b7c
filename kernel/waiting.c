#define _GNU_SOURCE
#include "waiting.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool first_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    return got;
}

/* /proc shows what a sleeping process is asleep in: "0 0x0 …" is read(0, …). */
static bool in_read_of_input(pid_t process)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)process);
    char *after, *end;
    if (!first_line(path, line, sizeof line)) return false;
    long number = strtol(line, &after, 10);
    unsigned long descriptor = strtoul(after, &end, 16);
    return after > line && end > after && number == SYS_read && descriptor == 0;
}

/* Its standard input, if that is a pipe; 0: it is none. */
static ino_t input_pipe(pid_t process)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)process);
    return stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode) ? facts.st_ino : 0;
}

static bool is_launcher(pid_t process)
{
    char path[64], name[32];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)process);
    return first_line(path, name, sizeof name) && !strcmp(name, "kolorun\n");
}

/* kolorun hands its input on to rank 0, its child's child, through a pipe of its own. `handed`: this process is below a
 * kolorun whose input is the cell's, and is the child of one. */
static bool family_reads(pid_t process, ino_t pipe, int depth, bool below, bool handed)
{
    ino_t input = input_pipe(process);
    if (input && (input == pipe || handed) && in_read_of_input(process)) return true;
    bool launcher = is_launcher(process);
    below |= launcher && input == pipe;
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    if (depth > 8 || !first_line(path, line, sizeof line)) return false;
    char *at = line, *end;
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
        if (family_reads((pid_t)child, pipe, depth + 1, below, below && launcher)) return true;
    }
    return false;
}

static const char end_of_input[] = "(a line of ^D alone, typed so or with Ctrl and D, is the end of the input)\n";

static void ask_user(worker_process *w)
{
    worker_drain(w);
    char *question = output_take_question(w->out);
    char *line = w->out->front->ask(w->out->front->self, question);
    free(question);
    if (line && (!strcmp(line, "^D") || !strcmp(line, "\004"))) { /* the end of the input */
        close(w->input);
        w->input = -1;
        free(line);
        return;
    }
    if (!line) {
        if (!w->out->silent) output_add(w->out, 2, end_of_input, strlen(end_of_input));
        w->interrupted = seconds_now();
        return;
    }
    char *with_newline = format_text("%s\n", line);
    (void)!write(w->input, with_newline, strlen(with_newline));
    free(with_newline);
    free(line);
}

/* As in /proc: 'T' stopped, 'Z' ended (a worker whose main thread has left the others behind). 0: nobody knows. */
static char state_of(pid_t process)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    if (!first_line(path, line, sizeof line)) return 0;
    const char *after = strrchr(line, ')');
    return after && after[1] ? after[2] : 0;
}

/* Ends a worker that has stopped itself, since nothing would continue it, and continues a supervisor that a cell has
 * stopped. */
static void end_if_stopped(worker_process *w)
{
    if (state_of(w->supervisor) == 'T') kill(w->supervisor, SIGCONT);
    if (w->traced) return; /* the debugger shows it, and can let it go on */
    char state = state_of(w->process);
    if (state != 'T' && state != 'Z') return;
    w->stopped = state == 'T';
    kill(w->process, SIGKILL);
}

void waiting_look(worker_process *w)
{
    double now = seconds_now();
    if (now - w->probed < 0.03 || w->process <= 0) return;
    w->probed = now;
    end_if_stopped(w);
    struct stat facts;
    int unread = 1;
    if (!w->asks || w->input < 0 || w->interrupted > 0 || fstat(w->input, &facts)) return;
    if (ioctl(w->input, FIONREAD, &unread) || unread > 0) return;
    if (family_reads(w->process, facts.st_ino, 0, false, false)) ask_user(w);
}

/* Does the worker wait for a program? That gets more time to end by itself. */
static bool awaits_program(pid_t worker)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)worker);
    long number = first_line(path, line, sizeof line) ? strtol(line, NULL, 10) : -1;
    return number == SYS_wait4 || number == SYS_waitid;
}

/* A worker on a busy machine gets more time: it must not lose its variables because it had no core. */
void waiting_interrupt(worker_process *w)
{
    double passed = patience_passed(&w->patience, w->interrupted);
    if (!w->running || w->process <= 0) return;
    bool programs = awaits_program(w->process);
    if (passed > (programs ? 2.2 : 1.2)) {
        w->forced = true;
        kill(w->process, SIGKILL);
    } else if (passed > (programs ? 2.1 : 1.1)) {
        kill(w->process, SIGNAL_LAST_WORDS);
    } else {
        kill(w->process, passed > 0.4 ? SIGNAL_INTERRUPT : SIGINT);
    }
}
