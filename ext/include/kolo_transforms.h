/* Section 3 of kolo.h, continued: data sets made of data sets. Included by kolo.h: read that first, and kolo_data.h.
 *
 * Each call takes a data set and gives another, to be freed like any other; both may be freed in any order. Samples
 * are worked out when they are asked for, unless it says otherwise, by several threads at once. A NULL data set gives
 * NULL. Batches are kolo_fit()'s: .batch_size. */
#ifndef KOLO_TRANSFORMS_H
#define KOLO_TRANSFORMS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------ numbers */

typedef struct kolo_standardize_args {
    int _;
    kolo_data *data;
    kolo_guard *guard;
    kolo_data *like;  /* the mean and deviation are this one's: of what it was made with, if kolo_standardize() made it,
                         else of its numbers. As a test's data want those of the training data. NULL, which a call that
                         failed gives, is the same as none */
    bool per_element; /* each element of a sample has its own; default: each index of the last axis, a column of a
                         table, a channel of images */
} kolo_standardize_args;

/* (x - mean) / deviation, of the population: Keras's Normalization, scikit-learn's StandardScaler. What is always the
 * same becomes 0; NaN stays NaN and counts for nothing. Reads all of data at once. */
#define kolo_standardize(...) kolo_standardize_at(&(const kolo_standardize_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_standardize_at(const kolo_standardize_args *args, kolo_here here);

typedef struct kolo_min_max_args {
    const char *_;
    kolo_data *data;
    kolo_guard *guard;
    kolo_data *like;            /* as kolo_standardize()'s: the least and the largest are this one's */
    bool per_element;           /* likewise */
    double low, high;           /* the range wanted; default 0 and 1 */
    double from_low, from_high; /* the range there is, 0 and 255; default: what the data have */
} kolo_min_max_args;

/* (x - least) / (largest - least) · (high - low) + low: scikit-learn's MinMaxScaler. What is always the same becomes
 * low. Reads all of data at once unless .from_high says what to expect; numbers beyond that go beyond the range. */
#define kolo_min_max(...) kolo_min_max_at(&(const kolo_min_max_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_min_max_at(const kolo_min_max_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ labels */

typedef struct kolo_one_hot_args {
    int _;
    kolo_data *data;
    kolo_guard *guard;
    int classes; /* numbers of each row; default: the classes of data */
} kolo_one_hot_args;

/* Labels as targets, a row of 0s with a 1 where the label is, for KOLO_CATEGORICAL_CROSSENTROPY and its like. The labels
 * stay, too. */
#define kolo_one_hot(...) kolo_one_hot_at(&(const kolo_one_hot_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_one_hot_at(const kolo_one_hot_args *args, kolo_here here);

typedef struct kolo_label_index_args {
    const char *_;
    kolo_data *data;
    kolo_guard *guard;
    kolo_data *like;  /* labels are numbered as kolo_label_index() did here; NULL: anew */
    double threshold; /* above it a single number is class 1; default 0.5 */
} kolo_label_index_args;

/* Targets become labels: the index of the largest in each row, the last axis. Where there are labels alone they are
 * numbered anew, 0 the most frequent, ties in their order, none left out (Spark's StringIndexer). */
#define kolo_label_index(...) kolo_label_index_at(&(const kolo_label_index_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_label_index_at(const kolo_label_index_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ which samples, in what order */

typedef struct kolo_shuffle_args {
    int _;
    kolo_data *data;
    kolo_guard *guard;
    int64_t buffer_size; /* each sample is drawn from so many, the next ones that are left; default: all */
    uint64_t seed;       /* default 1 */
} kolo_shuffle_args;

/* The samples in a random order, once and for all; kolo_fit() draws another for each epoch beside (.no_shuffle,
 * .shuffle_buffer). With .buffer_size as tf.data's shuffle() goes about it: what stands far back cannot come first. */
#define kolo_shuffle(...) kolo_shuffle_at(&(const kolo_shuffle_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_shuffle_at(const kolo_shuffle_args *args, kolo_here here);

typedef struct kolo_data_split_args {
    int _;
    kolo_data *data;
    double share; /* of the samples, between 0 and 1, that the first gets; rounded, with one at least on either side */
    kolo_data **first, **second;
    kolo_guard *guard;
    bool no_shuffle; /* as they stand; default: in a random order */
    uint64_t seed;   /* default 1 */
} kolo_data_split_args;

/* Two parts, each to be freed; both NULL on failure: kolo_data_split(data, 0.7, &train, &test). */
#define kolo_data_split(...) kolo_data_split_at(&(const kolo_data_split_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_data_split_at(const kolo_data_split_args *args, kolo_here here);

/* The first so many samples, or all if there are fewer; all but the first so many. As slices. */
#define kolo_take(data, samples) kolo_take_at(data, samples, KOLO_HERE)
kolo_data *kolo_take_at(kolo_data *data, int64_t samples, kolo_here here);
#define kolo_skip(data, samples) kolo_skip_at(data, samples, KOLO_HERE)
kolo_data *kolo_skip_at(kolo_data *data, int64_t samples, kolo_here here);

/* The samples so many times, one turn behind the other. */
#define kolo_repeat(data, count) kolo_repeat_at(data, count, KOLO_HERE)
kolo_data *kolo_repeat_at(kolo_data *data, int count, kolo_here here);

/* The samples of both, the second's behind the first's; shapes must be equal. (kolo_concatenate() is a layer.) */
#define kolo_data_concatenate(first, second) kolo_data_concatenate_at(first, second, KOLO_HERE)
kolo_data *kolo_data_concatenate_at(kolo_data *first, kolo_data *second, kolo_here here);

/* ------------------------------------------------------------------------------------------ a function of one's own */

typedef struct kolo_map_sample {
    const float *in;             /* [in_count], in the order of the data's shape */
    float *out;                  /* [out_count], of .shape, to be filled; all 0 before */
    int64_t in_count, out_count;
    int64_t number;  /* of the sample in the data */
    bool training;   /* in kolo_fit() and kolo_train_on_batch(); not when it is scored, predicted or cached */
    uint64_t random; /* in training: by seed, step and the sample's number in the batch, so that it is the same for any
                        number of devices, ranks and feeds; else 0 */
    void *context;   /* .context */
} kolo_map_sample;
/* Anything but KOLO_OK ends the call that needed the sample. */
typedef kolo_status (*kolo_map_function)(const kolo_map_sample *sample);

typedef struct kolo_map_args {
    int _;
    kolo_data *data;
    kolo_map_function function;
    kolo_guard *guard;
    void *context; /* handed on; must stay as long as the data set made with it is used */
    int shape[4];  /* of what the function makes; default: the data's */
    bool tokens;   /* what it makes are numbers of words */
} kolo_map_args;

/* The samples with the features that a function makes of theirs, each time they are needed. It is called from several
 * threads at once, on any of them, in any order: what it gives must depend on its sample alone, and what it shares with
 * others it must guard. A slow one hides behind the step with .feed or kolo_prefetch(), and is called once a sample
 * under kolo_cache(). */
#define kolo_map(...) kolo_map_at(&(const kolo_map_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_map_at(const kolo_map_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ augmentation */

typedef enum kolo_fill {     /* what comes in from outside an image */
    KOLO_FILL_ZEROS = 1,     /* 0 0 0 | a b c d | 0 0 0: the default */
    KOLO_FILL_NEAREST,       /* a a a | a b c d | d d d */
    KOLO_FILL_REFLECT        /* d c b | a b c d | c b a */
} kolo_fill;
#define KOLO_AUGMENT_PIXELS_MAX 4096

typedef struct kolo_augment_args {
    int _;
    kolo_data *data; /* images: {height, width, channels} or {height, width} */
    kolo_guard *guard;
    bool flip;          /* every second image is turned over left to right */
    bool flip_vertical; /* and upside down */
    int padding;        /* pixels around the image before it is cropped */
    int crop[2];        /* {height, width} that are cut out at a random place; default: as large as the image was */
    int shift[2];       /* moved by up to so many pixels {up or down, left or right} */
    kolo_fill fill;     /* of padding and shifts */
    uint64_t seed;      /* default: the training's */
} kolo_augment_args;

/* Images that are flipped, cropped and shifted at random, each time anew, in kolo_fit(), kolo_train_on_batch() and
 * kolo_profile(). Whatever scores or predicts sees them unchanged, or their middle where .crop makes them smaller. What
 * is drawn goes by seed, step and the sample's number in the batch: the same for any number of devices, ranks and feeds.
 * He et al. 2016 for CIFAR-10: kolo_augment(train, .flip = true, .padding = 4). */
#define kolo_augment(...) kolo_augment_at(&(const kolo_augment_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_augment_at(const kolo_augment_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ time and memory */

/* Features are worked out when they are needed first, and kept: 4 bytes a number. What is augmented is not to be
 * cached: augment what is cached. */
#define kolo_cache(data) kolo_cache_at(data, KOLO_HERE)
kolo_data *kolo_cache_at(kolo_data *data, kolo_here here);

typedef struct kolo_prefetch_args {
    int _;
    kolo_data *data;
    int batches; /* at least 1 */
    kolo_guard *guard;
    int threads; /* that work them out; default 2 */
} kolo_prefetch_args;

/* kolo_fit() gathers so many batches ahead of the step, as with .feed = KOLO_FEED_QUEUE; its own .feed goes before. */
#define kolo_prefetch(...) kolo_prefetch_at(&(const kolo_prefetch_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_prefetch_at(const kolo_prefetch_args *args, kolo_here here);

#endif
