#define _GNU_SOURCE
#include "diagnostics/standard.h"
#include "diagnostics/nearest.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Help names the first header of this list that declares a name. */
static const char *const known[] = {
    "stdbool.h",      "stddef.h",     "stdint.h",     "limits.h",     "float.h",     "assert.h",      "ctype.h",
    "errno.h",        "string.h",     "math.h",       "stdio.h",      "stdlib.h",    "time.h",        "stdarg.h",
    "signal.h",       "setjmp.h",     "locale.h",     "inttypes.h",   "wchar.h",     "wctype.h",      "complex.h",
    "fenv.h",         "stdatomic.h",  "threads.h",    "uchar.h",      "stdalign.h",  "stdnoreturn.h", "unistd.h",
    "pthread.h",      "fcntl.h",      "dirent.h",     "poll.h",       "sys/types.h", "sys/stat.h",    "sys/time.h",
    "sys/wait.h",     "sys/mman.h",   "sys/socket.h", "netinet/in.h", "arpa/inet.h", "netdb.h",       "dlfcn.h",
    "semaphore.h",    "getopt.h",     "regex.h",      "glob.h",       "strings.h",   "libgen.h",      "sched.h",
    "sys/resource.h", "sys/select.h", "sys/ioctl.h",  "termios.h",    "search.h",    "sys/utsname.h", "pwd.h",
    "sys/epoll.h",    "spawn.h",      "kolo.h",       "mpi.h",
};
enum { KNOWN_COUNT = sizeof known / sizeof *known };

/* Where a header that comes earlier takes the name in for its own use, or has it in newer standards alone. */
static const char *const at_home[][2] = {
    {"FILE", "stdio.h"},
    {"pthread_t", "pthread.h"},
    {"pthread_mutex_t", "pthread.h"},
    {"time_t", "time.h"},
    {"va_list", "stdarg.h"},
    {"pthread_cond_t", "pthread.h"},
    {"clock_t", "time.h"},
    {"pthread_barrier_t", "pthread.h"},
    {"pid_t", "sys/types.h"},
    {"ssize_t", "sys/types.h"},
    {"off_t", "sys/types.h"},
    {"mode_t", "sys/types.h"},
    {"sigset_t", "signal.h"},
    {"fd_set", "sys/select.h"},
    {"true", "stdbool.h"},
    {"usleep", "unistd.h"},
    {"NULL", "stddef.h"},
    {"_exit", "unistd.h"}, /* of names that begin so these alone are meant for programs */
    {"_Exit", "stdlib.h"},
    {"_IOFBF", "stdio.h"},
    {"_IOLBF", "stdio.h"},
    {"_IONBF", "stdio.h"},
    {"NAN", "math.h"},
    {"INFINITY", "math.h"},
    {"ARG_MAX", NULL}, /* <limits.h> takes these back */
    {"LINK_MAX", NULL},
    {"NR_OPEN", NULL},
};

/* The row's header for the name, or NULL where it has no row. */
static const char *const *home_of(const char *name)
{
    for (size_t i = 0; i < sizeof at_home / sizeof *at_home; i++) {
        if (!strcmp(at_home[i][0], name)) return &at_home[i][1];
    }
    return NULL;
}

typedef struct entry {
    char *name;
    const char *const *header; /* among `known`, or of `at_home` */
} entry;

struct standard {
    entry *entries; /* by name */
    size_t count, capacity;
};

typedef struct reader {
    standard *into;
    CXTranslationUnit unit;
    CXFile last; /* the file of the last declaration, and its header: most come in a row */
    const char *const *last_header;
    struct {
        CXFile file;
        const char *const *header;
    } files[2048];
    size_t file_count;
} reader;

static void note_file(CXFile file, CXSourceLocation *stack, unsigned depth, CXClientData closure)
{
    reader *r = closure;
    if (!depth || r->file_count == sizeof r->files / sizeof *r->files) return;
    unsigned line;
    clang_getFileLocation(stack[depth - 1], NULL, &line, NULL, NULL);
    if (line < 1 || line > KNOWN_COUNT) return;
    r->files[r->file_count].file = file;
    r->files[r->file_count++].header = &known[line - 1];
}

static const char *const *header_of(reader *r, CXFile file)
{
    if (!file) return NULL;
    if (r->last && clang_File_isEqual(file, r->last)) return r->last_header;
    r->last = file;
    r->last_header = NULL;
    for (size_t i = 0; i < r->file_count && !r->last_header; i++) {
        if (clang_File_isEqual(file, r->files[i].file)) r->last_header = r->files[i].header;
    }
    return r->last_header;
}

/* A part of another macro of Kolo's. */
static bool internal(const char *name)
{
    return !strncmp(name, "KOLO_", 5) && name[strlen(name) - 1] == '_';
}

static enum CXChildVisitResult note_name(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    reader *r = closure;
    (void)parent;
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    bool tag = kind == CXCursor_StructDecl || kind == CXCursor_UnionDecl;
    if (kind == CXCursor_InclusionDirective || kind == CXCursor_MacroExpansion) return CXChildVisit_Continue;
    if (tag && !clang_isCursorDefinition(cursor)) return CXChildVisit_Continue; /* "struct rusage;" */
    CXFile file;
    clang_getFileLocation(clang_getCursorLocation(cursor), &file, NULL, NULL, NULL);
    const char *const *header = header_of(r, file);
    char *name = clang_text(clang_getCursorSpelling(cursor));
    if (header && *name && (*name != '_' || home_of(name)) && !strchr(name, ' ') && !internal(name)) {
        standard *h = r->into;
        h->entries = need_grown(h->entries, h->count, &h->capacity, sizeof *h->entries);
        h->entries[h->count++] = (entry){name, header};
    } else {
        free(name);
    }
    return kind == CXCursor_EnumDecl ? CXChildVisit_Recurse : CXChildVisit_Continue;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static int by_name_and_header(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = by_name(a, b);
    return order ? order : (x->header > y->header) - (x->header < y->header);
}

/* Sorted, each name once. */
static void settle(standard *h)
{
    if (h->count) qsort(h->entries, h->count, sizeof *h->entries, by_name_and_header);
    size_t kept = 0;
    for (size_t i = 0; i < h->count; i++) {
        if (kept && !strcmp(h->entries[kept - 1].name, h->entries[i].name)) {
            free(h->entries[i].name);
            continue;
        }
        h->entries[kept] = h->entries[i];
        const char *const *home = home_of(h->entries[kept].name);
        if (home) h->entries[kept].header = home;
        kept++;
    }
    h->count = kept;
}

static standard *standard_of(analyser *a)
{
    if (a->standard) return a->standard;
    a->standard = need_zeroed(sizeof *a->standard);
    text source = {0};
    for (size_t i = 0; i < KNOWN_COUNT; i++) text_addf(&source, "#include <%s>\n", known[i]);
    struct CXUnsavedFile file = {"/kolo-headers.c", source.data, source.size};
    reader *r = need_zeroed(sizeof *r);
    r->into = a->standard;
    unsigned options = CXTranslationUnit_DetailedPreprocessingRecord | CXTranslationUnit_SkipFunctionBodies |
                       CXTranslationUnit_KeepGoing;
    if (clang_parseTranslationUnit2(a->index, file.Filename, (const char *const *)a->flags.items, (int)a->flags.count,
                                    &file, 1, options, &r->unit) == CXError_Success) {
        clang_getInclusions(r->unit, note_file, r);
        clang_visitChildren(clang_getTranslationUnitCursor(r->unit), note_name, r);
        clang_disposeTranslationUnit(r->unit);
    }
    settle(a->standard);
    free(r);
    text_free(&source);
    return a->standard;
}

const char *standard_declaring(analyser *a, const char *name)
{
    standard *h = standard_of(a);
    entry wanted = {.name = (char *)(uintptr_t)name};
    entry *found = h->count ? bsearch(&wanted, h->entries, h->count, sizeof wanted, by_name) : NULL;
    return found ? *found->header : NULL;
}

void standard_each(analyser *a, const char *start, void (*visit)(const char *name, const char *header, void *closure),
                   void *closure)
{
    standard *h = standard_of(a);
    for (size_t i = 0; i < h->count; i++) {
        if (*h->entries[i].header && !strncmp(h->entries[i].name, start, strlen(start)))
            visit(h->entries[i].name, *h->entries[i].header, closure);
    }
}

static void consider_file(nearest_name *n, const char *file)
{
    keep_nearer(n, file, distance_of(n->wanted, strlen(n->wanted), file));
}

char *standard_nearest(analyser *a, const char *file)
{
    (void)a;
    nearest_name b = {.wanted = file, .best = strlen(file) / 3 + 1};
    for (size_t i = 0; i < KNOWN_COUNT; i++) consider_file(&b, known[i]);
    DIR *folder = b.found ? NULL : opendir("/usr/include");
    for (struct dirent *one; folder && (one = readdir(folder));) {
        if (strstr(one->d_name, ".h")) consider_file(&b, one->d_name);
    }
    if (folder) closedir(folder);
    return b.found;
}

void standard_free(standard *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->count; i++) free(h->entries[i].name);
    free(h->entries);
    free(h);
}
