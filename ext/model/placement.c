/* kolo_placement: which layer is on which device, and how much memory it needs there. */
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"
#include "core/table.h"
#include "model/model.h"

static double weight_bytes(const kolo_model *model, const kolo_layer_node *node)
{
    return (double)kolo_layer_weights(model, node) * sizeof(float);
}

/* Bytes of a sample's output. flatten and reshape need none, since their outputs are views. */
static double activation_bytes(const kolo_model *model, const kolo_layer_node *node)
{
    kolo_precision precision = model->compiled ? model->settings.precision : KOLO_FLOAT32;
    bool narrow = precision == KOLO_MIXED_BF16 || precision == KOLO_MIXED_FP16;
    bool same = node->recipe.kind == &kolo_flatten_kind || node->recipe.kind == &kolo_reshape_kind;
    return same ? 0 : (double)kolo_shape_count(node->out) * (narrow ? 2 : 4);
}

/* The number of the layer's device. The input layer is on the device of the first layer that reads it. */
static int device_of(const kolo_model *model, const kolo_layer_node *node)
{
    int device = node->number == 0 && model->layer_count > 1 ? model->layers[1].device : node->device;
    return device > 0 ? device : 0;
}

/* The number of this rank's first device. Unless the strategy names devices, the ranks of a host use consecutive runs
 * of devices, if there are enough. It is 0 for a model on one device: there each rank pins its device. */
static int first_device(const kolo_model *model)
{
    const kolo_strategy *strategy = &model->settings.strategy;
    int each = kolo_model_devices(model), mine = model->place.replicas * each;
    bool one = each == 1 && !model->place.several;
    bool named = strategy->device_names[0] || strategy->parameter_device;
    return one || named || mine * kolo_local_size() > kolo_device_count() ? 0 : mine * kolo_local_rank();
}

int kolo_model_device(const kolo_model *model, int replica, int device)
{
    int index = replica * kolo_model_devices(model) + device;
    const char *const *names = model->settings.strategy.device_names;
    bool known = index < KOLO_DEVICE_NAMES_MAX && names[0] && names[index];
    int named = known ? kolo_device_number(names[index]) : -1;
    return kolo_replica_device(named >= 0 ? named : first_device(model) + index);
}

/* "conv2d → {26, 26, 32}" */
static const char *computed(const kolo_layer_node *node)
{
    return kolo_phrase("%s → %s", node->recipe.kind->name, kolo_shape_text(node->out));
}

static kolo_status add_layers(const kolo_model *model, kolo_table *table)
{
    for (int i = 0; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        const char *cells[] = {node->name, kolo_phrase("%s:%d", kolo_device_word(), device_of(model, node)),
                               computed(node), kolo_bytes_text(weight_bytes(model, node)),
                               kolo_bytes_text(activation_bytes(model, node))};
        KOLO_TRY(kolo_table_add(table, cells));
    }
    return KOLO_OK;
}

static kolo_status add_device(const kolo_model *model, int device, kolo_table *table)
{
    double weights = 0, activations = 0;
    int layers = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        if (device_of(model, node) != device) continue;
        layers++;
        weights += weight_bytes(model, node);
        activations += activation_bytes(model, node);
    }
    const char *cells[] = {"all of", kolo_phrase("%s:%d", kolo_device_word(), device), kolo_phrase("%d layers", layers),
                           kolo_bytes_text(weights), kolo_bytes_text(activations)};
    return layers > 0 ? kolo_table_add(table, cells) : KOLO_OK;
}

/* Prints the devices of replicas 1 …: the table's numbers count from the first device of each replica. */
static void print_replicas(const kolo_model *model)
{
    int replicas = 1, devices = kolo_model_devices(model);
    if (model->compiled) replicas = model->place.replicas;
    for (int r = 1; r < replicas; r++) {
        printf("replica %d: %son", r, devices > 1 ? "the same " : "");
        for (int d = 0; d < devices; d++)
            printf("%s %s:%d", d ? "," : "", kolo_device_word(), kolo_model_device(model, r, d));
        printf("\n");
    }
}

static kolo_status print_placement(const kolo_model *model)
{
    static const char *const headings[] = {"layer", "device", "computes", "weights", "activations a sample"};
    kolo_table *table = NULL;
    kolo_status status;
    KOLO_TRY(kolo_model_check(model));
    KOLO_GO(done, kolo_table_open(5, 3, headings, &table));
    KOLO_GO(done, add_layers(model, table));
    for (int device = 0; device < kolo_model_devices(model); device++) KOLO_GO(done, add_device(model, device, table));
    kolo_table_print(table);
    print_replicas(model);
done:
    kolo_table_close(&table);
    return status;
}

kolo_status kolo_placement_at(const kolo_model *model, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_placement", here);
    return kolo_leave(scope, print_placement(model));
}
