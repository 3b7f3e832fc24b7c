/* Section 3 of kolo.h, continued: data sets made from data sets. Included by kolo.h: read that first, and kolo_data.h.
 *
 * Each call takes a data set and returns another one, which must be freed, too; the two may be freed in any order.
 * Unless a comment says otherwise, samples are computed when they are needed, by several threads at once. A NULL data
 * set gives NULL. Batches are made by kolo_fit() (.batch_size). */
#ifndef KOLO_TRANSFORMS_H
#define KOLO_TRANSFORMS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------ numbers */

typedef struct kolo_standardize_args {
    int _;
    kolo_data *data;
    kolo_guard *guard;
    kolo_data *like;  /* a data set whose mean and deviation are used, for test data usually the training data. If
                         kolo_standardize() made it: those that it was made with. Otherwise: those of its numbers. NULL
                         (also from a call that failed): none */
    bool per_element; /* mean and deviation for each element of a sample; default: for each index of the last axis (each
                         column of a table or channel of images) */
} kolo_standardize_args;

/* (x - mean) / deviation, with the deviation of the population, as Keras's Normalization and scikit-learn's
 * StandardScaler. A constant feature becomes 0. NaN stays NaN and does not count in the mean and deviation. The call
 * reads all of data. */
#define kolo_standardize(...) kolo_standardize_at(&(const kolo_standardize_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_standardize_at(const kolo_standardize_args *args, kolo_here here);

typedef struct kolo_min_max_args {
    const char *_;
    kolo_data *data;
    kolo_guard *guard;
    kolo_data *like;            /* a data set whose least and largest numbers are used, as for kolo_standardize(). If
                                   kolo_min_max() made it: with its .low and .high */
    bool per_element;           /* as for kolo_standardize() */
    double low, high;           /* the range of the result; default 0 and 1 */
    double from_low, from_high; /* least and largest, for instance 0 and 255; default: found in the data */
} kolo_min_max_args;

/* (x - least) / (largest - least) · (high - low) + low, as scikit-learn's MinMaxScaler. A constant feature becomes low.
 * The call reads all of data unless .from_low and .from_high are given; numbers outside that range are mapped outside
 * low … high. */
#define kolo_min_max(...) kolo_min_max_at(&(const kolo_min_max_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_min_max_at(const kolo_min_max_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ labels */

typedef struct kolo_one_hot_args {
    int _;
    kolo_data *data;
    kolo_guard *guard;
    int classes; /* length of each row; default: the classes of data */
} kolo_one_hot_args;

/* Adds targets made of the labels: for each label a row of zeros with a 1 at the label's index, for
 * KOLO_CATEGORICAL_CROSSENTROPY and similar losses. The data set keeps the labels, too. */
#define kolo_one_hot(...) kolo_one_hot_at(&(const kolo_one_hot_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_one_hot_at(const kolo_one_hot_args *args, kolo_here here);

typedef struct kolo_label_index_args {
    const char *_;
    kolo_data *data;
    kolo_guard *guard;
    kolo_data *like;  /* made by kolo_label_index(): its numbering of the labels is used. NULL: make a new numbering */
    double threshold; /* a single target above it is class 1, else class 0; default 0.5 */
} kolo_label_index_args;

/* Turns targets into labels: the index of the largest target in each row (the last axis). If the data have only labels,
 * these are renumbered without gaps, 0 for the most frequent; equally frequent labels keep their order (Spark's
 * StringIndexer). */
#define kolo_label_index(...) kolo_label_index_at(&(const kolo_label_index_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_label_index_at(const kolo_label_index_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ selection and order */

typedef struct kolo_shuffle_args {
    int _;
    kolo_data *data;
    kolo_guard *guard;
    int64_t buffer_size; /* each sample is drawn from the next this many remaining samples; default: from all */
    uint64_t seed;       /* default 1 */
} kolo_shuffle_args;

/* The samples in a random order, which does not change later. kolo_fit() also draws an order for each epoch
 * (.no_shuffle, .shuffle_buffer). With .buffer_size it works like tf.data's shuffle(): a late sample cannot come
 * first. */
#define kolo_shuffle(...) kolo_shuffle_at(&(const kolo_shuffle_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_shuffle_at(const kolo_shuffle_args *args, kolo_here here);

typedef struct kolo_data_split_args {
    int _;
    kolo_data *data;
    double share; /* fraction of the samples for `first`; rounded, both parts must get at least one sample */
    kolo_data **first, **second;
    kolo_guard *guard;
    bool no_shuffle; /* keep the order of the samples; default: a random order */
    uint64_t seed;   /* default 1 */
} kolo_data_split_args;

/* Divides a data set into two parts, which must both be freed; both are NULL on failure:
 * kolo_data_split(data, 0.7, &train, &test). */
#define kolo_data_split(...) kolo_data_split_at(&(const kolo_data_split_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_data_split_at(const kolo_data_split_args *args, kolo_here here);

/* kolo_take: the first `samples` samples, or all if there are fewer. kolo_skip: all samples after the first `samples`.
 * Both share memory like kolo_data_slice(). */
#define kolo_take(data, samples) kolo_take_at(data, samples, KOLO_HERE)
kolo_data *kolo_take_at(kolo_data *data, int64_t samples, kolo_here here);
#define kolo_skip(data, samples) kolo_skip_at(data, samples, KOLO_HERE)
kolo_data *kolo_skip_at(kolo_data *data, int64_t samples, kolo_here here);

/* The whole sequence of samples, `count` times in a row. */
#define kolo_repeat(data, count) kolo_repeat_at(data, count, KOLO_HERE)
kolo_data *kolo_repeat_at(kolo_data *data, int count, kolo_here here);

/* The samples of `first`, then those of `second`; shapes must be equal. (kolo_concatenate() is a layer.) */
#define kolo_data_concatenate(first, second) kolo_data_concatenate_at(first, second, KOLO_HERE)
kolo_data *kolo_data_concatenate_at(kolo_data *first, kolo_data *second, kolo_here here);

/* ------------------------------------------------------------------------------------------ custom functions */

typedef struct kolo_map_sample {
    const float *in;             /* [in_count], the features of the sample */
    float *out;                  /* [out_count], the new features, to be filled in; zeros before */
    int64_t in_count, out_count;
    int64_t number;  /* of the sample in the data */
    bool training;   /* true for training steps; false when the sample is scored, predicted or cached */
    uint64_t random; /* in training: a random number that depends only on the seed, the step and the sample's number in
                        the batch, so it is the same for any number of devices, ranks and feeds; else 0 */
    void *context;   /* .context of kolo_map() */
} kolo_map_sample;
/* A result other than KOLO_OK ends the call that needed the sample. */
typedef kolo_status (*kolo_map_function)(const kolo_map_sample *sample);

typedef struct kolo_map_args {
    int _;
    kolo_data *data;
    kolo_map_function function;
    kolo_guard *guard;
    void *context; /* passed to the function; must remain valid while the new data set is used */
    int shape[4];  /* of the new features; default: the data's shape */
    bool tokens;   /* the new features are numbers of words */
} kolo_map_args;

/* The samples with new features, which a function computes each time they are needed. It is called by several threads
 * at once, in any order. Its result must depend only on its sample, and it must guard shared data with locks. The
 * computation of a slow function can overlap with the steps (.feed, kolo_prefetch()); under kolo_cache() it is called
 * once a sample. */
#define kolo_map(...) kolo_map_at(&(const kolo_map_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_map_at(const kolo_map_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ augmentation */

typedef enum kolo_fill {     /* the pixels outside an image a b c d */
    KOLO_FILL_ZEROS = 1,     /* 0 0 0 | a b c d | 0 0 0: the default */
    KOLO_FILL_NEAREST,       /* a a a | a b c d | d d d */
    KOLO_FILL_REFLECT        /* d c b | a b c d | c b a */
} kolo_fill;
#define KOLO_AUGMENT_PIXELS_MAX 4096

typedef struct kolo_augment_args {
    int _;
    kolo_data *data; /* images: {height, width, channels} or {height, width} */
    kolo_guard *guard;
    bool flip;          /* mirrors each image left to right with probability 1/2 */
    bool flip_vertical; /* mirrors each image upside down with probability 1/2 */
    int padding;        /* pixels added on each side of the image before it is cropped */
    int crop[2];        /* {height, width} of a part cut out at a random place; default: the size of the image */
    int shift[2];       /* moves the image by at most this many pixels {up or down, left or right} */
    kolo_fill fill;     /* of padding and shifts */
    uint64_t seed;      /* default: the training's */
} kolo_augment_args;

/* Images that are flipped, cropped and shifted at random, differently each time, in kolo_fit(), kolo_train_on_batch()
 * and kolo_profile(). Scores and predictions use the unchanged images, or their middle if .crop makes them smaller. The
 * random numbers depend only on the seed, the step and the sample's number in the batch: they are the same for any
 * number of devices, ranks and feeds. He et al. 2016 for CIFAR-10: kolo_augment(train, .flip = true, .padding = 4). */
#define kolo_augment(...) kolo_augment_at(&(const kolo_augment_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_augment_at(const kolo_augment_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ time and memory */

/* Computes features when they are first needed, and keeps them in memory, 4 bytes a number. Augmented data cannot be
 * cached: use kolo_augment(kolo_cache(data)). */
#define kolo_cache(data) kolo_cache_at(data, KOLO_HERE)
kolo_data *kolo_cache_at(kolo_data *data, kolo_here here);

typedef struct kolo_prefetch_args {
    int _;
    kolo_data *data;
    int batches; /* at least 1 */
    kolo_guard *guard;
    int threads; /* threads that gather the batches; default 2 */
} kolo_prefetch_args;

/* Makes kolo_fit() gather up to `batches` batches ahead of the step, as with .feed = KOLO_FEED_QUEUE. A .feed that is
 * given to kolo_fit() takes precedence. */
#define kolo_prefetch(...) kolo_prefetch_at(&(const kolo_prefetch_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_prefetch_at(const kolo_prefetch_args *args, kolo_here here);

#endif
