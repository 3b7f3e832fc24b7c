/* Reports what was built and what is usable on this machine. A plugin is usable if it loads, since its libraries are
 * then there, too. */
#include "launch/check_build.h"

#include "kolo.h"
#include "launch/command.h"
#include "launch/rdma.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void own_path(char *path, unsigned long size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
}

/* Kolo's libraries are in the folder ../lib, relative to this program's folder, both in the build and installed. */
static void library_path(const char *name, char *path, size_t size)
{
    char self[4000];
    own_path(self, sizeof self);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash) *slash = '\0';
    }
    snprintf(path, size, "%s/lib/%s", self, name);
}

static void print_line(bool there, const char *name, const char *remark)
{
    printf("    [%c] %s%s%s%s\n", there ? 'X' : ' ', name, remark ? " (" : "", remark ? remark : "", remark ? ")" : "");
}

static bool loads(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library) dlclose(library);
    return library != NULL;
}

static bool print_library(const char *name, const char *file)
{
    char path[4200];
    library_path(file, path, sizeof path);
    if (access(path, F_OK)) {
        print_line(false, name, "not built");
        return false;
    }
    bool there = loads(path);
    print_line(there, name, there ? NULL : dlerror());
    return there;
}

static void print_launcher(const char *name, const char *program, const char *version_option, const char *package)
{
    char *path = command_find(program), line[256] = "", command[4200];
    if (path) {
        snprintf(command, sizeof command, "'%s' %s 2>/dev/null", path, version_option);
        FILE *said = popen(command, "r");
        if (said && fgets(line, sizeof line, said)) line[strcspn(line, "\n")] = '\0';
        if (said) pclose(said);
    }
    print_line(path, name, path ? *line ? line : NULL : package);
    free(path);
}

/* Which of Open MPI's components for RDMA there are, as ompi_info lists them. */
static void find_components(bool *ucx, bool *verbs)
{
    char *path = command_find("ompi_info"), line[256], command[4200];
    FILE *said = NULL;
    *ucx = *verbs = false;
    if (path) {
        snprintf(command, sizeof command, "'%s' --parsable 2>/dev/null", path);
        said = popen(command, "r");
    }
    while (said && fgets(line, sizeof line, said)) {
        *ucx = *ucx || !strncmp(line, "mca:pml:ucx:", strlen("mca:pml:ucx:"));
        *verbs = *verbs || !strncmp(line, "mca:btl:openib:", strlen("mca:btl:openib:"));
    }
    if (said) pclose(said);
    free(path);
}

static void print_rdma(void)
{
    bool ucx, verbs;
    char device[64];
    bool there = rdma_device(device, sizeof device);
    const char *remark = there ? device : "this host has no RDMA device";
    find_components(&ucx, &verbs);
    print_line(ucx && there, "UCX", ucx ? remark : "this Open MPI was built without it");
    print_line(verbs && there, "verbs", verbs ? remark : "this Open MPI was built without it");
}

int version_print(void)
{
    printf("kolorun (Kolo) %s\n", KOLO_VERSION);
    return fflush(stdout) ? 1 : 0;
}

int check_build_print(void)
{
    printf("Kolo v%s:\n\nLaunchers:\n", KOLO_VERSION);
    print_launcher("mpirun", "mpirun", "--version", "not found; Debian package openmpi-bin");
    print_launcher("srun", "srun", "--version", "not found; Debian package slurm-client");
    printf("\nBackends:\n");
    bool library = print_library("reference", "libkolo.so");
    print_library("oneDNN", "libkolo_onednn.so");
    bool cuda = print_library("CUDA", "libkolo_cuda.so");
    printf("\nCommunication:\n");
    print_line(library, "local (threads)", NULL);
    print_library("MPI", "libkolo_mpi.so");
    print_line(cuda, "NCCL", cuda ? NULL : "comes with CUDA");
    printf("\nRDMA between hosts (kolorun --rdma):\n");
    print_rdma();
    return fflush(stdout) ? 1 : 0;
}
