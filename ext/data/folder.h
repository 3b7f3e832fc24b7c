/* Finding files in a folder. */
#ifndef KOLO_DATA_FOLDER_H
#define KOLO_DATA_FOLDER_H

#include <limits.h>
#include <stdbool.h>

/* The first, by name, of a folder's files that match a pattern as a shell's ("data_batch_1.bin*"); false where there is
 * none or its path is too long. The folder's name is no pattern. */
bool kolo_folder_find(char path[PATH_MAX], const char *folder, const char *pattern);

#endif
