/* Section 3 of kolo.h, continued: data sets made of data sets. Included by kolo.h: read that first, and kolo_data.h.
 *
 * Each call takes a data set and gives another, to be freed like any other; both may be freed in any order. Samples
 * are worked out when they are asked for, unless it says otherwise, by several threads at once. A NULL data set gives
 * NULL. Batches are kolo_fit()'s: .batch_size. */
#ifndef KOLO_TRANSFORMS_H
#define KOLO_TRANSFORMS_H

#include "kolo.h"

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

#endif
