/* The environment variables that kolorun passes to a rank's program. */
#ifndef KOLO_LAUNCH_ENVIRONMENT_H
#define KOLO_LAUNCH_ENVIRONMENT_H

#include <stdbool.h>

#define KOLORUN_CONTACT "KOLORUN_CONTACT"     /* kolorun's address for a rank's watcher; format: see contact.h */
#define KOLORUN_TOKEN   "KOLORUN_TOKEN"       /* the secret that the watcher sends to kolorun */
#define KOLORUN_COLUMNS "KOLORUN_COLUMNS"     /* columns of a rank's terminal: kolorun's, without the rank's tag */
#define KOLORUN_OUTPUT  "KOLORUN_OUTPUT"      /* where the ranks' output goes: terminal, notebook or file */
#define KOLORUN_MERGE   "KOLORUN_MERGE"       /* set: a rank's stderr is its stdout (--merge-stderr-to-stdout) */

/* Whether a variable belongs to a surrounding MPI job, so that a new job that inherited it would join that one. If
 * `in_job`, this process is a rank of such a job, and the OMPI_MCA_ variables that a launcher sets belong to the job;
 * otherwise all OMPI_MCA_ variables are the user's. */
bool environment_is_of_job(const char *name, bool in_job);

/* Called in kolorun before mpirun starts: removes the variables of a surrounding job and those that its kolorun has
 * chosen for its ranks, and allows mpirun to run as root. False if memory is out. */
bool environment_prepare(void);

/* Called in kolorun before mpirun starts: makes a folder for mpirun's files, unless the user has set one. Returns the
 * folder, for environment_remove_folder() when mpirun has ended; NULL: none. */
char *environment_own_folder(void);

/* Removes the folder that environment_own_folder() has made, which may be NULL, and forgets it. */
void environment_remove_folder(char *folder);

/* Called first in the rank: makes a folder for the shared memory of this rank's Open MPI, in /dev/shm if there is
 * enough room, else in /tmp, unless the user has set one. Returns the folder, which the caller removes when the rank
 * has ended; NULL: none. */
char *environment_own_segments(void);

/* Called in the rank before its program starts. Unless the user has set them, sets KOLO_THREADS and OMP_NUM_THREADS to
 * the rank's number of cores, and Open MPI's settings for this host (yield if ranks outnumber cores; no copies between
 * processes if the system forbids them). False if memory is out. */
bool environment_for_rank(void);

#endif
