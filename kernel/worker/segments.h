/* Where Open MPI keeps the shared memory of a session's processes: a folder in /dev/shm with the name of the session's
 * own folder, emptied when the worker ends and removed by the supervisor. Open MPI itself removes its files only in
 * MPI_Finalize, which a killed process does not reach. */
#ifndef KERNEL_WORKER_SEGMENTS_H
#define KERNEL_WORKER_SEGMENTS_H

#include <stdbool.h>

/* Its path, for a session's folder. The caller frees. */
char *segments_folder(const char *session);

/* Makes it, for this user alone. False where it cannot be made: Open MPI then goes its own way. */
bool segments_make(const char *folder);

/* Deletes all that is in a folder. */
void folder_empty(const char *path);
/* Deletes the folder too; `folder` may be NULL. It tries for two seconds, since a compiler that outlives a killed
 * kernel may still write its output there. The next kernel removes what stays after that. */
void folder_delete(const char *path);

#endif
