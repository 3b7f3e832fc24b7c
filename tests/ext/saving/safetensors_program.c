/* For test_safetensors.py: saves a small model, or loads one and prints its weights.
 *   safetensors_program save FILE       safetensors_program load FILE */
#include <kolo.h>

#include <stdio.h>
#include <string.h>

static void number_weights(kolo_model *model)
{
    for (int i = 0, n = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        for (int64_t k = 0; k < weight.count; k++) weight.values[k] = (float)n++ / 3;
    }
}

static void print_weights(kolo_model *model)
{
    for (int i = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        printf("%s", weight.name);
        for (int64_t k = 0; k < weight.count; k++) printf(" %.9g", (double)weight.values[k]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    kolo_model *model =
        kolo_sequential(kolo_input(5, 4, 2), kolo_conv2d(3, .kernel = {2, 3}), kolo_flatten(), kolo_dense(2));
    kolo_compile(model, .seed = 1, .backend = "reference");
    if (strcmp(argv[1], "save") == 0) {
        number_weights(model);
        kolo_save(model, argv[2]);
    } else if (kolo_load(model, argv[2]) == KOLO_OK) {
        print_weights(model);
    }
    kolo_model_free(&model);
    return kolo_finish();
}
