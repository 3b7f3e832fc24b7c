#include "libraries.h"
#include "print.h"
#include "worker/protocol.h"

#include <stdlib.h>
#include <string.h>

/* The first function that MPI must be started for, when MPI_Init() is not among them; NULL: there is none. */
static const char *called_before_init(const names *wanted)
{
    static const char at_any_time[] = "MPI_Abort MPI_Finalize MPI_Finalized MPI_Get_library_version MPI_Get_version "
                                      "MPI_Initialized MPI_Wtick MPI_Wtime";
    const char *first = NULL;
    if (names_have(wanted, "MPI_Init") || names_have(wanted, "MPI_Init_thread")) return NULL;
    for (size_t i = 0; i < wanted->count && !first; i++) {
        const char *name = wanted->items[i];
        if (!strncmp(name, "MPI_", 4) && !word_among(at_any_time, name)) first = name;
    }
    return first;
}

const char *libraries_for(const names *wanted, bool ranks)
{
    bool mpi = false, openmp = false; /* -fopenmp makes calls of both kinds */
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->items[i];
        mpi |= !strncmp(name, "MPI_", 4) || !strncmp(name, "ompi_", 5);
        openmp |= !strncmp(name, "__kmpc_", 7) || !strncmp(name, "omp_", 4);
    }
    if (!mpi) return openmp ? "libomp.so.5" : "";
    bool start = !ranks && called_before_init(wanted);
    if (openmp) return start ? "libmpi.so.40:" START_MPI ":libomp.so.5" : "libmpi.so.40:libomp.so.5";
    return start ? "libmpi.so.40:" START_MPI : "libmpi.so.40";
}

void tell_of_mpi(session *s, const names *wanted)
{
    const char *name = called_before_init(wanted);
    if (!name) return;
    char *told = format_text("%s before MPI_Init: MPI has been started for this process alone, rank 0 of 1. "
                             "'%%ranks 4' starts four, and a cell that begins with %%%%ranks runs on them.\n",
                             name);
    print_error(s, told);
    free(told);
}
