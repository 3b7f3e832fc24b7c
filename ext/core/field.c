/* See field.h. */
#include "core/field.h"

size_t kolo_field_size(kolo_field_type type)
{
    static const size_t sizes[] = {[KOLO_FIELD_INT] = sizeof(int),
                                   [KOLO_FIELD_BOOL] = sizeof(bool),
                                   [KOLO_FIELD_DOUBLE] = sizeof(double),
                                   [KOLO_FIELD_STRING] = sizeof(const char *),
                                   [KOLO_FIELD_ACTIVATION] = sizeof(kolo_activation),
                                   [KOLO_FIELD_PADDING] = sizeof(kolo_padding)};
    return sizes[type];
}

bool kolo_field_given(const kolo_field *field, const void *option)
{
    const char *bytes = option;
    bool given = false;
    for (size_t i = 0; i < (size_t)field->count * kolo_field_size(field->type); i++) given = given || bytes[i] != 0;
    return given;
}
