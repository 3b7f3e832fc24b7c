/* Kolo: training neural networks on one device, on many, and on many ranks.
 *
 * The whole public interface, in C17 (not C++), in the order in which the lessons meet it:
 *   1 errors   2 the runtime: ranks and devices   3 data   4 layers and models   5 optimizers, losses, metrics
 *   6 strategies   7 compile, fit, evaluate, predict   8 callbacks   9 saving   10 collectives   11 showing
 *   12 options of a program
 *
 * How to read a call. Most take designated initializers: `kolo_fit(model, data, .epochs = 8, .batch_size = 512)`.
 * An option left out has its default. A number that is written as zero is zero: kolo_adamw(.weight_decay = 0) decays
 * nothing, kolo_adamw() by 0.004. Where a zero makes no sense it is one sentence, or the default. The call knows what is
 * written from its own text, so in a struct that is filled in by hand, in the list of an array, and in a macro's
 * replacement zero means the default; KOLO_NONE is zero there too. A misspelt option does not compile, and neither does
 * a positional argument too many.
 *
 * Shapes are of one sample, channels last: {height, width, channels}; the batch is never written. Sizes are in
 * elements unless a name says bytes; times are seconds; rates are per second.
 *
 * Recipes (layers, optimizers, strategies, callbacks) are plain values: nothing to free, and usable again. Handles
 * (models, data) are pointers: kolo_x_free(&x) takes NULL and leaves NULL.
 *
 * On failure a call returns a kolo_status other than KOLO_OK, or NULL, or NaN, and prints one sentence on stderr, the
 * same one only once. The first is kept: see kolo_last_error(). Calls on NULL handles do nothing and fail quietly, so a
 * program may check once, at kolo_finish() (a NULL that no failure explains is one itself). No call exits, aborts or
 * blocks on a user's mistake. Unless it says otherwise (section 7 does of scores and outputs) a call belongs to the
 * thread that called kolo_init(), on every rank.
 */
#ifndef KOLO_H
#define KOLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KOLO_VERSION "0.1.0"

/* Where in the caller's source a call stands: the `cnn.c:14` of a message. */
typedef struct kolo_here {
    const char *file;
    int line;
} kolo_here;
#define KOLO_HERE ((kolo_here){__FILE__, __LINE__})

/* "Really zero", where the call does not see that a zero was written: .class_weight = {1, KOLO_NONE}, or
 * args.momentum = KOLO_NONE in a struct. A value that nobody means by chance. */
#define KOLO_NONE (-2147483647)

/* Stands behind the positional arguments of every call, so that an argument whose name was forgotten is an error of
 * the compiler (with -Werror=int-conversion -Werror=incompatible-pointer-types, as kolo.pc has it). Never defined. */
typedef struct kolo_name_of_this_option_was_forgotten kolo_guard;

/* ------------------------------------------------------------------------------------------------ 1 errors */

typedef enum kolo_status {
    KOLO_OK = 0,
    KOLO_INVALID,     /* an argument out of its range, shapes that do not fit */
    KOLO_NOT_FOUND,   /* a file, a folder, a backend, a device that is not there */
    KOLO_IO,          /* reading or writing failed: permission, a full disk */
    KOLO_FORMAT,      /* a file that is not what it should be */
    KOLO_MEMORY,      /* out of memory */
    KOLO_UNSUPPORTED, /* this machine or this build cannot */
    KOLO_COMM,        /* another rank or replica failed */
    KOLO_INTERRUPTED, /* a stop was requested */
    KOLO_INTERNAL     /* a fault of Kolo's own */
} kolo_status;

typedef struct kolo_error {
    kolo_status code;
    const char *text; /* the whole sentence: "cnn.c:14: kolo_sequential: layer 3 (max_pool2d): …"; "" if none */
    const char *file; /* the caller's file, or "" */
    int line;
    int rank;
} kolo_error;

/* The first failure since kolo_clear_error(), of the calling thread or one that worked for it: later ones are printed,
 * but do not take its place. Owned by Kolo, valid until the next clear on this thread. */
kolo_error kolo_last_error(void);
/* The program has handled what failed: nothing is kept, kolo_finish() returns 0 unless something fails after it, and
 * sentences that were printed may be printed again. */
void kolo_clear_error(void);
const char *kolo_status_name(kolo_status status);

/* --------------------------------------------------------------------------- 2 the runtime: ranks and devices */

/* Starts Kolo: joins the other ranks if a launcher started this process as one of several, else rank 0 of 1. May be
 * called again. Both arguments may be NULL. A program that never calls it is rank 0 of 1. Fails where one of Kolo's
 * variables in the environment (KOLO_BACKEND, KOLO_DEVICES, KOLO_CPU_DEVICES, KOLO_GPU_DEVICES, KOLO_THREADS) holds what
 * cannot be. */
#define kolo_init(argc, argv) kolo_init_at(argc, argv, KOLO_HERE)
kolo_status kolo_init_at(int *argc, char ***argv, kolo_here here);

/* Leaves the job. Returns what main should: 0, or 1 if any call failed since the start or the last kolo_clear_error(),
 * or 2 if it was kolo_init() that found the environment wrong. With several ranks, a rank that failed ends the whole job. */
int kolo_finish(void);

int kolo_rank(void);       /* 0 … size-1 */
int kolo_size(void);       /* ranks in the job */
int kolo_local_rank(void); /* among the ranks of this host */
int kolo_local_size(void);
int kolo_cross_rank(void); /* the host's number */
int kolo_cross_size(void); /* hosts */

typedef struct kolo_device {
    int index;
    char name[32];       /* "cpu:0", "gpu:0" */
    char description[96]; /* of the hardware behind it; says "virtual" where devices share it */
    double cores;        /* CPU cores that are this device's share */
    int64_t memory_bytes; /* and its share of the memory that this process may use, or of its GPU's */
    int64_t free_bytes;   /* what nobody has taken: of a CPU's its share, of a GPU's memory all, also where it is shared */
    int64_t taken_bytes;  /* of its GPU's memory, what this process's models and data have; 0 of a CPU's */
    bool is_virtual;      /* shares its hardware with others */
} kolo_device;
#define KOLO_DEVICES_MAX 256

/* How many devices this process may use. They are GPUs where there are any, "gpu:0" and so on; KOLO_GPU_DEVICES: so
 * many virtual ones, number n on GPU n modulo their number, to teach with. Where there is none, or KOLO_DEVICES is
 * "cpu", or KOLO_BACKEND computes on the host, they are virtual CPU devices, KOLO_CPU_DEVICES of them (default 8), in
 * threads. Those alone that CUDA_VISIBLE_DEVICES lists, where that is set, numbered anew in its order. As in CUDA its
 * list ends at the first entry that names no device, and an empty one leaves none: then the host computes. All of these
 * are read whenever they are needed, so a cell may set them; a model that is compiled already keeps its devices.
 * KOLO_DEVICES=gpu makes it an error that there is no GPU. A name "cpu:1" stands for "gpu:1" where devices are GPUs. */
int kolo_device_count(void);
kolo_device kolo_device_get(int index); /* .index is -1 where there is none */

typedef struct kolo_device_list {
    int count;
    kolo_device device[KOLO_DEVICES_MAX];
} kolo_device_list;
typedef struct kolo_devices_args {
    int _;
    int most; /* the first so many; default: all */
    kolo_guard *guard;
    bool print; /* a table on stdout too, from rank 0 */
} kolo_devices_args;
/* The devices this process may use: their .name is what options want, their .index what kolo_pin_device() does. Where the
 * environment asks for what is not there (KOLO_DEVICES=gpu, KOLO_BACKEND=cuda), that is a failure, with the reason why,
 * and the list is of what there is. */
#define kolo_devices(...) kolo_devices_at(&(const kolo_devices_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_device_list kolo_devices_at(const kolo_devices_args *args, kolo_here here);

/* From now on this process sees only those of its devices, "0,2" for instance, numbered anew in that order; "" is none,
 * NULL all that the environment leaves. Takes back kolo_pin_device(). On failure nothing has changed. */
#define kolo_set_visible_devices(list) kolo_set_visible_devices_at(list, KOLO_HERE)
kolo_status kolo_set_visible_devices_at(const char *list, kolo_here here);

/* This process computes on that device alone; index is taken modulo the count, so a local rank can be given as it
 * is. A virtual one then has all the cores of the process, which kolorun has dealt to its ranks (KOLO_THREADS), as the one
 * device has of a model with no strategy in a process that pins none. */
#define kolo_pin_device(index) kolo_pin_device_at(index, KOLO_HERE)
kolo_status kolo_pin_device_at(int index, kolo_here here);

/* Cores this process may compute with: KOLO_THREADS, or else all that it is allowed. */
int kolo_threads(void);

/* How much hardware is behind the devices: GPUs, or of the CPU's kolo_threads(). So many devices, or ranks of this host,
 * compute at once, which is as much as more of them can bring; others take turns. At least 1. */
int kolo_hardware_count(void);

/* Asks whatever runs (a fit, an evaluation) to end cleanly at the next microbatch. Async-signal-safe; any thread. Stays
 * requested until kolo_clear_error() or the end of the call that obeyed it; one that a callback makes leaves it to the
 * fit, which ends too. The library handles no signal: Ctrl-C ends a program at once, unless its own handler asks. Then
 * kolo_fit() returns the epochs that were completed, on_train_end is called, kolo_backup_and_restore() keeps the state:
 *
 *     static void stop(int number)
 *     {
 *         signal(number, SIG_DFL); // the next Ctrl-C ends the program at once
 *         kolo_request_stop();
 *     }
 *     …
 *     signal(SIGINT, stop); // after kolo_init(); #include <signal.h>
 */
void kolo_request_stop(void);

#include "kolo_topology.h" /* the rest of section 2: what joins the devices */

/* ------------------------------------------------------------------------------ 3 to 12, in headers of their own */

#include "kolo_data.h"
#include "kolo_files.h"
#include "kolo_transforms.h"
#include "kolo_layers.h"
#include "kolo_optimizers.h"
#include "kolo_losses.h"
#include "kolo_training.h"
#include "kolo_callbacks.h"
#include "kolo_tools.h"

#endif
