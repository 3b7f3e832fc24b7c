/* Keras's small CNN on CIFAR-10, on the nodes of a SLURM cluster. avolkov1/keras_experiments has two such programs;
 * here they are one, and --chief tells them apart.
 *
 *   srun --mpi=pmix cifar10_slurm --self-test     what each rank sees of the job; nothing is trained
 *   srun --mpi=pmix cifar10_slurm                 each rank reads the images itself; gradients are averaged
 *   kolorun cifar10_slurm                         the same in a script for sbatch, or in salloc
 *   srun --mpi=pmix cifar10_slurm --strategy parameter_server
 *                                                 the ranks are workers that exchange weights with servers, of which
 *                                                 each node has one
 *   srun --mpi=pmix cifar10_slurm --chief         the same; rank 0 reads the images, and sends each rank its share
 */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../N5/cifar10_network.h"

enum { LINE = 400 }; /* bytes of what a rank says of itself */

typedef struct own_options {
    const char *checkpoint;
    bool self_test, chief, augment, log_placement;
} own_options;

/* ---------------------------------------------------------------------------------------- what each rank sees */

/* Writes who has started this rank, in the words of SLURM's variables. A rank that Open MPI has started sees those of
 * the daemon that started it, which are not its own. */
static void describe_launcher(char *text, size_t size)
{
    const char *nodes = getenv("SLURM_JOB_NODELIST"), *task = getenv("SLURM_PROCID"), *local = getenv("SLURM_LOCALID");
    if (!nodes) snprintf(text, size, "not in SLURM");
    else if (getenv("OMPI_COMM_WORLD_RANK") || !task || !local)
        snprintf(text, size, "Open MPI's, on SLURM's %s", nodes);
    else snprintf(text, size, "SLURM's task %s, %s on its node, of %s", task, local, nodes);
}

/* Whether one of `servers` is on this rank, as kolo_strategy.servers spreads them. */
static bool has_server(int servers)
{
    for (int i = 0; i < servers; i++)
        if ((int)((long)i * kolo_size() / servers) == kolo_rank()) return true;
    return false;
}

/* Writes what this rank sees: its place among the ranks, who has started it, its part in the training, and its
 * device. */
static void describe_rank(const kolo_strategy *strategy, char text[LINE])
{
    char host[65] = "?", launcher[200];
    gethostname(host, sizeof host - 1);
    describe_launcher(launcher, sizeof launcher);
    snprintf(text, LINE, "rank %d of %d on %s: local rank %d of %d, node %d of %d; %s; %s%s, device %s", kolo_rank(),
             kolo_size(), host, kolo_local_rank(), kolo_local_size(), kolo_cross_rank(), kolo_cross_size(), launcher,
             kolo_rank() == 0 ? "chief" : "worker", has_server(strategy->servers) ? " with a server" : "",
             kolo_device_get(0).name);
}

/* Rank 0 prints the lines of all ranks, which shows that each can reach the others. */
static void self_test(const kolo_strategy *strategy)
{
    char mine[LINE] = "", *all = calloc((size_t)kolo_size(), LINE);
    if (!all) {
        fprintf(stderr, "cifar10_slurm: out of memory\n");
        return;
    }
    describe_rank(strategy, mine);
    if (kolo_allgather(mine, LINE, all) == KOLO_OK && kolo_rank() == 0)
        for (int rank = 0; rank < kolo_size(); rank++) printf("%s\n", all + (size_t)rank * LINE);
    free(all);
}

/* ---------------------------------------------------------------------------------------- the training */

/* With --chief only rank 0 reads the training images, and each rank gets a share of them over the network. */
static kolo_data *training_images(const kolo_options *options, bool chief)
{
    kolo_data *images = chief && kolo_rank() > 0 ? NULL : read_images(options->data, KOLO_TRAIN);
    if (!chief) return images;
    kolo_data *share = kolo_data_scatter(images, 0);
    kolo_data_free(&images);
    return share;
}

static const kolo_history *train(kolo_model *model, kolo_data *images, kolo_data *test, const kolo_options *options,
                                 const own_options *own)
{
    kolo_callback checkpoint = {0};
    if (own->checkpoint) checkpoint = kolo_model_checkpoint(own->checkpoint);
    return kolo_fit(model, images, .epochs = options->epochs, .batch_size = options->batch_size,
                    .steps_per_epoch = options->steps_per_epoch, .drop_remainder = options->drop_remainder,
                    .sharded = own->chief, .validation_data = options->no_validation ? NULL : test,
                    .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), kolo_throughput(), checkpoint});
}

static void train_network(const kolo_strategy *strategy, const kolo_options *options, const own_options *own)
{
    kolo_data *images = training_images(options, own->chief),
              *test = images ? read_images(options->data, KOLO_TEST) : NULL;
    if (own->augment && test) images = augmented(images);
    kolo_model *model = test && images ? cifar_network(kolo_data_get_info(images)) : NULL;
    kolo_compile(model, .optimizer = kolo_distributed(kolo_rmsprop(.learning_rate = options->learning_rate)),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .strategy = *strategy,
                 .precision = options->precision, .seed = options->seed, .deterministic = options->deterministic);
    if (own->log_placement && kolo_rank() == 0) kolo_placement(model);
    const kolo_history *history = train(model, images, test, options, own);
    if (kolo_rank() == 0 && history && options->save) kolo_save(model, options->save);
    if (kolo_rank() == 0 && history && options->history) kolo_history_save(history, options->history);
    kolo_model_free(&model);
    kolo_data_free(&images);
    kolo_data_free(&test);
}

/* ---------------------------------------------------------------------------------------- the program */

static kolo_options read_options(int argc, char **argv, own_options *own)
{
    const kolo_program_option table[] = {
        {"self-test", NULL, "print what each rank sees of the job, and end", .flag = &own->self_test},
        {"chief", NULL,
         "rank 0 reads the training images, and sends each rank a share of them; sets --strategy parameter_server",
         .flag = &own->chief},
        {"augment", NULL, "flip and shift images by chance", .flag = &own->augment},
        {"checkpoint", "FILE", "save the training there after each epoch", .text = &own->checkpoint, .written = true},
        {"log-placement", NULL, "print which layer is on which device", .flag = &own->log_placement},
        {0}};
    kolo_options options = {.data = "cifar-10", .batch_size = 32, .epochs = 200, .learning_rate = 1e-4, .own = table};
    options.data_help =
        "cifar-10; a folder with its files or with images in MNIST's format; or synthetic: drawn images";
    kolo_parse_options(argc, argv, &options, "Trains Keras's small CNN on CIFAR-10 on the nodes of a cluster.");
    return options;
}

int main(int argc, char **argv)
{
    own_options own = {0};
    kolo_init(&argc, &argv);
    kolo_options options = read_options(argc, argv, &own);
    if (own.chief && !options.strategy) options.strategy = "parameter_server";
    kolo_strategy strategy = kolo_options_strategy(&options);
    if (strategy.kind == &kolo_parameter_server_kind && !strategy.servers) strategy.servers = kolo_cross_size();
    if (!strategy.kind || strategy.kind == &kolo_one_device_kind) kolo_pin_device(kolo_local_rank());
    if (own.self_test) self_test(&strategy);
    else train_network(&strategy, &options, &own);
    return kolo_finish();
}
