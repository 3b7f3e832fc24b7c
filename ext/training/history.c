/* Histories of trainings: finds values by name, copies histories, and keeps them as JSON files for plots and tables
 * outside Kolo. Values that are not finite are null in the file. */
#include "core/json.h"
#include "training/scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------ by name */

/* The numbers that every epoch has, in the order of the file. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"loss", offsetof(kolo_epoch, loss)},
    {"accuracy", offsetof(kolo_epoch, accuracy)},
    {"val_loss", offsetof(kolo_epoch, val_loss)},
    {"val_accuracy", offsetof(kolo_epoch, val_accuracy)},
    {"seconds", offsetof(kolo_epoch, seconds)},
    {"images_per_second", offsetof(kolo_epoch, images_per_second)},
    {"learning_rate", offsetof(kolo_epoch, learning_rate)},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static double *number_at(const kolo_epoch *epoch, int i)
{
    return (double *)((char *)epoch + numbers[i].offset);
}

static int number_of(const char *name)
{
    for (int i = 0; i < NUMBERS; i++)
        if (strcmp(numbers[i].name, name) == 0) return i;
    return -1;
}

double kolo_history_get(const kolo_history *history, int epoch, const char *name)
{
    if (!history || !name || epoch < 0 || epoch >= history->epochs) return NAN;
    const kolo_epoch *e = &history->epoch[epoch];
    bool validated = strncmp(name, "val_", 4) == 0;
    int number = number_of(name), m = kolo_metric_find(history->metric_name, history->metrics, name + 4 * validated);
    if (number >= 0) return *number_at(e, number);
    if (m >= 0) return validated ? e->val_metric[m] : e->metric[m];
    if (strcmp(name, "images") == 0) return (double)e->images;
    return strcmp(name, "steps") == 0 ? (double)e->steps : NAN;
}

/* ------------------------------------------------------------------------------------------ copies */

/* Allocates a history like `like` and room for its epochs in one block. */
static kolo_status make(const kolo_history *like, kolo_history **out)
{
    size_t bytes = sizeof **out + (size_t)like->epochs * sizeof(kolo_epoch);
    kolo_history *made = calloc(1, bytes);
    if (!made) return kolo_fail_memory(bytes, "a history");
    *made = *like;
    made->epoch = (const kolo_epoch *)(made + 1);
    *out = made;
    return KOLO_OK;
}

kolo_history *kolo_history_copy_at(const kolo_history *history, kolo_here here)
{
    kolo_history *copy = NULL;
    if (!history) return NULL;
    kolo_scope scope = kolo_enter("kolo_history_copy", here);
    if (kolo_leave(scope, make(history, &copy)) != KOLO_OK) return NULL;
    memcpy(copy + 1, history->epoch, (size_t)history->epochs * sizeof(kolo_epoch));
    return copy;
}

void kolo_history_free(kolo_history **history)
{
    if (!history) return;
    free(*history);
    *history = NULL;
}

/* ------------------------------------------------------------------------------------------ writing */

static void put(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, isfinite(value) ? json_real(value) : json_null());
}

static json_t *describe(const kolo_history *history, const kolo_epoch *epoch)
{
    json_t *object = json_object();
    for (int i = 0; i < NUMBERS; i++) put(object, numbers[i].name, *number_at(epoch, i));
    json_object_set_new(object, "images", json_integer(epoch->images));
    json_object_set_new(object, "steps", json_integer(epoch->steps));
    for (int m = 0; m < history->metrics; m++) {
        const char *name = history->metric_name[m];
        if (number_of(name) >= 0) continue; /* accuracy is among numbers[] */
        put(object, name, epoch->metric[m]);
        put(object, kolo_phrase("val_%s", name), epoch->val_metric[m]);
    }
    return object;
}

/* Spark's multiclass F1 after the last epoch: of the validation data if there are any. NaN: it is not a metric. */
static double last_f1(const kolo_history *history)
{
    double validated = kolo_history_get(history, history->epochs - 1, "val_f1_score_weighted");
    return isfinite(validated) ? validated : kolo_history_get(history, history->epochs - 1, "f1_score_weighted");
}

/* Only strategies of workers have these. */
static void describe_workers(json_t *whole, const kolo_history *history)
{
    double f1 = last_f1(history);
    if (history->workers == 0) return;
    json_object_set_new(whole, "strategy", json_string(history->strategy));
    json_object_set_new(whole, "workers", json_integer(history->workers));
    if (isfinite(f1)) json_object_set_new(whole, "f1", json_real(f1));
}

static void describe_communication(json_t *whole, const kolo_history *history)
{
    if (history->communication == 0) return;
    json_object_set_new(whole, "communication_seconds", json_real(history->communication));
    json_object_set_new(whole, "exposed_communication_seconds", json_real(history->exposed));
}

static json_t *describe_all(const kolo_history *history)
{
    json_t *epochs = json_array(), *names = json_array();
    for (int i = 0; i < history->epochs; i++) json_array_append_new(epochs, describe(history, &history->epoch[i]));
    for (int m = 0; m < history->metrics; m++) json_array_append_new(names, json_string(history->metric_name[m]));
    json_t *whole =
        json_pack("{s:i, s:i, s:i, s:b, s:o, s:o}", "ranks", history->ranks, "devices", history->devices, "first_epoch",
                  history->first_epoch, "stopped", history->stopped, "metrics", names, "epochs", epochs);
    if (whole) describe_workers(whole, history);
    if (whole) describe_communication(whole, history);
    return whole;
}

static kolo_status save(const kolo_history *history, const char *path)
{
    return kolo_json_write(path, describe_all(history), JSON_INDENT(2) | JSON_REAL_PRECISION(10), "the history");
}

kolo_status kolo_history_save_at(const kolo_history *history, const char *path, kolo_here here)
{
    if (!history) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_history_save", here);
    return kolo_leave(scope, save(history, path));
}

/* ------------------------------------------------------------------------------------------ reading */

static double take(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double seconds(const json_t *object, const char *name)
{
    double value = take(object, name);
    return isfinite(value) ? value : 0;
}

static int whole(const json_t *object, const char *name, int fallback)
{
    double value = take(object, name);
    return value >= 0 && value <= INT32_MAX ? (int)value : fallback;
}

/* Reads the metrics' names. A file without "metrics" is from an earlier version, which had accuracy only. */
static void read_names(const json_t *file, kolo_history *history)
{
    size_t i;
    json_t *name;
    if (!json_object_get(file, "metrics")) strcpy(history->metric_name[history->metrics++], "accuracy");
    json_array_foreach(json_object_get(file, "metrics"), i, name)
    {
        const char *text = json_string_value(name);
        if (!text || strlen(text) >= KOLO_METRIC_NAME || history->metrics == KOLO_METRICS_MAX) continue;
        strcpy(history->metric_name[history->metrics++], text); /* its length was checked above */
    }
}

static void read_epoch(const json_t *object, const kolo_history *history, kolo_epoch *epoch)
{
    for (int i = 0; i < NUMBERS; i++) *number_at(epoch, i) = take(object, numbers[i].name);
    double images = take(object, "images");
    epoch->images = images >= 0 && images < 0x1p62 ? (int64_t)images : 0;
    epoch->steps = whole(object, "steps", 0);
    for (int m = 0; m < history->metrics; m++) {
        epoch->metric[m] = take(object, history->metric_name[m]);
        epoch->val_metric[m] = take(object, kolo_phrase("val_%s", history->metric_name[m]));
    }
}

static kolo_status read_file(const char *path, json_t **file)
{
    KOLO_TRY(kolo_json_read(path, "a history", file));
    if (json_is_array(json_object_get(*file, "epochs"))) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted a history, a JSON object with a list of \"epochs\", got something else",
                     path);
}

static kolo_status load(const char *path, kolo_history **out)
{
    json_t *file = NULL, *epoch;
    size_t i;
    kolo_status status;
    KOLO_GO(done, read_file(path, &file));
    const json_t *epochs = json_object_get(file, "epochs");
    kolo_history head = {.epochs = (int)json_array_size(epochs),
                         .ranks = whole(file, "ranks", 1),
                         .devices = whole(file, "devices", 1),
                         .first_epoch = whole(file, "first_epoch", 0),
                         .stopped = json_is_true(json_object_get(file, "stopped")),
                         .workers = whole(file, "workers", 0),
                         .communication = seconds(file, "communication_seconds"),
                         .exposed = seconds(file, "exposed_communication_seconds")};
    const char *strategy = json_string_value(json_object_get(file, "strategy"));
    if (strategy) snprintf(head.strategy, sizeof head.strategy, "%s", strategy);
    read_names(file, &head);
    KOLO_GO(done, make(&head, out));
    json_array_foreach(epochs, i, epoch) read_epoch(epoch, *out, (kolo_epoch *)(*out + 1) + i);
done:
    json_decref(file);
    return status;
}

kolo_history *kolo_history_load_at(const char *path, kolo_here here)
{
    kolo_history *history = NULL;
    kolo_scope scope = kolo_enter("kolo_history_load", here);
    return kolo_leave(scope, load(path, &history)) == KOLO_OK ? history : NULL;
}
