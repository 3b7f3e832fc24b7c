/* Any bytes as a safetensors file: refused in a sentence, or read; a model takes all of it or nothing. */
#define _GNU_SOURCE
#include "saving/save.h"
#include "memory.h"

#include <string.h>

static kolo_model *small_model(void)
{
    static kolo_model *model;
    if (model) return model;
    model = kolo_sequential(kolo_input(3), kolo_dense(2, .name = "a"));
    expect(kolo_compile(model, .backend = "reference", .seed = 1) == KOLO_OK, "a model to load into");
    return model;
}

/* Whatever the file says it holds can be asked for. */
static void read_arrays(const kolo_safetensors *from)
{
    static float values[4096];
    const char *name;
    json_t *entry;
    json_object_foreach(from->header, name, entry)
    {
        kolo_shape shape = {.rank = (int)(json_array_size(json_object_get(entry, "shape")) % 5)};
        for (int axis = 0; axis < shape.rank; axis++)
            shape.dim[axis] = (int)json_integer_value(json_array_get(json_object_get(entry, "shape"), (size_t)axis));
        if (!kolo_safetensors_has(from, name) || !kolo_safetensors_fits(from, name, shape)) continue;
        bool small = kolo_shape_count(shape) <= 4096;
        if (small && kolo_safetensors_read(from, name, shape, values) != KOLO_OK) kolo_failure_take();
        expect(strlen(kolo_safetensors_shape(from, name)) >= 2, "a shape can be shown");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    int fd;
    kolo_safetensors from;
    kolo_model *model = small_model();
    float values[8];
    const char *path = file_of(bytes, size, &fd);
    kolo_status status = kolo_safetensors_open(&from, path);
    if (status == KOLO_OK) {
        read_arrays(&from);
        kolo_safetensors_text(&from, "format");
        status = kolo_weights_read(&from, model, values);
        kolo_safetensors_close(&from);
    }
    kolo_failure failure = kolo_failure_take();
    expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has its sentence");
    close(fd);
    return 0;
}
