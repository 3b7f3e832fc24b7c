/* Keras's small CNN and the images that it is trained on: for cifar10.c and ../N7/cifar10_slurm.c. */
#ifndef CIFAR10_NETWORK_H
#define CIFAR10_NETWORK_H

#include <kolo.h>
#include <string.h>

static kolo_tensor convolve(kolo_tensor x, int filters, kolo_padding padding)
{
    return kolo_apply(kolo_conv2d(filters, .kernel = {3, 3}, .padding = padding, .activation = KOLO_RELU), x);
}

/* Two convolutions, the second of which shrinks the image by its border, and a pooling that halves it. */
static kolo_tensor halve(kolo_tensor x, int filters)
{
    x = convolve(convolve(x, filters, KOLO_SAME), filters, KOLO_VALID);
    return kolo_apply(kolo_dropout(0.25), kolo_apply(kolo_max_pool2d(2, 2), x));
}

static kolo_model *cifar_network(kolo_data_info images)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, images.shape[0], images.shape[1], images.shape[2]);
    x = kolo_apply(kolo_flatten(), halve(halve(x, 32), 64));
    x = kolo_apply(kolo_dropout(0.5), kolo_apply(kolo_dense(512, .activation = KOLO_RELU), x));
    kolo_graph_output(model, kolo_apply(kolo_dense(images.classes), x));
    return model;
}

static kolo_data *read_images(const char *name, kolo_split split)
{
    return strcmp(name, "synthetic") == 0 ? kolo_synthetic_images(split) : kolo_dataset(name, split);
}

/* Flipped, and shifted by a tenth of their size, as Keras's example has them; takes images. */
static kolo_data *augmented(kolo_data *images)
{
    kolo_data_info info = kolo_data_get_info(images);
    kolo_data *changed = kolo_augment(images, .flip = true, .shift = {info.shape[0] / 10, info.shape[1] / 10});
    kolo_data_free(&images);
    return changed;
}

#endif
