/* The table of hints. In what is said, {1} and {2} are what clang's message has in quotes, {word} and {before} the
 * token at the caret and the one before it, {fix} what clang would insert. See hints.h. */
#define _GNU_SOURCE
#include "diagnostics/hints.h"
#include "diagnostics/standard.h"
#include "diagnostics/nearest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

char *quoted(const char *message, unsigned which)
{
    const char *from = message;
    for (; (from = strchr(from, '\'')) && which > 1; which--) {
        from = strchr(from + 1, '\'');
        if (!from) return NULL;
        from++;
    }
    const char *to = from ? strchr(from + 1, '\'') : NULL;
    return to ? copy_of_bytes(from + 1, (size_t)(to - from) - 1) : NULL;
}

char *token_text(const complaint *c, long at)
{
    long i = (long)c->here + at;
    if (i < 0 || i >= (long)c->tokens->count) return copy_of("");
    const token *t = &c->tokens->items[i];
    return copy_of_bytes(c->source + t->begin, t->end - t->begin);
}

bool token_here(const complaint *c, long at, const char *spelling)
{
    long i = (long)c->here + at;
    return i >= 0 && i < (long)c->tokens->count && token_is(c->source, &c->tokens->items[i], spelling);
}

static bool begins(const char *message, const char *with)
{
    return !strncmp(message, with, strlen(with));
}

static char *about_format(const complaint *c)
{
    char *wanted = quoted(c->message, 1), *got = quoted(c->message, 2), *hint = NULL;
    size_t size = wanted ? strlen(wanted) : 0;
    bool address = size > 2 && got && !strcmp(wanted + size - 1, "*") && !strncmp(wanted, got, strlen(got));
    char *word = token_text(c, 0);
    if (address && strcmp(wanted, "char *")) hint = format_text("scanf stores through an address: write &%s", word);
    else if (size && !strcmp(wanted, "char *")) hint = copy_of("%s prints a string, and this value is not a string");
    else if (*c->insert == '%' && got) hint = format_text("the format for '%s' is %s", got, c->insert);
    free(word);
    free(wanted);
    free(got);
    return hint;
}

static char *about_array_assignment(const complaint *c)
{
    return copy_of(strstr(c->message, "'char[")
                       ? "a string is copied into an array with strcpy or snprintf, not with '='"
                       : "an array is copied element by element, or with memcpy, not with '='");
}

static char *about_pointer_to_number(const complaint *c)
{
    char *wanted = quoted(c->message, 1), *got = quoted(c->message, 2);
    bool character = wanted && strstr(wanted, "char") && got && strstr(got, "char[");
    char *hint =
        character
            ? copy_of("a char holds one character, 'a'; a string is char s[] = \"abc\"; or const char *s = \"abc\";")
        : got && strstr(got, "char[")
            ? copy_of("a string is not a number; atoi(s) and strtod(s, NULL) convert one")
            : copy_of("this is an address, but a number is needed here; *p is the value that p points to");
    free(wanted);
    free(got);
    return hint;
}

static char *about_number_to_pointer(const complaint *c)
{
    return copy_of(strstr(c->message, "char *'") ? "a string in double quotes is needed here; &x is the address of x"
                                                 : "an address is needed here; &x is the address of x");
}

static char *about_array_end(const complaint *c)
{
    const char *type = strstr(c->message, "has type '"), *bracket = type ? strchr(type, '[') : NULL;
    long count = bracket ? strtol(bracket + 1, NULL, 10) : 0;
    return count > 0 ? format_text("its %ld elements are [0] to [%ld]", count, count - 1) : NULL;
}

/* The declaration of the function that is called, as its author wrote it. */
static char *about_arguments(const complaint *c)
{
    size_t begin, end;
    if (!call_around(c->source, c->at, 0, &begin, &end)) return NULL;
    entity *e = symbols_find_bytes(c->session, 'o', c->source + begin, end - begin);
    if (e && e->kind == ENTITY_FUNCTION && e->shown && !strchr(e->shown, '\n'))
        return format_text("it is declared as %s", e->shown);
    return NULL;
}

static char *about_members(const complaint *c)
{
    char *type = quoted(c->message, 2), *tag = type ? strrchr(type, ' ') : NULL;
    const char *name = tag ? tag + 1 : type ? type : "";
    entity *e = symbols_find_bytes(c->session, tag ? 't' : 'o', name, strlen(name));
    const char *members = e && e->shown ? strchr(e->shown, '{') : NULL;
    const char *close = members ? strrchr(members, '}') : NULL;
    char *hint = close && !memchr(members, '\n', (size_t)(close - members))
                     ? format_text("its members are %.*s", (int)(close - members) + 1, members)
                     : NULL;
    free(type);
    return hint;
}

static char *about_operands(const complaint *c)
{
    char *left = quoted(c->message, 1), *right = quoted(c->message, 2), *hint = NULL;
    bool texts = left && right && strstr(left, "char") && strstr(right, "char");
    bool real = left && right && (strstr(left, "double") || strstr(left, "float") || strstr(right, "double"));
    bool record = left && right && (begins(left, "struct ") || begins(right, "struct "));
    if (texts && token_here(c, 0, "+")) hint = copy_of("strings are joined with strcat or snprintf, not with '+'");
    else if (real && token_here(c, 0, "%"))
        hint = copy_of("% works on whole numbers only; use fmod(a, b) from <math.h> for others");
    else if (real && token_here(c, 0, "^"))
        hint = copy_of("^ combines bits; pow(a, b) from <math.h> raises to a power");
    else if (record) hint = copy_of("structs cannot be compared or added as a whole: do it member by member");
    free(left);
    free(right);
    return hint;
}

/* `list.length`, where list is an array or a number. */
static char *about_base(const complaint *c)
{
    char *type = quoted(c->message, 1), *name = token_text(c, -1), *hint = NULL;
    bool array = type && strchr(type, '['), named = isalpha((unsigned char)*name) || *name == '_';
    if (array && begins(type, "char["))
        hint = format_text("an array has no members; strlen(%s) counts the characters of a string", named ? name : "s");
    else if (array && named)
        hint = format_text("an array has no members; sizeof %s / sizeof *%s is the number of its elements", name, name);
    else if (type) hint = format_text("only structs and unions have members, and this is of type '%s'", type);
    free(type);
    free(name);
    return hint;
}

static char *about_indirection(const complaint *c)
{
    if (token_here(c, -1, "*")) return copy_of("C has no operator **: pow(a, b) from <math.h> raises to a power");
    return copy_of("* needs a pointer, and this value is not a pointer");
}

static char *about_expression(const complaint *c)
{
    static const struct {
        const char *word, *say;
    } table[] = {
        {"else", "an else must follow the if's single statement, or the '}' of its block"},
        {"\\", "a backslash may only stand at the end of a line or in a string"},
        {"=", "the left of '=' or one of the sides of '==' is missing"},
        {"===", "C compares with =="},
        {"@", "C does not use the character @"},
        {"$", "names in C begin with a letter or _"},
        {"[", "C has no such lists; an array is declared with its values: int a[] = {1, 2, 3};"},
        {"]", "something is missing before this: a value, or an index"},
        {")", "something is missing before this: a value, or an operand"},
        {"}", "something is missing before this: a statement, or an operand"},
        {";", "something is missing before this: a value, or an operand"},
        {"int", "this is a type, but a value is needed here; sizeof(int) and (int)x accept a type"},
        {"if", "this is a statement, but a value is needed here; a ? b : c chooses between two values"},
    };
    char *before = token_here(c, -1, "%") ? token_text(c, -2) : copy_of("");
    bool percent = isdigit((unsigned char)*before);
    free(before);
    if (percent) return copy_of("% is the remainder of a division; C has no percent sign: 55 % is written 55 or 0.55");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (token_here(c, 0, table[i].word)) return copy_of(table[i].say);
    }
    if (token_here(c, 0, "{") && token_here(c, -1, "="))
        return copy_of("values in braces can only be given where the array or struct is declared; later, set each "
                       "element by itself: a[0] = 1;");
    if (token_here(c, 0, ":") && token_here(c, -1, ":"))
        return copy_of("this is C++; C's names have no std:: before them");
    if (token_here(c, 0, ">") && token_here(c, -1, "=")) return copy_of("C writes >= with the = last");
    if (token_here(c, 0, "<") && token_here(c, -1, "=")) return copy_of("C writes <= with the = last");
    if (token_here(c, 0, ">") && token_here(c, -1, "<")) return copy_of("C writes != for unequal");
    char *word = token_text(c, 0), *hint = foreign_word(word);
    free(word);
    return hint;
}

static char *about_identifier(const complaint *c)
{
    if (token_here(c, 0, "[")) return copy_of("write the brackets of an array after its name: int a[10];");
    if (token_here(c, -1, "++") || token_here(c, -1, "--")) return NULL;
    char *word = token_text(c, 0), *hint = NULL;
    char *before = token_text(c, -2);
    bool comma = token_here(c, -1, ",") && isdigit((unsigned char)*before);
    if (isdigit((unsigned char)*word) && comma)
        hint = format_text("numbers have a decimal point, not a comma: %s.%s", before, word);
    else if (isdigit((unsigned char)*word)) hint = copy_of("a name cannot begin with a digit");
    free(before);
    free(word);
    return hint;
}

static char *about_parenthesis_after(const complaint *c)
{
    char *keyword = quoted(c->message, 2);
    char *hint = keyword && !strcmp(keyword, "for") ? copy_of("C counts with for (int i = 0; i < n; i++) { … }")
                 : keyword
                     ? format_text("C writes %s (condition) statement, with parentheses around the condition", keyword)
                     : NULL;
    free(keyword);
    return hint;
}

static char *about_missing_file(const complaint *c)
{
    char *file = quoted(c->message, 1), *hint = NULL;
    static const char *const cplusplus = " iostream string vector map set algorithm fstream sstream cmath cstdio ";
    char *spaced = format_text(" %s ", file ? file : ""), *close = file ? standard_nearest(c->analyser, file) : NULL;
    if (strstr(cplusplus, spaced)) hint = format_text("<%s> is C++'s; C has <stdio.h>, <string.h>, <math.h>", file);
    else if (close) hint = format_text("the nearest is <%s>", close);
    else hint = copy_of("%cflags -IFOLDER adds a folder to search for headers");
    free(close);
    free(spaced);
    free(file);
    return hint;
}

static char *about_directive(const complaint *c)
{
    return copy_of(strstr(c->message, "'import'")
                       ? "C includes a header with #include <stdio.h>"
                       : "a comment begins with //; a line that begins with # is a preprocessor directive");
}

static char *about_definition(const complaint *c)
{
    if (inside_for(c)) return copy_of("the three parts of for (…; …; …) are separated by ';'");
    return copy_of("the name is defined twice in this cell: keep one (a later cell may define it anew)");
}

static char *about_type_missing(const complaint *c)
{
    char *word = token_text(c, token_here(c, -1, "auto") ? -1 : 0), *foreign = foreign_word(word);
    free(word);
    return foreign ? foreign : copy_of("a declaration begins with its type: int x = 3;");
}

typedef struct rule {
    const char *message; /* a part of clang's */
    const char *say;
    char *(*find)(const complaint *c); /* where `say` is NULL */
} rule;

static const rule rules[] = {
    {"expected ';'", NULL, hint_missing_semicolon},
    {"expected '}'", NULL, hint_missing_brace},
    {"expected ')'", NULL, hint_missing_bracket},
    {"expected ']'", NULL, hint_missing_bracket},
    {"expected '(' after '", NULL, about_parenthesis_after},
    {"expected '(' after", "put the condition in parentheses", NULL},
    {"expected expression", NULL, about_expression},
    {"expected identifier or '('", NULL, about_identifier},
    {"expected parameter declarator", "each parameter has a type and a name: int add(int a, int b)", NULL},
    {"expected function body",
     "after a function's (…) comes its body in braces, { … }, or a ';' if it is only declared", NULL},
    {"function definition is not allowed here", "a function cannot stand inside another: is a '}' missing above?",
     NULL},
    {"extraneous closing brace", "no open '{' matches this '}': remove it, or add the missing '{' above", NULL},
    {"missing terminating '\"'", "the string that begins here is not closed: a \" is missing", NULL},
    {"missing terminating '", "the character that begins here is not closed: a ' is missing", NULL},
    {"unterminated /* comment", "the comment that begins here is not closed: a */ is missing", NULL},
    {"unterminated conditional directive", "an #endif is missing", NULL},
    {"<U+", NULL, look_alike},
    {"invalid preprocessing directive", NULL, about_directive},
    {"expected \"FILENAME\" or <FILENAME>", "write a header's name in <> or in quotes: #include <stdio.h>", NULL},
    {"expected '>'", "write a header's name in <>: #include <stdio.h>", NULL},
    {"file not found", NULL, about_missing_file},
    {"multi-character character constant", "single quotes hold one character; write a string in double quotes: \"abc\"",
     NULL},
    {"character constant too long", "single quotes hold one character; write a string in double quotes: \"abc\"", NULL},
    {"invalid suffix '.", "a number has one decimal point", NULL},
    {"invalid suffix '", "a name cannot begin with a digit, and a number cannot end with these letters", NULL},
    {"result of an assignment as a condition", "'=' stores a value; '==' compares", NULL},
    {"equality comparison result unused", "'==' compares two values, and the result is not used; '=' stores a value",
     NULL},
    {"result unused", "this value is computed but never used", NULL},
    {"expression is not assignable", "only a variable, an element or a member can be on the left of '='; '==' compares",
     NULL},
    {"comparison against a string literal", "strings are compared with strcmp(a, b) == 0 (#include <string.h>)", NULL},
    {"array comparison always", "arrays are compared element by element, strings with strcmp(a, b) == 0", NULL},
    {"comparisons like 'X<=Y<=Z'", "write a < b && b < c", NULL},
    {"is not assignable", NULL, about_array_assignment},
    {"incompatible pointer to integer conversion", NULL, about_pointer_to_number},
    {"incompatible integer to pointer conversion", NULL, about_number_to_pointer},
    {"format specifies type", NULL, about_format},
    {"in octal constant", "a number that begins with 0 is octal, in base 8: leave the 0 out", NULL},
    {"unsigned expression >= 0 is always", "an unsigned number is never below 0: use int if it can be negative", NULL},
    {"unsigned expression < 0 is always", "an unsigned number is never below 0: use int if it can be negative", NULL},
    {"more '%' conversions than data", "the format needs more values than are given", NULL},
    {"data argument not used", "more values are given than the format uses", NULL},
    {"invalid conversion specifier", "%% prints a percent sign", NULL},
    {"incomplete format specifier", "%% prints a percent sign", NULL},
    {"format string is not a string literal", "printf(\"%s\", s) prints any string as it is", NULL},
    {"does not append to the string", "strings are joined with snprintf or strcat, not with '+'", NULL},
    {"non-void function does not return", "every path through the function must return a value", NULL},
    {"should return a value", "the function's type says that it returns a value: write return with one", NULL},
    {"address of stack memory",
     "the variable no longer exists when the function returns: return its value, or memory from malloc", NULL},
    {"past the end of the array", NULL, about_array_end},
    {"before the beginning of the array", "an array's first element is [0]", NULL},
    {"excess elements in", "there are more values than elements; with [] the array gets the right size", NULL},
    {"initializer-string for char array is too long",
     "a string needs one char more than its length, for its null character; "
     "with [] the array gets the right size",
     NULL},
    {"function call, expected", NULL, about_arguments},
    {"function call, at least", NULL, about_arguments},
    {"with const-qualified type", "a const variable cannot be changed after it has been given its value", NULL},
    {"read-only variable is not assignable", "a const variable cannot be changed after it has been given its value",
     NULL},
    {"is uninitialized when", "{1} has no value yet: give it one where it is declared, {1} = 0", NULL},
    {"may be uninitialized",
     "on some paths {1} is used before it has a value: give it one where it is declared, {1} = 0", NULL},
    {"is a pointer; did you mean to use '->'", "access a member through a pointer with ->: p->member", NULL},
    {"is not a pointer; did you mean to use '.'", "access a member of a struct with a dot: s.member", NULL},
    {"no member named", NULL, about_members},
    {"is not a structure or union", NULL, about_base},
    {"indirection requires pointer operand", NULL, about_indirection},
    {"expression of incompatible type 'void'", "the function returns nothing (void), so its call has no value", NULL},
    {"argument type 'void'", "the function returns nothing (void), so its call has no value", NULL},
    {"redefinition of", NULL, about_definition},
    {"must use '", "write {fix}{2}, or give the type a name: typedef struct … name;", NULL},
    {"incomplete type", "the struct is declared but not defined, so its members are not known here", NULL},
    {"incomplete definition", "the struct is declared but not defined, so its members are not known here", NULL},
    {"is not a function or function pointer",
     "only a function can be called; write a[i] for an element, and * for a "
     "product",
     NULL},
    {"subscripted value is not", "only arrays and pointers have elements", NULL},
    {"invalid operands to binary expression", NULL, about_operands},
    {"invalid application of 'sizeof'", "its size is not known here", NULL},
    {"'case' statement not in switch", "a case label must be inside the braces of switch (x) { … }", NULL},
    {"'default' statement not in switch", "default: must be inside the braces of switch (x) { … }", NULL},
    {"'break' statement not in", "break leaves a loop or a switch, and this line is in neither", NULL},
    {"'continue' statement not in", "continue works inside a loop, and this line is not in one", NULL},
    {"type specifier missing", NULL, about_type_missing},
    {"a type specifier is required", NULL, about_type_missing},
    {"'return' with a value stands outside", "a cell shows its last expression when no ';' follows it", NULL},
};

/* {1}, {2}, {word}, {before}, {fix} filled in. */
static char *filled(const complaint *c, const char *say)
{
    text out = {0};
    for (const char *p = say; *p;) {
        char *part = NULL;
        size_t size = 0;
        if (begins(p, "{1}") || begins(p, "{2}")) part = quoted(c->message, (unsigned)(p[1] - '0')), size = 3;
        else if (begins(p, "{word}")) part = token_text(c, 0), size = 6;
        else if (begins(p, "{before}")) part = token_text(c, -1), size = 8;
        else if (begins(p, "{fix}")) part = copy_of(c->insert), size = 5;
        if (size) text_add(&out, part ? part : "");
        else text_add_bytes(&out, p, 1);
        p += size ? size : 1;
        free(part);
    }
    return text_take(&out);
}

/* A macro that ends with ';' causes most errors where it is used. */
static char *about_macro(const complaint *c)
{
    if (!c->macro) return NULL;
    size_t size = strlen(c->macro);
    while (size && isspace((unsigned char)c->macro[size - 1])) size--;
    if (!size || c->macro[size - 1] != ';' || strchr(c->macro, '{')) return NULL;
    return copy_of("the macro's text ends with ';', which is inserted wherever the macro is used: write #define "
                   "without it");
}

char *hint_for(const complaint *c)
{
    char *hint = about_macro(c);
    if (!hint) hint = hint_about_name(c);
    for (size_t i = 0; !hint && i < sizeof rules / sizeof *rules; i++) {
        if (!strstr(c->message, rules[i].message)) continue;
        return rules[i].say ? filled(c, rules[i].say) : rules[i].find(c);
    }
    return hint;
}
