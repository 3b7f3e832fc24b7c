/* Any bytes as a CSV file; the first two say how it is read. */
#include "harness.h"

#include "data/csv.h"

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
    kolo_arrays arrays;
    kolo_status status = kolo_csv_read(&arrays, &args);
    check_read(status, &arrays);
    return 0;
}
