/* Lesson 7, beyond one node: hints, the quiz, and how its cells launch jobs and time them. The checks are in
 * lesson_7_files.h (hostfile, job script) and lesson_7_hosts.h (all-reduce by hosts). */
#ifndef COURSE_LESSON_7_H
#define COURSE_LESSON_7_H

#include "course.h"
#include "lesson_7_files.h"
#include "lesson_7_hosts.h"

#include <time.h>

/* ------------------------------------------------------------------------------------------ jobs */

typedef struct lesson_7_end {
    int code;       /* the exit code of the command */
    double seconds; /* of the whole command */
} lesson_7_end;

/* Runs a command of the shell, whose output stands in the notebook, and prints its exit code and its seconds. */
static inline lesson_7_end lesson_7_launch(const char *command)
{
    struct timespec from, to;
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &from);
    int status = system(command);
    clock_gettime(CLOCK_MONOTONIC, &to);
    lesson_7_end end = {.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                        .seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec)};
    if (status == -1) end = (lesson_7_end){.code = -1, .seconds = NAN};
    printf("exit code %d after %.1f s\n", end.code, end.seconds);
    return end;
}

/* Where rank `rank` of a job lands whose hosts have `slots` each: its host, and its number on that host. */
static inline int lesson_7_host(int rank, int slots)
{
    return rank / slots;
}

static inline int lesson_7_local_rank(int rank, int slots)
{
    return rank % slots;
}

/* The number that stands in a log behind `words`; NaN: they are not there. */
static inline double lesson_7_logged(const char *log, const char *words, const char *format)
{
    char command[LESSON_7_LINE], line[LESSON_7_LINE];
    int number = 0;
    snprintf(command, sizeof command, "cat '%s'", log);
    if (!lesson_7_says(command, words, line, sizeof line)) return NAN;
    return sscanf(strstr(line, words), format, &number) == 1 ? (double)number : (double)NAN;
}

/* The steps that were done when a restarted job went on: "Goes on with epoch 1/2, 6/10 steps done". */
static inline double lesson_7_steps_done(const char *log)
{
    return lesson_7_logged(log, "Goes on with epoch", "Goes on with epoch %*d/%*d, %d");
}

/* The rank that kolorun named as the first that failed: "kolorun: rank 2 (host, pid 123): exited with code 1". */
static inline double lesson_7_named(const char *log)
{
    return lesson_7_logged(log, "kolorun: rank ", "kolorun: rank %d");
}

/* ------------------------------------------------------------------------------------------ published and modelled */

/* The three figures of Horovod's README (https://github.com/horovod/horovod): efficiency on 512 GPUs in percent, with
 * 4 Pascal GPUs a host and 25 Gb/s RoCE. The step is that of one P100 (https://www.tensorflow.org/guide/benchmarks
 * of 2017), 64 images at so many images a second. */
typedef struct lesson_7_network {
    const char *name;
    double weights, images_per_second, early, published;
} lesson_7_network;

static const lesson_7_network lesson_7_networks[] = {
    {"VGG-16", 138.36e6, 154, 0.893, 68},
    {"Inception V3", 23.85e6, 142, 0, 90},
    {"ResNet-101", 44.55e6, 129.4, 0, 90},
};

/* The modelled efficiency in percent of such a network on hosts of four GPUs. NaN after libkolo's sentence. */
static inline double lesson_7_efficiency(const lesson_7_network *network, const char *links, int devices)
{
    kolo_link_model *model = kolo_link_model_open("pcie-4", .hosts = devices > 4 ? devices / 4 : 1, .network = links);
    kolo_modelled_step step =
        kolo_link_model_step(model, 64 / network->images_per_second, 4 * network->weights, .devices = devices,
                             .bucket_bytes = 64e6, .early = network->early, .algorithm = KOLO_ALGORITHM_RING);
    kolo_link_model_free(&model);
    return 100 * step.efficiency;
}

/* The first of these numbers of devices whose efficiency is below `percent`; NaN: none is. */
static inline double lesson_7_breaks(const double *devices, const double *efficiency, int count, double percent)
{
    for (int i = 0; i < count; i++)
        if (efficiency[i] < percent) return devices[i];
    return NAN;
}

/* ------------------------------------------------------------------------------------------ hints and quiz */

static inline void lesson_7_hints(void)
{
    course_hints("7.a", "A hostfile has one line for each host, in the order in which ranks fill them.",
                 "Behind the name of a host stands how many ranks it may hold: the word slots, an equals sign, a "
                 "number.",
                 "Where ssh needs another name than yours, it stands before the host's name with an @ between them.");
    course_hints(
        "7.b",
        "Two options fix the layout: one says how many nodes, the other how many tasks each node gets. Their "
        "lines begin with #SBATCH and stand above every command.",
        "--signal takes B: for the script's own process, the signal's name, @ and the seconds before the limit.",
        "A shell that waits for a program passes no signal on. A shell that is replaced by the program, through "
        "the word exec before it, needs to pass nothing on.");
    course_hints("7.c",
                 "Draw the three steps for rank 5: to whom does it send, from whom does it receive? A rank that is no "
                 "leader sends once and receives once.",
                 "The leader receives into an array of its own (malloc), three times, and adds each to its values. The "
                 "sum of a host has to be complete before it leaves the host.",
                 "In step 2 one leader sends first and receives then; for the other it is the other way round. Keep "
                 "the "
                 "own sum while the other host's arrives, or add it on one side and send the result back.");
}

static const course_question lesson_7_questions[COURSE_QUESTIONS] = {
    {"kolorun -np 6 -H ada:4,bob:4 starts six ranks. What is the local rank of rank 5?",
     {"5", "1", "2", "It depends on which host answers first"},
     'b',
     "ada holds ranks 0 to 3, so rank 5 is the second rank on bob, and local ranks count from 0."},
    {"A batch script asks for 4 nodes with 8 tasks each. Its one command is cifar10_slurm, without kolorun or srun. "
     "What happens?",
     {"32 ranks train together", "4 processes train, one on each node", "One process trains, on the first node"},
     'c',
     "A batch script runs once, on the first node of the allocation. Ranks on the others need a launcher."},
    {"What does RDMA save?",
     {"The copies through the processors and kernels of both hosts", "The all-reduce itself",
      "The broadcast of the weights at the start"},
     'a',
     "The network card reads and writes the memory of the program, or of the GPU, directly. The bytes stay the same."},
    {"Why is an all-reduce by hosts faster than one ring over 1,024 devices for large arrays?",
     {"It moves fewer bytes inside each host", "It needs fewer rounds, and uses all network cards of a host at once",
      "It leaves out the slowest hosts"},
     'b',
     "In the model it takes 268 rounds, and a ring over all takes 2,046; each device of a host sums its own part with "
     "its partners on the other hosts."},
    {"One rank hangs and does not die. What ends the job?",
     {"Nothing: it waits for ever", "mpirun, when the rank's process ends",
      "The ranks that wait in a collective, after the stall limit"},
     'c',
     "A hanging process has not ended, so a launcher alone sees nothing. The others know that they wait, and for "
     "whom."},
};

#endif
