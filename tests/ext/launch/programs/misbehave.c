/* An MPI program that goes wrong in one rank, in the way that its first argument names, while the others wait for it in
 * a barrier. Arguments: HOW [RANK, default 1 [alone]]. With "alone" the others go on without that rank: they wait until
 * rank 0 has read a line. */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void go_wrong(const char *how, int rank)
{
    if (!strcmp(how, "exit")) {
        fprintf(stderr, "about to leave\n");
        exit(3);
    }
    if (!strcmp(how, "words")) {
        for (int i = 1; i <= 7; i++) fprintf(stderr, "word %d\n", i);
        exit(4);
    }
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(how, "abort1")) MPI_Abort(MPI_COMM_WORLD, 1);
    if (!strcmp(how, "segv")) {
        fprintf(stderr, "touching nothing\n");
        raise(SIGSEGV);
    }
    if (!strcmp(how, "sigabrt")) abort();
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "stop")) raise(SIGSTOP);
    if (!strcmp(how, "exit0")) _exit(0);
    if (!strcmp(how, "hang")) pause();
    printf("rank %d goes on\n", rank);
}

static void be_stubborn(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if (fork() == 0) { /* and a child that has left for a session of its own */
        setsid();
        if (fork() > 0) _exit(0);
        for (;;) pause();
    }
}

/* No call here needs the rank that went wrong; MPI_Finalize would. */
static void go_on_without(int wrong, int rank)
{
    char line[100];
    int ranks, word = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0 && !fgets(line, sizeof line, stdin)) exit(1);
    for (int other = 1; other < ranks; other++)
        if (other != wrong && rank == 0) MPI_Send(&word, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    if (rank != 0) MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d is through\n", rank);
    exit(0);
}

int main(int argc, char **argv)
{
    int rank, wrong = argc > 2 ? atoi(argv[2]) : 1;
    if (argc < 2) return 2;
    if (getenv("STUBBORN")) be_stubborn();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("rank %d is there\n", rank);
    usleep(100000);
    if (rank == wrong) go_wrong(argv[1], rank);
    if (argc > 3) go_on_without(wrong, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d is through\n", rank);
    return MPI_Finalize();
}
