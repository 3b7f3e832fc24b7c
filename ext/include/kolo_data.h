/* Section 3 of kolo.h: data sets. Included by kolo.h: read that first. */
#ifndef KOLO_DATA_SETS_H
#define KOLO_DATA_SETS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------------ 3 data */

typedef enum kolo_split { KOLO_TRAIN = 1, KOLO_TEST } kolo_split;

typedef struct kolo_data kolo_data;

typedef struct kolo_data_info {
    int64_t samples;
    int shape[4]; /* of one sample; shape[rank…] are 0 */
    int rank;
    int classes;        /* labels are 0 … classes-1 */
    int labels;          /* of a sample: 1; of a sequence one for each position; 0: there are none */
    int target_shape[4]; /* of what a regression is to give; all 0: there is none */
    int target_rank;
    bool tokens;         /* features are numbers of words */
    const char *const *class_names;   /* [classes], or NULL; owned by data, as all names are */
    const char *const *feature_names; /* [elements of shape], or NULL */
    bool synthetic;     /* drawn by Kolo, not read */
    const char *source; /* where it came from, in words: a file, or "digits drawn by Kolo (seed 1)"; owned by data */
} kolo_data_info;

/* MNIST, or what stands in the same IDX format in KOLO_DATA (images and labels, plain, .gz or .xz). Where KOLO_DATA is
 * not set and nothing was fetched (kolo_dataset), digits that Kolo draws itself, 60,000 and 10,000 of them, after saying so once on stderr. Bytes become
 * [0, 1]. */
#define kolo_mnist(split) kolo_dataset_at(NULL, split, KOLO_HERE)

/* A data set by name ("mnist", "fashion-mnist", "cifar-10", "higgs", or another folder of KOLO_DATA), by folder (that
 * holds IDX files, CIFAR's batches or a HIGGS table), or "synthetic" (digits). Where KOLO_DATA is not set, the four
 * published ones are looked for in ~/.cache/kolo ($XDG_CACHE_HOME/kolo), where `make data` puts them, and else drawn,
 * after saying so once. NULL is kolo_mnist's rule. */
#define kolo_dataset(name, split) kolo_dataset_at(name, split, KOLO_HERE)
kolo_data *kolo_dataset_at(const char *name, kolo_split split, kolo_here here);

/* Two IDX files, plain, .gz or .xz: images of unsigned bytes (samples × rows × columns [× channels]), labels of unsigned
 * bytes. */
#define kolo_idx(images, labels) kolo_idx_at(images, labels, KOLO_HERE)
kolo_data *kolo_idx_at(const char *images, const char *labels, kolo_here here);

/* Digits drawn from strokes: 28×28×1, ten classes, deterministic by seed. KOLO_TRAIN and KOLO_TEST never share a
 * sample. */
typedef struct kolo_synthetic_digits_args {
    int _;
    kolo_split split; /* must be given */
    kolo_guard *guard;
    int64_t samples; /* default 60,000 for KOLO_TRAIN, 10,000 for KOLO_TEST */
    uint64_t seed;   /* default 1 */
} kolo_synthetic_digits_args;
#define kolo_synthetic_digits(...)                                                                                     \
    kolo_synthetic_digits_at(&(const kolo_synthetic_digits_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_synthetic_digits_at(const kolo_synthetic_digits_args *args, kolo_here here);

/* Arrays of the caller's, copied: features[samples][shape…], labels[samples][label_count] in 0 … classes-1. */
typedef struct kolo_data_from_arrays_args {
    int _;
    const float *features;
    const int32_t *labels; /* or NULL; data without labels and targets can only be predicted */
    kolo_guard *guard;
    int64_t samples;
    int shape[4];
    int classes;           /* default: the largest label + 1 */
    int label_count;       /* labels of a sample, default 1; of a sequence one for each position */
    const int32_t *tokens; /* [samples][shape…], numbers of words, in the place of features, which are NULL then */
    const float *targets;  /* [samples][target_shape…], what a regression is to give; or NULL */
    int target_shape[4];   /* default {1} */
    const float *weights;  /* [samples], of the samples in the loss; default: all 1 */
    const char *const *class_names;   /* [classes] */
    const char *const *feature_names; /* [elements of shape] */
} kolo_data_from_arrays_args;
#define kolo_data_from_arrays(...)                                                                                     \
    kolo_data_from_arrays_at(&(const kolo_data_from_arrays_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_data_from_arrays_at(const kolo_data_from_arrays_args *args, kolo_here here);

/* The samples first … first+samples-1 as a data set of its own, which shares the other's memory; either may be freed
 * first. */
#define kolo_data_slice(data, first, samples) kolo_data_slice_at(data, first, samples, KOLO_HERE)
kolo_data *kolo_data_slice_at(kolo_data *data, int64_t first, int64_t samples, kolo_here here);

/* The same samples as a data set whose targets are the features themselves, for an autoencoder; it shares the other's
 * memory, and either may be freed first. */
#define kolo_data_autoencoder(data) kolo_data_autoencoder_at(data, KOLO_HERE)
kolo_data *kolo_data_autoencoder_at(kolo_data *data, kolo_here here);

kolo_data_info kolo_data_get_info(const kolo_data *data); /* all zero for NULL */
typedef struct kolo_data_sample_args {
    int _;
    const kolo_data *data;
    int64_t index;
    float *features; /* [elements of the shape] */
    int *label;      /* the first of them; -1 where there are none */
    kolo_guard *guard;
    int32_t *labels; /* [kolo_data_info.labels] */
    float *targets;  /* [elements of the target shape] */
    float *weight;   /* in the loss; 1 where there are none */
    bool training;   /* as a step sees it whose seed is .seed, augmented; default: as it is scored */
    uint64_t seed, step;
} kolo_data_sample_args;
/* One sample as the network sees it, into whatever of the targets is not NULL. */
#define kolo_data_sample(...) kolo_data_sample_at(&(const kolo_data_sample_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_data_sample_at(const kolo_data_sample_args *args, kolo_here here);
void kolo_data_free(kolo_data **data);

#endif
