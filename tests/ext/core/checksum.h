/* A hash of a model's weights, which ranks print: it is equal where all bits are. */
#ifndef KOLO_TESTS_CHECKSUM_H
#define KOLO_TESTS_CHECKSUM_H

#include "core/hash.h"
#include "model/model.h"

static inline uint64_t checksum(const kolo_model *model)
{
    return kolo_hash_add_words(KOLO_HASH_START, model->weights, model->weight_count);
}

#endif
