#define _GNU_SOURCE
#include "history.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_AT_MOST = 64 << 20 }; /* bytes: of a longer file, the end */

/* ---- the file ---- */

/* The file from `*at` on, NUL-terminated; NULL when nothing is there. `*at` moves behind the last whole line. */
static char *read_from(int file, off_t *at, size_t *size)
{
    struct stat about;
    if (fstat(file, &about) || !S_ISREG(about.st_mode)) return NULL;
    if (about.st_size < *at) *at = 0; /* somebody has emptied it */
    if (about.st_size - *at > READ_AT_MOST) *at = about.st_size - READ_AT_MOST;
    char *bytes = about.st_size > *at ? malloc((size_t)(about.st_size - *at) + 1) : NULL;
    ssize_t got = bytes ? pread(file, bytes, (size_t)(about.st_size - *at), *at) : 0;
    char *end = got > 0 ? memrchr(bytes, '\n', (size_t)got) : NULL;
    if (!end) {
        free(bytes);
        return NULL;
    }
    end[1] = 0;
    *size = (size_t)(end + 1 - bytes);
    *at += (off_t)*size;
    return bytes;
}

static void append(int file, const json_t *entry)
{
    char *dump = json_dumps(entry, JSON_COMPACT), last = '\n';
    size_t size = dump ? strlen(dump) : 0;
    off_t end = lseek(file, 0, SEEK_END);
    if (end > 0 && pread(file, &last, 1, end - 1) == 1 && last != '\n') (void)!write(file, "\n", 1); /* cut off */
    if (dump) {
        dump[size] = '\n'; /* in the place of its NUL: one write, one line */
        (void)!write(file, dump, size + 1);
    }
    free(dump);
}

/* A kernel that holds the lock for long has stopped. Then this one goes on without the lock: a line is written in one
 * piece anyhow. */
static int open_locked(const history *h)
{
    int file = h->path ? open(h->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600) : -1;
    for (int i = 0; file >= 0 && flock(file, LOCK_EX | LOCK_NB) && i < 50; i++) usleep(2000); /* and then without */
    return file;
}

/* One more than the highest number in the file. Lines are not parsed: a kernel starts here. */
static long next_session(const char *bytes)
{
    long next = 1;
    for (const char *line = bytes; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        long number = *line == '[' ? strtol(line + 1, NULL, 10) : 0;
        if (number >= next && number < 1L << 40) next = number + 1;
    }
    return next;
}

void history_open(history *h, const char *path)
{
    *h = (history){.entries = json_array(), .session = 1, .path = path ? strdup(path) : NULL};
    int file = open_locked(h);
    if (file < 0) return;
    size_t size;
    off_t at = 0;
    char *bytes = read_from(file, &at, &size);
    h->session = next_session(bytes);
    free(bytes);
    json_t *mark = json_pack("[I, i, s]", (json_int_t)h->session, 0, "");
    append(file, mark);
    json_decref(mark);
    close(file);
}

void history_close(history *h)
{
    json_decref(h->entries);
    free(h->path);
    *h = (history){0};
}

void history_add(history *h, long line, const char *source, const char *shown)
{
    json_t *entry = json_pack("[I, I, s, s?]", (json_int_t)h->session, (json_int_t)line, source, shown);
    if (!entry) return;
    json_array_append(h->entries, entry);
    int file = open_locked(h);
    if (file >= 0) {
        append(file, entry);
        close(file);
    }
    json_decref(entry);
}

static long session_of(const json_t *entry)
{
    return (long)json_integer_value(json_array_get(entry, 0));
}

static bool is_entry(const json_t *entry)
{
    return json_is_integer(json_array_get(entry, 0)) && json_integer_value(json_array_get(entry, 1)) > 0 &&
           json_is_string(json_array_get(entry, 2));
}

/* Takes in what the file has got since the last time; this session's own entries are there already. */
static void catch_up(history *h)
{
    int file = open_locked(h);
    size_t size = 0;
    char *bytes = file >= 0 ? read_from(file, &h->read, &size) : NULL;
    if (file >= 0) close(file);
    for (char *line = bytes, *end; line && line < bytes + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(bytes + size - line));
        json_t *entry = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (is_entry(entry) && session_of(entry) != h->session) json_array_append(h->entries, entry);
        json_decref(entry);
    }
    free(bytes);
}

/* ---- questions ---- */

static int by_place(const void *a, const void *b)
{
    const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
    long sessions = session_of(one) - session_of(other);
    json_int_t lines = json_integer_value(json_array_get(one, 1)) - json_integer_value(json_array_get(other, 1));
    return sessions ? (sessions > 0) - (sessions < 0) : (lines > 0) - (lines < 0);
}

static bool in_range(const history *h, const json_t *entry, const json_t *request)
{
    long session = (long)json_integer_value(json_object_get(request, "session"));
    long start = (long)json_integer_value(json_object_get(request, "start"));
    json_t *stop = json_object_get(request, "stop");
    if (session <= 0) session += h->session;
    long line = (long)json_integer_value(json_array_get(entry, 1));
    bool bounded = json_is_integer(stop) && json_integer_value(stop) > 0;
    return session_of(entry) == session && line >= start && (!bounded || line < json_integer_value(stop));
}

static bool wanted(const history *h, const json_t *entry, const json_t *request)
{
    const char *kind = json_string_value(json_object_get(request, "hist_access_type"));
    const char *pattern = json_string_value(json_object_get(request, "pattern"));
    if (kind && !strcmp(kind, "range")) return in_range(h, entry, request);
    if (!kind || strcmp(kind, "search")) return true;
    return !fnmatch(pattern ? pattern : "*", json_string_value(json_array_get(entry, 2)), FNM_NOESCAPE);
}

/* Leaves of equal sources the last. `found` is an array of `count` entries in order; the new count. */
static size_t make_unique(json_t **found, size_t count)
{
    json_t *seen = json_object();
    size_t kept = count;
    for (size_t i = count; i-- > 0;) {
        const char *source = json_string_value(json_array_get(found[i], 2));
        if (json_object_get(seen, source)) continue;
        json_object_set_new(seen, source, json_true());
        found[--kept] = found[i];
    }
    if (kept) memmove(found, found + kept, (count - kept) * sizeof *found);
    json_decref(seen);
    return count - kept;
}

/* [session, line, source], or with what was shown [session, line, [source, shown]]. */
static json_t *answer_of(json_t *entry, bool with_output)
{
    json_t *source = json_array_get(entry, 2), *shown = json_array_get(entry, 3);
    json_t *text =
        with_output ? json_pack("[O, O]", source, json_is_string(shown) ? shown : json_null()) : json_incref(source);
    return json_pack("[O, O, o]", json_array_get(entry, 0), json_array_get(entry, 1), text);
}

json_t *history_answer(history *h, const json_t *request)
{
    const char *kind = json_string_value(json_object_get(request, "hist_access_type"));
    json_int_t limit = json_integer_value(json_object_get(request, "n"));
    bool limited = limit > 0 && !(kind && !strcmp(kind, "range"));
    catch_up(h);
    size_t total = json_array_size(h->entries), count = 0;
    json_t **found = calloc(total + 1, sizeof *found), *answers = json_array();
    for (size_t i = 0; found && i < total; i++) {
        json_t *entry = json_array_get(h->entries, i);
        if (wanted(h, entry, request)) found[count++] = entry;
    }
    if (found) qsort(found, count, sizeof *found, by_place);
    if (json_is_true(json_object_get(request, "unique"))) count = make_unique(found, count);
    for (size_t i = limited && (json_int_t)count > limit ? count - (size_t)limit : 0; i < count; i++)
        json_array_append_new(answers, answer_of(found[i], json_is_true(json_object_get(request, "output"))));
    free(found);
    return json_pack("{s:s, s:o}", "status", "ok", "history", answers);
}
