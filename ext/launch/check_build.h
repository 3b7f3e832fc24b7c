/* kolorun --check-build and --version. */
#ifndef KOLO_LAUNCH_CHECK_BUILD_H
#define KOLO_LAUNCH_CHECK_BUILD_H

/* Prints what this Kolo was built with and what can serve here, each as [X] or [ ], with the reason why not. */
int check_build_print(void);
int version_print(void);
/* The path of this program. `size` bytes at `path`; an empty text when it cannot be told. */
void own_path(char *path, unsigned long size);

#endif
