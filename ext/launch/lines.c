/* Cutting a rank's output into units (see output.h), and keeping the last lines of its stderr. */
#include "launch/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a line is Open MPI's ("[host:pid] ...", a backtrace), not the program's. */
static bool is_of_open_mpi(const char *text, size_t length)
{
    const char *end = memchr(text, ']', length), *colon = memchr(text, ':', length);
    if (!length || *text != '[' || !end || !colon || colon > end) return false;
    return strspn(colon + 1, "0123456789") == (size_t)(end - colon - 1);
}

static void keep_words(struct output_rank *rank, const char *text, size_t length)
{
    if (!length || is_of_open_mpi(text, length)) return;
    char *words = rank->words[rank->word_count++ % LAST_WORDS];
    if (length > LAST_WORD_LENGTH) length = LAST_WORD_LENGTH;
    memcpy(words, text, length);
    words[length] = '\0';
}

void output_aftermath(struct output *output, int rank)
{
    output->rank[rank].aftermath = true;
}

const char *output_last_words(const struct output *output, int rank, unsigned i)
{
    const struct output_rank *from = &output->rank[rank];
    unsigned first = from->word_count > LAST_WORDS ? from->word_count - LAST_WORDS : 0;
    return first + i < from->word_count ? from->words[(first + i) % LAST_WORDS] : NULL;
}

static bool has_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!text[i] || !strchr("\b \t", text[i])) return true;
    return false;
}

static void end_line(struct output *output, int rank, enum output_stream stream, const char *text, size_t length)
{
    struct output_source *source = &output->rank[rank].source[stream];
    bool closes_redraw = source->after_return && !length;
    if (stream == OUTPUT_STDERR || output->merged) keep_words(&output->rank[rank], text, length);
    source->after_return = false;
    if ((stream == OUTPUT_STDERR || output->merged) && output->rank[rank].aftermath && is_of_open_mpi(text, length))
        return;
    if (!closes_redraw) output_show_line(output, rank, stream, text, length);
    else if (output->bar_rank == rank && output->bar_stream == stream) output_finish_bar(output);
}

static void end_redraw(struct output *output, int rank, enum output_stream stream, const char *text, size_t length)
{
    output->rank[rank].source[stream].after_return = true;
    if (has_text(text, length)) output_show_redraw(output, rank, stream, text, length);
}

/* Shows the units that end within text[from..length). Returns the place where the unfinished unit starts. */
static size_t cut(struct output *output, int rank, enum output_stream stream, const char *text, size_t from,
                  size_t length)
{
    size_t start = 0;
    for (size_t at = from; at < length; at++) {
        if (text[at] == '\n') end_line(output, rank, stream, text + start, at - start);
        else if (text[at] == '\r') end_redraw(output, rank, stream, text + start, at - start);
        else continue;
        start = at + 1;
    }
    return start;
}

/* Keeps the unfinished unit. A line longer than OUTPUT_LONGEST_LINE is shown in parts. */
static void keep(struct output *output, int rank, enum output_stream stream, const char *text, size_t length)
{
    struct output_source *source = &output->rank[rank].source[stream];
    source->undrawn = source->undrawn || length > 0;
    if (!length) return;
    if (source->length + length > OUTPUT_LONGEST_LINE) {
        end_line(output, rank, stream, source->text, source->length);
        source->length = 0;
    }
    if (source->length + length > source->capacity) {
        size_t capacity = 2 * (source->length + length);
        char *grown = realloc(source->text, capacity);
        if (!grown) return; /* if memory is out, only output is lost */
        source->text = grown;
        source->capacity = capacity;
    }
    memcpy(source->text + source->length, text, length);
    source->length += length;
}

/* Notes that a file cannot be written any more. The output is still shown. */
static void give_up_file(struct output *output, int rank, enum output_stream stream, int error)
{
    struct output_source *source = &output->rank[rank].source[stream];
    close(source->file);
    source->file = -2;
    if (!output->incomplete)
        output_say(output, "--output-filename %s: the %s of rank %d cannot be written: %s", output->folder,
                   stream == OUTPUT_STDOUT ? "stdout" : "stderr", rank, strerror(error));
    output->incomplete = true;
}

static void write_file(struct output *output, int rank, enum output_stream stream, const char *bytes, size_t length)
{
    const struct output_source *source = &output->rank[rank].source[stream];
    while (source->file >= 0 && length) {
        ssize_t written = write(source->file, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            give_up_file(output, rank, stream, written ? errno : ENOSPC);
            return;
        }
        bytes += written;
        length -= (size_t)written;
    }
}

void output_take(struct output *output, int rank, enum output_stream stream, const char *bytes, size_t length)
{
    struct output_source *source = &output->rank[rank].source[stream];
    write_file(output, rank, stream, bytes, length);
    if (!source->length) { /* the usual case: complete lines, which are cut without copying */
        size_t start = cut(output, rank, stream, bytes, 0, length);
        keep(output, rank, stream, bytes + start, length - start);
        return;
    }
    size_t first = 0;
    while (first < length && bytes[first] != '\n' && bytes[first] != '\r') first++;
    if (first == length) {
        keep(output, rank, stream, bytes, length);
        return;
    }
    keep(output, rank, stream, bytes, first + 1); /* completes the unfinished unit */
    cut(output, rank, stream, source->text, source->length - 1, source->length);
    source->length = 0;
    source->undrawn = false;
    size_t start = cut(output, rank, stream, bytes + first + 1, 0, length - first - 1);
    keep(output, rank, stream, bytes + first + 1 + start, length - first - 1 - start);
}

void output_end_rank(struct output *output, int rank)
{
    for (enum output_stream stream = OUTPUT_STDOUT; stream <= OUTPUT_STDERR; stream++) {
        struct output_source *source = &output->rank[rank].source[stream];
        if (source->length) end_line(output, rank, stream, source->text, source->length);
        else if (output->bar_rank == rank && output->bar_stream == stream) output_finish_bar(output);
        source->length = 0;
        source->undrawn = false;
    }
}

static struct output_source *undrawn_source(const struct output *output, int *rank, enum output_stream *stream)
{
    if (output->place == OUTPUT_FILE) return NULL;
    for (*rank = 0; *rank < output->ranks; ++*rank)
        for (*stream = OUTPUT_STDOUT; *stream <= OUTPUT_STDERR; ++*stream) {
            struct output_source *source = &output->rank[*rank].source[*stream];
            if (source->undrawn) return source;
        }
    return NULL;
}

bool output_undrawn(const struct output *output)
{
    int rank;
    enum output_stream stream;
    return undrawn_source(output, &rank, &stream);
}

void output_idle(struct output *output)
{
    int rank;
    enum output_stream stream;
    for (struct output_source *source; (source = undrawn_source(output, &rank, &stream));) {
        output_show_redraw(output, rank, stream, source->text, source->length);
        source->undrawn = false;
    }
}
