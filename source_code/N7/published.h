/* Published scaling tables, and what the link model needs to predict them: `link_model --published` prints both.
 *
 * A table has few numbers that links do not explain: .each_step, .each_doubling, .each_device of
 * kolo_link_model_step(), and .epoch, seconds at the end of an epoch. They were fitted to the rows marked FITTED; so
 * was the time of a device, which is the row of one device, if there is one. PREDICTED rows had no part in it. The form
 * of each table, that is, which of these numbers it has, was chosen with all rows in view, and each is one to three
 * numbers. A row that is further off than 10 % has a reason.
 *
 * Published images/s of the bootcamp are the images of the data set divided by the seconds of an epoch, whether all of
 * them were trained or not, so they are computed in the same way here: images / (epoch + steps · seconds of a step).
 */
#ifndef PUBLISHED_H
#define PUBLISHED_H

#include <kolo.h>

typedef enum origin { FITTED, PREDICTED } origin;

typedef enum unit {
    PER_SECOND, /* samples a second: images / (epoch + steps · seconds of a step); images 0: batch · devices */
    SECONDS,    /* epoch + steps · seconds of a step */
    PERCENT     /* efficiency */
} unit;

typedef struct published_row {
    origin origin;
    const char *name;
    int devices;
    double device; /* seconds of one device for a step */
    double published;
    int batch;            /* of each device */
    int steps;            /* of an epoch; 0: 1 */
    const char *selected; /* devices of the machine; NULL: all */
    bool no_peer_access;
    const char *why; /* the error is above 10 % */
} published_row;

enum { ROWS_MAX = 16 };
typedef struct published_table {
    const char *title, *source, *fit; /* .fit: what was fitted, in words */
    const char *machine;
    int hosts; /* 0: 1 */
    const char *network;
    unit unit;
    double bytes; /* of the gradients: 4 for each weight */
    kolo_algorithm algorithm;
    double bucket_bytes, early;
    double each_step, each_doubling, each_device, epoch;
    double images;
    published_row row[ROWS_MAX]; /* ends with one without a name */
} published_table;

/* Weights × 4 bytes: the bootcamp's CNN and its network for CIFAR-10, the autoencoder; those of torchvision and Keras.
 */
#define CNN          (4 * 1199882.0)
#define CIFAR        (4 * 470e3)
#define VAE          (4 * 3.41e6)
#define INCEPTION_V3 (4 * 23.85e6)
#define RESNET_50    (4 * 25.64e6)
#define RESNET_101   (4 * 44.55e6)
#define RESNET_152   (4 * 60.19e6)
#define VGG_16       (4 * 138.36e6)

#define BOOTCAMP  "openhackathons-org/gpubootcamp, Distributed_Deep_Learning"
#define KERAS_EXP "avolkov1/keras_experiments"
#define MULTI_GPU "rossumai/keras-multi-gpu"
#define TF_PAGE   "tensorflow.org/performance/benchmarks, 2017"

/* The bootcamp's DGX-1V: seconds of a sample of the CNN, of Horovod and Keras a step, and of the end of an epoch. */
#define V100_SAMPLE (28.196e-3 / 2048)
#define V100_STEP   4.003e-3
#define V100_EPOCH  25.61e-3
/* The same of its DGX-A100. */
#define A100_SAMPLE (54.633e-3 / 8192)
#define A100_STEP   9.083e-3
#define A100_EPOCH  164.8e-3
#define A100_WHY                                                                                                       \
    "no link of this machine takes so long: the same program loses 70 to 90 ms a step there, and all five CIFAR runs " \
    "are "                                                                                                             \
    "4.3 to 5.1 times slower than on the V100; its hosts had too few cores for the ranks, presumably"
#define FEW_STEPS "an epoch has a single step, so what ranks do between epochs decides; they share the host's cores"

static const published_table tables[] = {
    {"GPT, one V100: batch sizes", BOOTCAMP " lesson 1", "seconds of a step and of a sample", "dgx-1v",
     .row = {{FITTED, "batch 32", 1, 17.82e-3 + 32 * 0.39350e-3, 1050, 32},
             {PREDICTED, "batch 64", 1, 17.82e-3 + 64 * 0.39350e-3, 1498, 64},
             {PREDICTED, "batch 128", 1, 17.82e-3 + 128 * 0.39350e-3, 1906, 128},
             {PREDICTED, "batch 256", 1, 17.82e-3 + 256 * 0.39350e-3, 2192, 256},
             {PREDICTED, "batch 512", 1, 17.82e-3 + 512 * 0.39350e-3, 2364, 512},
             {PREDICTED, "batch 1024", 1, 17.82e-3 + 1024 * 0.39350e-3, 2452, 1024},
             {FITTED, "batch 1280", 1, 17.82e-3 + 1280 * 0.39350e-3, 2456, 1280}}},
    {"GPT, one A100: batch sizes", BOOTCAMP " lesson 1", "seconds of a step and of a sample", "dgx-a100",
     .row = {{FITTED, "batch 32", 1, 4.194e-3 + 32 * 0.119257e-3, 3995, 32},
             {PREDICTED, "batch 64", 1, 4.194e-3 + 64 * 0.119257e-3, 5303, 64},
             {PREDICTED, "batch 128", 1, 4.194e-3 + 128 * 0.119257e-3, 6383, 128},
             {PREDICTED, "batch 256", 1, 4.194e-3 + 256 * 0.119257e-3, 7100, 256},
             {PREDICTED, "batch 512", 1, 4.194e-3 + 512 * 0.119257e-3, 7794, 512},
             {PREDICTED, "batch 1024", 1, 4.194e-3 + 1024 * 0.119257e-3, 8108, 1024},
             {FITTED, "batch 1280", 1, 4.194e-3 + 1280 * 0.119257e-3, 8161, 1280}}},
    {"CNN, V100", BOOTCAMP " lessons 1 and 3", "device, Horovod's work a step, end of an epoch", "dgx-1v", .bytes = CNN,
     .each_step = V100_STEP, .epoch = V100_EPOCH, .images = 60000,
     .row = {{FITTED, "batch 2048, 1 GPU", 1, 2048 * V100_SAMPLE, 71149, 2048, 29},
             {FITTED, "batch 2048, 2 GPUs", 2, 2048 * V100_SAMPLE, 125206, 2048, 14},
             {PREDICTED, "batch 2048, 4 GPUs", 4, 2048 * V100_SAMPLE, 253439, 2048, 7},
             {FITTED, "batch 2048, 8 GPUs", 8, 2048 * V100_SAMPLE, 489929, 2048, 3},
             {PREDICTED, "lesson 3, batch 1024, 1 GPU", 1, 1024 * V100_SAMPLE, 66176, 1024, 58},
             {PREDICTED, "lesson 3, batch 2048, 8 GPUs", 8, 2048 * V100_SAMPLE, 486914, 2048, 3}}},
    {"CIFAR-10, V100", BOOTCAMP " lesson 4", "device alone; the rest is that of the CNN, V100", "dgx-1v",
     .bytes = CIFAR, .each_step = V100_STEP, .epoch = V100_EPOCH, .images = 50000,
     .row = {{FITTED, "cifar_base, 1 GPU", 1, 13.473e-3, 37525, 512, 97},
             {PREDICTED, "cifar_base, 8 GPUs", 8, 13.473e-3, 221506, 512, 12},
             {FITTED, "cifar_batch_norm, 8 GPUs", 8, 17.88e-3, 173167, 512, 12},
             {PREDICTED, "cifar_scalelr, 8 GPUs", 8, 17.88e-3, 169003, 512, 12},
             {PREDICTED, "cifar_warmup, 8 GPUs", 8, 17.88e-3, 177521, 512, 12}}},
    {"CNN, two V100: NVLink, PCIe, host", BOOTCAMP " lesson 2.1", "device alone; the rest is that of the CNN, V100",
     "dgx-1v", .bytes = CNN, .each_step = V100_STEP, .epoch = V100_EPOCH, .images = 60000,
     .row = {{FITTED, "0,3: NVLink (run)", 2, 5.695e-3, 101000, 512, 58, "0,3"},
             {PREDICTED, "0,3: NVLink (table)", 2, 5.695e-3, 100000, 512, 58, "0,3"},
             {PREDICTED, "1,7: no peer access", 2, 5.695e-3, 97000, 512, 58, "1,7"},
             {PREDICTED, "0,3: PCIe, NCCL_P2P_LEVEL 1", 2, 5.695e-3, 97000, 512, 58, "0,3", true},
             {PREDICTED, "0,3: host, NCCL_P2P_LEVEL 0", 2, 5.695e-3, 95000, 512, 58, "0,3", true}}},
    {"CNN, A100", BOOTCAMP " lessons 1, 2.1 and 3", "device, Horovod's work a step, end of an epoch", "dgx-a100",
     .bytes = CNN, .each_step = A100_STEP, .epoch = A100_EPOCH, .images = 60000,
     .row = {{FITTED, "batch 8192, 1 GPU", 1, 8192 * A100_SAMPLE, 109642, 8192, 7},
             {FITTED, "batch 8192, 2 GPUs", 2, 8192 * A100_SAMPLE, 168561, 8192, 3},
             {FITTED, "batch 8192, 4 GPUs", 4, 8192 * A100_SAMPLE, 262557, 8192, 1},
             {PREDICTED, "lesson 3, batch 5376, 1 GPU", 1, 5376 * A100_SAMPLE, 106021, 5376, 11},
             {PREDICTED, "lesson 3, batch 5376, 8 GPUs", 8, 5376 * A100_SAMPLE, 185406, 5376, 1, .why = FEW_STEPS},
             {PREDICTED, "batch 8192, 0,3: NVLink", 2, 8192 * A100_SAMPLE, 166697, 8192, 3, "0,3"},
             {PREDICTED, "batch 8192, 0,3: PCIe", 2, 8192 * A100_SAMPLE, 104000, 8192, 3, "0,3", true, A100_WHY},
             {PREDICTED, "batch 8192, 0,3: host", 2, 8192 * A100_SAMPLE, 97000, 8192, 3, "0,3", true, A100_WHY}}},
    {"CIFAR-10, A100", BOOTCAMP " lesson 4", "device alone; the rest is that of the CNN, A100", "dgx-a100",
     .bytes = CIFAR, .each_step = A100_STEP, .epoch = A100_EPOCH, .images = 50000,
     .row = {{FITTED, "cifar_base, 1 GPU", 1, 6.2235e-3, 65063, 512, 97},
             {PREDICTED, "cifar_base, 8 GPUs", 8, 6.2235e-3, 43244, 512, 12, .why = A100_WHY}}},
    {"Variational autoencoder, V100", KERAS_EXP, "devices, and waiting for the slowest rank: 2.05 ms × log2(ranks)",
     "dgx-1v", .bytes = VAE, .each_doubling = 2.05e-3,
     .row = {{FITTED, "1 GPU", 1, 128 / 12597.0, 12597, 128},
             {PREDICTED, "2 GPUs", 2, 128 / 12597.0, 20016, 128},
             {PREDICTED, "4 GPUs", 4, 128 / 12597.0, 32482, 128},
             {FITTED, "8 GPUs", 8, 128 / 12597.0, 62279, 128}}},
    {"Variational autoencoder, V100, two ranks a GPU with MPS", KERAS_EXP, "device; the rest is that of one rank a GPU",
     "dgx-1v", .bytes = VAE, .each_doubling = 2.05e-3,
     /* the two ranks of one GPU wait for each other, too: a doubling, which .device holds */
     .row = {{FITTED, "1 GPU", 1, 256 / 14024.0, 14024, 256},
             {PREDICTED, "2 GPUs", 2, 256 / 14024.0, 25689, 256},
             {PREDICTED, "4 GPUs", 4, 256 / 14024.0, 45605, 256},
             {PREDICTED, "8 GPUs", 8, 256 / 14024.0, 85759, 256}}},
    {"tf_cnn_benchmarks, InceptionV3, az-4x and az-2x", MULTI_GPU ", measurements", "device alone", "azure-m60",
     .bytes = INCEPTION_V3, .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER, .bucket_bytes = 8e6,
     .row = {{FITTED, "az-4x, 1 GPU", 1, 32 / 44.92, 44.92, 32},
             {PREDICTED, "az-4x, 2 GPUs", 2, 32 / 44.92, 91.44, 32},
             {PREDICTED, "az-4x, 3 GPUs", 3, 32 / 44.92, 127.33, 32},
             {PREDICTED, "az-4x, 4 GPUs", 4, 32 / 44.92, 173.5, 32},
             {FITTED, "az-2x, 1 GPU", 1, 32 / 47.49, 47.49, 32},
             {PREDICTED, "az-2x, 2 GPUs", 2, 32 / 47.49, 95.43, 32}}},
    {"tf_cnn_benchmarks, ResNet50, az-2x", MULTI_GPU ", measurements", "device alone", "azure-m60", .bytes = RESNET_50,
     .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER, .bucket_bytes = 8e6,
     .row = {{FITTED, "1 GPU", 1, 32 / 77.94, 77.94, 32}, {PREDICTED, "2 GPUs", 2, 32 / 77.94, 151.65, 32}}},
    {"tf_cnn_benchmarks, InceptionV3, 7gforce", MULTI_GPU ", measurements", "device alone", "pcie-risers",
     .bytes = INCEPTION_V3, .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER, .bucket_bytes = 8e6,
     .row = {{FITTED, "1 GPU", 1, 32 / 78.44, 78.44, 32},
             {PREDICTED, "2 GPUs", 2, 32 / 78.44, 118.32, 32},
             {PREDICTED, "4 GPUs", 4, 32 / 78.44, 236.86, 32},
             {PREDICTED, "6 GPUs", 6, 32 / 78.44, 351.98, 32}}},
#define RISERS                                                                                                         \
    "the model lets all weights arrive before a step begins (135 ms); here about half of that is hidden. The machine " \
    "mixes "                                                                                                           \
    "GTX "                                                                                                             \
    "1070 and a faster 1080, and the source does not say which of them is the one GPU"
    {"tf_cnn_benchmarks, ResNet50, 7gforce", MULTI_GPU ", measurements", "device alone", "pcie-risers",
     .bytes = RESNET_50, .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER, .bucket_bytes = 8e6,
     .row = {{FITTED, "1 GPU", 1, 32 / 119.8, 119.8, 32},
             {PREDICTED, "2 GPUs", 2, 32 / 119.8, 196, 32, .why = RISERS},
             {PREDICTED, "4 GPUs", 4, 32 / 119.8, 364.32, 32, .why = RISERS},
             {PREDICTED, "6 GPUs", 6, 32 / 119.8, 571.9, 32, .why = RISERS}}},
    {"Keras, InceptionV3, weights on the CPU, az-4x and az-2x", MULTI_GPU ", measurements",
     "device, and the host's work for each further GPU: 202 ms", "azure-m60", .each_device = 0.2017,
     .row = {{FITTED, "avolkov1, az-4x, 1 GPU", 1, 32 / 29.36, 29.36, 32},
             {PREDICTED, "avolkov1, az-4x, 2 GPUs", 2, 32 / 29.36, 53.16, 32},
             {PREDICTED, "avolkov1, az-4x, 3 GPUs", 3, 32 / 29.36, 64.17, 32},
             {FITTED, "avolkov1, az-4x, 4 GPUs", 4, 32 / 29.36, 75.51, 32},
             {FITTED, "kuza55, az-2x, 1 GPU", 1, 32 / 31.71, 31.71, 32},
             {PREDICTED, "kuza55, az-2x, 2 GPUs", 2, 32 / 31.71, 53.35, 32},
             {FITTED, "avolkov1, az-2x, 1 GPU", 1, 32 / 31.67, 31.67, 32},
             {PREDICTED, "avolkov1, az-2x, 2 GPUs", 2, 32 / 31.67, 54.58, 32}}},
    {"Keras, ResNet50, weights on the CPU, az-2x", MULTI_GPU ", measurements",
     "device; the host's work is that of InceptionV3 by the size of the weights", "azure-m60",
     .each_device = 0.2017 * RESNET_50 / INCEPTION_V3,
     .row = {{FITTED, "kuza55, 1 GPU", 1, 32 / 41.69, 41.69, 32},
             {PREDICTED, "kuza55, 2 GPUs", 2, 32 / 41.69, 71.72, 32},
             {FITTED, "avolkov1, 1 GPU", 1, 32 / 41.64, 41.64, 32},
             {PREDICTED, "avolkov1, 2 GPUs", 2, 32 / 41.64, 71.73, 32}}},
    {"Keras, InceptionV3, weights on the CPU, 7gforce", MULTI_GPU ", measurements",
     "device, and the host's work for each further GPU: 431 ms", "pcie-risers", .each_device = 0.4314,
     .row = {{FITTED, "avolkov1, 1 GPU", 1, 32 / 41.0, 41, 32},
             {PREDICTED, "avolkov1, 2 GPUs", 2, 32 / 41.0, 50.1, 32},
             {PREDICTED, "avolkov1, 4 GPUs", 4, 32 / 41.0, 64.05, 32},
             {FITTED, "avolkov1, 6 GPUs", 6, 32 / 41.0, 65.37, 32},
             {FITTED, "kuza55, 1 GPU", 1, 32 / 39.07, 39.07, 32},
             {PREDICTED, "kuza55, 2 GPUs", 2, 32 / 39.07, 49.01, 32},
             {PREDICTED, "kuza55, 4 GPUs", 4, 32 / 39.07, 60.38, 32}}},
#define SLICES                                                                                                         \
    "the host's work is taken in proportion to the weights; a part of it, cutting and copying the batch, does not "    \
    "depend "                                                                                                          \
    "on them"
    {"Keras, ResNet50, weights on the CPU, 7gforce", MULTI_GPU ", measurements",
     "device; the host's work is that of InceptionV3 by the size of the weights", "pcie-risers",
     .each_device = 0.4314 * RESNET_50 / INCEPTION_V3,
     .row = {{FITTED, "kuza55, 1 GPU", 1, 32 / 54.52, 54.52, 32},
             {PREDICTED, "kuza55, 2 GPUs", 2, 32 / 54.52, 55.09, 32, .why = SLICES},
             {PREDICTED, "kuza55, 4 GPUs", 4, 32 / 54.52, 66.55, 32},
             {FITTED, "avolkov1, 1 GPU", 1, 32 / 58.19, 58.19, 32},
             {PREDICTED, "avolkov1, 2 GPUs", 2, 32 / 58.19, 56.02, 32, .why = SLICES},
             {PREDICTED, "avolkov1, 4 GPUs", 4, 32 / 58.19, 67.33, 32},
             {PREDICTED, "avolkov1, 6 GPUs", 6, 32 / 58.19, 68.21, 32}}},
    {"Keras, CIFAR-10, batch 512, az-4x", MULTI_GPU ", measurements",
     "device, and the host's work for each further GPU: 7 ms", "azure-m60", .each_device = 7.03e-3,
     .row = {{FITTED, "1 GPU", 1, 512 / 7690.0, 7690, 512},
             {PREDICTED, "2 GPUs", 2, 512 / 7690.0, 13775, 512},
             {PREDICTED, "3 GPUs", 3, 512 / 7690.0, 18961, 512},
             {FITTED, "4 GPUs", 4, 512 / 7690.0, 23365, 512}}},
    {"TensorFlow on 8 P100, weights on the CPU (its medians: 1.93x, 3.87x, 7.44x)", TF_PAGE, "device alone", "pcie-8",
     .bytes = INCEPTION_V3, .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER, .bucket_bytes = 8e6,
     .row = {{FITTED, "InceptionV3, 1 GPU", 1, 64 / 142.0, 142, 64},
             {PREDICTED, "InceptionV3, 2 GPUs", 2, 64 / 142.0, 284, 64},
             {PREDICTED, "InceptionV3, 4 GPUs", 4, 64 / 142.0, 569, 64},
             {PREDICTED, "InceptionV3, 8 GPUs", 8, 64 / 142.0, 1131, 64}}},
    {"TensorFlow on 8 P100, weights on the CPU", TF_PAGE, "device alone", "pcie-8", .bytes = RESNET_50,
     .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER, .bucket_bytes = 8e6,
     .row = {{FITTED, "ResNet-50, 1 GPU", 1, 64 / 219.0, 219, 64},
             {PREDICTED, "ResNet-50, 2 GPUs", 2, 64 / 219.0, 422, 64},
             {PREDICTED, "ResNet-50, 4 GPUs", 4, 64 / 219.0, 852, 64},
             {PREDICTED, "ResNet-50, 8 GPUs", 8, 64 / 219.0, 1734, 64}}},
    {"TensorFlow on 8 P100, weights on the CPU", TF_PAGE, "device alone", "pcie-8", .bytes = RESNET_152,
     .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER, .bucket_bytes = 8e6,
     .row = {{FITTED, "ResNet-152, 1 GPU", 1, 64 / 91.8, 91.8, 64},
             {PREDICTED, "ResNet-152, 2 GPUs", 2, 64 / 91.8, 181, 64},
             {PREDICTED, "ResNet-152, 4 GPUs", 4, 64 / 91.8, 356, 64},
             {PREDICTED, "ResNet-152, 8 GPUs", 8, 64 / 91.8, 716, 64}}},
    {"Horovod, VGG-16, hosts of 4 Pascal GPUs, 25 Gb/s RoCE, fusion of 64 MB", "Horovod's README; one P100: " TF_PAGE,
     "the latency of roce-25, to both rows", "pcie-4", 128, "roce-25", PERCENT, VGG_16, KOLO_ALGORITHM_RING, 64e6,
     0.893, .row = {{FITTED, "512 GPUs", 512, 64 / 154.0, 68}, {FITTED, "128 GPUs", 128, 64 / 154.0, 79}}},
    {"Horovod, Inception V3", "Horovod's README; one P100: " TF_PAGE, "nothing", "pcie-4", 128, "roce-25", PERCENT,
     INCEPTION_V3, KOLO_ALGORITHM_RING, 64e6, .row = {{PREDICTED, "512 GPUs", 512, 64 / 142.0, 90}}},
    {"Horovod, ResNet-101", "Horovod's README; one P100 between ResNet-50 and 152 by operations: " TF_PAGE, "nothing",
     "pcie-4", 128, "roce-25", PERCENT, RESNET_101, KOLO_ALGORITHM_RING, 64e6,
     .row = {{PREDICTED, "512 GPUs", 512, 64 / 129.4, 90}}},
    {"PyTorch DDP, ResNet-50, hosts of 8 V100", "pytorch/pytorch benchmarks/distributed/ddp",
     "device, and DDP's work a step: 6.9 ms", "dgx-1v", 2, "ib-edr", .bytes = RESNET_50, .bucket_bytes = 25e6,
     .each_step = 6.9e-3,
     .row = {{FITTED, "1 GPU", 1, 32 / 329.0, 329, 32},
             {PREDICTED, "2 GPUs", 2, 32 / 329.0, 2 * 310, 32},
             {PREDICTED, "4 GPUs", 4, 32 / 329.0, 4 * 310, 32},
             {PREDICTED, "8 GPUs", 8, 32 / 329.0, 8 * 307, 32},
             {FITTED, "16 GPUs", 16, 32 / 329.0, 16 * 306, 32}}},
    {"PyTorch DDP, ResNet-101, hosts of 8 V100", "pytorch/pytorch benchmarks/distributed/ddp",
     "device; the rest is that of ResNet-50", "dgx-1v", 2, "ib-edr", .bytes = RESNET_101, .bucket_bytes = 25e6,
     .each_step = 6.9e-3,
     .row = {{FITTED, "1 GPU", 1, 32 / 197.0, 197, 32},
             {PREDICTED, "2 GPUs", 2, 32 / 197.0, 2 * 182, 32},
             {PREDICTED, "4 GPUs", 4, 32 / 197.0, 4 * 182, 32},
             {PREDICTED, "8 GPUs", 8, 32 / 197.0, 8 * 179, 32},
             {PREDICTED, "16 GPUs", 16, 32 / 197.0, 16 * 178, 32}}},
    {"CIFAR-10 under SLURM, 2 hosts of 4 P100, gRPC without RDMA, seconds of an epoch", KERAS_EXP ", its page on SLURM",
     "devices, from the runs with RDMA; gRPC's copy of each further device: 35 ms", "pcie-4", 2, "ethernet-10", SECONDS,
     .each_device = 35.16e-3,
     .row = {{FITTED, "v1 (RDMA: 6 s)", 8, 6 / 195.0, 54, 32, 195},
             {PREDICTED, "v2 (RDMA: 5 s)", 8, 5 / 195.0, 49, 32, 195}}},
    {"DOWNPOUR on the Higgs data, seconds", "cerndb/dist-keras, e12af45; one worker: its SingleTrainer, 126.4 s",
     "what does not shrink with the workers: 4.5 s", "pcie-4", 20, "ethernet-10", SECONDS, .each_step = 4.5,
     .row = {{FITTED, "2 workers", 2, 126.4 / 2, 67.7, .selected = "0"},
             {PREDICTED, "4 workers", 4, 126.4 / 4, 36.2, .selected = "0"},
             {PREDICTED, "8 workers", 8, 126.4 / 8, 21.5, .selected = "0"},
             {PREDICTED, "12 workers", 12, 126.4 / 12, 15.9, .selected = "0"},
             {PREDICTED, "20 workers", 20, 126.4 / 20, 17.3, .selected = "0",
              .why = "20 workers were slower than 12: the source does not say how many cores it had"}}},
};
enum { TABLES = sizeof tables / sizeof *tables };

/* Tables of the same sources without what a prediction needs. */
static const char *const left_out[] = {
    "MirroredStrategy, 8 V100 and 8 A100 (" BOOTCAMP "): no figure of one GPU",
    "cifar_lamb (" BOOTCAMP "): one figure, which its device time would be fitted to",
    "VAE with 4 ranks on a GPU, and 2 without MPS (" KERAS_EXP "): ranks that share a GPU, no link",
    "NCCL's mean time of a call, GPUs 0,3 and 1,7 (" BOOTCAMP " lesson 2.2): no bytes of a call",
    "MNIST on 1 and 2 P100 (" KERAS_EXP "): ~2 s and ~1 s, one digit",
    "Keras with weights on a GPU, 4 and 6 GPUs, 7gforce (" MULTI_GPU
    "): falls faster than any route of the machine explains",
    "Keras CIFAR-10, 7gforce, batch 4096, 512 and 32 (" MULTI_GPU
    "): 1.80, 2.28, 1.80, 2.16, 4.03 on 2 to 6 GPUs follow no "
    "law of the number of GPUs",
    "CIFAR-10 networks on 2 M60 (" MULTI_GPU "): speed-ups without times",
    "AlexNet on two GPUs, kuza55's MLP (" MULTI_GPU "): no batch size, or no figure of one GPU",
};
enum { LEFT_OUT = sizeof left_out / sizeof *left_out };

#endif
