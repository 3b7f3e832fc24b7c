/* The history of a training as JSON, for plots and tables outside Kolo. What is not a number becomes null. */
#include "core/file.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *describe(const kolo_epoch *epoch)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:i, s:o}", "loss", number(epoch->loss), "accuracy",
                     number(epoch->accuracy), "val_loss", number(epoch->val_loss), "val_accuracy",
                     number(epoch->val_accuracy), "seconds", number(epoch->seconds), "images_per_second",
                     number(epoch->images_per_second), "images", (json_int_t)epoch->images, "steps", epoch->steps,
                     "learning_rate", number(epoch->learning_rate));
}

static kolo_status save(const kolo_history *history, const char *path)
{
    json_t *epochs = json_array();
    for (int i = 0; i < history->epochs; i++) json_array_append_new(epochs, describe(&history->epoch[i]));
    json_t *whole =
        json_pack("{s:i, s:i, s:o}", "ranks", history->ranks, "devices", history->devices, "epochs", epochs);
    char *text = whole ? json_dumps(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(whole);
    if (!text) return kolo_fail_memory(1 << 12, "the history");
    size_t length = strlen(text);
    text[length] = '\n'; /* in the place of its 0: a text file ends with a line's end */
    kolo_status status = kolo_file_write(path, text, length + 1);
    free(text);
    return status;
}

kolo_status kolo_history_save_at(const kolo_history *history, const char *path, kolo_here here)
{
    if (!history) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_history_save", here);
    return kolo_leave(scope, save(history, path));
}
