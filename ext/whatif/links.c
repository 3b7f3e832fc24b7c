/* How long a sum over N devices takes: see what_if.h. */
#include <math.h>
#include <stdio.h>

#include "link/link_model.h"
#include "whatif/what_if.h"

/* ---------------------------------------------------------------- the memory of a host */

static kolo_status find_memory(const kolo_what_if_args *args, const kolo_recording *recording, double recorded_share,
                               kolo_replay_links *links)
{
    const char *origin = "given";
    links->memory = args->memory * 1e9;
    if (args->memory == 0 && !isnan(recording->sum_rate)) {
        links->memory = recording->sum_rate * KOLO_SUM_PASSES * recorded_share;
        origin = "as recorded";
    } else if (args->memory == 0) {
        KOLO_TRY(kolo_measure_memory(&links->memory));
        origin = "measured on this one";
    }
    snprintf(links->name, sizeof links->name, "the memory of a host at %.3g GB/s, %s", links->memory / 1e9, origin);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- a machine */

static kolo_link_model *open_machine(const kolo_what_if_args *args, int hosts)
{
    const kolo_link_model_args machine = {
        .machine = args->machine, .hosts = hosts, .network = args->network, .link = args->link};
    return kolo_link_model_open_at(&machine, kolo_scope_now().here);
}

/* Opens as many hosts as the devices need, unless the call or the file says how many. */
static kolo_status find_machine(const kolo_what_if_args *args, int most, kolo_replay_links *links)
{
    links->model = args->model;
    if (args->machine) links->model = links->opened = open_machine(args, args->hosts);
    int each = links->opened ? kolo_link_model_devices(links->opened) / kolo_link_model_hosts(links->opened) : 0;
    if (links->opened && args->hosts == 0 && kolo_link_model_hosts(links->opened) == 1 && most > each) {
        kolo_link_model_free(&links->opened);
        links->model = links->opened = open_machine(args, (most + each - 1) / each);
    }
    if (!links->model) return kolo_last_error().code ? kolo_last_error().code : KOLO_INVALID;
    snprintf(links->name, sizeof links->name, "%s", kolo_link_model_name(links->model));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- both */

kolo_status kolo_replay_links_open(const kolo_what_if_args *args, const kolo_recording *recording,
                                   double recorded_share, int most, kolo_replay_links *links)
{
    *links = (kolo_replay_links){.algorithm = args->algorithm};
    if (args->model || args->machine) return find_machine(args, most, links);
    return find_memory(args, recording, recorded_share, links);
}

void kolo_replay_links_close(kolo_replay_links *links)
{
    kolo_link_model_free(&links->opened);
    *links = (kolo_replay_links){0};
}

kolo_status kolo_replay_links_sum(const kolo_replay_links *links, int devices, double bytes, double *seconds)
{
    *seconds = bytes * KOLO_SUM_PASSES / links->memory;
    if (!links->model) return KOLO_OK;
    kolo_modelled_time time;
    kolo_task task = {links->model, bytes, devices, KOLO_MODELLED_ALLREDUCE};
    KOLO_TRY(kolo_link_check_devices(links->model, &task.devices));
    KOLO_TRY(kolo_task_time(&task, links->algorithm, &time));
    *seconds = time.seconds;
    return KOLO_OK;
}
