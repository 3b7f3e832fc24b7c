/* Any bytes as a CSV file; the first two say how it is read. What could be read can be read by itself as .like, to the
 * same numbers. */
#include "harness.h"

#include "data/csv.h"
#include "data/data.h"

/* Frees both. A 0 among the bytes ends a name, which is then not found again. */
static void check_again(kolo_csv_args args, kolo_arrays *arrays, bool zeros)
{
    kolo_arrays again = {0};
    kolo_data *like;
    expect(kolo_arrays_become(arrays, &like) == KOLO_OK, "there is memory");
    args.like = like;
    kolo_status status = kolo_csv_read(&again, &args);
    if (status != KOLO_OK && !zeros) fprintf(stderr, "%s\n", kolo_failure_take().text);
    expect(status == KOLO_OK || zeros, "a table is like itself");
    if (status == KOLO_OK) {
        size_t count = (size_t)again.samples * (size_t)kolo_shape_count(again.shape);
        expect(again.samples == like->samples && again.classes == like->classes, "of the same size");
        expect(memcmp(again.floats, like->floats, count * sizeof(float)) == 0 || zeros, "and the same numbers");
    }
    check_read(status, &again);
    kolo_data_free(&like);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2) return 0;
    uint8_t how = bytes[0], more = bytes[1];
    kolo_csv_args args = {.path = as_file(0, bytes + 2, size - 2),
                          .on_missing = (kolo_missing)(how % 6),
                          .header = how & 8 ? how & 16 ? 1 : KOLO_NONE : 0,
                          .separator = how & 32 ? ',' : 0,
                          .no_label = how & 64,
                          .regression = how & 128,
                          .missing = more & 1 ? -999 : 0,
                          .missing_text = more & 2 ? "?" : NULL,
                          .label_column = more & 4   ? "0"
                                          : more & 8 ? "label"
                                                     : NULL};
    if (more & 16) args.drop[0] = "1";
    if (more & 32) args.categorical[0] = "-1";
    if (more & 64) args.classes[0] = "b", args.classes[1] = "s";
    if (more & 128) args.weight_column = "2";
    kolo_arrays arrays = {0};
    kolo_status status = kolo_csv_read(&arrays, &args);
    if (status == KOLO_OK) check_again(args, &arrays, memchr(bytes + 2, 0, size - 2) != NULL);
    else check_read(status, &arrays);
    return 0;
}
