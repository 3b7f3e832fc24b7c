/* The modelled time of a collective, and the choice of its algorithm. See link_model.h. */
#include <math.h>

#include "link/link_model.h"

static const struct algorithm {
    const char *name;
    kolo_rounds_of *schedule;
    bool of[KOLO_MODELLED_ALLGATHER + 1]; /* the operations that it has */
} algorithms[] = {[KOLO_ALGORITHM_FASTEST] = {"fastest", NULL, {true, true, true, true}},
                  [KOLO_ALGORITHM_RING] = {"ring", kolo_rounds_of_ring, {true, true, true, true}},
                  [KOLO_ALGORITHM_TREE] = {"tree", kolo_rounds_of_tree, {true, true, false, false}},
                  [KOLO_ALGORITHM_HIERARCHICAL] = {"hierarchical", kolo_rounds_of_hierarchical, {true}},
                  [KOLO_ALGORITHM_PARAMETER_SERVER] = {"parameter_server", kolo_rounds_of_parameter_server, {true}}};
#define ALGORITHMS ((int)(sizeof algorithms / sizeof *algorithms))

const char *kolo_algorithm_name(kolo_algorithm algorithm)
{
    return (int)algorithm >= 0 && (int)algorithm < ALGORITHMS ? algorithms[algorithm].name : "?";
}

/* Whether the algorithm can do the task, and is worth a try where the fastest one is looked for. */
static bool applies(const kolo_task *task, kolo_algorithm algorithm)
{
    int each = task->model->graph.devices;
    bool several_hosts = task->devices > each && task->devices % each == 0;
    if (algorithm == KOLO_ALGORITHM_FASTEST || !algorithms[algorithm].of[task->operation]) return false;
    return algorithm == KOLO_ALGORITHM_HIERARCHICAL ? several_hosts : algorithm != KOLO_ALGORITHM_PARAMETER_SERVER;
}

static kolo_status check_algorithm(const kolo_task *task, kolo_algorithm algorithm)
{
    static const char *const operations[] = {"an all-reduce", "a broadcast", "a reduce-scatter", "an all-gather"};
    if ((int)algorithm < 0 || (int)algorithm >= ALGORITHMS)
        return kolo_fail(KOLO_INVALID, ".algorithm: wanted a kolo_algorithm, got %d", (int)algorithm);
    if (!algorithms[algorithm].of[task->operation])
        return kolo_fail(KOLO_INVALID, ".algorithm: wanted one that has %s, got %s", operations[task->operation],
                         algorithms[algorithm].name);
    if (algorithm == KOLO_ALGORITHM_HIERARCHICAL && !applies(task, algorithm))
        return kolo_fail(KOLO_INVALID, ".algorithm: wanted several hosts for hierarchical, got %d devices of %s",
                         task->devices, task->model->name);
    if (algorithm == KOLO_ALGORITHM_PARAMETER_SERVER && task->model->graph.host < 0)
        return kolo_fail(KOLO_INVALID, ".algorithm: wanted a machine with a host for parameter_server, got %s",
                         task->model->name);
    return KOLO_OK;
}

/* Takes the algorithm's time if it is the first or the shortest. */
static kolo_status consider(const kolo_task *task, kolo_algorithm algorithm, kolo_modelled_time *best)
{
    kolo_modelled_time mine = {.algorithm = algorithm};
    KOLO_TRY(algorithms[algorithm].schedule(task, &mine.seconds, &mine.rounds));
    if (isnan(best->seconds) || mine.seconds < best->seconds) *best = mine;
    return KOLO_OK;
}

static double bus_bandwidth(const kolo_task *task, double seconds)
{
    double n = task->devices, times = task->operation == KOLO_MODELLED_ALLREDUCE ? 2 : 1;
    if (!(seconds > 0)) return 0;
    if (task->operation == KOLO_MODELLED_BROADCAST) return task->bytes / seconds / 1e9;
    return task->bytes / seconds * times * (n - 1) / n / 1e9;
}

kolo_status kolo_task_time(const kolo_task *task, kolo_algorithm algorithm, kolo_modelled_time *result)
{
    kolo_modelled_time best = {.seconds = NAN, .algorithm = algorithm};
    *result = best;
    KOLO_TRY(check_algorithm(task, algorithm));
    if (task->devices == 1 && algorithm != KOLO_ALGORITHM_PARAMETER_SERVER) {
        *result = (kolo_modelled_time){.algorithm = algorithm ? algorithm : KOLO_ALGORITHM_RING};
        return KOLO_OK;
    }
    if (algorithm != KOLO_ALGORITHM_FASTEST) KOLO_TRY(consider(task, algorithm, &best));
    for (int a = 0; algorithm == KOLO_ALGORITHM_FASTEST && a < ALGORITHMS; a++)
        if (applies(task, (kolo_algorithm)a)) KOLO_TRY(consider(task, (kolo_algorithm)a, &best));
    best.bus_bandwidth = bus_bandwidth(task, best.seconds);
    *result = best;
    return KOLO_OK;
}

static kolo_status read_task(const kolo_modelled_time_args *args, kolo_task *task)
{
    *task = (kolo_task){args->model, args->bytes, args->devices, args->operation};
    if (!args->model) return kolo_fail(KOLO_INVALID, "wanted a kolo_link_model, got NULL");
    if (!(args->bytes >= 0 && args->bytes <= 1e15))
        return kolo_fail(KOLO_INVALID, "bytes: wanted 0 to 1e15, got %g", args->bytes);
    if ((int)args->operation < 0 || args->operation > KOLO_MODELLED_ALLGATHER)
        return kolo_fail(KOLO_INVALID, ".operation: wanted a kolo_modelled_operation, got %d", (int)args->operation);
    return kolo_link_check_devices(args->model, &task->devices);
}

kolo_modelled_time kolo_link_model_time_at(const kolo_modelled_time_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_link_model_time", here);
    kolo_modelled_time result = {.seconds = NAN, .algorithm = args->algorithm};
    kolo_task task;
    kolo_status status = read_task(args, &task);
    if (status == KOLO_OK) status = kolo_task_time(&task, args->algorithm, &result);
    if (kolo_leave(scope, status) != KOLO_OK) result.seconds = NAN;
    return result;
}
