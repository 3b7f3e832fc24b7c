/* The mpirun command line. */
#ifndef KOLO_LAUNCH_COMMAND_H
#define KOLO_LAUNCH_COMMAND_H

#include "launch/hosts.h"
#include "launch/options.h"
#include "launch/words.h"

/* The program `name` as exec would find it: by PATH unless it has a slash. The caller frees it; NULL with errno
 * (ENOENT, EACCES). */
char *command_find(const char *name);
/* Refuses, with one sentence, a command that is what stood behind a space in -H's list. KOLORUN_GO_ON or the exit code.
 */
int command_is_host(const struct launch_options *options);
/* Refuses a command that cannot be started here. The same returns. */
int command_check(const struct launch_options *options);
/* Builds mpirun's argv: `mpirun` its path, `self` kolorun's own. Settings that the user has made in --mpi-args or by an
 * OMPI_MCA_ variable are left out. Returns KOLORUN_GO_ON, or an exit code after one sentence. words_free() either way.
 */
int command_build(const struct launch_options *options, const struct launch_hosts *hosts, const char *mpirun,
                  const char *self, struct words *command);

#endif
