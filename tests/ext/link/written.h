/* A JSON file for a test, and the sentence of the last failure. */
#ifndef KOLO_TESTS_LINK_WRITTEN_H
#define KOLO_TESTS_LINK_WRITTEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes `text`, with ' for ", and opens it. */
static inline kolo_link_model *open_text(const char *text)
{
    char path[] = "/tmp/kolo-link-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    for (; *text; text++) fputc(*text == '\'' ? '"' : *text, file);
    fclose(file);
    kolo_link_model *model = kolo_link_model_open(path);
    unlink(path);
    return model;
}

static inline void failed_with(const char *words)
{
    const char *text = kolo_last_error().text;
    if (!strstr(text, words)) fail_msg("wanted a sentence with \"%s\", got \"%s\"", words, text);
    kolo_clear_error();
}

/* Holds a number to another one within a share of it. */
static inline void is_near(double got, double wanted, double share)
{
    if (!(fabs(got - wanted) <= share * fabs(wanted)))
        fail_msg("wanted %.9g within %g %%, got %.9g", wanted, 100 * share, got);
}

#endif
