/* A rank of test_fault.py and faults.py: trains for 60 steps, and prints the seconds that they took. The rank that
 * LEAVES_BEFORE_INIT names ends before. */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void leave_if_asked(void)
{
    const char *leaves = getenv("LEAVES_BEFORE_INIT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (leaves && rank && strcmp(leaves, rank) == 0) _exit(0);
}

int main(int argc, char **argv)
{
    leave_if_asked();
    kolo_init(&argc, &argv);
    kolo_data *data = kolo_synthetic_table(KOLO_TRAIN);
    kolo_data_info info = kolo_data_get_info(data);
    kolo_model *model =
        kolo_sequential(kolo_input(info.shape[0]), kolo_dense(32, .activation = KOLO_RELU), kolo_dense(info.classes));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);
    const kolo_history *history = kolo_fit(model, data, .batch_size = 32, .steps_per_epoch = 60, .check_every = 5,
                                           .verbose = KOLO_NONE, .callbacks = {kolo_broadcast_variables(0)});
    if (history) printf("trained in %.6f s\n", history->epoch[0].seconds);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
