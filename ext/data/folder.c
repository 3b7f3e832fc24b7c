/* Finding files in a folder: see folder.h. */
#include "data/folder.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

bool kolo_folder_find(char path[PATH_MAX], const char *folder, const char *pattern)
{
    char first[NAME_MAX + 1] = "";
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (fnmatch(pattern, entry->d_name, FNM_PERIOD) != 0) continue;
        if (!*first || strcmp(entry->d_name, first) < 0) snprintf(first, sizeof first, "%s", entry->d_name);
    }
    if (entries) closedir(entries);
    return *first && snprintf(path, PATH_MAX, "%s/%s", folder, first) < PATH_MAX;
}
