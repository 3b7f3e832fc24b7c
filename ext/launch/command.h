/* The mpirun command line. */
#ifndef KOLO_LAUNCH_COMMAND_H
#define KOLO_LAUNCH_COMMAND_H

#include "launch/hosts.h"
#include "launch/options.h"
#include "launch/words.h"

/* Finds the program `name` as exec does: in PATH unless it contains a slash. The caller frees the path. NULL on
 * failure, with errno (ENOENT, EACCES, EISDIR). */
char *command_find(const char *name);
/* Refuses a command that looks like the rest of a -H list that was split by a space. Returns KOLORUN_GO_ON, or an exit
 * code after one sentence. */
int command_is_host(const struct launch_options *options);
/* Refuses a command that cannot be started on this host. Returns as command_is_host(). */
int command_check(const struct launch_options *options);
/* Builds mpirun's argv. `mpirun` is the path of mpirun, `self` that of kolorun. Settings that the user has made in
 * --mpi-args or by an OMPI_MCA_ variable are left out. Returns KOLORUN_GO_ON, or an exit code after one sentence. The
 * caller calls words_free() in both cases. */
int command_build(const struct launch_options *options, struct launch_hosts *hosts, const char *mpirun,
                  const char *self, struct words *command);

#endif
