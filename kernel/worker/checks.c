/* Notes an index outside of its array, and calls that gave NULL, for the report of a fault. Read first: checks.h,
 * worker.h. */
#define _GNU_SOURCE
#include "worker/checks.h"
#include "worker/heap.h"
#include "worker/interposed.h"
#include "worker/unwind.h"
#include "worker/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

_Noreturn void __ubsan_handle_out_of_bounds_abort(const checked_index *check, uintptr_t index);
void __ubsan_handle_out_of_bounds_abort(const checked_index *check, uintptr_t index)
{
    static char words[400];
    describe_index(words, sizeof words, check, index);
    running.missing = words;
    leave_refused(STATUS_REFUSED);
}

bool is_cell_code(const void *at)
{
    Dl_info info;
    const char *folder = cells_folder();
    return dladdr(at, &info) && info.dli_fname && !strncmp(info.dli_fname, folder, strlen(folder));
}

void describe_call(char *into, size_t size, const char *sentence, const void *from)
{
    Dl_info info;
    bool known = from && dladdr(from, &info) && info.dli_fname;
    uintptr_t offset = known ? (uintptr_t)from - 1 - (uintptr_t)info.dli_fbase : 0; /* a return address */
    snprintf(into, size, "%c%s|%lx|%s", MARK_CALL, sentence, (unsigned long)offset, known ? info.dli_fname : "");
}

static char null_words[NULL_SHOWN - 2]; /* of the last call that gave NULL; "": none has */

void note_null(const char *sentence, const void *from)
{
    if (!running.active || getpid() != running.process || !is_cell_code(from)) return;
    int saved = errno;
    describe_call(null_words, sizeof null_words, sentence, from);
    errno = saved;
}

/* Adds a frame that has the words in place of its path. */
void add_null_words(void)
{
    size_t size = strlen(null_words);
    if (!size || !running.frames) return;
    memcpy(running.frames + running.frames_size, null_words, size + 1); /* there is room: FRAMES_SIZE */
    running.frames_size += size + 1;
    for (int i = 0; i < 2; i++) running.frames[running.frames_size++] = 0; /* no offset, no symbol */
}

INTERPOSED(fopen);

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *file = real_fopen()(path, mode);
    char sentence[400];
    int saved = errno;
    if (file || !path || !mode) return file;
    snprintf(sentence, sizeof sentence, "fopen(\"%.200s\", \"%.8s\") gave NULL" MARK_PLACE ": %s", path, mode,
             strerror(saved));
    note_null(sentence, __builtin_return_address(0));
    errno = saved;
    return NULL;
}
