#include "cells/analyser.h"
#include "cells/lexer.h"
#include "diagnostics/standard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *clang_text(CXString string)
{
    const char *c = clang_getCString(string);
    char *copy = copy_of(c ? c : "");
    clang_disposeString(string);
    return copy;
}

void analyser_open(analyser *a, const names *flags, const char *folder)
{
    /* On disk: in memory, libclang would add one more layer of a file system with each parse. */
    CXIndexOptions options = {.Size = sizeof options, .PreambleStoragePath = folder};
    *a = (analyser){.index = clang_createIndexWithOptions(&options), .path = format_text("%s/cell.c", folder)};
    write_whole_file(a->path, "", 0);
    names_add_all(&a->flags, flags);
    names_add(&a->flags, "-fspell-checking"); /* libclang leaves it out unless told */
    names_add(&a->flags, "-ferror-limit=500"); /* diagnose.c has its own, smaller one */
}

static void forget(analyser *a)
{
    if (a->unit) clang_disposeTranslationUnit(a->unit);
    a->unit = NULL;
}

void analyser_close(analyser *a)
{
    forget(a);
    if (a->index) clang_disposeIndex(a->index);
    standard_free(a->standard);
    if (a->path) unlink(a->path);
    free(a->path);
    names_free(&a->flags);
    *a = (analyser){0};
}

static bool parse_anew(analyser *a, struct CXUnsavedFile *file, unsigned options)
{
    forget(a);
    enum CXErrorCode code = clang_parseTranslationUnit2(a->index, a->path, (const char *const *)a->flags.items,
                                                        (int)a->flags.count, file, 1, options, &a->unit);
    if (code != CXError_Success) a->unit = NULL;
    return a->unit != NULL;
}

/* Is anything wrong among the leading includes? A preamble that is kept does not know #line: it tells its own file. */
static bool preamble_complains(const analyser *a)
{
    bool found = false;
    for (unsigned i = 0; i < clang_getNumDiagnostics(a->unit) && !found; i++) {
        CXDiagnostic one = clang_getDiagnostic(a->unit, i);
        CXString name;
        clang_getPresumedLocation(clang_getDiagnosticLocation(one), &name, NULL, NULL);
        const char *told = clang_getCString(name);
        found = told && !strcmp(told, a->path);
        clang_disposeString(name);
        clang_disposeDiagnostic(one);
    }
    return found;
}

bool analyser_parse(analyser *a, const char *source, size_t size)
{
    struct CXUnsavedFile file = {a->path, source, size};
    unsigned keeping = CXTranslationUnit_PrecompiledPreamble | CXTranslationUnit_CreatePreambleOnFirstParse;
    bool parsed = a->unit && !a->plain &&
                  clang_reparseTranslationUnit(a->unit, 1, &file, clang_defaultReparseOptions(a->unit)) == 0;
    if (!parsed) parsed = parse_anew(a, &file, keeping | CXTranslationUnit_KeepGoing);
    a->plain = parsed && preamble_complains(a);
    return a->plain ? parse_anew(a, &file, CXTranslationUnit_KeepGoing) : parsed;
}

bool analyser_has_errors(const analyser *a)
{
    unsigned count = clang_getNumDiagnostics(a->unit);
    for (unsigned i = 0; i < count; i++) {
        CXDiagnostic one = clang_getDiagnostic(a->unit, i);
        enum CXDiagnosticSeverity severity = clang_getDiagnosticSeverity(one);
        clang_disposeDiagnostic(one);
        if (severity >= CXDiagnostic_Error) return true;
    }
    return false;
}

CXCursor analyser_cursor(const analyser *a, size_t offset)
{
    CXFile file = clang_getFile(a->unit, a->path);
    return clang_getCursor(a->unit, clang_getLocationForOffset(a->unit, file, (unsigned)offset));
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 1099511628211u;
}

static uint64_t mix_text(uint64_t hash, CXString string)
{
    char *copy = clang_text(string);
    for (const char *p = copy; *p; p++) hash = mix(hash, (unsigned char)*p);
    free(copy);
    return hash;
}

static uint64_t layout_of(CXType type, uint64_t hash);

static enum CXVisitorResult mix_field(CXCursor field, CXClientData hash)
{
    uint64_t *into = hash;
    *into = mix_text(*into, clang_getCursorSpelling(field));
    *into = mix(*into, (uint64_t)clang_Cursor_getOffsetOfField(field));
    *into = layout_of(clang_getCursorType(field), *into);
    return CXVisit_Continue;
}

static uint64_t layout_of(CXType type, uint64_t hash)
{
    CXType plain = clang_getCanonicalType(type);
    hash = mix(hash, (uint64_t)clang_Type_getSizeOf(plain));
    hash = mix(hash, (uint64_t)plain.kind);
    if (plain.kind == CXType_Record) {
        clang_Type_visitFields(plain, mix_field, &hash);
    } else if (plain.kind == CXType_ConstantArray) {
        hash = layout_of(clang_getArrayElementType(plain), hash);
    } else {
        hash = mix_text(hash, clang_getTypeSpelling(plain));
    }
    return hash;
}

/* "int *[3]", with no name in it that a cell could give another meaning; NULL for others. */
static char *in_own_words(CXType type)
{
    static const char words[] = " char double float int long short signed unsigned void const volatile restrict _Bool "
                                "_Complex _Atomic __int128 ";
    char *spelling = clang_text(clang_getTypeSpelling(clang_getCanonicalType(type)));
    token_list tokens = tokens_of(spelling);
    bool own = !strstr(spelling, "(^");
    for (size_t i = 0; i < tokens.count && own; i++) {
        const token *t = &tokens.items[i];
        char *word = copy_of_bytes(spelling + t->begin, t->end - t->begin);
        own = t->kind != TOKEN_NAME || word_among(words, word);
        free(word);
    }
    tokens_free(&tokens);
    if (own) return spelling;
    free(spelling);
    return NULL;
}

static void take_qualifiers(type_facts *facts, CXType type)
{
    CXType plain = clang_getCanonicalType(type); /* clang writes the elements' qualifiers to the canonical array */
    facts->is_const = clang_isConstQualifiedType(plain);
    facts->is_volatile = clang_isVolatileQualifiedType(plain);
    facts->is_atomic = plain.kind == CXType_Atomic;
}

type_facts facts_of(CXType type)
{
    char *spelling = clang_text(clang_getTypeSpelling(type));
    if (strstr(spelling, "typeof")) { /* of what may be defined anew: its type now */
        free(spelling);
        spelling = clang_text(clang_getTypeSpelling(clang_getCanonicalType(type)));
    }
    type_facts facts = {.spelling = spelling, .layout = layout_of(type, 14695981039346656037u)};
    enum CXTypeKind kind = clang_getCanonicalType(type).kind;
    facts.is_array = kind == CXType_ConstantArray || kind == CXType_IncompleteArray;
    facts.is_function = kind == CXType_FunctionProto || kind == CXType_FunctionNoProto;
    long long size = clang_Type_getSizeOf(type), align = clang_Type_getAlignOf(type);
    facts.size = size > 0 ? (size_t)size : 0;
    facts.align = align > 0 ? (size_t)align : 1;
    take_qualifiers(&facts, type);
    facts.plain = in_own_words(type);
    facts.writable = !strstr(facts.spelling, "(unnamed") && !strstr(facts.spelling, "(anonymous") &&
                     !strstr(facts.spelling, "typeof");
    return facts;
}

bool analyser_type(const analyser *a, size_t offset, type_facts *facts)
{
    CXCursor cursor = analyser_cursor(a, offset);
    CXType type = clang_getCursorType(cursor);
    if (type.kind == CXType_Invalid) return false;
    *facts = facts_of(type);
    return true;
}

static enum CXChildVisitResult take_child(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    (void)parent;
    if (!clang_isExpression(clang_getCursorKind(cursor))) return CXChildVisit_Continue;
    *(CXCursor *)closure = cursor;
    return CXChildVisit_Break;
}

static CXCursor child_of(CXCursor cursor)
{
    CXCursor child = clang_getNullCursor();
    clang_visitChildren(cursor, take_child, &child);
    return child;
}

/* A constant that stands alone is shown by its name, as a value of its enum; in C its type is int. */
static CXType enum_of(CXCursor expression, CXType type)
{
    CXCursor constant = clang_getCursorReferenced(expression);
    bool alone = clang_getCursorKind(expression) == CXCursor_DeclRefExpr &&
                 clang_getCursorKind(constant) == CXCursor_EnumConstantDecl;
    CXType whole = alone ? clang_getCursorType(clang_getCursorSemanticParent(constant)) : type;
    return clang_Type_getSizeOf(whole) <= clang_Type_getSizeOf(type) ? whole : type;
}

value_facts analyser_value(const analyser *a, size_t offset)
{
    value_facts facts = {0};
    CXCursor whole = child_of(analyser_cursor(a, offset));
    while (clang_getCursorKind(whole) == CXCursor_UnexposedExpr) whole = child_of(whole); /* an array made a pointer */
    CXCursor inner = whole;
    while (clang_getCursorKind(inner) == CXCursor_ParenExpr) inner = child_of(inner);
    CXCursor field = clang_getCursorReferenced(inner);
    facts.bit_field = clang_getCursorKind(inner) == CXCursor_MemberRefExpr && clang_Cursor_isBitField(field);
    facts.type = facts.bit_field ? clang_getCursorType(field) : enum_of(inner, clang_getCursorType(whole));
    char *spelling = clang_text(clang_getCursorSpelling(inner));
    bool wide =
        clang_getCursorKind(inner) == CXCursor_StringLiteral && strchr("LuU", spelling[0]) && spelling[1] == '"';
    facts.prefix = wide ? spelling[0] : 0;
    free(spelling);
    return facts;
}

char *constant_of(CXCursor variable)
{
    CXEvalResult found = clang_Cursor_Evaluate(variable);
    if (!found) return NULL;
    CXEvalResultKind kind = clang_EvalResult_getKind(found);
    char *value = NULL;
    enum CXTypeKind type = clang_getCanonicalType(clang_getCursorType(variable)).kind;
    if (kind == CXEval_Int && type != CXType_Pointer) {
        value = clang_EvalResult_isUnsignedInt(found)
                    ? format_text("%lluULL", clang_EvalResult_getAsUnsigned(found))
                    : format_text("(%lldLL - 1)", clang_EvalResult_getAsLongLong(found) + 1);
    } else if (kind == CXEval_Float && (type == CXType_Double || type == CXType_Float)) {
        value = format_text("%a", clang_EvalResult_getAsDouble(found));
        if (!strpbrk(value, "0123456789")) { /* an infinity, or no number */
            free(value);
            value = NULL;
        }
    }
    clang_EvalResult_dispose(found);
    return value;
}

typedef struct reference_search {
    const char *function, *variable;
    bool found;
} reference_search;

static bool spelled(CXCursor cursor, const char *name)
{
    char *spelling = clang_text(clang_getCursorSpelling(cursor));
    bool same = !strcmp(spelling, name);
    free(spelling);
    return same;
}

static enum CXChildVisitResult find_reference(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    reference_search *search = closure;
    (void)parent;
    if (clang_getCursorKind(cursor) == CXCursor_DeclRefExpr && spelled(cursor, search->variable)) {
        CXCursor meant = clang_getCursorReferenced(cursor);
        search->found =
            clang_getCursorKind(meant) == CXCursor_VarDecl && clang_getCursorLinkage(meant) == CXLinkage_External;
    }
    return search->found ? CXChildVisit_Break : CXChildVisit_Recurse;
}

static enum CXChildVisitResult find_function(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    reference_search *search = closure;
    (void)parent;
    if (clang_getCursorKind(cursor) == CXCursor_FunctionDecl && clang_isCursorDefinition(cursor) &&
        (!search->function || spelled(cursor, search->function)))
        clang_visitChildren(cursor, find_reference, search);
    return search->found ? CXChildVisit_Break : CXChildVisit_Continue;
}

bool analyser_refers(const analyser *a, const char *function, const char *variable)
{
    reference_search search = {function, variable, false};
    clang_visitChildren(clang_getTranslationUnitCursor(a->unit), find_function, &search);
    return search.found;
}

static enum CXChildVisitResult add_constant(CXCursor cursor, CXCursor parent, CXClientData keys)
{
    (void)parent;
    if (clang_getCursorKind(cursor) == CXCursor_EnumConstantDecl) {
        char *name = clang_text(clang_getCursorSpelling(cursor)), *key = format_text("o:%s", name);
        if (!names_have(keys, key)) names_add(keys, key);
        free(name);
        free(key);
    }
    return CXChildVisit_Recurse;
}

void add_enum_constants(CXCursor at, names *keys)
{
    clang_visitChildren(at, add_constant, keys);
}
