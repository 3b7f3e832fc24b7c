#include "cells/conditionals.h"
#include "cells/lexer.h"

#include <clang-c/Index.h>
#include <stdlib.h>
#include <string.h>

static bool conditional(const char *source, const token *t, int *depth)
{
    const char *word = directive_word(source, t);
    bool opens = !strncmp(word, "if", 2), closes = !strncmp(word, "endif", 5);
    *depth += opens - closes;
    return opens || closes || !strncmp(word, "el", 2);
}

static size_t offset_of(CXSourceLocation location)
{
    unsigned offset;
    clang_getFileLocation(location, NULL, NULL, NULL, &offset);
    return offset;
}

/* clang reports a skipped range from the '#' of the directive that opens it to the end of the one that closes it. */
static void blank_skipped(char *copy, const text *whole, size_t head, const names *flags)
{
    static const char path[] = "/kolo-conditionals.c";
    struct CXUnsavedFile file = {path, whole->data, whole->size};
    CXIndex index = clang_createIndex(0, 0);
    CXTranslationUnit unit = NULL;
    clang_parseTranslationUnit2(index, path, (const char *const *)flags->items, (int)flags->count, &file, 1,
                                CXTranslationUnit_DetailedPreprocessingRecord | CXTranslationUnit_KeepGoing, &unit);
    CXSourceRangeList *ranges = unit ? clang_getSkippedRanges(unit, clang_getFile(unit, path)) : NULL;
    for (unsigned i = 0; ranges && i < ranges->count; i++) {
        size_t begin = offset_of(clang_getRangeStart(ranges->ranges[i]));
        size_t end = offset_of(clang_getRangeEnd(ranges->ranges[i]));
        if (begin >= head) blank_out(copy, begin - head, end - head);
    }
    if (ranges) clang_disposeSourceRangeList(ranges);
    if (unit) clang_disposeTranslationUnit(unit);
    clang_disposeIndex(index);
}

char *without_conditionals(const char *source, const char *prefix, const symbols *session, const names *flags)
{
    token_list tokens = tokens_of(source);
    int depth = 0;
    bool any = false;
    for (size_t i = 0; i < tokens.count; i++) any |= conditional(source, &tokens.items[i], &depth);
    char *copy = NULL;
    if (any && depth == 0) {
        copy = copy_of(source);
        text whole = {0};
        text_add(&whole, prefix);
        symbols_add_macros(session, &whole);
        text_add(&whole, "\n");
        size_t head = whole.size;
        text_add(&whole, source);
        blank_skipped(copy, &whole, head, flags);
        for (size_t i = 0; i < tokens.count; i++) {
            if (conditional(source, &tokens.items[i], &depth))
                blank_out(copy, tokens.items[i].begin, tokens.items[i].end);
        }
        text_free(&whole);
    }
    tokens_free(&tokens);
    return copy;
}
