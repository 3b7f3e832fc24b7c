/* Any text as a machine: refused in a sentence, or a machine whose collectives have times. */
#define _GNU_SOURCE
#include "link/link_model.h"
#include "../../saving/fuzz/memory.h"

#include <math.h>
#include <string.h>

enum { DEVICES_MOST = 24 }; /* of which times are asked: more take long */

static kolo_status read_machine(const char *path, kolo_link_model *model)
{
    kolo_network network = {"IB", 12.5, 1};
    *model = (kolo_link_model){.hosts = 1, .name = "fuzzed"};
    KOLO_TRY(kolo_machine_from_json(path, &model->graph, &model->hosts, &network));
    if (model->hosts > 1)
        KOLO_TRY(kolo_graph_add_network(&model->graph, path, network.kind, network.bandwidth, network.latency));
    return kolo_link_find_routes(model);
}

static void ask_for_times(const kolo_link_model *model)
{
    int devices = kolo_link_model_devices(model);
    for (kolo_algorithm a = KOLO_ALGORITHM_FASTEST; a <= KOLO_ALGORITHM_PARAMETER_SERVER && devices <= DEVICES_MOST;
         a++) {
        kolo_task task = {model, 1e6, devices, KOLO_MODELLED_ALLREDUCE};
        kolo_modelled_time time;
        kolo_status status = kolo_task_time(&task, a, &time);
        kolo_failure failure = kolo_failure_take();
        expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has its sentence");
        expect(status != KOLO_OK || (isfinite(time.seconds) && time.seconds >= 0), "a time is a number");
        expect(status == KOLO_OK || a > KOLO_ALGORITHM_TREE, "rings and trees are of all machines");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static kolo_link_model model;
    int fd = -1;
    kolo_status status = read_machine(file_of(bytes, size, &fd), &model);
    kolo_failure failure = kolo_failure_take();
    expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has its sentence");
    close(fd);
    if (status == KOLO_OK) ask_for_times(&model);
    return 0;
}
