/* The environment on its way from kolorun to a rank's program. */
#ifndef KOLO_LAUNCH_ENVIRONMENT_H
#define KOLO_LAUNCH_ENVIRONMENT_H

#include <stdbool.h>

#define KOLORUN_CONTACT "KOLORUN_CONTACT"     /* where a rank's watcher reaches kolorun; contact.h has the form */
#define KOLORUN_TOKEN   "KOLORUN_TOKEN"         /* what it shows there */
#define KOLORUN_COLUMNS "KOLORUN_COLUMNS"     /* how wide a rank's line may be once its tag stands before it */
#define KOLORUN_OUTPUT                                                                                                 \
    "KOLORUN_OUTPUT" /* where the ranks' output ends: terminal, notebook or file; for the program                      \
                      */

/* True for a variable by which a surrounding MPI job would draw a new one into itself. `in_job`: this process is a rank
 * of such a job, so that OMPI_MCA_ variables which its launcher sets are the job's; otherwise all OMPI_MCA_ are the
 * user's. */
bool environment_is_of_job(const char *name, bool in_job);

/* In kolorun, before mpirun starts: forgets a surrounding job and what its kolorun had chosen for its ranks, and lets
 * mpirun run as root. False without memory. */
bool environment_prepare(void);

/* In kolorun, before mpirun starts: mpirun keeps its files in a folder of this job's own, unless the user has set
 * where. The folder, to be removed when mpirun is gone; NULL: none. */
char *environment_own_folder(void);

/* In the rank, first: Open MPI's shared memory goes to a folder of the rank's own, in /dev/shm where there is room
 * enough and in /tmp otherwise, unless the user has set it. The folder, to be removed when the rank is gone; NULL:
 * none. */
char *environment_own_segments(void);

/* In the rank, before its program starts: sets KOLO_THREADS and OMP_NUM_THREADS to the rank's share of the cores, and
 * Open MPI's settings for this host (yield when ranks outnumber cores; copies that the system allows), unless the user
 * has set them. False without memory. */
bool environment_for_rank(void);

#endif
