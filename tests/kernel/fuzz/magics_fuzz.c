/* Any bytes as a cell with magics: which magic is called with which words, which stretches of C are run, what is asked
 * about. dispatch.c is compiled here, with checks of what they are given in the place of the magics and of C.
 * Read first: magics/magics.h. */
#define run_cell        fuzzed_run_cell
#define run_stretches   fuzzed_run_stretches
#define run_c           fuzzed_run_c
#define answer_question fuzzed_answer_question
#include "magics/dispatch.c"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char *whole; /* the cell that is read */

static void expect(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void check_words(const char *line)
{
    names words = words_of(line);
    size_t size = 0;
    for (size_t i = 0; i < words.count; i++) size += strlen(words.items[i]);
    expect(size <= strcspn(line, "\n"), "words are parts of their line");
    names_free(&words);
}

static result line_magic(session *s, const char *words, const char *name)
{
    (void)s;
    expect(!strchr(words, '\n') && !strcmp(name, "In[1]"), "a line magic gets the rest of its line");
    expect(strstr(whole, words) != NULL, "words stand in the cell");
    check_words(words);
    return strchr(words, '!') ? error_result("Error", "%s", words) : (result){0};
}

static result cell_magic(session *s, const char *words, const char *body, const char *name)
{
    expect(!strncmp(whole + strlen(whole) - strlen(body), body, strlen(body)), "the body is the rest of the cell");
    return line_magic(s, words, name);
}

static const magic few[] = {
    {"lsmagic", "%lsmagic", "", .line = line_magic, .quiet = true},
    {"cd", "%cd FOLDER", "", .line = line_magic, .quiet = true},
    {"time", "%time CODE", "", .line = line_magic, .cell = cell_magic, .quiet = true},
    {"sh", "%%sh", "", .cell = cell_magic},
    {"writefile", "%%writefile FILE", "", .cell = cell_magic},
    {.name = NULL},
};

result run_c(session *s, const char *code, const char *name)
{
    (void)s;
    (void)name;
    expect(strlen(code) <= strlen(whole), "C is a part of the cell");
    return (result){0};
}

result answer_question(session *s, const char *name, int detail)
{
    (void)detail;
    (void)s;
    expect(*name && strlen(name) < strlen(whole), "a question is about a name");
    return (result){0};
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *code = copy_of_bytes((const char *)bytes, size);
    session nobody = {.magics = few};
    whole = code;
    result r = run_cell(&nobody, code, "In[1]");
    expect(!r.failed || (r.name && r.value && *r.value), "an error says what is wrong");
    result_free(&r);
    text_free(&nobody.out.pending); /* what a cell prints has no front to go to */
    check_words(code);
    free(code);
    return 0;
}
