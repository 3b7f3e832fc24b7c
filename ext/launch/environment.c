/* The environment variables of a rank: all of the user's, none of a surrounding job's, and a few that kolorun adds. */
#define _GNU_SOURCE 1 /* process_vm_readv */
#include "launch/environment.h"

#include "core/cores.h"
#include "launch/segments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

extern char **environ;

/* The names of the variables that choose() has set, so that a kolorun inside a rank does not take them for the
 * user's. */
#define CHOSEN "KOLORUN_CHOSEN"

/* Open MPI's variable for the folder of mpirun's files on this host. */
#define OWN_FOLDER "OMPI_MCA_orte_local_tmpdir_base"

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

bool environment_is_of_job(const char *name, bool in_job)
{
    /* Variables that orterun and its daemons set for a rank and that look like a user's (seen in 4.1.4). */
    static const char *const of_launcher[] = {"OMPI_MCA_orte_",
                                              "OMPI_MCA_ess",
                                              "OMPI_MCA_pmix",
                                              "OMPI_MCA_initial_wdir",
                                              "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
                                              "OMPI_MCA_mpi_oversubscribe",
                                              "PMIX_MCA_mca_base_component_show_load_errors",
                                              "PRTE_MCA_prte_ess"};
    for (size_t i = 0; in_job && i < sizeof of_launcher / sizeof *of_launcher; i++)
        if (starts(name, of_launcher[i])) return true;
    if (starts(name, "OMPI_MCA_") || starts(name, "PMIX_MCA_") || starts(name, "PRTE_MCA_")) return false;
    if (starts(name, "OMPI_ALLOW_RUN_AS_ROOT")) return false;
    return starts(name, "OMPI_") || starts(name, "PMIX_") || starts(name, "PRTE_") || starts(name, "PMI_") ||
           starts(name, "ORTE_") || !strcmp(name, KOLORUN_CONTACT) || !strcmp(name, KOLORUN_TOKEN);
}

static void forget_job(void)
{
    bool in_job = getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK");
    for (char **at = environ; *at;) {
        char name[256];
        size_t length = strcspn(*at, "=");
        snprintf(name, sizeof name, "%.*s", (int)length, *at);
        if (length < sizeof name && environment_is_of_job(name, in_job) && !unsetenv(name))
            continue; /* the next variable is at the same place now */
        at++;
    }
}

/* Removes the variables that a surrounding kolorun has chosen for its ranks, for instance their number of threads. */
static void forget_chosen(void)
{
    char names[512], *rest = NULL;
    snprintf(names, sizeof names, "%s", getenv(CHOSEN) ? getenv(CHOSEN) : "");
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) unsetenv(name);
    unsetenv(CHOSEN);
}

bool environment_prepare(void)
{
    forget_job();
    forget_chosen();
    return geteuid() ||
           (!setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1) && !setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1));
}

/* Sets `name` unless the user has set it, and adds it to the list of chosen variables. */
static bool choose(const char *name, const char *value)
{
    if (getenv(name)) return true;
    const char *before = getenv(CHOSEN);
    char names[512];
    snprintf(names, sizeof names, "%s%s%s", before ? before : "", before ? "," : "", name);
    return !setenv(name, value, 1) && !setenv(CHOSEN, names, 1);
}

/* Whether a process may read another process's memory. Containers often forbid it, and Open MPI then fails or warns. */
static bool can_copy_between_processes(void)
{
    char from = 'x', to = 0;
    struct iovec source = {&from, 1}, target = {&to, 1};
    if (process_vm_readv(getpid(), &target, 1, &source, 1, 0) != 1) return false; /* seccomp refuses the call itself */
    char scope = '0';
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (!file) return true;
    if (fread(&scope, 1, 1, file) != 1) scope = '0';
    fclose(file);
    return scope == '0' || scope == '1'; /* for 1, Open MPI requests the permission itself */
}

static const char *segments_base(const char *otherwise)
{
    const char *given = getenv(KOLORUN_SEGMENTS);
    return given && !access(given, W_OK) ? given : otherwise;
}

char *environment_own_folder(void)
{
    const char *temporary = getenv("TMPDIR"), *base = segments_base(temporary && *temporary ? temporary : "/tmp");
    segments_sweep_up(base);
    if (getenv("OMPI_MCA_orte_tmpdir_base") || getenv(OWN_FOLDER)) return NULL;
    char *folder = segments_make(base);
    if (folder) setenv(OWN_FOLDER, folder, 1);
    return folder;
}

void environment_remove_folder(char *folder)
{
    if (!folder) return;
    unsetenv(OWN_FOLDER);
    segments_remove(folder);
    free(folder);
}

/* Open MPI needs about 5 MB a rank in /dev/shm; Docker's default size is 64 MB. */
static bool shared_memory_suffices(const char *folder, int ranks)
{
    struct statvfs shm;
    if (statvfs(folder, &shm)) return false;
    return (double)shm.f_bavail * (double)shm.f_frsize >= 6e6 * ranks;
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    long value = text ? strtol(text, NULL, 10) : 0;
    return value >= 1 && value <= 1000000 ? (int)value : otherwise;
}

static int ranks_here(void)
{
    return number_of("OMPI_COMM_WORLD_LOCAL_SIZE", number_of("MPI_LOCALNRANKS", 1));
}

char *environment_own_segments(void)
{
    static const char *const names[] = {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_osc_sm_backing_directory",
                                        "OMPI_MCA_osc_rdma_backing_directory"};
    const char *base = segments_base("/dev/shm");
    if (getenv(names[0])) return NULL;
    if (!shared_memory_suffices(base, ranks_here())) base = "/tmp";
    if (number_of("OMPI_COMM_WORLD_LOCAL_RANK", 0) == 0) segments_sweep_up(base);
    char *folder = segments_make(base);
    for (size_t i = 0; folder && i < sizeof names / sizeof *names; i++) choose(names[i], folder);
    return folder;
}

/* The cores of this host that are for one of its ranks. A rank that is bound may use `cores`, alone (a core) or with
 * others (a socket). */
static int share_of_cores(int cores, int ranks)
{
    if (!getenv("OMPI_MCA_orte_bound_at_launch")) return cores / ranks;
    long share = sysconf(_SC_NPROCESSORS_ONLN) / ranks;
    return share > 0 && share < cores ? (int)share : cores;
}

bool environment_for_rank(void)
{
    int ranks = ranks_here();
    int cores = kolo_cores_usable();
    int share = share_of_cores(cores, ranks);
    char threads[16];
    unsetenv(OWN_FOLDER); /* mpirun passes the folder to its ranks in another variable, and only one may be set */
    snprintf(threads, sizeof threads, "%d", share > 1 ? share : 1);
    bool done = choose("KOLO_THREADS", threads) && choose("OMP_NUM_THREADS", threads);
    if (ranks > cores || (share < 1)) done = done && choose("OMPI_MCA_mpi_yield_when_idle", "1");
    if (!can_copy_between_processes()) done = done && choose("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    return done;
}
