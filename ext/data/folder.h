/* Finding files in a folder. */
#ifndef KOLO_DATA_FOLDER_H
#define KOLO_DATA_FOLDER_H

#include <limits.h>
#include <stdbool.h>

/* Finds the first file by name in a folder that matches a shell pattern ("data_batch_1.bin*"). The folder's name is
 * not a pattern. False: no file matches, or its path is too long. */
bool kolo_folder_find(char path[PATH_MAX], const char *folder, const char *pattern);

#endif
