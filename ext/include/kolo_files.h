/* Section 3 of kolo.h, continued: data sets from files of every usual format, and drawn ones of every shape. Included
 * by kolo.h: read that first, and kolo_data.h.
 *
 * Files may be compressed by gzip or xz, told by their content. They are read whole into memory; a file that is not
 * what it should be is one sentence that names it and the place, and nothing is left behind. */
#ifndef KOLO_FILES_H
#define KOLO_FILES_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------ published sets */

/* CIFAR-10: folder cifar-10 of KOLO_DATA, with the binary batches (data_batch_1.bin … 5, test_batch.bin; plain, .gz or
 * .xz; a test batch that is a part, test_batch_first1000.bin, is taken as it is). 32×32×3, bytes become [0, 1]; the
 * classes have names where batches.meta.txt is there. A folder that holds CIFAR-100's train.bin and test.bin is read by
 * kolo_dataset(folder, split), with its fine labels. Without KOLO_DATA: images that Kolo draws, after saying so. */
#define kolo_cifar10(split) kolo_cifar10_at(split, KOLO_HERE)
kolo_data *kolo_cifar10_at(kolo_split split, kolo_here here);

/* HIGGS: folder higgs of KOLO_DATA, with ATLAS's CSV file of 2014 (30 features; b is class 0, s class 1) or UCI's (28
 * features; background 0, signal 1), told by its columns. KOLO_TRAIN is 70 % of the rows, KOLO_TEST the others, always
 * the same ones, so the folder holds one table; a missing number (-999) is the mean of the training rows. Without KOLO_DATA: a table that Kolo draws,
 * of 28 features, after saying so. */
#define kolo_higgs(split) kolo_higgs_at(split, KOLO_HERE)
kolo_data *kolo_higgs_at(kolo_split split, kolo_here here);

/* ------------------------------------------------------------------------------------------ CSV */

/* What becomes of a cell that is empty, NA, N/A, NaN, NULL or None in any case, or .missing. */
typedef enum kolo_missing {
    KOLO_MISSING_FAIL = 1, /* a sentence with the line (the default) */
    KOLO_MISSING_MEAN,     /* the mean of the column; of words the most frequent */
    KOLO_MISSING_ZERO,     /* 0; of words the most frequent, which is number 0 */
    KOLO_MISSING_DROP,     /* the row is left out */
    KOLO_MISSING_KEEP      /* NaN */
} kolo_missing;

#define KOLO_CSV_NAMES_MAX 64

/* A column is named by its header or by its number: "0" the first, "-1" the last. */
typedef struct kolo_csv_args {
    const char *_;
    const char *path;
    kolo_guard *guard;
    const char *label_column;  /* default: one called "label" in any case, else the last */
    bool no_label;             /* every column is a feature: such data can only be predicted */
    bool regression;           /* the label is a number to be given, not a class */
    const char *weight_column; /* of the samples in the loss */
    const char *drop[KOLO_CSV_NAMES_MAX];        /* columns to leave out; of one name, all of them */
    const char *categorical[KOLO_CSV_NAMES_MAX]; /* columns whose numbers are words */
    const char *classes[KOLO_CSV_NAMES_MAX]; /* the label's words, in the order of their numbers; others are refused */
    double missing; /* this number too says that there is nothing: -999 */
    const char *missing_text; /* and this word: "?" */
    kolo_missing on_missing;
    kolo_data *like; /* a table from kolo_csv: the same label, weights, dropped columns, numbers of words, classes and
                        means as there, but for the columns named above; a word that it lacks is refused. NULL, which a call that failed gives, is the same as none */
    int header; /* 1 yes, 0 no; default: yes where no cell of the first row is a number */
    char separator; /* default: the one of , ; tab and | that the first line has most of */
} kolo_csv_args;

/* A table as RFC 4180 has it: any line ends, with or without a byte order mark. A column of words becomes their numbers
 * by descending frequency, ties in the words' order (Spark's StringIndexer); one of mostly numbers with a word in it is
 * refused. The label: words are classes, numbered likewise, with names; whole numbers from 0 to 999 are classes as they
 * are; other whole numbers less than 100 apart (-1 and 1) are classes by frequency; anything else is the target of a
 * regression. Features have the header's names. */
#define kolo_csv(...) kolo_csv_at(&(const kolo_csv_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_csv_at(const kolo_csv_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ NumPy */

typedef struct kolo_numpy_args {
    int _; /* 1: an archive */
    const char *path; /* of the archive */
    const char *features, *labels; /* files, or names in the archive; labels may be NULL */
    kolo_guard *guard;
    int shape[4]; /* of a sample; default: the array's. 8-bit images of {height, width} get one channel */
    double scale; /* features are multiplied by it; default 1/255 for 8-bit unsigned ones, else 1 */
    bool tokens; /* features are numbers of words */
} kolo_numpy_args;

/* Arrays of samples as NumPy saves them: u1 to u8, i1 to i8, f2, f4, f8 and b1, either byte order, C or Fortran order,
 * versions 1 to 3. Whole labels are classes, one a sample or one a position of a sequence; real ones are the targets of
 * a regression. kolo_npy(features, labels) reads two files; kolo_npz(path, "x_train", "y_train") two arrays of an
 * archive, as Keras's mnist.npz. */
#define kolo_npy(...) kolo_numpy_at(&(const kolo_numpy_args){._ = 0, .path = NULL, __VA_ARGS__}, KOLO_HERE)
#define kolo_npz(...) kolo_numpy_at(&(const kolo_numpy_args){._ = 1, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_numpy_at(const kolo_numpy_args *args, kolo_here here);

/* The features as a .npy file (8-bit ones stay so, unscaled), and the labels or targets as another; either name may be
 * NULL. Files appear whole or not at all. */
#define kolo_npy_write(data, features, labels) kolo_npy_write_at(data, features, labels, KOLO_HERE)
kolo_status kolo_npy_write_at(const kolo_data *data, const char *features, const char *labels, kolo_here here);

/* ------------------------------------------------------------------------------------------ TFRecord */

#define KOLO_TFRECORD_NAMES_MAX 64

typedef struct kolo_tfrecord_args {
    int _;
    const char *path; /* a file, or a pattern as a shell's for several: "train.tfrecord-*" */
    kolo_guard *guard;
    const char *features[KOLO_TFRECORD_NAMES_MAX]; /* default: the one of bytes, else all of numbers by their names */
    const char *label; /* default: the one that is called "label" or "…/label", if there is one */
    bool no_label;
    int shape[4]; /* of a sample; default: of one feature what height, width and depth or channels say, else one axis */
    double scale; /* features are multiplied by it; default 1/255 for bytes, else 1 */
    bool tokens; /* features are numbers of words */
    int classes; /* default: the largest label + 1 */
} kolo_tfrecord_args;

/* Records of tf.train.Example, plain or compressed by gzip; every checksum is compared. Bytes are raw pixels (a JPEG is
 * refused); several features of numbers follow each other. Whole labels are classes, one a sample or one a position;
 * real ones are the targets of a regression. Every example must be like the first. */
#define kolo_tfrecord(...) kolo_tfrecord_at(&(const kolo_tfrecord_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_tfrecord_at(const kolo_tfrecord_args *args, kolo_here here);

typedef struct kolo_tfrecord_write_args {
    int _;
    const kolo_data *data;
    const char *path;
    kolo_guard *guard;
    const char *features; /* their name; default "image_raw" for bytes, else "features" */
    const char *label; /* default "label" */
    int shards; /* more than 1: so many files, PATH-00000-of-00004 */
    bool gzip; /* default: where path ends in .gz */
} kolo_tfrecord_write_args;

/* One example a sample: features as bytes, floats or whole numbers, of images with height, width and depth; labels as
 * whole numbers, targets as floats. Each file appears whole or not at all. */
#define kolo_tfrecord_write(...)                                                                                       \
    kolo_tfrecord_write_at(&(const kolo_tfrecord_write_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_tfrecord_write_at(const kolo_tfrecord_write_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ text */

typedef enum kolo_punctuation {
    KOLO_PUNCTUATION_STRIP = 1, /* taken away (the default): "don't" is "dont" */
    KOLO_PUNCTUATION_SEPARATE, /* each mark begins a word: "end." is "end", "." */
    KOLO_PUNCTUATION_KEEP /* letters like others */
} kolo_punctuation;

typedef struct kolo_text_args {
    int _;
    const char *path; /* a text in UTF-8, or a folder of texts, read in the order of their names */
    kolo_guard *guard;
    int vocabulary; /* numbers at most, 0 and 1 among them; default 20,000 */
    int length; /* words of a sample; default 80 */
    bool continuous; /* samples are cut from the text one behind the other; default: a line is a sample */
    bool characters; /* characters are the words: all of them as they are */
    bool keep_case; /* default: A to Z become small */
    kolo_punctuation punctuation;
    kolo_data *like; /* the vocabulary is this one's, as a test's text wants its training text's; NULL: its own */
} kolo_text_args;

/* A text as numbers of words, by the rules of Keras's TextVectorization: 0 is padding, 1 ("[UNK]") a word that is not
 * in the vocabulary, then words by descending frequency. The features of a sample are its words x₀ … xₙ₋₁, its labels
 * the words that follow, x₁ … xₙ; lines are cut or padded with 0, empty ones left out. Padding is learnt like a word:
 * its positions count in loss and metrics. The class names are the words, and classes their number. A file that is not in
 * UTF-8, or has a NUL in it, is refused. */
#define kolo_text(...) kolo_text_at(&(const kolo_text_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_text_at(const kolo_text_args *args, kolo_here here);

/* ------------------------------------------------------------------------------------------ drawn data sets */

/* What stands in where files are not at hand. Deterministic by seed; KOLO_TRAIN and KOLO_TEST have the same classes and
 * never share a sample; none is solved by one layer alone, and each by a small network. */

/* Pictures: a class is a texture (waves of two directions, in two colours) and a shape, moved, turned, shaded and
 * grained. Bytes become [0, 1]. */
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

/* A table: each class a mixture of four Gaussians of correlated features, overlapping, so that no model is always
 * right. */
typedef struct kolo_synthetic_table_args {
    int _;
    kolo_split split; /* must be given */
    kolo_guard *guard;
    int features; /* 1 to 10,000, default 28, as HIGGS has */
    int classes; /* 2 to 1000, default 2 */
    bool regression; /* a smooth function of the features, with noise, to be given: no classes */
    int64_t samples; /* default 70,000 for KOLO_TRAIN, 30,000 for KOLO_TEST */
    uint64_t seed; /* default 1 */
} kolo_synthetic_table_args;
#define kolo_synthetic_table(...)                                                                                      \
    kolo_synthetic_table_at(&(const kolo_synthetic_table_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_synthetic_table_at(const kolo_synthetic_table_args *args, kolo_here here);

/* Text, as kolo_text gives it: words of a language with a simple grammar, each sample on one of eight topics. */
typedef struct kolo_synthetic_text_args {
    int _;
    kolo_split split; /* must be given */
    kolo_guard *guard;
    int vocabulary; /* 200 to 100,000, default 2000 */
    int length; /* default 80 */
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
    const char *path; /* the file that it becomes; its folder must be there */
    kolo_guard *guard;
    const char *sha256; /* 64 hexadecimal digits that the file must have; default: any file will do */
    int patience; /* seconds without a byte after which a connection is given up and tried again, default 60 */
    int verbose; /* 1: says what it waits for, and shows progress on a terminal */
} kolo_download_args;

/* Fetches a file, unless it is there. Processes and ranks that want the same file wait for the one that fetches it
 * (PATH.lock). What arrives lies in PATH.part and becomes PATH when it is whole and its checksum right: there is never
 * half a file. A transfer that breaks off goes on where it stopped, in a later call too where .sha256 is given. A wrong
 * checksum removes what came. Ends at kolo_request_stop(). Any thread. */
#define kolo_download(...) kolo_download_at(&(const kolo_download_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_download_at(const kolo_download_args *args, kolo_here here);

#endif
