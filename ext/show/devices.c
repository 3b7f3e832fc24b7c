/* Devices as a table: see bundle.h and kolo_devices(). */
#include "show/bundle.h"
#include "show/display.h"

#include <stdlib.h>
#include <string.h>

/* Free memory is shown for GPUs only, because CPU devices share the memory of the machine. */
void kolo_devices_write(FILE *out, const kolo_device_list *list)
{
    bool gpus = list->count > 0 && strncmp(list->device[0].name, "gpu:", 4) == 0;
    fprintf(out, "%-8s %6s %9s%s  %s\n", "device", "cores", "memory", gpus ? "      free     taken" : "",
            "description");
    for (int i = 0; i < list->count; i++) {
        const kolo_device *device = &list->device[i];
        fprintf(out, "%-8s %6.4g %6.2f GB", device->name, device->cores, (double)device->memory_bytes / 1e9);
        if (gpus)
            fprintf(out, " %6.2f GB %6.2f GB", (double)device->free_bytes / 1e9, (double)device->taken_bytes / 1e9);
        fprintf(out, "  %s\n", device->description);
    }
    fprintf(out, "Number of devices: %d%s\n", list->count, list->count ? "" : " (the host computes)");
}

char *kolo_text_bundle(char *text, size_t size)
{
    char *json = NULL;
    kolo_mime form = {"text/plain", text, size, false};
    if (text) kolo_display_json(&form, 1, &json);
    free(text);
    return json;
}

char *kolo_devices_bundle(const kolo_device_list *list)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    bool whole = list->count >= 0 && list->count <= KOLO_DEVICES_MAX;
    if (whole) kolo_devices_write(out, list);
    else fputs("no devices", out);
    fclose(out);
    return kolo_text_bundle(text, size);
}
