/* Prints in the ways that launchers get wrong; plain C, no MPI. Argument: HOW. Nothing is flushed by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank_of_this(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? atoi(rank) : -1;
}

/* Whether stdin has a line more; that is read. */
static int hears_a_line(void)
{
    char line[100];
    return fgets(line, sizeof line, stdin) != NULL;
}

/* Numbered lines of many lengths, each of which can be checked: "rank number length xxx.". */
static void flood(int rank, int lines)
{
    for (int i = 0; i < lines; i++) {
        int length = (i * 37 + rank * 11) % 300;
        if (i % 1000 == 999) length = 9000; /* longer than any buffer on the way */
        printf("%d %d %d ", rank, i, length);
        for (int j = 0; j < length; j++) putchar('a' + (rank + j) % 26);
        printf(".\n");
    }
}

static void bars(int rank, int led)
{
    for (int i = 0; i < 20; i++) {
        printf(led ? "\rbar %d of rank %d" : "bar %d of rank %d\r", i, rank);
        fflush(stdout);
        usleep(3000);
    }
    printf(led ? "\rdone with rank %d\n" : "done with rank %d\n", rank);
}

int main(int argc, char **argv)
{
    int rank = rank_of_this();
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "flood")) flood(rank, 4000);
    if (!strcmp(how, "bars")) bars(rank, 0);
    if (!strcmp(how, "ledbars")) bars(rank, 1);
    if (!strcmp(how, "partial")) printf("no end in rank %d", rank);
    if (!strcmp(how, "both")) {
        printf("out of %d\n", rank);
        fprintf(stderr, "err of %d\n", rank);
    }
    if (!strcmp(how, "live"))
        for (int i = 0; i < 10; i++) {
            printf("line %d\n", i);
            if (rank == 0 && !hears_a_line()) return 1;
        }
    if (!strcmp(how, "forever"))
        for (;;) printf("again and again\n");
    if (!strcmp(how, "binary")) fwrite("a\0b\xff\n", 1, 5, stdout);
    return 0;
}
