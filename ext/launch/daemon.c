/* Starting Open MPI's daemon: see daemon.h. */
#include "launch/daemon.h"

#include "launch/say.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

int daemon_main(char **command)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (!command[0]) return launch_say(KOLORUN_WRONG_USE, "--as-daemon: wanted Open MPI's daemon, got no command");
    execvp(command[0], command);
    return launch_say(KOLORUN_FAILED, "cannot start Open MPI's daemon %s: %s", command[0], strerror(errno));
}
