/* For the program of exercise 3.a, in its %%run cell: notes on each rank which of Horovod's five edits the program has
 * made, and what became of the weights. lesson_3.h reads the notes in the notebook and names the edit that is missing.
 *
 * The calls are Kolo's own; the macros below only note them first. kolo_rank() and kolo_local_rank() are noted, too,
 * since on one host both give the same number, and only one of them is right for edit 2. */
#ifndef COURSE_LESSON_3_EDITS_H
#define COURSE_LESSON_3_EDITS_H

#include <kolo.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EDITS_FOLDER "run/edits"
/* What one rank did. `asked` is the function whose number the pin takes: 0 none, 1 kolo_rank(), 2 kolo_local_rank().
 * `late`: 1 if kolo_init() came after another of Kolo's calls, + 2 if the pin came after kolo_compile(). `condition`:
 * kolo_rank() was asked, as for the save. */
typedef struct edits_note {
    char job[64];
    int launched, rank; /* of the launcher: they are known without kolo_init() */
    int size;           /* of kolo_size(): 1 without kolo_init() */
    int late, pinned, device, asked, averaged, trained, broadcast, root, saves, condition;
    double digest; /* of the weights */
} edits_note;

static edits_note edits = {.root = -1, .device = -1};
static int edits_begun; /* another call than kolo_init() was made */
static int edits_compiled;

static inline int edits_launched(const char *name, int otherwise)
{
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

static inline kolo_status edits_init(int *argc, char ***argv, kolo_here here)
{
    edits.late |= edits_begun;
    return kolo_init_at(argc, argv, here);
}

static inline int edits_rank(void)
{
    edits.asked |= edits.pinned ? 0 : 1;
    edits.condition = 1;
    return kolo_rank();
}

static inline int edits_local_rank(void)
{
    edits.asked |= edits.pinned ? 0 : 2;
    return kolo_local_rank();
}

/* `text` is the argument as it is written. A program may ask for both ranks before; then the text decides. */
static inline kolo_status edits_pin(int index, const char *text, kolo_here here)
{
    bool by_rank = !strstr(text, "local") && (strstr(text, "kolo_rank") || !strcmp(text, "rank"));
    if (edits.asked == 3) edits.asked = by_rank ? 1 : 2;
    if (edits_compiled) edits.late |= 2;
    edits.pinned = edits_begun = 1;
    edits.device = index;
    return kolo_pin_device_at(index, here);
}

static inline kolo_callback edits_broadcast(int root)
{
    edits.broadcast = 1;
    edits.root = root;
    return kolo_broadcast_variables(root);
}

/* Whether the optimizer that the model gets is the distributed one. */
static inline kolo_status edits_compile(const kolo_compile_args *args, kolo_here here)
{
    edits_begun = edits_compiled = 1;
    edits.averaged = args->optimizer.distributed;
    return kolo_compile_at(args, here);
}

static inline const kolo_history *edits_fit(const kolo_fit_args *args, kolo_here here)
{
    const kolo_history *history = kolo_fit_at(args, here);
    edits.trained = history != NULL;
    return history;
}

static inline kolo_model *edits_sequential(const kolo_layer *layers, kolo_here here)
{
    edits_begun = 1;
    return kolo_sequential_at(layers, here);
}

static inline kolo_status edits_save(const kolo_save_args *args, kolo_here here)
{
    edits.saves++;
    return kolo_save_at(args, here);
}

/* 500 digits that Kolo draws, the same on every rank. */
static inline kolo_data *edits_digits(void)
{
    edits_begun = 1;
    return kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 500);
}

/* A sum over all weights in which each has a factor of its own: equal for equal weights. */
static inline double edits_digest(kolo_model *model)
{
    double sum = 0;
    int64_t number = 0;
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++, number++) sum += weight.values[i] * (double)(1 + number % 97);
    }
    return sum;
}

static inline void edits_write(void)
{
    char path[64];
    mkdir("run", 0777);
    mkdir(EDITS_FOLDER, 0777);
    snprintf(path, sizeof path, EDITS_FOLDER "/rank-%d", edits.rank);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file,
            "job %s launched %d rank %d size %d late %d pinned %d device %d asked %d averaged %d trained %d broadcast "
            "%d "
            "root %d saves %d condition %d digest %.17g\n",
            edits.job, edits.launched, edits.rank, edits.size, edits.late, edits.pinned, edits.device, edits.asked,
            edits.averaged, edits.trained, edits.broadcast, edits.root, edits.saves, edits.condition, edits.digest);
    fclose(file);
}

/* Ends the program in the place of kolo_finish(): prints a line about this rank, and writes its notes for the check.
 * The exit code is 0 in any case, since a sabotaged program is to be looked at, not to end the notebook's run. */
static inline int edits_end(kolo_model *model)
{
    const char *job = getenv("PMIX_NAMESPACE");
    snprintf(edits.job, sizeof edits.job, "%s", job ? job : "none");
    edits.launched = edits_launched("OMPI_COMM_WORLD_SIZE", 1);
    edits.rank = edits_launched("OMPI_COMM_WORLD_RANK", 0);
    edits.size = kolo_size();
    edits.digest = edits_digest(model);
    printf("I am rank %d of %d; my weights have the digest %.6f; I have saved %d file%s\n", kolo_rank(), kolo_size(),
           edits.digest, edits.saves, edits.saves == 1 ? "" : "s");
    edits_write();
    kolo_finish();
    return 0;
}

#undef kolo_init
#undef kolo_pin_device
#undef kolo_sequential
#undef kolo_compile
#undef kolo_fit
#undef kolo_save
#define kolo_init(argc, argv)          edits_init(argc, argv, KOLO_HERE)
#define kolo_rank()                    edits_rank()
#define kolo_local_rank()              edits_local_rank()
#define kolo_pin_device(index)         edits_pin(index, #index, KOLO_HERE)
#define kolo_sequential(...)           edits_sequential((const kolo_layer[]){__VA_ARGS__, {0}}, KOLO_HERE)
#define kolo_broadcast_variables(root) edits_broadcast(root)
#define kolo_compile(...)              edits_compile(&(const kolo_compile_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
#define kolo_fit(...)                  edits_fit(&(const kolo_fit_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
#define kolo_save(...)                 edits_save(&(const kolo_save_args){._ = 0, __VA_ARGS__}, KOLO_HERE)

#endif
