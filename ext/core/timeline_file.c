/* See timeline_file.h. */
#include "core/timeline_file.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/utf8.h"

const char *const kolo_timeline_spans[KOLO_SPANS] = {[KOLO_SPAN_STEP] = "step",
                                                     [KOLO_SPAN_INPUT] = "input",
                                                     [KOLO_SPAN_FORWARD] = "forward",
                                                     [KOLO_SPAN_BACKWARD] = "backward",
                                                     [KOLO_SPAN_WAIT] = "wait",
                                                     [KOLO_SPAN_PACK] = "pack",
                                                     [KOLO_SPAN_REDUCE] = "reduce",
                                                     [KOLO_SPAN_UNPACK] = "unpack",
                                                     [KOLO_SPAN_UPDATE] = "update",
                                                     [KOLO_SPAN_EXCHANGE] = "exchange",
                                                     [KOLO_SPAN_COLLECTIVE] = "collective",
                                                     [KOLO_SPAN_VALIDATION] = "validation",
                                                     [KOLO_SPAN_SAVE] = "save",
                                                     [KOLO_SPAN_ENQUEUE] = "enqueue"};

/* ---------------------------------------------------------------- the files of the ranks */

/* Once a row is full, the oldest event's slot may be half overwritten where the process was killed. */
int kolo_timeline_kept(const kolo_timeline_row *row)
{
    return row->count < KOLO_TIMELINE_EVENTS ? (int)row->count : KOLO_TIMELINE_EVENTS - 1;
}

bool kolo_timeline_part_name(const char *path, int rank, char name[PATH_MAX])
{
    return snprintf(name, PATH_MAX, "%s.rank%d.part", path, rank) < PATH_MAX;
}

/* Calls visit() for each rank's file, in the order of their names. Returns whether there is one. */
static bool for_each_part(const char *path, void (*visit)(const char *name, void *argument), void *argument)
{
    char pattern[2 * PATH_MAX + 32];
    size_t at = 0;
    glob_t found = {0};
    for (const char *c = path; *c && at < 2 * PATH_MAX; c++) { /* a character of the path stands for itself */
        if (strchr("*?[\\", *c)) pattern[at++] = '\\';
        pattern[at++] = *c;
    }
    snprintf(pattern + at, sizeof pattern - at, ".rank*.part");
    bool any = glob(pattern, 0, NULL, &found) == 0;
    for (size_t i = 0; any && visit && i < found.gl_pathc; i++) visit(found.gl_pathv[i], argument);
    globfree(&found);
    return any;
}

bool kolo_timeline_has_parts(const char *path)
{
    return for_each_part(path, NULL, NULL);
}

static void remove_part(const char *name, void *argument)
{
    (void)argument;
    unlink(name);
}

void kolo_timeline_remove_parts(const char *path)
{
    for_each_part(path, remove_part, NULL);
}

static bool read_all(int fd, void *to, size_t size, int64_t at)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(fd, (char *)to + done, size - done, at + (int64_t)done);
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

bool kolo_timeline_read_header(int fd, kolo_timeline_header *header)
{
    if (!read_all(fd, header, sizeof *header, 0)) return false;
    bool fine = memcmp(header->magic, KOLO_TIMELINE_MAGIC, sizeof header->magic) == 0 && header->rank >= 0 &&
                header->rows >= 0 && header->rows <= KOLO_TIMELINE_ROWS;
    header->host[sizeof header->host - 1] = 0;
    for (int i = 0; fine && i < header->rows; i++) header->row[i].name[sizeof header->row[i].name - 1] = 0;
    return fine;
}

int kolo_timeline_read_row(int fd, const kolo_timeline_header *header, int row, kolo_timeline_event *events)
{
    const size_t width = sizeof *events;
    int count = kolo_timeline_kept(&header->row[row]);
    int64_t begin = kolo_timeline_place_of(row);
    size_t first = (size_t)((header->row[row].count - (uint64_t)count) % KOLO_TIMELINE_EVENTS);
    size_t ahead = KOLO_TIMELINE_EVENTS - first < (size_t)count ? KOLO_TIMELINE_EVENTS - first : (size_t)count;
    bool fine = read_all(fd, events, ahead * width, begin + (int64_t)(first * width)) &&
                read_all(fd, events + ahead, ((size_t)count - ahead) * width, begin);
    return fine ? count : -1;
}

/* ---------------------------------------------------------------- text */

/* Writes a JSON string. Bytes that are no UTF-8 become U+FFFD. */
static void write_text(FILE *out, const char *text, size_t most)
{
    size_t left = strnlen(text, most);
    fputc('"', out);
    while (left > 0) {
        size_t size = kolo_utf8_size(text, left);
        if (size == 0) fputs(KOLO_UTF8_UNKNOWN, out);
        else if (*text == '"' || *text == '\\') fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20) fprintf(out, "\\u%04x", *text);
        else fwrite(text, 1, size, out);
        text += size ? size : 1;
        left -= size ? size : 1;
    }
    fputc('"', out);
}

/* A name as far as it is kept ends with a whole character. */
static size_t whole_characters(const char *text, size_t most)
{
    size_t length = strnlen(text, most), at = 0;
    if (length < most) return length;
    for (size_t size; at < length && (size = kolo_utf8_size(text + at, length - at)) > 0;) at += size;
    return length - at < 4 ? at : length;
}

/* Microseconds with three decimals, as the format wants. */
static void write_time(FILE *out, const char *key, int64_t nanoseconds)
{
    const char *sign = nanoseconds < 0 ? "-" : "";
    int64_t size = nanoseconds < 0 ? -nanoseconds : nanoseconds;
    fprintf(out, ",\"%s\":%s%" PRId64 ".%03d", key, sign, size / 1000, (int)(size % 1000));
}

/* ---------------------------------------------------------------- the trace */

void kolo_timeline_begin_trace(kolo_timeline_trace *trace, FILE *out)
{
    *trace = (kolo_timeline_trace){.out = out};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
}

/* Perfetto takes process 0 for the kernel's idle process. */
static int process_of(const kolo_timeline_header *header)
{
    return header->rank + 1;
}

static int thread_of(const kolo_timeline_header *header, int row)
{
    return process_of(header) * 1000 + row;
}

/* Begins a line that names something: the process, if row is -1, or a thread. */
static void begin_naming(const kolo_timeline_trace *trace, const kolo_timeline_header *header, int row,
                         const char *what)
{
    fprintf(trace->out, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{", process_of(header),
            row < 0 ? process_of(header) * 1000 : thread_of(header, row), what);
}

void kolo_timeline_add_rank(kolo_timeline_trace *trace, const kolo_timeline_header *header)
{
    char name[sizeof header->host + 32];
    snprintf(name, sizeof name, "rank %d (%s)", header->rank, header->host);
    fputs(trace->ranks++ ? ",\n" : "\n", trace->out);
    begin_naming(trace, header, -1, "process_name");
    fputs("\"name\":", trace->out);
    write_text(trace->out, name, sizeof name);
    fprintf(trace->out, ",\"cores\":%d,\"threads\":%d}},\n", header->cores, header->threads);
    begin_naming(trace, header, -1, "process_sort_index");
    fprintf(trace->out, "\"sort_index\":%d}}", header->rank);
    trace->unplaced += header->unplaced;
    for (int i = 0; i < 2; i++)
        if (header->clock.error[i] > trace->error) trace->error = header->clock.error[i];
}

/* Devices come first, and each has its threads behind it. */
static int order_of(const char *name)
{
    static const char word[] = "device ", more[] = ", thread ";
    char *rest = NULL;
    bool device = strncmp(name, word, strlen(word)) == 0 || strncmp(name, "worker ", strlen(word)) == 0;
    if (!device) return strcmp(name, "main") == 0 ? 0 : 1000000;
    long number = strtol(name + strlen(word), &rest, 10), thread = 0;
    if (strncmp(rest, more, strlen(more)) == 0) thread = strtol(rest + strlen(more), NULL, 10);
    return (int)(1 + number % 1000 * 1000 + thread % 1000);
}

static int compare_begins(const void *one, const void *other)
{
    const kolo_timeline_event *a = one, *b = other;
    if (a->begun != b->begun) return a->begun < b->begun ? -1 : 1;
    return a->nanoseconds == b->nanoseconds ? 0 : a->nanoseconds > b->nanoseconds ? -1 : 1;
}

/* The time of rank 0's clock, from the beginning of the recording. */
static int64_t time_of(const kolo_timeline_header *header, int64_t clock)
{
    const kolo_timeline_clock *c = &header->clock;
    double whole = (double)(c->at[1] - c->at[0]), part = whole > 0 ? (double)(clock - c->at[0]) / whole : 0;
    return clock + c->offset[0] + (int64_t)(part * (double)(c->offset[1] - c->offset[0])) - header->zero;
}

static const char *number_name(const kolo_timeline_event *event)
{
    if (event->span == KOLO_SPAN_STEP) return "samples";
    bool bucket = event->span == KOLO_SPAN_PACK || event->span == KOLO_SPAN_REDUCE || event->span == KOLO_SPAN_UNPACK;
    return bucket ? "bucket" : "microbatch";
}

/* Viewers show the name alone, so the name contains the category: "conv2d_1 backward" as under NVTX, "wait for ranks".
 */
static void write_name(FILE *out, const kolo_timeline_event *event)
{
    static const char *const before[KOLO_SPANS] = {
        [KOLO_SPAN_WAIT] = "wait for ", [KOLO_SPAN_PACK] = "pack ", [KOLO_SPAN_UNPACK] = "unpack "};
    const char *first = before[event->span] ? before[event->span] : "";
    char name[KOLO_TIMELINE_NAME + 32];
    int length = (int)whole_characters(event->name, sizeof event->name);
    snprintf(name, sizeof name, "%s%.*s%s", first, length, event->name,
             event->span == KOLO_SPAN_BACKWARD ? " backward" : "");
    write_text(out, name, sizeof name);
}

static void write_event(const kolo_timeline_trace *trace, const kolo_timeline_header *header, int row,
                        const kolo_timeline_event *event)
{
    FILE *out = trace->out;
    const char *comma = "";
    fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d", process_of(header), thread_of(header, row));
    int64_t begun = time_of(header, event->begun), ended = time_of(header, event->begun + event->nanoseconds);
    write_time(out, "ts", begun);
    write_time(out, "dur", ended - begun);
    fprintf(out, ",\"cat\":\"%s\",\"name\":", kolo_timeline_spans[event->span]);
    write_name(out, event);
    fputs(",\"args\":{", out);
    if (event->step >= 0) fprintf(out, "\"step\":%d", event->step), comma = ",";
    if (event->number >= 0) fprintf(out, "%s\"%s\":%d", comma, number_name(event), event->number), comma = ",";
    if (event->bytes > 0) fprintf(out, "%s\"bytes\":%" PRId64, comma, event->bytes);
    fputs("}}", out);
}

void kolo_timeline_add_row(kolo_timeline_trace *trace, const kolo_timeline_header *header, int row,
                           kolo_timeline_event *events, int count)
{
    const kolo_timeline_row *named = &header->row[row];
    fputs(",\n", trace->out);
    begin_naming(trace, header, row, "thread_name");
    fputs("\"name\":", trace->out);
    write_text(trace->out, named->name, sizeof named->name);
    fputs("}},\n", trace->out);
    begin_naming(trace, header, row, "thread_sort_index");
    fprintf(trace->out, "\"sort_index\":%d}}", order_of(named->name));
    qsort(events, (size_t)count, sizeof *events, compare_begins);
    for (int i = 0; i < count; i++)
        if (events[i].span < KOLO_SPANS && events[i].nanoseconds >= 0) write_event(trace, header, row, &events[i]);
    trace->left_out += (int64_t)named->count - count;
}

bool kolo_timeline_end_trace(kolo_timeline_trace *trace)
{
    fprintf(trace->out, "\n],\"otherData\":{\"ranks\":%d,\"older_events_left_out\":%" PRId64, trace->ranks,
            trace->left_out);
    fprintf(trace->out, ",\"threads_left_out\":%" PRId64, trace->unplaced);
    write_time(trace->out, "clock_error_microseconds", trace->error);
    fputs("}}\n", trace->out);
    return fflush(trace->out) == 0 && !ferror(trace->out);
}

/* ---------------------------------------------------------------- the trace of files */

bool kolo_timeline_add_part(kolo_timeline_trace *trace, int fd)
{
    kolo_timeline_header *header = malloc(sizeof *header);
    kolo_timeline_event *events = malloc(KOLO_TIMELINE_EVENTS * sizeof *events);
    bool fine = header && events && kolo_timeline_read_header(fd, header);
    if (fine) kolo_timeline_add_rank(trace, header);
    for (int i = 0; fine && i < header->rows; i++) {
        int count = kolo_timeline_read_row(fd, header, i, events);
        if (count >= 0) kolo_timeline_add_row(trace, header, i, events, count);
        fine = count >= 0;
    }
    free(events);
    free(header);
    return fine;
}

static void add_named_part(const char *name, void *argument)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    kolo_timeline_add_part(argument, fd);
    close(fd);
}

bool kolo_timeline_add_parts(kolo_timeline_trace *trace, const char *path)
{
    int before = trace->ranks;
    for_each_part(path, add_named_part, trace);
    return trace->ranks > before;
}
