/* MPI can be started once in a process, and not again after its end; cells start and end it as they like. These stand
 * before MPI's functions of the same names: MPI is started at the first call, through its profiling names (PMPI_), and
 * goes on until the process ends. libkolo's plugin comes through here too; for it MPI is never over.
 * The worker does not link MPI: its types that are needed here are plain C. Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/worker.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MPI_OK = 0, MPI_FAILED = 16 /* MPI_ERR_OTHER */, THREAD_SERIALIZED = 2 };

int MPI_Init(int *count, char ***arguments);
int MPI_Init_thread(int *count, char ***arguments, int required, int *provided);
int MPI_Finalize(void);
int MPI_Finalized(int *answer);
void ompi_mpi_errors_are_fatal_comm_handler(void **comm, int *code, ...);
void ompi_mpi_errors_are_fatal_win_handler(void **window, int *code, ...);

static bool ended; /* a cell has called MPI_Finalize, and not MPI_Init since */

static int find_mpi(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/');
    if (strncmp(slash ? slash + 1 : info->dlpi_name, "libmpi.so", 9)) return 0;
    *(void **)closure = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    return 1;
}

/* The plugin loads MPI for itself alone, so that its names are found in it, not everywhere. */
static void *real(const char *name)
{
    static void *library;
    if (!library) dl_iterate_phdr(find_mpi, &library);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) fprintf(stderr, "%s: MPI is not loaded\n", name + (*name == 'P'));
    return found;
}

static int ask(const char *name, int *answer)
{
    int (*question)(int *) = NULL;
    *(void **)&question = real(name);
    return question ? question(answer) : MPI_FAILED;
}

static bool is_up(void)
{
    int up = 0, over = 0;
    ask("PMPI_Initialized", &up);
    ask("PMPI_Finalized", &over);
    return up && !over;
}

static bool called_by_plugin(void *from)
{
    Dl_info info;
    const char *slash = dladdr(from, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    return slash && !strncmp(slash + 1, "libkolo", 7);
}

static bool of_launcher(const char *variable)
{
    static const char *const begins[] = {"OMPI_", "PMIX_", "PMI_", "ORTE_", NULL};
    for (const char *const *b = begins; *b; b++) {
        if (!strncmp(variable, *b, strlen(*b))) return true;
    }
    return false;
}

/* MPI leaves variables for its children when it starts without a launcher; an mpirun that a cell starts would take
 * itself for a rank because of them. Those that were there before stay. */
static void drop_new_variables(char *const *before, size_t count)
{
    for (size_t i = 0; environ[i];) {
        const char *variable = environ[i];
        bool old = !of_launcher(variable);
        for (size_t k = 0; k < count && !old; k++) old = before[k] == variable;
        char *name = old ? NULL : strndup(variable, strcspn(variable, "="));
        if (name) unsetenv(name);
        else i++;
        free(name);
    }
}

/* Known to MPI alone: they are dropped again. */
static void place_segments(void)
{
    static const char *const names[] = {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_osc_sm_backing_directory",
                                        "OMPI_MCA_osc_rdma_backing_directory", "OMPI_MCA_orte_tmpdir_base"};
    const char *given = getenv("KOLORUN_SEGMENTS");
    char *folder = given && access(given, W_OK) == 0 ? strdup(given) : NULL; /* setenv() may move what getenv() gave */
    for (size_t i = 0; folder && i < sizeof names / sizeof *names; i++) setenv(names[i], folder, 0);
    free(folder);
}

static int start_mpi(int *count, char ***arguments, int required, int *level)
{
    int (*start)(int *, char ***, int, int *) = NULL;
    size_t variables = 0;
    while (environ[variables]) variables++;
    char **before = calloc(variables + 1, sizeof *before);
    if (before) memcpy(before, environ, variables * sizeof *before);
    *(void **)&start = real("PMPI_Init_thread");
    place_segments();
    int result = start ? start(count, arguments, required, level) : MPI_FAILED;
    if (before) drop_new_variables(before, variables);
    free(before);
    return result;
}

int MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
    int result = MPI_OK, level = THREAD_SERIALIZED;
    if (!is_up()) {
        if (required < level) required = level; /* libkolo may come later, and needs that */
        result = start_mpi(count, arguments, required, &level);
    } else {
        ask("PMPI_Query_thread", &level);
    }
    if (provided) *provided = level;
    if (result == MPI_OK) ended = false;
    return result;
}

int MPI_Init(int *count, char ***arguments)
{
    return MPI_Init_thread(count, arguments, THREAD_SERIALIZED, NULL);
}

int MPI_Finalize(void)
{
    ended = true;
    return MPI_OK;
}

int MPI_Finalized(int *answer)
{
    *answer = ended && !called_by_plugin(__builtin_return_address(0));
    return MPI_OK;
}

/* Reports the error as the cell's, at its line. Open MPI's own message would pass through its daemon, which may lose
 * the message on a busy machine (4.1 frees the buffer while it copies it: orte_rml_oob_send_buffer_nb). */
static _Noreturn void refuse(const char *function, int code)
{
    static char sentence[MISSING_SHOWN];
    char words[512] = "MPI could not be started"; /* MPI_MAX_ERROR_STRING is 256 */
    int length = 0, (*describe)(int, char *, int *) = NULL;
    *(void **)&describe = real("PMPI_Error_string");
    if (describe && is_up()) describe(code, words, &length);
    snprintf(sentence, sizeof sentence, "%s: %s", function ? function : "MPI", words);
    if (getpid() != running.process) fprintf(stderr, "%s\n", sentence); /* a forked child reports no line */
    running.missing = sentence;
    leave_refused(STATUS_REFUSED);
}

/* Open MPI ends a program in this function of its own. It finds the function by its name, and so finds the worker's
 * first. `comm` is NULL where a function of MPI was called before MPI_Init. A C program would be ended then; for a cell
 * MPI is started, and the function that it has called goes on. */
void ompi_mpi_errors_are_fatal_comm_handler(void **comm, int *code, ...)
{
    va_list rest;
    va_start(rest, code);
    const char *function = va_arg(rest, const char *);
    va_end(rest);
    if (comm || is_up() || MPI_Init(NULL, NULL) != MPI_OK) refuse(function, code ? *code : MPI_FAILED);
    fprintf(stderr,
            "%s before MPI_Init: MPI has been started for this process alone, rank 0 of 1. '%%ranks 4' starts "
            "four, and a cell that begins with %%%%ranks runs on them.\n",
            function);
}

void ompi_mpi_errors_are_fatal_win_handler(void **window, int *code, ...)
{
    (void)window;
    va_list rest;
    va_start(rest, code);
    const char *function = va_arg(rest, const char *);
    va_end(rest);
    refuse(function, *code);
}
