/* What kolorun refuses before it looks at hosts: see options_check.h. */
#include "launch/options_check.h"

#include "core/fault_text.h"
#include "launch/filter.h"
#include "launch/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_fault(const char *text)
{
    char why[200];
    kolo_fault_wishes wishes = {0};
    if (!text) return KOLORUN_GO_ON;
    if (!kolo_faults_read(&wishes, text, why, sizeof why)) return launch_say(KOLORUN_WRONG_USE, "--fault: %s", why);
    if (wishes.count > 0) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_WRONG_USE, "--fault: wanted a fault as rank=0,step=10,what=kill, got '%s'", text);
}

/* Each name must be there, without blanks. Which interfaces there are on the other hosts is not known here. */
static int check_interfaces(const char *list)
{
    for (const char *at = list; at; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ",");
        if (!length || strcspn(at, " \t\n") < length)
            return launch_say(KOLORUN_WRONG_USE,
                              "--network-interfaces: wanted interfaces or subnets as eth0,10.0.0.0/24, got '%s'", list);
        at += length;
    }
    return KOLORUN_GO_ON;
}

static int check_hosts(const struct launch_options *options)
{
    if (options->hosts && options->hostfile)
        return launch_say(KOLORUN_WRONG_USE, "-H and --hostfile both name the hosts: wanted one of them, got both");
    if (options->discovery && (options->hosts || options->hostfile))
        return launch_say(KOLORUN_WRONG_USE,
                          "%s and --host-discovery-script both name the hosts: wanted one of them, "
                          "got both",
                          options->hosts ? "-H" : "--hostfile");
    if (options->least && !options->discovery)
        return launch_say(KOLORUN_WRONG_USE, "--min-np: wanted --host-discovery-script, too, got none");
    if (options->ranks && options->least > options->ranks)
        return launch_say(KOLORUN_WRONG_USE, "--min-np: wanted at most the %d ranks of -np, got %d", options->ranks,
                          options->least);
    return KOLORUN_GO_ON;
}

/* Open MPI splits its arguments for ssh at blanks, with no way to quote one. */
static int check_key(const char *file)
{
    struct stat info;
    if (!file) return KOLORUN_GO_ON;
    if (stat(file, &info) || access(file, R_OK))
        return launch_say(KOLORUN_WRONG_USE, "--ssh-identity-file %s: %s", file, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return launch_say(KOLORUN_WRONG_USE, "--ssh-identity-file %s: wanted a file with a private key", file);
    if (strpbrk(file, " \t\n"))
        return launch_say(KOLORUN_WRONG_USE, "--ssh-identity-file: wanted a path without blanks, got '%s'", file);
    return KOLORUN_GO_ON;
}

static int check_bind_to(const char *what)
{
    static const char *const known[] = {"core", "hwthread", "l1cache", "l2cache", "l3cache", "numa", "socket", "none"};
    for (size_t i = 0; what && i < sizeof known / sizeof *known; i++)
        if (!strcmp(what, known[i])) return KOLORUN_GO_ON;
    if (!what) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_WRONG_USE,
                      "--bind-to: wanted core, hwthread, l1cache, l2cache, l3cache, numa, socket or none, got '%s'",
                      what);
}

static int check_transport(const struct launch_options *options)
{
    const char *rdma = options->rdma;
    if (rdma && options->tcp) return launch_say(KOLORUN_WRONG_USE, "--rdma and --tcp: wanted one of them, got both");
    if (rdma && strcmp(rdma, "ucx") != 0 && strcmp(rdma, "verbs") != 0)
        return launch_say(KOLORUN_WRONG_USE, "--rdma: wanted ucx or verbs, got '%s'", rdma);
    if (rdma && options->command && (!strcmp(options->command[0], "ucx") || !strcmp(options->command[0], "verbs")))
        return launch_say(KOLORUN_WRONG_USE, "--rdma: wanted --rdma=%s, got a space", options->command[0]);
    return KOLORUN_GO_ON;
}

static int check_autotune(const struct launch_options *options)
{
    if (!options->autotune_log || options->autotune == 1) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_WRONG_USE, "--autotune-log-file: wanted --autotune, too, got %s",
                      options->autotune == 0 ? "--no-autotune" : "none");
}

int options_check(const struct launch_options *options)
{
    if (options->check_build || options->version || options->help) return KOLORUN_GO_ON;
    int code = check_hosts(options);
    if (code == KOLORUN_GO_ON) code = check_fault(options->fault);
    if (code == KOLORUN_GO_ON) code = check_key(options->ssh_key);
    if (code == KOLORUN_GO_ON) code = check_bind_to(options->bind_to);
    if (code == KOLORUN_GO_ON) code = check_transport(options);
    if (code == KOLORUN_GO_ON) code = check_autotune(options);
    if (code == KOLORUN_GO_ON) code = check_interfaces(options->interfaces);
    if (code == KOLORUN_GO_ON) code = filter_check(options->shown_ranks);
    if (code != KOLORUN_GO_ON) return code;
    if (!options->command)
        return launch_say(KOLORUN_WRONG_USE, "no command: wanted kolorun -np 8 ./program, got no program to start");
    return KOLORUN_GO_ON;
}
