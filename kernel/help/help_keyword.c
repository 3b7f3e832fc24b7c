/* C's own words, a sentence each. See help_page.h. */
#include "help/help_page.h"

#include <string.h>

static const struct {
    const char *word, *form, *about;
} keywords[] = {
    {"if", "if (condition) statement else other",
     "Runs the statement when the condition is not zero, else the other one."},
    {"else", "if (condition) statement else other", "What runs when the condition of the if before it is zero."},
    {"for", "for (begin; condition; step) statement",
     "Runs begin once; then, while the condition is not zero, the statement and the step in turn."},
    {"while", "while (condition) statement", "Runs the statement again and again while the condition is not zero."},
    {"do", "do statement while (condition);", "Runs the statement once, and again while the condition is not zero."},
    {"switch", "switch (number) { case 1: …; break; default: …; }",
     "Goes to the case whose constant is the number, else to default; without a break it goes on into the next case."},
    {"case", "case constant:", "A place in a switch, for one value; the code below it runs on up to a break."},
    {"default", "default:", "The place in a switch for all values that have no case."},
    {"break", "break;", "Leaves the innermost loop or switch."},
    {"continue", "continue;", "Goes on with the next round of the innermost loop."},
    {"goto", "goto label;", "Goes on at the label of the same function."},
    {"return", "return value;", "Ends the function, with that value as its result."},
    {"sizeof", "sizeof expression, sizeof(type)",
     "The size in bytes, a size_t; of an array all of it, of a pointer only the pointer. The expression is not run."},
    {"struct", "struct tag { type member; … };", "A type with members that lie one behind the other in memory."},
    {"union", "union tag { type member; … };", "A type whose members share the same memory: one of them is in use."},
    {"enum", "enum tag { FIRST, SECOND = 5, … };",
     "A type of named whole numbers, from 0 on unless they say otherwise."},
    {"typedef", "typedef type name;", "Gives a type another name."},
    {"int", "int", "A whole number with a sign: here 4 bytes, from -2147483648 to 2147483647."},
    {"char", "char", "One byte: a character or a small number."},
    {"short", "short", "A whole number with a sign: here 2 bytes, from -32768 to 32767."},
    {"long", "long", "A whole number with a sign: here 8 bytes, as is long long."},
    {"float", "float", "A number with a point: here 4 bytes, about 7 digits."},
    {"double", "double", "A number with a point: here 8 bytes, about 16 digits."},
    {"signed", "signed type", "Of a whole number: it may be negative."},
    {"unsigned", "unsigned type",
     "Of a whole number: it is never negative, and starts at 0 again after its largest value."},
    {"void", "void", "No value: of a function that returns none or takes none; a void * points to anything."},
    {"_Bool", "_Bool, bool with <stdbool.h>", "A truth value: 0 or 1."},
    {"_Complex", "double _Complex, complex with <complex.h>", "A complex number: real and imaginary part."},
    {"const", "const type name", "Must not be changed through this name."},
    {"volatile", "volatile type name", "May change at any time: each use reads or writes memory."},
    {"restrict", "type *restrict name", "A promise: what this pointer reaches is reached through no other."},
    {"static", "static declaration",
     "In a function: the variable keeps its value between calls. At file scope: the name is for this file alone."},
    {"extern", "extern type name;", "Declares what is defined elsewhere."},
    {"auto", "auto type name", "A variable that lives as long as its block: what variables in functions are anyway."},
    {"register", "register type name", "A variable whose address is never taken."},
    {"inline", "inline function", "A function that the compiler may put in the place of its calls."},
    {"_Noreturn", "_Noreturn function", "A function that never returns."},
    {"_Alignas", "_Alignas(bytes) type name", "Wants an address that is a multiple of so many bytes."},
    {"_Alignof", "_Alignof(type)", "Of how many bytes the addresses of this type are multiples."},
    {"_Atomic", "_Atomic type name", "Threads may read and write it at once: each does so as a whole."},
    {"_Generic", "_Generic(expression, int: a, double: b, default: c)", "Chooses by the type of the expression."},
    {"_Static_assert", "_Static_assert(condition, \"what is wrong\");",
     "An error when the condition, a constant, is zero while it is compiled."},
    {"_Thread_local", "_Thread_local type name", "A variable of which each thread has its own."},
    {"typeof", "typeof(expression) name", "The type of the expression, which is not run."},
    {"__func__", "__func__", "The name of the function it stands in, a string."},
};

char *describe_keyword(const char *word)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strcmp(keywords[i].word, word)) continue;
        page p = {.signature = copy_of(keywords[i].form), .comment = copy_of(keywords[i].about)};
        text_addf(&p.facts, "%s is a keyword of C\n", word);
        return page_text(&p);
    }
    return NULL;
}
