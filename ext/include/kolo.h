/* Kolo: training neural networks on one device, on many, and on many ranks.
 *
 * The whole public interface, in C17 (not C++), in the order of the lessons:
 *   1 errors   2 the runtime: ranks and devices   3 data   4 layers and models   5 optimizers, losses, metrics
 *   6 strategies   7 compile, fit, evaluate, predict   8 callbacks   9 saving   10 collectives, a model of links   11 display
 *   12 options of a program
 *
 * How to read a call. Most calls take designated initializers: `kolo_fit(model, data, .epochs = 8, .batch_size = 512)`.
 * An option that is left out has its default. A number that is written as zero is zero: kolo_adamw(.weight_decay = 0)
 * decays nothing, while kolo_adamw() decays by 0.004. If an option cannot be zero, a zero is an error or means the
 * default. A call reads its own source text to see which options were written. Therefore zero means the default in a
 * struct that is filled in by hand and in a macro's replacement; KOLO_NONE means zero there. A misspelt option does not
 * compile, and neither does a positional argument too many.
 *
 * Shapes are of one sample, channels last: {height, width, channels}; the batch is never written. Sizes are in
 * elements unless a name says bytes; times are seconds; rates are per second.
 *
 * Recipes (layers, optimizers, strategies, callbacks) are plain values: they need not be freed and can be used again.
 * Handles (models, data) are pointers: kolo_x_free(&x) accepts NULL and sets x to NULL.
 *
 * On failure a call returns a kolo_status other than KOLO_OK, or NULL, or NaN, and prints one sentence on stderr. The
 * same sentence is printed only once. The first failure is kept: see kolo_last_error(). A call with a NULL handle does
 * nothing and fails without a message, so a program may check once, at kolo_finish(); a NULL that no earlier failure
 * explains is a failure of its own. No call exits, aborts or blocks because of a user's mistake. Unless its comment
 * says otherwise (section 7 does for scores and outputs), a call must be made by the thread that called kolo_init(), on
 * every rank.
 */
#ifndef KOLO_H
#define KOLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KOLO_VERSION "0.1.0"

/* The place of a call in the caller's source: the `cnn.c:14` of a message. */
typedef struct kolo_here {
    const char *file;
    int line;
} kolo_here;
#define KOLO_HERE ((kolo_here){__FILE__, __LINE__})

/* "Really zero", for places where a call cannot see that a zero was written: args.momentum = KOLO_NONE in a struct.
 * No program writes this number for another reason. */
#define KOLO_NONE (-2147483647)

/* The type of the member that follows the positional arguments of every call. It makes an argument whose name was
 * forgotten a compiler error (with -Werror=int-conversion -Werror=incompatible-pointer-types, which kolo.pc sets). The
 * type is never defined. */
typedef struct kolo_name_of_this_option_was_forgotten kolo_guard;

/* ------------------------------------------------------------------------------------------------ 1 errors */

typedef enum kolo_status {
    KOLO_OK = 0,
    KOLO_INVALID,     /* an argument is out of its range, or shapes do not fit */
    KOLO_NOT_FOUND,   /* a file, a folder, a backend or a device does not exist */
    KOLO_IO,          /* reading or writing failed: permission, a full disk */
    KOLO_FORMAT,      /* a file does not have the expected format */
    KOLO_MEMORY,      /* out of memory */
    KOLO_UNSUPPORTED, /* this machine or this build cannot do it */
    KOLO_COMM,        /* another rank or replica failed */
    KOLO_INTERRUPTED, /* a stop was requested */
    KOLO_INTERNAL     /* a bug in Kolo */
} kolo_status;

typedef struct kolo_error {
    kolo_status code;
    const char *text; /* the whole sentence: "cnn.c:14: kolo_sequential: layer 3 (max_pool2d): …"; "" if none */
    const char *file; /* the caller's file, or "" */
    int line;
    int rank;
} kolo_error;

/* The first failure of the calling thread, or of a thread that worked for it, since kolo_clear_error(). Later failures
 * are printed, but do not replace it. The texts belong to Kolo and are valid until this thread's next
 * kolo_clear_error(). */
kolo_error kolo_last_error(void);
/* Says that the program has handled the failure: the kept failure is dropped, kolo_finish() returns 0 unless something
 * fails later, and sentences that were printed may be printed again. Also takes back kolo_request_stop(). */
void kolo_clear_error(void);
const char *kolo_status_name(kolo_status status);

/* --------------------------------------------------------------------------- 2 the runtime: ranks and devices */

/* Starts Kolo: joins the other ranks if a launcher started this process as one of several, or if TF_CONFIG names it as
 * one; otherwise the process is rank 0 of 1, as is a program that never calls it. In a rank of a launcher or of
 * TF_CONFIG, collectives and training with other ranks fail before this call and after kolo_finish(). May be called
 * again. Both arguments may be NULL. Fails if one of Kolo's environment variables (KOLO_BACKEND, KOLO_DEVICES,
 * KOLO_CPU_DEVICES, KOLO_GPU_DEVICES, KOLO_THREADS, KOLO_STALL_LIMIT) has an impossible value. If a launcher's ranks have
 * not all called it within KOLO_STALL_LIMIT seconds, but at least 10, the ranks that have called it end the job with a
 * sentence.
 *
 * TF_CONFIG is TensorFlow's variable for processes that are started each by itself, in any order:
 *     {"cluster": {"worker": ["one:2222", "two:2222"]}, "task": {"type": "worker", "index": 0}}
 * The ranks are the "chief", if there is one, and the "worker"s in their order. They wait for each other for
 * KOLO_STALL_LIMIT seconds. An "evaluator" is rank 0 of 1; a "ps" is refused. KOLO_CLUSTER_KEY, 64 hexadecimal
 * digits that all ranks share (openssl rand -hex 32), encrypts and authenticates all connections by CurveZMQ. Without
 * it nothing is encrypted, as in TensorFlow: use that in a network of people whom you trust. A launcher's ranks ignore
 * both variables. */
#define kolo_init(argc, argv) kolo_init_at(argc, argv, KOLO_HERE)
kolo_status kolo_init_at(int *argc, char ***argv, kolo_here here);

/* Leaves the job. Returns the exit code for main(): 0; 1 if any call failed since the start or the last
 * kolo_clear_error(), or if stdout could not be written; 2 if kolo_init() found a wrong environment variable. With
 * several ranks, a rank that failed ends the whole job. In a callback of a call that runs, or in a child of fork(), it
 * only fails: a child has no ranks, and its collectives fail, too. */
int kolo_finish(void);

int kolo_rank(void);       /* 0 … size-1 */
int kolo_size(void);       /* ranks in the job */
int kolo_local_rank(void); /* number among the ranks of this host */
int kolo_local_size(void); /* ranks on this host */
int kolo_cross_rank(void); /* number of this host */
int kolo_cross_size(void); /* hosts */

/* The operation of a reduction over the ranks, for each element (section 10, kolo_distributed()). Sums and products of
 * integers wrap around. A minimum or maximum with NaN among the values is undefined. */
typedef enum kolo_reduce_op {
    KOLO_REDUCE_SUM, /* the default */
    KOLO_REDUCE_MEAN, /* the sum divided by the number of ranks; not for integers */
    KOLO_REDUCE_MIN,
    KOLO_REDUCE_MAX,
    KOLO_REDUCE_PRODUCT,
    /* Adasum, for floats: orthogonal vectors add up, equal ones are averaged. For two ranks
     * (1 − a·b / (2 a·a)) a + (1 − a·b / (2 b·b)) b; for more the results of pairs are combined in pairs again. Maleki et
     * al. 2020, arXiv 2006.02924. Horovod wants a power of two of ranks; here a rank without a partner keeps its
     * vector until the next round. */
    KOLO_REDUCE_ADASUM
} kolo_reduce_op;

/* The numbers as which gradients travel between ranks. */
typedef enum kolo_compression {
    KOLO_COMPRESSION_NONE, /* float32, the default */
    KOLO_COMPRESSION_FP16, /* IEEE binary16 */
    KOLO_COMPRESSION_BF16  /* bfloat16 */
} kolo_compression;

typedef struct kolo_device {
    int index;
    char name[32];       /* "cpu:0", "gpu:0" */
    char description[96]; /* of the hardware; begins with "virtual" if devices share it */
    double cores;         /* CPU cores of this device */
    int64_t memory_bytes; /* this device's part of its GPU's memory, or of the memory that this process may use */
    int64_t free_bytes;   /* CPU: this device's part of the free memory; GPU: all free memory, even if it is shared */
    int64_t taken_bytes;  /* bytes of its GPU's memory that this process's models and data take; 0 for a CPU */
    bool is_virtual;      /* shares its hardware with other devices */
} kolo_device;
#define KOLO_DEVICES_MAX 256

/* The number of devices that this process may use. They are GPUs ("gpu:0", …) if the machine has any. KOLO_GPU_DEVICES
 * replaces them, for teaching, by that many virtual ones; virtual GPU n uses GPU n modulo the number of GPUs. If there
 * is no GPU, or KOLO_DEVICES is "cpu", or KOLO_BACKEND computes on the host, the devices are KOLO_CPU_DEVICES virtual
 * CPU devices (default 8), which run in threads. If CUDA_VISIBLE_DEVICES is set, only the devices in its list count,
 * renumbered in its order. As in CUDA, the list ends at the first entry that names no device, and an empty list leaves
 * no device: the host computes then. All these variables are read whenever they are needed, so a notebook cell may set
 * them; a model that is already compiled keeps its devices. With KOLO_DEVICES=gpu a missing GPU is an error. If the
 * devices are GPUs, the name "cpu:1" means "gpu:1". */
int kolo_device_count(void);
kolo_device kolo_device_get(int index); /* .index is -1 if there is no such device */

typedef struct kolo_device_list {
    int count;
    kolo_device device[KOLO_DEVICES_MAX];
} kolo_device_list;
typedef struct kolo_devices_args {
    int _;
    int most; /* at most this many devices, from the first; default: all */
    kolo_guard *guard;
    bool print; /* also prints a table on stdout, on rank 0 */
} kolo_devices_args;
/* The devices that this process may use. Options take their .name, kolo_pin_device() takes their .index. If the
 * environment asks for a device or backend that is missing (KOLO_DEVICES=gpu, KOLO_BACKEND=cuda), the call fails with
 * the reason, and the list holds the devices that exist. */
#define kolo_devices(...) kolo_devices_at(&(const kolo_devices_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_device_list kolo_devices_at(const kolo_devices_args *args, kolo_here here);

/* Restricts this process to the listed devices, for instance "0,2", and renumbers them in that order. "" leaves no
 * device; NULL restores all devices that the environment allows. Cancels kolo_pin_device(). On failure nothing has
 * changed. */
#define kolo_set_visible_devices(list) kolo_set_visible_devices_at(list, KOLO_HERE)
kolo_status kolo_set_visible_devices_at(const char *list, kolo_here here);

/* Makes this process compute on that device only. The index is taken modulo the number of devices, so a local rank can
 * be passed as it is. A pinned virtual CPU device uses all cores of the process (kolo_threads(); kolorun divides a
 * host's cores among its ranks). So does a model without a strategy, pinned or not. */
#define kolo_pin_device(index) kolo_pin_device_at(index, KOLO_HERE)
kolo_status kolo_pin_device_at(int index, kolo_here here);

/* Cores that this process may compute with: KOLO_THREADS, or else all that the system allows it. */
int kolo_threads(void);

/* How many devices, or ranks of this host, can compute at the same time: the number of GPUs, or kolo_threads() if the
 * devices are CPU devices. More devices take turns and gain nothing. At least 1. */
int kolo_hardware_count(void);

/* Asks the running call (a fit, an evaluation) to end cleanly at the next microbatch. Async-signal-safe; any thread.
 * The request holds until kolo_clear_error() or until the call that obeyed it ends; a call made by a callback leaves
 * the request to the fit, which ends too. The library handles no signals: Ctrl-C ends a program at once unless the
 * program has a handler that makes this request. Then kolo_fit() returns the completed epochs, on_train_end is called,
 * and kolo_backup_and_restore() keeps the state:
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

#include "kolo_topology.h" /* the rest of section 2: connections between devices */

/* ------------------------------------------------------------------------------ 3 to 12, in separate headers */

#include "kolo_data.h"
#include "kolo_files.h"
#include "kolo_transforms.h"
#include "kolo_layers.h"
#include "kolo_optimizers.h"
#include "kolo_losses.h"
#include "kolo_training.h"
#include "kolo_callbacks.h"
#include "kolo_tools.h"
#include "kolo_link_model.h"
#include "kolo_what_if.h"

#endif
