/* The arrays of a training's state: see checkpoint.h. */
#include "saving/checkpoint.h"

int kolo_planes_of_kept(const kolo_kept *kept, kolo_plane *planes)
{
    for (int i = 0; i < kept->count; i++) {
        planes[i].values = kept->values[i];
        snprintf(planes[i].name, sizeof planes[i].name, "kept%d", i);
    }
    return kept->count;
}

int kolo_planes_of_replica(const kolo_model *model, bool waiting, kolo_plane planes[KOLO_PLANES_MAX])
{
    const kolo_replica *first = &model->trainer->replicas[0];
    int count = kolo_optimizer_slots(&model->settings.optimizer);
    for (int s = 0; s < count; s++) {
        planes[s].values = first->slots[s];
        snprintf(planes[s].name, sizeof planes[s].name, "%d", s);
    }
    if (waiting) planes[count++] = (kolo_plane){"waiting", first->accumulated};
    return count;
}

const char *kolo_plane_name(char name[KOLO_PLANE_NAME_MAX], const kolo_plane *one, const char *weight)
{
    snprintf(name, KOLO_PLANE_NAME_MAX, KOLO_ARRAYS_OF_OPTIMIZER "%.10s/%.64s", one->name, weight);
    return name;
}

kolo_shape kolo_numbers_shape(const kolo_model *model)
{
    return (kolo_shape){1, {model->parameter_count}};
}

int kolo_planes_of_worker(const kolo_model *model, int worker, kolo_worker_record *record, kolo_plane *planes)
{
    int count = kolo_worker_planes(model->trainer);
    for (int i = 0; i < count; i++) {
        planes[i].values = record->values + i * model->weight_count;
        snprintf(planes[i].name, sizeof planes[i].name, "w%d.%d", worker, i);
    }
    return count;
}

float *kolo_numbers_of_worker(const kolo_model *model, kolo_worker_record *record)
{
    return record->values + kolo_worker_planes(model->trainer) * model->weight_count;
}

const char *kolo_name_numbers(char name[KOLO_PLANE_NAME_MAX], int worker)
{
    snprintf(name, KOLO_PLANE_NAME_MAX, KOLO_ARRAYS_OF_OPTIMIZER "w%d.numbers", worker);
    return name;
}

kolo_status kolo_checkpoint_check(kolo_model *model, const char *path)
{
    KOLO_TRY(kolo_model_check_compiled(model, "a checkpoint"));
    if (!path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    if (!model->settings.optimizer.kind)
        return kolo_fail(KOLO_INVALID, "wanted kolo_compile() with an .optimizer, got a model without one");
    return kolo_trainer_open(model);
}
