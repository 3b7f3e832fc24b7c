/* An MPI program that saves its state when it is asked to stop, as kolo.h shows it: the first signal asks, the second
 * one ends the program. Rank r of n needs (r + 1) / n of SECONDS. Arguments: SECONDS FOLDER [CODE, to exit without
 * MPI_Finalize]. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void ask(int number)
{
    signal(number, SIG_DFL);
    asked = 1;
}

static void save(const char *folder, int rank)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/state.%d", folder, rank);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    if (argc < 3) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    signal(SIGINT, ask);
    signal(SIGTERM, ask);
    signal(SIGHUP, ask);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d is there\n", rank);
    while (!asked) usleep(10000);
    for (int i = 0; i < 100; i++) usleep((useconds_t)(atof(argv[1]) * 1e4 * (rank + 1) / ranks));
    save(argv[2], rank);
    if (argc > 3) exit(atoi(argv[3]));
    return MPI_Finalize();
}
