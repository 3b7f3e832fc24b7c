/* A model's weights as one number, for ranks to print: the same bits or not. FNV-1a. */
#ifndef KOLO_TESTS_CHECKSUM_H
#define KOLO_TESTS_CHECKSUM_H

#include <stdint.h>
#include <string.h>

#include "model/model.h"

static inline uint64_t checksum(const kolo_model *model)
{
    uint64_t sum = 0xCBF29CE484222325u;
    for (int64_t i = 0; i < model->weight_count; i++) {
        uint32_t bits;
        memcpy(&bits, &model->weights[i], sizeof bits);
        sum = (sum ^ bits) * 0x100000001B3u;
    }
    return sum;
}

#endif
