/* Files that the ranks write because an option of kolorun names them: --timeline and --autotune-log-file. */
#ifndef KOLO_LAUNCH_RANK_FILE_H
#define KOLO_LAUNCH_RANK_FILE_H

#include <limits.h>

/* Sets path[] to the absolute path of the file `given`. `option` names the option in a sentence. Returns KOLORUN_GO_ON,
 * or an exit code after one sentence if the file cannot be written: an existing file must be a plain one that may be
 * written, and its folder must allow that a new one is put in its place. */
int rank_file_check(const char *option, const char *given, char path[PATH_MAX]);

#endif
