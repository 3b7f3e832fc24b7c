/* The progress of a training, in the format of Keras 3 (keras/src/utils/progbar.py): a bar that is redrawn in a
 * terminal or a notebook, a line per epoch in a log. */
#include "show/show.h"
#include "core/clock.h"
#include "show/display.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CELLS            20
#define TERMINAL_SECONDS 0.05
#define NOTEBOOK_SECONDS 0.2 /* each redraw is a message */

/* Whether this process's output is shown in a notebook: KOLO_DISPLAY is set, and stdout is not a regular file. */
static bool in_notebook(void)
{
    struct stat info;
    return kolo_display_expected() && !(fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode));
}

/* ------------------------------------------------------------------------------------------ a line */

/* A line that is being composed: its text, and the columns that it takes, at most `limit`. */
typedef struct line {
    char text[2048];
    size_t length;
    int columns, limit;
    bool colours;
} line;

static void add_raw(line *l, const char *bytes, size_t count)
{
    if (count >= sizeof l->text - 64 - l->length) return; /* 64: reserved for the end of the line */
    memcpy(l->text + l->length, bytes, count);
    l->length += count;
}

/* Adds UTF-8 characters until the columns are full; never cuts a character of several bytes. */
static void add_text(line *l, const char *text)
{
    while (*text && l->columns < l->limit) {
        size_t bytes = 1;
        while (((unsigned char)text[bytes] & 0xc0) == 0x80) bytes++;
        add_raw(l, text, bytes);
        l->columns++;
        text += bytes;
    }
}

__attribute__((format(printf, 2, 3))) static void add(line *l, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add_text(l, text);
}

static void colour(line *l, const char *code)
{
    if (l->colours) add_raw(l, code, strlen(code));
}

static void add_bold(line *l, const char *text)
{
    colour(l, "\033[1m");
    add_text(l, text);
    colour(l, "\033[0m");
}

/* ------------------------------------------------------------------------------------------ Keras's format */

static void add_counts(line *l, int done, int steps)
{
    char counts[32];
    int digits = snprintf(counts, sizeof counts, "%d", steps);
    snprintf(counts, sizeof counts, "%*d/%d", digits, done, steps);
    add_bold(l, counts);
}

static void add_bar(line *l, int done, int steps)
{
    int full = steps > 0 ? (int)((double)CELLS * done / steps) : CELLS;
    add(l, " ");
    colour(l, "\033[32m");
    for (int cell = 0; cell < CELLS; cell++) {
        if (cell == full) colour(l, "\033[37m");
        add_text(l, l->colours || cell < full ? "━" : "─"); /* colours, or another character for the rest */
    }
    colour(l, "\033[0m");
}

static void add_step_time(line *l, double seconds)
{
    if (seconds >= 1 || seconds <= 0) add(l, " %.0fs/step", seconds);
    else if (seconds >= 1e-3) add(l, " %.0fms/step", seconds * 1e3);
    else add(l, " %.0fus/step", seconds * 1e6);
}

static void add_time_left(line *l, double seconds)
{
    char text[32];
    long left = (long)fmin(seconds, 1e9);
    if (left > 3600) snprintf(text, sizeof text, " %ld:%02ld:%02ld", left / 3600, left % 3600 / 60, left % 60);
    else if (left > 60) snprintf(text, sizeof text, " %ld:%02ld", left / 60, left % 60);
    else snprintf(text, sizeof text, " %lds", left);
    add_bold(l, text);
}

const char *kolo_measure_text(const kolo_measure *measure)
{
    double size = fabs(measure->value);
    if (isnan(measure->value)) return kolo_phrase("%s: nan", measure->name);
    return kolo_phrase((size > 1e-3 && size < 1e8) || isinf(size) ? "%s: %.4f" : "%s: %.4e", measure->name,
                       measure->value);
}

static void add_measures(line *l, const kolo_measure *measures, int count)
{
    for (int i = 0; i < count; i++) add(l, " - %s", kolo_measure_text(&measures[i]));
}

/* ------------------------------------------------------------------------------------------ where it goes */

static void print(const char *text, size_t length)
{
    fwrite(text, 1, length, stdout);
    fflush(stdout);
}

/* Whether output goes to a terminal. A rank's stdout is a pseudo-terminal of kolorun, and KOLORUN_OUTPUT says where
 * kolorun's output goes. */
static bool on_terminal(void)
{
    const char *leads_to = getenv("KOLORUN_OUTPUT");
    return isatty(STDOUT_FILENO) && !(leads_to && *leads_to && strcmp(leads_to, "terminal") != 0);
}

static bool terminal_colours(void)
{
    const char *terminal = getenv("TERM"), *none = getenv("NO_COLOR");
    return on_terminal() && terminal && strcmp(terminal, "dumb") != 0 && !(none && *none);
}

/* The terminal's columns less one: a full last column would wrap, and "\r" would then redraw only half of the line. */
static int room(void)
{
    struct winsize size;
    if (!on_terminal()) return 1000;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
    return size.ws_col > 1 ? size.ws_col - 1 : 1;
}

static line new_line(const kolo_progress *progress, int limit)
{
    line l = {.limit = limit, .colours = progress->colours};
    if (progress->width > 0) add_raw(&l, "\r", 1);
    return l;
}

/* Writes the line, with blanks over the rest of a longer previous one. `last`: ends the line. */
static void finish(kolo_progress *progress, line *l, bool last)
{
    int columns = l->columns;
    while (progress->width > l->columns && l->length < sizeof l->text - 2) {
        l->text[l->length++] = ' ';
        l->columns++;
    }
    if (last) l->text[l->length++] = '\n';
    print(l->text, l->length);
    progress->width = last ? 0 : columns;
}

/* ------------------------------------------------------------------------------------------ the calls */

void kolo_progress_begin(kolo_progress *progress, int verbose, int epochs, int steps)
{
    bool notebook = in_notebook(), terminal = on_terminal();
    if (verbose == 0) verbose = notebook || terminal ? 1 : 2;
    if (verbose < 0 || kolo_rank() != 0) verbose = 0;
    *progress = (kolo_progress){.verbose = verbose > 2 ? 2 : verbose,
                                .epochs = epochs,
                                .steps = steps,
                                .redraws = notebook || terminal,
                                .colours = !notebook && terminal_colours(),
                                .interval = notebook ? NOTEBOOK_SECONDS : TERMINAL_SECONDS};
    progress->started = kolo_now();
}

void kolo_progress_epoch(kolo_progress *progress, int epoch, int done)
{
    char text[64];
    kolo_progress_break(progress);
    progress->started = kolo_now();
    progress->first = progress->drawn = 0;
    progress->before = done;
    if (!progress->verbose || progress->epochs <= 1) return;
    print(text, (size_t)snprintf(text, sizeof text, "Epoch %d/%d\n", epoch + 1, progress->epochs));
}

void kolo_progress_say(kolo_progress *progress, const char *text)
{
    if (!progress->verbose) return;
    print(text, strlen(text));
    print("\n", 1);
}

void kolo_progress_nothing(kolo_progress *progress, int done)
{
    char text[100];
    if (!progress->verbose) return;
    print(text,
          (size_t)snprintf(text, sizeof text, "Nothing to train: epochs wanted %d, done %d\n", progress->epochs, done));
}

/* Seconds per step. As in Keras, the first step, which includes preparation, is left out as soon as there is a
 * second. */
static double step_time(kolo_progress *progress, int done, double now)
{
    done -= progress->before;
    if (done < 1) return 0;
    double seconds =
        progress->first > 0 && done > 1 ? (now - progress->first) / (done - 1) : (now - progress->started) / done;
    if (progress->first <= 0) progress->first = now;
    return seconds;
}

void kolo_progress_step(kolo_progress *progress, int done, const kolo_measure *measures, int count)
{
    if (progress->verbose != 1 || !progress->redraws) return;
    double now = kolo_now(), step = step_time(progress, done, now);
    if (now - progress->drawn < progress->interval && done < progress->steps)
        return; /* the last step is always drawn: it stays during validation */
    progress->drawn = now;
    line l = new_line(progress, room());
    add_counts(&l, done, progress->steps);
    add_bar(&l, done, progress->steps);
    add_time_left(&l, step * (progress->steps - done));
    add_step_time(&l, step);
    add_measures(&l, measures, count);
    finish(progress, &l, false);
}

void kolo_progress_end(kolo_progress *progress, int done, double seconds, const kolo_measure *measures, int count)
{
    char elapsed[32];
    if (!progress->verbose) return;
    bool bar = progress->verbose == 1;
    line l = new_line(progress, 2000);
    if (bar) add_counts(&l, done, progress->steps);
    else add(&l, "%d/%d - ", done, progress->steps);
    if (bar) add_bar(&l, done, progress->steps);
    snprintf(elapsed, sizeof elapsed, bar ? " %.0fs" : "%.0fs", seconds);
    if (bar) add_bold(&l, elapsed);
    else add(&l, "%s -", elapsed);
    add_step_time(&l, done > 0 ? seconds / done : 0);
    add_measures(&l, measures, count);
    finish(progress, &l, true);
}

void kolo_progress_break(kolo_progress *progress)
{
    if (progress->width > 0) print("\n", 1);
    progress->width = 0;
}
