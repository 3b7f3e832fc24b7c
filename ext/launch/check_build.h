/* kolorun --check-build and --version. */
#ifndef KOLO_LAUNCH_CHECK_BUILD_H
#define KOLO_LAUNCH_CHECK_BUILD_H

/* Prints which parts were built and are usable, as [X] or as [ ] with the reason. Returns an exit code. */
int check_build_print(void);
int version_print(void);
/* Writes the path of this program to path[size]; an empty text if it is unknown. */
void own_path(char *path, unsigned long size);

#endif
