/* Any text as a model: refused in a sentence, or a model whose own text is read as the same. */
#define _GNU_SOURCE
#include "saving/model_json.h"
#include "memory.h"

#include <string.h>

static kolo_status read_model(const char *text, kolo_model **model)
{
    int output;
    *model = NULL;
    kolo_status status = kolo_model_read_json(text, model, &output);
    if (status == KOLO_OK) status = kolo_model_finish(*model, output);
    if (status != KOLO_OK) kolo_model_free(model);
    kolo_failure failure = kolo_failure_take();
    expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has its sentence");
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1), *written = NULL, *again = NULL;
    kolo_model *model, *second;
    memcpy(text, bytes, size);
    text[size] = 0;
    if (read_model(text, &model) == KOLO_OK) {
        expect(kolo_model_write_json(model, true, &written) == KOLO_OK, "a model that was read can be written");
        expect(read_model(written, &second) == KOLO_OK, "and read again");
        expect(kolo_model_write_json(second, true, &again) == KOLO_OK && !strcmp(written, again), "as the same");
        kolo_model_free(&second);
    }
    kolo_model_free(&model);
    free(text);
    free(written);
    free(again);
    return 0;
}
