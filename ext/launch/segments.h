/* Folders for Open MPI's files, such as a rank's shared memory, which can be removed even if the rank is killed. Open
 * MPI removes its files only in MPI_Finalize, and a container has only 64 MB of /dev/shm. */
#ifndef KOLO_LAUNCH_SEGMENTS_H
#define KOLO_LAUNCH_SEGMENTS_H

/* A variable with the folder in which the folders are made, instead of /dev/shm or $TMPDIR, if it is a writable folder.
 * The setter of the variable cleans it up. */
#define KOLORUN_SEGMENTS "KOLORUN_SEGMENTS"

/* Makes a folder in `base` and locks it, until this process and the processes that it forks have ended. The caller
 * frees the name. NULL on failure. */
char *segments_make(const char *base);

/* Removes a folder with its files; folder may be NULL. */
void segments_remove(const char *folder);

/* Removes the folders in `base` that are not locked, because all their processes have ended. */
void segments_sweep_up(const char *base);

#endif
