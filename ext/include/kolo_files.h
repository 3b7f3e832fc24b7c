/* Section 3 of kolo.h, continued: data sets from files of the usual formats, and generated data sets. Included by
 * kolo.h: read that first, and kolo_data.h.
 *
 * Files may be compressed by gzip or xz; their content shows it, not their names. They are read completely into memory.
 * A file with a wrong format fails with one sentence that names the file and the place. */
#ifndef KOLO_FILES_H
#define KOLO_FILES_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------ published sets */

/* CIFAR-10, from the binary batches in the folder cifar-10 of KOLO_DATA: data_batch_1.bin … data_batch_5.bin and
 * test_batch.bin, plain, .gz or .xz. A partial test batch (test_batch_first1000.bin) is accepted. Shape 32×32×3; bytes
 * are scaled to [0, 1]; classes have names if batches.meta.txt is there. kolo_dataset(folder, split) also reads a
 * folder with CIFAR-100's train.bin and test.bin, with the fine labels. Without KOLO_DATA: as
 * kolo_dataset("cifar-10"). */
#define kolo_cifar10(split) kolo_cifar10_at(split, KOLO_HERE)
kolo_data *kolo_cifar10_at(kolo_split split, kolo_here here);

/* HIGGS, from the folder higgs of KOLO_DATA, which must hold exactly one table: ATLAS's CSV file of 2014 (30 features;
 * b is class 0, s is class 1) or UCI's (28 features; background 0, signal 1). The columns show which one it is.
 * KOLO_TRAIN is 70 % of the rows, always the same ones, and KOLO_TEST the others. A missing number (ATLAS: -999)
 * becomes the mean of its column over the training rows. Without KOLO_DATA: as kolo_dataset("higgs"); a generated table
 * has 28 features. */
#define kolo_higgs(split) kolo_higgs_at(split, KOLO_HERE)
kolo_data *kolo_higgs_at(kolo_split split, kolo_here here);

/* ------------------------------------------------------------------------------------------ CSV */

/* What to do with a missing cell: one that is empty, equal to .missing or .missing_text, or NA, <NA>, N/A, NaN, -NaN,
 * NULL or None in upper or lower case. A missing label or weight is an error except with KOLO_MISSING_DROP. */
typedef enum kolo_missing {
    KOLO_MISSING_FAIL = 1, /* fail with a sentence that names the line (the default) */
    KOLO_MISSING_MEAN,     /* replace it by the mean of the column; in a column of words by the most frequent word */
    KOLO_MISSING_ZERO,     /* replace it by 0; in a column of words that is the most frequent word */
    KOLO_MISSING_DROP,     /* leave out the row */
    KOLO_MISSING_KEEP      /* replace it by NaN */
} kolo_missing;

#define KOLO_CSV_NAMES_MAX 64

/* A column is given by its name in the header or by its number: "0" is the first column, "-1" the last. */
typedef struct kolo_csv_args {
    const char *_;
    const char *path;
    kolo_guard *guard;
    const char *label_column;  /* default: a column called "label" (in upper or lower case), else the last */
    bool no_label;             /* every column is a feature: such data serve only for kolo_predict() */
    bool regression;           /* the label is the target of a regression, not a class */
    const char *weight_column; /* the weights of the samples in the loss; default: all 1 */
    const char *drop[KOLO_CSV_NAMES_MAX];        /* columns to leave out; if several have that name, all of them */
    const char *categorical[KOLO_CSV_NAMES_MAX]; /* columns of numbers that are treated as words */
    const char *classes[KOLO_CSV_NAMES_MAX]; /* the label's words: word i is class i; other words are errors */
    double missing; /* a number that marks missing cells: -999; default: none */
    const char *missing_text; /* a text that marks missing cells: "?" */
    kolo_missing on_missing;
    kolo_data *like; /* a table from kolo_csv() whose label, weight and dropped columns, numbers of words, classes and
                        means are used again. Columns that this call names are excepted. An unknown word is an error.
                        NULL (also from a call that failed): none */
    int header; /* 1 yes, 0 no; default: yes if no cell of the first row is a number */
    char separator; /* default: the most frequent one of , ; tab and | in the first line */
} kolo_csv_args;

/* Reads a table in the format of RFC 4180, with any line ends, with or without a byte order mark. In a column of words
 * each word becomes a number: 0 for the most frequent word, and so on; equally frequent words are numbered in
 * alphabetical order (Spark's StringIndexer). A column with words in which numbers are the majority is an error. Words
 * of the label are classes, numbered in the same way, with names. Whole numbers from 0 to 999 are classes as they are.
 * Other whole numbers that differ by less than 100 (-1 and 1) are classes, numbered by frequency. Anything else is the
 * target of a regression. Features have the names in the header. */
#define kolo_csv(...) kolo_csv_at(&(const kolo_csv_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_csv_at(const kolo_csv_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ NumPy */

typedef struct kolo_numpy_args {
    int _; /* 1: kolo_npz(), an archive; 0: kolo_npy(), files */
    const char *path; /* of the archive */
    const char *features, *labels; /* files, or names in the archive; labels may be NULL */
    kolo_guard *guard;
    int shape[4]; /* of a sample; default: the array's. 8-bit unsigned images {height, width} get one channel */
    double scale; /* features are multiplied by it; default 1/255 for 8-bit unsigned features, else 1 */
    bool tokens; /* features are numbers of words */
} kolo_numpy_args;

/* Reads arrays of samples in NumPy's formats: kolo_npy(features, labels) reads two files, kolo_npz(path, "x_train",
 * "y_train") two arrays of an archive such as Keras's mnist.npz. Types u1 to u8, i1 to i8, f2, f4, f8 and b1, either
 * byte order, C or Fortran order, format versions 1 to 3. Whole numbers as labels are classes, one a sample or one for
 * each position of a sequence; real numbers are the targets of a regression. */
#define kolo_npy(...) kolo_numpy_at(&(const kolo_numpy_args){._ = 0, .path = NULL, __VA_ARGS__}, KOLO_HERE)
#define kolo_npz(...) kolo_numpy_at(&(const kolo_numpy_args){._ = 1, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_numpy_at(const kolo_numpy_args *args, kolo_here here);

/* Writes the features to one .npy file (8-bit features stay 8-bit, unscaled), and the labels or else the targets to
 * another; either name may be NULL. Each file appears complete or not at all. */
#define kolo_npy_write(data, features, labels) kolo_npy_write_at(data, features, labels, KOLO_HERE)
kolo_status kolo_npy_write_at(const kolo_data *data, const char *features, const char *labels, kolo_here here);

/* ------------------------------------------------------------------------------------------ TFRecord */

#define KOLO_TFRECORD_NAMES_MAX 64

typedef struct kolo_tfrecord_args {
    int _;
    const char *path; /* a file, or a shell pattern for several files: "train.tfrecord-*" */
    kolo_guard *guard;
    const char *features[KOLO_TFRECORD_NAMES_MAX]; /* names; default: the only feature of bytes, or else all features
                                                      of numbers in alphabetical order */
    const char *label; /* default: the feature called "label" or "…/label", if there is one */
    bool no_label;
    int shape[4]; /* of a sample; default: one axis, but a single feature has the shape given by the features height and
                     width and depth (or channels) */
    double scale; /* features are multiplied by it; default 1/255 for bytes, else 1 */
    bool tokens; /* features are numbers of words */
    int classes; /* default: the largest label + 1 */
} kolo_tfrecord_args;

/* Reads records of tf.train.Example, plain or compressed by gzip, and checks every checksum. Bytes are raw pixels (JPEG
 * or PNG is an error). Several features of numbers are joined to one array. Whole numbers as labels are classes, one a
 * sample or one for each position; real numbers are the targets of a regression. Every example must have the same
 * features, types and sizes as the first. */
#define kolo_tfrecord(...) kolo_tfrecord_at(&(const kolo_tfrecord_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_tfrecord_at(const kolo_tfrecord_args *args, kolo_here here);

typedef struct kolo_tfrecord_write_args {
    int _;
    const kolo_data *data;
    const char *path;
    kolo_guard *guard;
    const char *features; /* the features' name; default "image_raw" for bytes, else "features" */
    const char *label; /* the label's name; default "label" */
    int shards; /* above 1: write that many files, PATH-00000-of-00004 and so on; default 1 */
    bool gzip; /* default: true if path ends in .gz */
} kolo_tfrecord_write_args;

/* Writes one example for each sample: features as bytes, floats or whole numbers, for images also height, width and
 * depth; labels as whole numbers, or else targets as floats. Each file appears complete or not at all. */
#define kolo_tfrecord_write(...)                                                                                       \
    kolo_tfrecord_write_at(&(const kolo_tfrecord_write_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_tfrecord_write_at(const kolo_tfrecord_write_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ text */

typedef enum kolo_punctuation {
    KOLO_PUNCTUATION_STRIP = 1, /* is removed (the default): "don't" is "dont" */
    KOLO_PUNCTUATION_SEPARATE, /* each mark begins a word: "end." is "end", "." */
    KOLO_PUNCTUATION_KEEP /* counts as letters */
} kolo_punctuation;

typedef struct kolo_text_args {
    int _;
    const char *path; /* a text in UTF-8, or a folder of texts, which are read in the order of their names */
    kolo_guard *guard;
    int vocabulary; /* at most this many numbers, including 0 and 1; default 20,000 */
    int length; /* words a sample; default 80 */
    bool continuous; /* the whole text is cut into consecutive samples; default: each line is a sample */
    bool characters; /* each character is a word; case and punctuation are kept */
    bool keep_case; /* default: A to Z become lower case */
    kolo_punctuation punctuation;
    kolo_data *like; /* use the vocabulary of this data set, for instance the training text's for a test text; NULL:
                        make one from the text */
} kolo_text_args;

/* Reads a text as numbers of words, by the rules of Keras's TextVectorization: 0 is padding, 1 ("[UNK]") is a word that
 * is not in the vocabulary, and the words follow by descending frequency. The features of a sample are its words
 * x₀ … xₙ₋₁, and its labels are the next words, x₁ … xₙ. Lines are cut or padded with 0; empty lines are left out. Loss
 * and metrics count the positions of padding like any others. The class names are the words, and `classes` is the size
 * of the vocabulary. A file that is not UTF-8 or contains a NUL is an error. */
#define kolo_text(...) kolo_text_at(&(const kolo_text_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_text_at(const kolo_text_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ generated data sets */

/* Substitutes for files that are missing. The seed determines them. KOLO_TRAIN and KOLO_TEST have the same classes and
 * never share a sample. A single layer cannot learn any of them well, but a small network can. */

/* Images: a class is a figure with two patterns of waves, one inside it and one behind it, each with its own direction
 * and colours. Place, rotation, shading and noise differ from sample to sample. Bytes are scaled to [0, 1]. */
typedef struct kolo_synthetic_images_args {
    int _;
    kolo_split split; /* must be given */
    kolo_guard *guard;
    int shape[4]; /* {height, width, channels}, default {32, 32, 3} */
    int classes; /* 2 to 1000, default 10 */
    int64_t samples; /* default 50,000 for KOLO_TRAIN, 10,000 for KOLO_TEST */
    uint64_t seed; /* default 1 */
} kolo_synthetic_images_args;
#define kolo_synthetic_images(...)                                                                                     \
    kolo_synthetic_images_at(&(const kolo_synthetic_images_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_synthetic_images_at(const kolo_synthetic_images_args *args, kolo_here here);

/* A table: each class is a mixture of four Gaussians with correlated features. The classes overlap, so that no model is
 * always right. */
typedef struct kolo_synthetic_table_args {
    int _;
    kolo_split split; /* must be given */
    kolo_guard *guard;
    int features; /* 1 to 10,000, default 28 as in HIGGS */
    int classes; /* 2 to 1000, default 2 */
    bool regression; /* instead of classes the targets are a smooth function of the features, with noise */
    int64_t samples; /* default 70,000 for KOLO_TRAIN, 30,000 for KOLO_TEST */
    uint64_t seed; /* default 1 */
} kolo_synthetic_table_args;
#define kolo_synthetic_table(...)                                                                                      \
    kolo_synthetic_table_at(&(const kolo_synthetic_table_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_synthetic_table_at(const kolo_synthetic_table_args *args, kolo_here here);

/* Text, in the form of kolo_text(): words of a language with a simple grammar; each sample has one of eight topics. */
typedef struct kolo_synthetic_text_args {
    int _;
    kolo_split split; /* must be given */
    kolo_guard *guard;
    int vocabulary; /* 200 to 100,000, default 2000 */
    int length; /* words a sample; default 80 */
    int64_t samples; /* default 20,000 for KOLO_TRAIN, 4000 for KOLO_TEST */
    uint64_t seed; /* default 1 */
} kolo_synthetic_text_args;
#define kolo_synthetic_text(...)                                                                                       \
    kolo_synthetic_text_at(&(const kolo_synthetic_text_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_synthetic_text_at(const kolo_synthetic_text_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ downloads */

typedef struct kolo_download_args {
    int _;
    const char *url; /* http://, https:// or file:// */
    const char *path; /* the file to write; its folder must exist */
    kolo_guard *guard;
    const char *sha256; /* the file's SHA-256 in 64 hexadecimal digits; default: not checked */
    int patience; /* seconds without a byte before the connection is closed and tried again; default 60 */
    int verbose; /* 1: prints when it waits for another process, and shows progress on a terminal */
} kolo_download_args;

/* Downloads a file unless it exists; an existing file with another checksum is an error. Processes and ranks that want
 * the same file wait for the one that downloads it (PATH.lock). Bytes are written to PATH.part, which is renamed to
 * PATH when it is complete and its checksum is right, so PATH is never partial. An interrupted transfer continues where
 * it stopped, in a later call only if .sha256 is given. After a wrong checksum PATH.part is removed.
 * kolo_request_stop() ends the call. Any thread. */
#define kolo_download(...) kolo_download_at(&(const kolo_download_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_download_at(const kolo_download_args *args, kolo_here here);

#endif
