/* See rank_file.h. */
#include "launch/rank_file.h"

#include "launch/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const char *option, const char *path, const char *why)
{
    return launch_say(KOLORUN_FAILED, "%s: wanted a file that can be written, got %.300s: %s", option, path, why);
}

/* The length of the folder's part of a path, with the last "/". */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* An existing file must be one that may be written, and in any case its folder, where the file is put in place. */
static int check(const char *option, const char *path, const char *given)
{
    char folder[PATH_MAX];
    struct stat info;
    snprintf(folder, sizeof folder, "%.*s", (int)folder_length(path), path);
    if (!path[folder_length(path)]) return refuse(option, given, strerror(EISDIR));
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return refuse(option, given, strerror(EISDIR));
        if (!S_ISREG(info.st_mode)) return refuse(option, given, "it is a device or a pipe");
        if (access(path, W_OK)) return refuse(option, given, strerror(errno));
    } else if (errno != ENOENT) return refuse(option, given, strerror(errno));
    return access(folder, W_OK | X_OK) ? refuse(option, given, strerror(errno)) : KOLORUN_GO_ON;
}

int rank_file_check(const char *option, const char *given, char path[PATH_MAX])
{
    char here[PATH_MAX] = "", whole[2 * PATH_MAX];
    if (!*given) return launch_say(KOLORUN_WRONG_USE, "%s: wanted the name of a file, got an empty one", option);
    if (given[0] != '/' && !getcwd(here, sizeof here)) return refuse(option, given, strerror(errno));
    snprintf(whole, sizeof whole, "%s%s%s", here, *here ? "/" : "", given);
    if (strlen(whole) + 32 > PATH_MAX)
        return refuse(option, given, strerror(ENAMETOOLONG)); /* temporary names are longer */
    snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, whole);
    return check(option, path, given);
}
