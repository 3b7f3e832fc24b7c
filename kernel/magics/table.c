#include "magics/magics.h"
#include "cells/nearest.h"

#include <stdlib.h>
#include <string.h>

const magic magics_table[] = {
    {"lsmagic", "%lsmagic", "Lists the magics.", magic_lsmagic, NULL},
    {"who", "%who", "Lists what the cells have defined: variables, functions, types, macros.", magic_who, NULL},
    {"cd", "%cd [FOLDER]", "Changes the folder that cells and commands run in. Prints it.", magic_cd, NULL},
    {"env", "%env [NAME[=VALUE]]",
     "Shows or sets variables of the environment. Cells see them, and the programs they start.", magic_env, NULL},
    {"cflags", "%cflags [FLAGS…]",
     "Adds flags for the compiler, or shows them. They hold for cells and for %%run (-I, -D, -O3, …).", magic_cflags,
     NULL},
    {"ldflags", "%ldflags [FLAGS…]",
     "Adds flags for the linker, or shows them. They hold for cells and for %%run (-L, -l).", magic_ldflags, NULL},
    {"restart", "%restart",
     "Starts the process that runs the cells anew. Memory and devices are free again; functions, types and "
     "includes stay, variables are zero until their cells run again.",
     magic_restart, NULL},
    {"reset", "%reset", "Forgets everything that was defined.", magic_reset, NULL},
    {"time", "%time STATEMENT", "Runs a statement and says how long it took.", magic_time, NULL},
    {"time", "%%time", "Runs the cell and says how long it took.", NULL, cell_time},
    {"writefile", "%%writefile [-a] FILE", "Writes the cell's text to a file, or appends it with -a.", NULL,
     cell_writefile},
    {"run", "%%run [-np N] [arguments…]",
     "Compiles the cell as a whole program and runs it. <kolo.h> and <mpi.h> are at hand; with -np it runs "
     "on N ranks under kolorun. Other options of kolorun's may stand before the program's own arguments, "
     "which begin after --.",
     NULL, cell_run},
    {"ranks", "%ranks [N [OPTIONS…]]",
     "Starts N ranks as an MPI job under kolorun: %%ranks runs a cell on each of them. OPTIONS are kolorun's: "
     "-H host1:4,host2:4 puts the ranks on other hosts (reached as kolorun reaches them; cells and output travel "
     "encrypted). What the cells have defined before is defined on every rank; its variables are there and are zero "
     "until a %%ranks cell sets them. %ranks alone says what there is, %ranks 0 ends the ranks.",
     magic_ranks, NULL},
    {"ranks", "%%ranks [0,2,4-7]",
     "Runs the cell on every rank, or on those listed. MPI_COMM_WORLD is the ranks'; MPI is initialised, and calling "
     "MPI_Init again is harmless. Variables live on at each rank from cell to cell. Output comes line by line after "
     "its "
     "rank's number and can be folded by rank when the cell has ended; values that are equal are shown once. A rank "
     "that crashes is named and ends the job.",
     NULL, cell_ranks},
    {"sh", "%%sh", "Runs the cell as a shell script.", NULL, cell_sh},
};
const size_t magics_count = sizeof magics_table / sizeof *magics_table;

const magic *magic_named(const char *name, size_t size)
{
    for (size_t i = 0; i < magics_count; i++) {
        if (strlen(magics_table[i].name) == size && !memcmp(magics_table[i].name, name, size)) return &magics_table[i];
    }
    return NULL;
}

const char *nearest_magic(const char *name, size_t size)
{
    const char *best = magics_table[0].name;
    for (size_t i = 1; i < magics_count; i++) {
        if (distance_of(name, size, magics_table[i].name) < distance_of(name, size, best)) best = magics_table[i].name;
    }
    return best;
}
