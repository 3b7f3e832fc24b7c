/* Any text as a training's state, beside arrays that fit, or, after a first byte of 0, any bytes as a checkpoint:
 * refused and nothing changed, or taken, and then it can be gone on from. */
#define _GNU_SOURCE
#include "saving/save.h"
#include "replica/trainer.h"
#include "memory.h"

#include <string.h>

static kolo_model *small_model(void)
{
    static kolo_model *model;
    if (model) return model;
    model = kolo_sequential(kolo_input(2), kolo_dense(2, .name = "a"));
    expect(kolo_compile(model, .backend = "reference", .seed = 1, .optimizer = kolo_adam(),
                        .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}) == KOLO_OK,
           "a model to load into");
    expect(kolo_trainer_open(model) == KOLO_OK, "its optimizer's state");
    return model;
}

static json_t *entry(int begin, int end, json_t *shape)
{
    return json_pack("{s:s, s:o, s:[i, i]}", "dtype", "F32", "shape", shape, "data_offsets", begin, end);
}

/* A sound file around a state: length, header, 18 floats. */
static const char *checkpoint_of(const char *state, int *fd)
{
    static const char *const prefixes[] = {"", "optimizer/0/", "optimizer/1/"};
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", KOLO_METADATA_CHECKPOINT, state);
    if (!header) return NULL; /* no UTF-8 */
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%sa.kernel", prefixes[i]);
        json_object_set_new(header, name, entry(24 * i, 24 * i + 16, json_pack("[i, i]", 2, 2)));
        snprintf(name, sizeof name, "%sa.bias", prefixes[i]);
        json_object_set_new(header, name, entry(24 * i + 16, 24 * i + 24, json_pack("[i]", 2)));
    }
    char *text = json_dumps(header, JSON_COMPACT);
    uint64_t length = strlen(text);
    char *whole = calloc(1, 8 + length + 72);
    memcpy(whole, &length, 8);
    memcpy(whole + 8, text, length);
    const char *path = file_of(whole, 8 + length + 72, fd);
    free(whole);
    free(text);
    json_decref(header);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    kolo_model *model = small_model();
    int fd = -1;
    char *state = calloc(1, size + 1);
    memcpy(state, bytes, size);
    const char *path = size > 0 && bytes[0] == 0 ? file_of(bytes + 1, size - 1, &fd) : checkpoint_of(state, &fd);
    kolo_position before = model->position;
    kolo_status status = path ? kolo_checkpoint_read(model, path) : KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has its sentence");
    if (status != KOLO_OK) expect(memcmp(&before, &model->position, sizeof before) == 0, "nothing has changed");
    expect(model->position.epoch >= 0 && model->position.step >= 0 && model->learning_rate >= 0,
           "a place to go on from");
    if (fd >= 0) close(fd);
    free(state);
    return 0;
}
