/* Where a rank's Open MPI keeps its shared memory: a folder of the rank's own, so that nothing is left of it when the
 * rank is killed. Open MPI removes its files only in MPI_Finalize, and a container has 64 MB of /dev/shm. */
#ifndef KOLO_LAUNCH_SEGMENTS_H
#define KOLO_LAUNCH_SEGMENTS_H

/* A folder below which they are made, instead of /dev/shm, where there is such a folder: whoever set it empties it. */
#define KOLORUN_SEGMENTS "KOLORUN_SEGMENTS"

/* A new folder below `base`, locked while this process, or one that it forks, lives. The caller frees. NULL: none can
 * be made there. */
char *segments_make(const char *base);

/* With the files in it; NULL is no folder. */
void segments_remove(const char *folder);

/* Removes the folders below `base` whose processes were all killed. */
void segments_sweep_up(const char *base);

#endif
