/* The magics, a row each. See magics.h. */
#include "magics/magics.h"

const magic magics_table[] = {
    {"lsmagic", "%lsmagic", "Lists the magics.", .line = magic_lsmagic, .quiet = true},
    {"who", "%who [KIND…]",
     "Lists what the cells have defined, variables with their values. All of it, or what is of the kinds given: "
     "variable, function, type, macro.",
     .line = magic_who, .quiet = true},
    {"whos", "%whos [KIND…]", "Lists what the cells have defined, with sizes and more of the values. KIND as for %who.",
     .line = magic_whos, .quiet = true},
    {"layout", "%layout TYPE",
     "Shows where the members of a struct or union lie. It lists the offset and the size of each in bytes, bit-fields "
     "in bits, and the padding between them. TYPE may be a variable, too.",
     .line = magic_layout, .quiet = true},
    {"cd", "%cd [FOLDER]",
     "Changes the folder that cells and commands run in, and prints it. Without a folder it is home; %cd - goes back, "
     "~ "
     "is home.",
     .line = magic_cd, .quiet = true},
    {"pwd", "%pwd", "Prints the folder that cells and commands run in.", .line = magic_pwd, .quiet = true},
    {"env", "%env [-u] [NAME[=VALUE]]",
     "Shows or sets variables of the environment. Cells see them, and the programs they start. $OTHER in a value is "
     "replaced by that variable; -u NAME takes NAME away.",
     .line = magic_env},
    {"cflags", "%cflags [--remove] [FLAGS…]",
     "Adds flags for the compiler, or shows them. Yours come first, then those built in. They hold for cells and for "
     "%%run (-I, -D, -O3, -fopenmp, …); "
     "--remove takes flags away, --reset all that were added.",
     .line = magic_cflags, .quiet = true},
    {"ldflags", "%ldflags [--remove] [FLAGS…]",
     "Adds flags for the linker, or shows them. They hold for cells and for %%run (-L, -l); --remove takes flags away, "
     "--reset all of them.",
     .line = magic_ldflags, .quiet = true},
    {"history", "%history [OPTIONS] [RANGE…]",
     "Prints the cells that have run in this session. A RANGE is the number of a cell, 4, or of several, 4-7. -n "
     "prints "
     "the numbers, -o the values too, -l the last N (10). -g searches the cells of all sessions, each with the numbers "
     "of its session and cell: PATTERN is a part of the cell, or has * and ? as the names of files have.",
     .line = magic_history, .quiet = true},
    {"load", "%load [-r LINES] FILE", "Puts a file's text in this cell's place. -r 2-5,8 takes those lines only.",
     .line = magic_load, .quiet = true},
    {"export", "%export FILE",
     "Writes the notebook's cells as one C program. It holds what is defined now, and a main() that runs what the "
     "cells "
     "ran, in their order: a cell that was run again counts once, one that failed does not; shell lines and what is "
     "no C are comments, magics that only look are left out. cc FILE $(pkg-config --cflags --libs kolo) compiles it.",
     .line = magic_export, .quiet = true},
    {"heap", "%heap [on|off]",
     "Checks the memory that cells take from malloc(). With on, a write beyond the end of a block, a use after free() "
     "and "
     "a second free() end the cell at their line. %heap alone lists the blocks in use by the line that asked for them, "
     "and those that are lost: nothing points to them any more. Programs of %%run are checked by "
     "%cflags -fsanitize=address.",
     .line = magic_heap, .quiet = true},
    {"slider", "%slider NAME MIN MAX [STEP]",
     "Shows a slider that sets a variable of the session. The variable is a whole or a floating number. Where there is "
     "none of that name it is made, an int when all the numbers are whole, else a double, and begins at MIN. STEP is 1 "
     "for whole numbers, else a hundredth of the range. A cell that runs goes on with the old value; the next one has "
     "the new. What a cell sets the variable to, the slider shows when the cell has ended.",
     .line = magic_slider},
    {"restart", "%restart",
     "Starts the process that runs the cells anew. Memory and devices are free again; functions, types and "
     "includes stay, variables are zero until their cells run again.",
     .line = magic_restart, .quiet = true},
    {"reset", "%reset [-f]", "Forgets everything that was defined. It never asks, with -f or without.",
     .line = magic_reset},
    {"time", "%time STATEMENT", "Runs a statement and prints its processor and wall time. Compiling does not count.",
     .line = magic_time, .quiet = true, .runs_code = true},
    {"time", "%%time",
     "Runs the cell and prints its processor and wall time. Compiling does not count. Above another magic's line, "
     "as %%run, it is the wall time of all that happens.",
     .cell = cell_time, .quiet = true, .runs_code = true},
    {"timeit", "%timeit [-n N] [-r R] STATEMENT",
     "Runs a statement N times, R times over (7), and prints the mean time. Without -n, N is found so "
     "that "
     "a run takes 0.2 s or more. An expression's value is computed each time; -q prints nothing.",
     .line = magic_timeit, .quiet = true},
    {"timeit", "%%timeit [-n N] [-r R] [SETUP]",
     "Measures the cell as %timeit does a statement. SETUP, on the first line, runs once before it, unmeasured; what "
     "it "
     "declares is the cell's.",
     .cell = cell_timeit, .quiet = true},
    {"writefile", "%%writefile [-a] FILE",
     "Writes the cell's text to a file, or appends it with -a. %%file is the same.", .cell = cell_writefile},
    {"html", "%%html", "Shows the cell's text as HTML.", .cell = cell_html},
    {"latex", "%%latex", "Shows the cell's text as LaTeX.", .cell = cell_latex},
    {"markdown", "%%markdown", "Shows the cell's text as Markdown.", .cell = cell_markdown},
    {"svg", "%%svg", "Shows the cell's text as a picture in SVG.", .cell = cell_svg},
    {"stdin", "%%stdin",
     "Keeps the cell's text as the standard input of the next cell. C there reads it with scanf() and the like, a "
     "program "
     "of %%run and a command of ! too. Where nothing is kept, reading asks in a box: a line of ^D alone ends the "
     "input.",
     .cell = cell_stdin},
    {"run", "%run [-np N] FILE [arguments…]",
     "Compiles a C file as a whole program, with a main(), and runs it. It does as %%run does for a cell: the program "
     "does not see the cells, nor they it; %%run? says more of flags, ranks and input.",
     .line = magic_run},
    {"run", "%%run [-np N] [arguments…]",
     "Compiles the cell as a whole program, with a main(), and runs it. It does not see the other cells. "
     "<kolo.h> and <mpi.h> are at hand; the compiler's flags are given beforehand by %cflags (-O0, -O3, "
     "-fsanitize=address, …), the linker's by %ldflags. With -np it runs on N ranks under kolorun. Other options of "
     "kolorun's may stand before the program's own arguments, which begin after --. < FILE at the end gives it the "
     "file as "
     "its standard input. A program that crashes is told of "
     "as a cell is, with the line.",
     .cell = cell_run},
    {"ranks", "%ranks [N [OPTIONS…]]",
     "Starts N ranks, an MPI job under kolorun, for the cells with %%ranks. OPTIONS are kolorun's: "
     "-H host1:4,host2:4 puts the ranks on other hosts (reached as kolorun reaches them; cells and output travel "
     "encrypted). What the cells have defined before is defined on every rank; its variables are there and are zero "
     "until a %%ranks cell sets them. %ranks alone says what there is, %ranks 0 ends the ranks.",
     .line = magic_ranks},
    {"ranks", "%%ranks [LIST]",
     "Runs the cell on every rank, or on those of LIST. A LIST is 0,2,4-7 or the same in [ ]. MPI_COMM_WORLD is the "
     "ranks'; MPI is initialised, and calling "
     "MPI_Init again is harmless. Variables live on at each rank from cell to cell. Output comes line by line after "
     "its "
     "rank's number and can be folded by rank when the cell has ended; values that are equal are shown once. A rank "
     "that crashes is named and ends the job.",
     .cell = cell_ranks},
    {"what_if", "%what_if TRACE [OPTION=VALUE…]",
     "Replays a recorded training step on other machines, all modelled. It draws the answers. TRACE is a timeline, as "
     "kolo_start_timeline() or kolorun --timeline TRACE records it. devices=1,2,4,8 asks for so many devices; "
     "machine=, "
     "network=, hosts= and link= choose their links; batch=, other=, bucket_bytes=, overlap=, compression= and "
     "compute= change the training; noise_scale= asks for the way to an accuracy. The options are the members of "
     "kolo_what_if()'s arguments: kolo_what_if? says more.",
     .line = magic_what_if, .quiet = true},
    {"sh", "%%sh", "Runs the cell as a shell script. %%bash is the same.", .cell = cell_sh},
    {.name = NULL},
};
