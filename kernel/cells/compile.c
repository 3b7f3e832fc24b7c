#define _GNU_SOURCE
#include "cells/compile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const code_flags[] = {
    "-gdwarf-4", "-fPIC", "-fkeep-persistent-storage-variables", "-fsemantic-interposition", "-fno-color-diagnostics",
    "-w",        NULL};

/* Flags that keep a fault a fault, at its line, with the calls that led to it. */
static const char *const fault_flags[] = {
    "-fno-delete-null-pointer-checks", "-fno-finite-loops", "-mllvm",
    "-replexitval=never", /* what a loop adds up is not worked out beforehand */
    "-fasynchronous-unwind-tables", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls",
    "-fsanitize=integer-divide-by-zero,unreachable", "-fsanitize-trap=integer-divide-by-zero,unreachable",
    "-fno-sanitize-recover=array-bounds", "-fstack-protector-strong",
    /* Keeps both ways of a branch on a variable that was never set. */
    "-ftrivial-auto-var-init=pattern", "-ftrivial-auto-var-init-max-size=4096", "-mllvm", "-trap-unreachable", NULL};

void flags_add(names *list, const char *flag)
{
    static const char *const alone[] = {"-W", "-f", "-O", "-I", "-D", "-std=", "-iquote", NULL};
    bool whole = false;
    for (const char *const *a = alone; *a; a++) whole |= !strncmp(flag, *a, strlen(*a)) && strlen(flag) > 2;
    for (size_t i = 0; whole && i < list->count; i++) {
        if (!strcmp(list->items[i], flag)) names_remove(list, i, 1);
    }
    names_add(list, flag);
}

void compiler_open(compiler *c, const names *flags, const char *folder)
{
    *c = (compiler){.folder = copy_of(folder), .input = -1};
    names_add_all(&c->flags, flags);
}

/* Limits of a compiler process, since learners' text can make it use any amount of time and memory. */
enum {
    TOOL_SECONDS = 60,
    PRINTING_SECONDS = 4 /* of processor time: to compile, to print what is read back */,
    MOST_PRINTED = 64 << 20 /* bytes that are read back */
};
static const rlim_t TOOL_MEMORY = 6ull << 30, TOOL_FILE = 2ull << 30;

static int interrupts = -1; /* the descriptor of tools_heed() */

void tools_heed(int descriptor)
{
    interrupts = descriptor;
}

static void limit(pid_t process, rlim_t seconds)
{
    prlimit(process, RLIMIT_CPU, &(struct rlimit){seconds, seconds}, NULL);
    prlimit(process, RLIMIT_AS, &(struct rlimit){TOOL_MEMORY, TOOL_MEMORY}, NULL);
    prlimit(process, RLIMIT_FSIZE, &(struct rlimit){TOOL_FILE, TOOL_FILE}, NULL);
    prlimit(process, RLIMIT_CORE, &(struct rlimit){0, 0}, NULL);
}

static pid_t spawn(char *const *arguments, int input, const char *log)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    sigset_t none;
    pid_t process = 0;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&how);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    if (input >= 0) posix_spawn_file_actions_adddup2(&actions, input, 0);
    else posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int failed = posix_spawnp(&process, arguments[0], &actions, &how, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&how);
    if (!failed) limit(process, TOOL_SECONDS);
    return failed ? 0 : process;
}

static int wait_for(pid_t process)
{
    int status = -1, ended = pidfd_open(process, 0);
    struct pollfd watched[] = {{ended, POLLIN, 0}, {interrupts, POLLIN, 0}};
    while (ended >= 0 && !watched[0].revents) {
        if (poll(watched, 2, -1) < 0 && errno != EINTR) break;
        if (watched[1].revents) kill(process, SIGKILL);
        if (watched[1].revents) break;
    }
    if (ended >= 0) close(ended);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

int run_tool(char *const *arguments, const char *log)
{
    pid_t process = spawn(arguments, -1, log);
    return process ? wait_for(process) : -1;
}

char *output_of_tool(char *const *arguments, const char *log)
{
    struct stat facts;
    pid_t process = spawn(arguments, -1, log);
    if (process) limit(process, PRINTING_SECONDS);
    bool good = process && wait_for(process) == 0 && stat(log, &facts) == 0 && facts.st_size <= MOST_PRINTED;
    char *printed = good ? read_whole_file(log) : NULL;
    unlink(log);
    return printed;
}

char *preprocessed(const text *code, const names *flags, const char *folder)
{
    char *input = format_text("%s/preprocessed.c", folder), *log = format_text("%s/preprocessed.log", folder);
    names list = {0};
    names_add(&list, "clang-19");
    if (flags) names_add_all(&list, flags);
    names_add_words(&list, (const char *const[]){"-w", "-E", input, NULL});
    bool written = write_whole_file(input, code->data, code->size);
    char *found = written ? output_of_tool(names_arguments(&list), log) : NULL;
    unlink(input);
    names_free(&list);
    free(input);
    free(log);
    return found;
}

/* Checking each index costs nothing measurable at the level at which cells are compiled. A user who asks for more speed
 * gets no checks. */
bool flags_want_speed(const names *flags)
{
    bool fast = false;
    for (size_t i = 0; i < flags->count; i++) {
        const char *flag = flags->items[i];
        if (!strncmp(flag, "-O", 2)) fast = flag[2] && !strchr("01g", flag[2]);
    }
    return fast;
}

bool flags_sanitize(const names *flags)
{
    bool found = false;
    for (size_t i = 0; i < flags->count; i++) found |= !strncmp(flags->items[i], "-fsanitize=", 11);
    return found;
}

bool flags_are_c23(const names *flags)
{
    bool found = false;
    for (size_t i = 0; i < flags->count; i++) {
        const char *flag = flags->items[i];
        if (!strncmp(flag, "-std=", 5)) found = strstr(flag, "2x") || strstr(flag, "23") || strstr(flag, "2y");
    }
    return found;
}

void flags_keep_faults(names *list, const names *given)
{
    names_add_words(list, fault_flags);
    if (!flags_want_speed(given)) names_add(list, "-fsanitize=array-bounds");
}

static names command(const compiler *c, const char *language)
{
    names list = {0};
    names_add(&list, "clang-19");
    if (!c->debugging) names_add(&list, "-O1");
    names_add_all(&list, &c->flags);
    if (c->debugging) names_add(&list, "-O0");
    names_add(&list, c->debugging ? "-g" : "-gline-tables-only");
    if (c->debugging) names_add(&list, "-fno-eliminate-unused-debug-types");
    names_add_words(&list, code_flags);
    if (flags_sanitize(&c->flags)) names_add(&list, "-fno-sanitize=all"); /* its runtime is in programs alone */
    flags_keep_faults(&list, &c->flags);
    names_add(&list, "-x");
    names_add(&list, language);
    return list;
}

void compiler_prepare(compiler *c)
{
    if (c->waiting) return;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return;
    c->serial++;
    c->object = format_text("%s/cell-%u.o", c->folder, c->serial);
    c->errors = format_text("%s/cell-%u.log", c->folder, c->serial);
    names list = command(c, "c");
    c->waiting_has_header = c->header != NULL;
    if (c->header) {
        names_add(&list, "-include-pch");
        names_add(&list, c->header);
    }
    names_add(&list, "-c");
    names_add(&list, "-");
    names_add(&list, "-o");
    names_add(&list, c->object);
    c->waiting = spawn(names_arguments(&list), ends[0], c->errors);
    names_free(&list);
    close(ends[0]);
    c->input = ends[1];
}

static void forget_waiting(compiler *c, bool stop)
{
    if (c->input >= 0) close(c->input);
    c->input = -1;
    if (c->waiting && stop) {
        kill(c->waiting, SIGKILL);
        wait_for(c->waiting);
        unlink(c->object);
        unlink(c->errors);
    }
    c->waiting = 0;
    free(c->object);
    free(c->errors);
    c->object = c->errors = NULL;
}

static void forget_header(compiler *c)
{
    if (c->header) unlink(c->header);
    free(c->header);
    free(c->header_prefix);
    c->header = c->header_prefix = NULL;
}

static void forget_building(compiler *c, bool stop)
{
    if (c->building && stop) {
        kill(c->building, SIGKILL);
        wait_for(c->building);
    }
    c->building = 0;
    free(c->next_header);
    free(c->next_prefix);
    c->next_header = c->next_prefix = NULL;
}

void compiler_reset(compiler *c)
{
    forget_waiting(c, true);
    forget_building(c, true);
    forget_header(c);
}

void compiler_for_debugging(compiler *c, bool on)
{
    if (c->debugging == on) return;
    c->debugging = on;
    compiler_reset(c);
}

void compiler_close(compiler *c)
{
    compiler_reset(c);
    names_free(&c->flags);
    names_free(&c->link_flags);
    free(c->folder);
}

void compiler_precompile(compiler *c, const char *prefix)
{
    if (!*prefix || (c->header_prefix && !strcmp(c->header_prefix, prefix))) return;
    if (c->next_prefix && !strcmp(c->next_prefix, prefix)) return;
    forget_building(c, true);
    char *source = format_text("%s/prefix-%u.h", c->folder, ++c->serial);
    c->next_header = format_text("%s/prefix-%u.pch", c->folder, c->serial);
    c->next_prefix = copy_of(prefix);
    char *log = format_text("%s/prefix.log", c->folder);
    names list = command(c, "c-header");
    names_add(&list, source);
    names_add(&list, "-o");
    names_add(&list, c->next_header);
    if (write_whole_file(source, prefix, strlen(prefix))) c->building = spawn(names_arguments(&list), -1, log);
    names_free(&list);
    free(source);
    free(log);
}

/* Uses the new header once it is there; a clang that waits without it is replaced. */
static void adopt_header(compiler *c)
{
    int status;
    if (!c->building || waitpid(c->building, &status, WNOHANG) != c->building) return;
    c->building = 0;
    if (status == 0) {
        forget_header(c);
        c->header = copy_of(c->next_header);
        c->header_prefix = copy_of(c->next_prefix);
        forget_waiting(c, true);
    }
    forget_building(c, false);
}

void compiler_tend(compiler *c)
{
    adopt_header(c);
    compiler_prepare(c);
}

static const char crashed[] =
    "error: clang-19 has crashed: something in the cell is nested too deeply, or has too many parts";

/* The reason why clang failed, where its own words do not say it: as an error of its own, for link_words(). */
static char *exit_of_tool(int status)
{
    if (!WIFSIGNALED(status)) return NULL;
    int number = WTERMSIG(status);
    if (number == SIGXCPU || number == SIGKILL)
        return format_text("error: clang-19 was ended: more than %d seconds of processor time", TOOL_SECONDS);
    bool crash = number == SIGSEGV || number == SIGBUS || number == SIGABRT || number == SIGILL;
    return crash ? copy_of(crashed) : format_text("error: clang-19 ended: %s", strsignal(number));
}

static bool feed(int input, const char *bytes, size_t size)
{
    while (size) {
        ssize_t sent = write(input, bytes, size);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* One compilation by the waiting clang. `object` is the caller's. */
static bool compile(compiler *c, const text *source, size_t prefix_size, char **object, char **problem)
{
    compiler_prepare(c);
    size_t skip = c->waiting_has_header ? prefix_size : 0;
    bool fed = c->waiting && feed(c->input, source->data + skip, source->size - skip);
    pid_t process = c->waiting;
    char *errors = copy_of(c->errors ? c->errors : "");
    *object = copy_of(c->object ? c->object : "");
    forget_waiting(c, false);
    int status = process ? wait_for(process) : -1;
    bool built = fed && status == 0;
    compiler_prepare(c); /* the next one starts while this cell is linked, loaded and run */
    if (!built) *problem = process ? exit_of_tool(status) : NULL;
    if (!built && !*problem) *problem = read_whole_file(errors);
    if (!built && !*problem) *problem = copy_of("error: clang-19 cannot be started");
    if (!built && strstr(*problem, "Stack dump:")) {
        free(*problem);
        *problem = copy_of(crashed);
    }
    unlink(errors);
    free(errors);
    return built;
}

static char *link_object(compiler *c, const char *object, char **problem)
{
    char *path = copy_of_bytes(object, strlen(object) - 1);
    char *library = format_text("%sso", path), *log = format_text("%slog", path);
    names list = {0};
    const char *const start[] = {"ld", "-shared", "--eh-frame-hdr", "-z", "now", "--hash-style=gnu",
#if defined(__x86_64__) /* elsewhere ld makes none, and knows no such option */
                                 "--no-ld-generated-unwind-info",
#endif
                                 /* Two mappings a cell, not five: a process may have 65,530. */
                                 "-z", "noseparate-code", "-z", "norelro", "-o", library, object, NULL};
    names_add_words(&list, start);
    names_add_all(&list, &c->link_flags);
    int status = run_tool(names_arguments(&list), log);
    if (status != 0) {
        *problem = read_whole_file(log);
        if (!*problem) *problem = copy_of("error: ld cannot be started");
        unlink(library);
        free(library);
        library = NULL;
    }
    unlink(log);
    names_free(&list);
    free(path);
    free(log);
    return library;
}

char *compiler_build(compiler *c, const text *source, size_t prefix_size, const link_name *table, size_t count,
                     names *wanted, char **problem)
{
    adopt_header(c);
    bool other =
        c->header && (strlen(c->header_prefix) != prefix_size || memcmp(c->header_prefix, source->data, prefix_size));
    if (other) {
        forget_waiting(c, true);
        forget_header(c);
    }
    char *object = NULL, *library = NULL;
    bool with_header = c->header != NULL;
    bool built = compile(c, source, prefix_size, &object, problem);
    if (!built && with_header) { /* a header has changed on disk since it was precompiled */
        free(*problem);
        *problem = NULL;
        free(object);
        forget_waiting(c, true);
        forget_header(c);
        built = compile(c, source, prefix_size, &object, problem);
    }
    if (built && object_rename(object, table, count, wanted)) library = link_object(c, object, problem);
    else if (!*problem) *problem = copy_of("error: clang wrote no object");
    unlink(object);
    free(object);
    return library;
}
