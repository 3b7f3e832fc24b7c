/* Sections 9 to 12 of kolo.h: saving, collectives, showing, options of a program. Included by kolo.h: read that first.
 */
#ifndef KOLO_TOOLS_H
#define KOLO_TOOLS_H

#include "kolo.h"

/* ----------------------------------------------------------------------------------------------- 9 saving */

/* A remark in a file: UTF-8. */
typedef struct kolo_metadata {
    const char *key, *value;
} kolo_metadata;
#define KOLO_METADATA_MAX 16

typedef struct kolo_save_args {
    int _;
    const kolo_model *model;
    const char *path;
    kolo_guard *guard;
    kolo_metadata metadata[KOLO_METADATA_MAX]; /* of the caller's: .metadata = {{"author", "Ada"}} */
} kolo_save_args;

/* The weights as a safetensors file, which PyTorch's and Hugging Face's tools open too: the old file or the new,
 * whenever the process is killed. Holds no time, rank or device. In a callback, the weights of that moment. */
#define kolo_save(...) kolo_save_at(&(const kolo_save_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_save_at(const kolo_save_args *args, kolo_here here);

typedef struct kolo_load_args {
    int _;
    kolo_model *model;
    const char *path;
    kolo_guard *guard;
    bool by_name;       /* take the arrays that file and model both have; the others stay as they are */
    bool skip_mismatch; /* leave out arrays of another shape; they stay as they are */
} kolo_load_args;

/* Takes the weights from a safetensors file (of float32, or float16, bfloat16, float64, converted) with the same names
 * and shapes: one that kolo_save(), kolo_model_save() or kolo_checkpoint_save() wrote, or another's. What .by_name and
 * .skip_mismatch leave out is told in one sentence on stderr; nothing taken at all is a failure. On failure nothing has
 * changed. */
#define kolo_load(...) kolo_load_at(&(const kolo_load_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_load_at(const kolo_load_args *args, kolo_here here);

/* The model's layers as JSON: kinds, options that were given, and what each layer takes; no weights. From malloc: the
 * caller frees it. NULL on failure. A layer of one's own is written by the name of its kind and its .number; one with a
 * .user cannot be. */
#define kolo_model_to_json(model) kolo_model_to_json_at(model, KOLO_HERE)
char *kolo_model_to_json_at(const kolo_model *model, kolo_here here);
/* The model of such a text, checked as kolo_apply() checks it; its weights are drawn by kolo_compile(). NULL on
 * failure: an unknown kind or option, a value of another type, a layer that takes one that does not stand before it. */
#define kolo_model_from_json(text) kolo_model_from_json_at(text, KOLO_HERE)
kolo_model *kolo_model_from_json_at(const char *text, kolo_here here);
/* Makes a layer of one's own known by its kind's .name, which must be none of Kolo's; one of the same name is replaced.
 * The kind must stay where it is. For the whole process; any thread. */
#define kolo_register_layer(kind) kolo_register_layer_at(kind, KOLO_HERE)
kolo_status kolo_register_layer_at(const kolo_layer_kind *kind, kolo_here here);

/* Layers and weights in one safetensors file: kolo_save() with the JSON among its metadata. */
#define kolo_model_save(model, path) kolo_model_save_at(model, path, KOLO_HERE)
kolo_status kolo_model_save_at(const kolo_model *model, const char *path, kolo_here here);
/* The model of such a file, with its weights; to be compiled. NULL on failure. */
#define kolo_load_model(path) kolo_load_model_at(path, KOLO_HERE)
kolo_model *kolo_load_model_at(const char *path, kolo_here here);

/* A training as it stands: weights, layers, the optimizer's state, learning rate, seed, epochs and steps done. Between
 * fits, or in a callback: then of that moment. kolo_load() and kolo_load_model() read it too. Of ranks that train
 * together rank 0 writes, and the others' calls do nothing. Holds no rank or device; of time, within an epoch, the
 * seconds that its steps took. Gradients that wait for their update (.accumulate_steps) are in it in deterministic mode,
 * and where one device of one rank trains; elsewhere the group that was begun is given up, and a resumed training begins
 * a new one. */
#define kolo_checkpoint_save(model, path) kolo_checkpoint_save_at(model, path, KOLO_HERE)
kolo_status kolo_checkpoint_save_at(kolo_model *model, const char *path, kolo_here here);
/* Takes all of that, into a model of the same layers that was compiled with the same optimizer, on any number of
 * devices; kolo_fit(.resume = true) then goes on from there. Every rank must call it and be able to read the file. On
 * failure nothing has changed. */
#define kolo_checkpoint_load(model, path) kolo_checkpoint_load_at(model, path, KOLO_HERE)
kolo_status kolo_checkpoint_load_at(kolo_model *model, const char *path, kolo_here here);

/* A remark of a safetensors file; NULL: it has none of that key, or a failure. From malloc: the caller frees it. */
#define kolo_read_metadata(path, key) kolo_read_metadata_at(path, key, KOLO_HERE)
char *kolo_read_metadata_at(const char *path, const char *key, kolo_here here);

/* The history as JSON, as the programs' --history writes it. */
#define kolo_history_save(history, path) kolo_history_save_at(history, path, KOLO_HERE)
kolo_status kolo_history_save_at(const kolo_history *history, const char *path, kolo_here here);
/* One from such a file, the caller's until kolo_history_free(); NULL on failure. */
#define kolo_history_load(path) kolo_history_load_at(path, KOLO_HERE)
kolo_history *kolo_history_load_at(const char *path, kolo_here here);

/* ------------------------------------------------------------------------------------------ 10 collectives */

/* Between the ranks, in place, called by all of them with the same count. With one rank they do nothing. */
#define kolo_allreduce(values, count) kolo_allreduce_at(values, count, KOLO_HERE) /* becomes the sum */
kolo_status kolo_allreduce_at(float *values, int64_t count, kolo_here here);
#define kolo_broadcast(values, count, root) kolo_broadcast_at(values, count, root, KOLO_HERE)
kolo_status kolo_broadcast_at(float *values, int64_t count, int root, kolo_here here);
/* all[size][count] */
#define kolo_allgather(values, count, all) kolo_allgather_at(values, count, all, KOLO_HERE)
kolo_status kolo_allgather_at(const float *values, int64_t count, float *all, kolo_here here);
#define kolo_barrier() kolo_barrier_at(KOLO_HERE)
kolo_status kolo_barrier_at(kolo_here here);

/* --------------------------------------------------------------------------------------------- 11 showing */

/* Shows text of a MIME type ("text/plain", "text/html", "image/svg+xml", …) under the notebook cell, also from a
 * launched program; in a terminal prints it if it is text/plain, and nothing otherwise. */
kolo_status kolo_display(const char *mime, const char *text);
/* The same for bytes: "image/png". */
kolo_status kolo_display_bytes(const char *mime, const void *data, size_t size);
/* Shows, and from the second time on replaces, what carries this id. */
kolo_status kolo_update_display(const char *id, const char *mime, const char *text);
/* Clears the cell's output, or with wait as soon as there is something new to show. */
kolo_status kolo_clear_output(bool wait);

typedef struct kolo_series {
    const char *name;
    const double *x; /* NULL: 1, 2, 3, … */
    const double *y; /* what is not finite, or not above 0 on a logarithmic axis, is a gap */
    int count;
} kolo_series;
#define KOLO_SERIES_MAX 12

typedef struct kolo_plot_args {
    int _;
    const char *title;
    kolo_guard *guard;
    const char *x_label, *y_label;
    kolo_series series[KOLO_SERIES_MAX];
    const char *const *labels; /* of bars: one for each value of the series; NULL: lines */
    bool log_x, log_y;
    bool y_from_zero;
    int width, height; /* pixels, default 640 × 360 */
    const char *file; /* also written there: .svg or .png */
} kolo_plot_args;

/* A chart of lines with points, or of bars: a picture in a notebook, drawn in characters in a terminal. */
#define kolo_plot(...) kolo_plot_at(&(const kolo_plot_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_plot_at(const kolo_plot_args *args, kolo_here here);

typedef struct kolo_plot_history_args {
    int _;
    const kolo_history *history;
    kolo_guard *guard;
    const char *metrics[KOLO_METRICS_MAX]; /* names; default: the loss and every metric */
    int width, height; /* pixels of one chart, default 420 × 300 */
    const char *file; /* also written there: .svg or .png */
} kolo_plot_history_args;

/* A chart for the loss and each metric over the epochs, with its validation's curve beside it. */
#define kolo_plot_history(...) kolo_plot_history_at(&(const kolo_plot_history_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_plot_history_at(const kolo_plot_history_args *args, kolo_here here);

typedef struct kolo_plot_samples_args {
    int _;
    const kolo_data *data;
    kolo_guard *guard;
    int64_t first;    /* sample, from 0 */
    int count;        /* samples, at most 1000; default 20 */
    int columns;      /* at most 100; default 10 */
    const char *file; /* the picture is also written there: .png */
} kolo_plot_samples_args;

/* Samples of a data set: pictures, each under its label, of samples that are pictures ({height, width} or with 1 or 3
 * channels; the brightest value shown, at least 1, is white), else their first numbers; in a terminal in words. */
#define kolo_plot_samples(...) kolo_plot_samples_at(&(const kolo_plot_samples_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_plot_samples_at(const kolo_plot_samples_args *args, kolo_here here);

/* --------------------------------------------------------------------------------- 12 options of a program */

/* An option of one program's own: its name, what stands behind it, and where that goes, which is one of these. */
typedef struct kolo_program_option {
    const char *name;    /* "warmup-epochs" */
    const char *value;   /* in the words of --help: "N"; of a choice its words: "adam|sgd|lamb" */
    const char *help;    /* what it does; the default, which is what stands there before, is added */
    bool *flag;          /* --name alone sets it */
    int *count;          /* at least 1 */
    double *number;      /* above 0 */
    const char **choice; /* one of the words of .value, from the command line */
    const char **text;   /* any that is not empty, from the command line */
    bool or_zero;        /* a count or a number may be 0, too */
    bool written;        /* the text names a file to write: one that cannot be is answered as --save's is */
    const char *ending;  /* ".png": the text must end so */
    bool device;         /* the text must name a device: "host", "cpu:0" */
} kolo_program_option;
#define KOLO_OWN_OPTIONS_MAX 32

/* What every program of the lessons understands. Fill in the program's defaults, then let the command line change
 * them. */
typedef struct kolo_options {
    const char *data; /* --data NAME|FOLDER|synthetic */
    const char *data_help; /* what a program takes there, in the words of --help; default: .data and what else there may be */
    int batch_size;
    int epochs;
    bool drop_remainder;
    double learning_rate;
    kolo_precision precision; /* --precision fp32|bf16|fp16|tf32 */
    uint64_t seed;
    bool deterministic;
    int devices; /* --devices N: mirrored replicas; 0: not asked for */
    const char *strategy; /* --strategy NAME, one of KOLO_STRATEGIES; NULL: not asked for */
    const char *save; /* --save FILE.safetensors */
    const char *history; /* --history FILE, JSON */
    int steps_per_epoch;
    bool no_validation;
    bool trains_nothing; /* then of all these --devices alone is understood, beside --help and the program's own */
    const kolo_program_option *own; /* the program's own, ended by one of all zeros; NULL: none. None has the name of another */
} kolo_options;

/* Reads the command line. --help is answered with exit 0. An unknown option, an impossible value, more --devices than
 * there are, or a --save or --history target that cannot be written is answered by rank 0 with one sentence on stderr,
 * and every rank exits with 2 (1 for the target). Call it after kolo_init(): where that failed, the program ends here
 * with kolo_finish()'s code. */
void kolo_parse_options(int argc, char **argv, kolo_options *options, const char *what_the_program_does);
/* The strategy that the options ask for. */
kolo_strategy kolo_options_strategy(const kolo_options *options);

#endif
