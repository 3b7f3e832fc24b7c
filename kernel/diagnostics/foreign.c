/* Words and characters that are no C, and what to write instead. */
#include "diagnostics/hints.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *words; /* separated by blanks */
    const char *say;
} languages[] = {
    {"cout cerr", "this is C++; C prints with printf: printf(\"%d\\n\", x);"},
    {"cin", "this is C++; C reads with scanf: scanf(\"%d\", &x);"},
    {"endl", "this is C++; in C a line ends with \"\\n\" in the string"},
    {"std", "this is C++; C's names have no std:: before them"},
    {"using namespace", "this is C++; C has no namespaces: leave the line out"},
    {"class", "C has no classes; struct holds data, and functions take a pointer to it"},
    {"new", "C has no new; malloc allocates memory: int *p = malloc(n * sizeof *p);"},
    {"delete", "C has no delete; free(p) releases memory from malloc"},
    {"nil null None Null", "C's null pointer is NULL (#include <stddef.h>)"},
    {"template", "C has no templates; _Generic and macros are the closest"},
    {"String", "C has no String; a string is char s[] = \"abc\"; or const char *s = \"abc\";"},
    {"string str", "C has no type for strings; a string is char s[] = \"abc\"; or const char *s = \"abc\";"},
    {"boolean Boolean", "C's type for true and false is bool (#include <stdbool.h>)"},
    {"byte", "C's type for a byte is unsigned char, or uint8_t (#include <stdint.h>)"},
    {"Integer", "C's type for whole numbers is int"},
    {"var let val", "C names the type of a variable: int x = 3;"},
    {"def function fn func fun sub proc", "a function in C begins with the type of its result: int name(int x) { … }"},
    {"lambda", "C has no lambdas; define a function and pass its name"},
    {"print println puts_line echo", "C prints with printf: printf(\"%d\\n\", x); (#include <stdio.h>)"},
    {"Console System console", "C prints with printf: printf(\"%d\\n\", x); (#include <stdio.h>)"},
    {"input raw_input readline", "C reads with scanf or fgets: scanf(\"%d\", &x); (#include <stdio.h>)"},
    {"gets", "gets is no longer part of C, since it writes beyond its array; fgets(s, sizeof s, stdin) reads a line"},
    {"help man", "NAME? shows help, as in printf?"},
    {"quit", "the Kernel menu of JupyterLab ends the session; %restart starts the process of the cells again"},
    {"len", "C has no len; strlen(s) counts a string's characters, sizeof a / sizeof *a an array's elements"},
    {"range", "C counts with for (int i = 0; i < n; i++) { … }"},
    {"foreach", "C counts with for (int i = 0; i < n; i++) { … }"},
    {"True", "C's true is 1, or true with #include <stdbool.h>"},
    {"False", "C's false is 0, or false with #include <stdbool.h>"},
    {"elif elsif elseif", "C writes else if (…)"},
    {"then", "C has no then: if (condition) statement"},
    {"unless until", "C has if (!…) and while (!…) for this"},
    {"pass", "an empty statement in C is ; or { }"},
    {"end endif fi done esac", "in C a block is between { and }"},
    {"and", "C writes && for and"},
    {"or", "C writes || for or"},
    {"not", "C writes ! for not"},
    {"xor", "C writes ^ for xor of bits, != for xor of conditions"},
    {"mod", "C writes % for the remainder of a division"},
    {"is", "C compares with =="},
    {"in", "C has no in; for (int i = 0; i < n; i++) goes through an array"},
    {"import from require", "C includes a header with #include <stdio.h>"},
    {"try catch except throw finally", "C has no exceptions; functions return a status, and callers test it"},
    {"public private protected", "C has no access specifiers; static keeps a name private to its file"},
    {"yield async await", "C has no coroutines"},
    {"self this", "C has no methods; functions take a pointer to the struct"},
    {"vector list dict tuple set map", "C has arrays and structs: int a[10]; or struct pair { int key, value; };"},
    {"to_string toString", "C writes numbers into a string with snprintf"},
    {"auto", "auto takes its type from the value only in C23: %cflags -std=c23 turns it on, or write the type"},
    {"constexpr", "constexpr came with C23: %cflags -std=c23 turns it on, or write const"},
    {"nullptr", "nullptr came with C23: %cflags -std=c23 turns it on; C's null pointer is NULL"},
};

char *foreign_word(const char *word)
{
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        if (word_among(languages[i].words, word)) return copy_of(languages[i].say);
    }
    return NULL;
}

static const struct {
    uint32_t first, last;
    const char *write, *name;
} characters[] = {
    {0x201c, 0x201f, "\"", "a curly quote"},
    {0x00ab, 0x00ab, "\"", "a quote of another script"},
    {0x00bb, 0x00bb, "\"", "a quote of another script"},
    {0x2018, 0x201b, "'", "a curly quote"},
    {0x00b4, 0x00b4, "'", "an accent"},
    {0x0060, 0x0060, "'", "a back quote"},
    {0x2010, 0x2015, "-", "a dash"},
    {0x2212, 0x2212, "-", "a mathematical minus"},
    {0x00d7, 0x00d7, "*", "a multiplication sign"},
    {0x22c5, 0x22c5, "*", "a multiplication dot"},
    {0x00b7, 0x00b7, "*", "a multiplication dot"},
    {0x00f7, 0x00f7, "/", "a division sign"},
    {0x2215, 0x2215, "/", "a division slash"},
    {0x2264, 0x2264, "<=", "a mathematical sign"},
    {0x2265, 0x2265, ">=", "a mathematical sign"},
    {0x2260, 0x2260, "!=", "a mathematical sign"},
    {0x2192, 0x2192, "->", "an arrow"},
    {0x21d2, 0x21d2, "->", "an arrow"},
    {0x2026, 0x2026, "...", "an ellipsis"},
    {0x037e, 0x037e, ";", "a Greek question mark"},
    {0x00ac, 0x00ac, "!", "a logical sign"},
    {0x2227, 0x2227, "&&", "a logical sign"},
    {0x2228, 0x2228, "||", "a logical sign"},
    {0x00a0, 0x00a0, " ", "a non-breaking space"},
    {0x2000, 0x200f, " ", "an unusual space"},
    {0x202f, 0x202f, " ", "a narrow space"},
    {0x3000, 0x3000, " ", "a wide space"},
    {0xfeff, 0xfeff, "", "a byte order mark"},
};

/* "unexpected character <U+201C>" */
char *look_alike(const complaint *c)
{
    const char *code = strstr(c->message, "<U+");
    uint32_t value = code ? (uint32_t)strtoul(code + 3, NULL, 16) : 0;
    if (value >= 0xff01 && value <= 0xff5e)
        return format_text("this is a full-width character that looks like C's; write %c", (char)(value - 0xfee0));
    for (size_t i = 0; value && i < sizeof characters / sizeof *characters; i++) {
        if (value < characters[i].first || value > characters[i].last) continue;
        if (*characters[i].write == ' ') return format_text("this is %s; write an ordinary one", characters[i].name);
        if (!*characters[i].write) return format_text("this is %s; leave it out", characters[i].name);
        return format_text("this is %s; write %s", characters[i].name, characters[i].write);
    }
    return NULL;
}
