/* What any comm must do, called by every member at once: operations of random sizes whose results each member can
 * work out by itself. Shared by the tests of threads (here) and of ranks (mpi_ranks.c). */
#ifndef KOLO_TESTS_COMM_CONFORMANCE_H
#define KOLO_TESTS_COMM_CONFORMANCE_H

#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Microbatches the check with the place and the sizes at hand when something is wrong. */
#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: member %d of %d (%s): %s: ", __FILE__, __LINE__, comm->rank, comm->size,           \
                    comm->kind->name, #condition);                                                                     \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            return false;                                                                                              \
        }                                                                                                              \
    } while (0)

/* 64 bits that look random, by what they are for: the same on every member (SplitMix64). */
static inline uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xBF58476D1CE4E5B9u + c * 0x94D049BB133111EBu + 1;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* [-1, 1): what member m contributes at i in a round. */
static inline double value(uint64_t round, int m, int64_t i)
{
    return (double)(mix(round, (uint64_t)m, (uint64_t)i) >> 40) * 0x1p-23 - 1;
}

static inline unsigned char byte(uint64_t round, int from, int to, size_t i)
{
    return (unsigned char)mix(round, (uint64_t)from * 100 + (uint64_t)to, i);
}

/* Whether bytes[size] are the same on every member, by allgather of a checksum. */
static inline bool same_everywhere(kolo_comm *comm, const void *data, size_t size)
{
    uint64_t mine = 0, *all = calloc((size_t)comm->size, sizeof *all);
    for (size_t i = 0; i < size; i++) mine = mix(mine, ((const unsigned char *)data)[i], i);
    bool same = all && comm->kind->allgather(comm, &mine, sizeof mine, all) == KOLO_OK;
    for (int m = 0; same && m < comm->size; m++) same = all[m] == all[0];
    free(all);
    return same;
}

static inline bool check_allreduce(kolo_comm *comm, uint64_t round, int64_t count, kolo_type type)
{
    size_t width = type == KOLO_TYPE_FLOAT ? sizeof(float) : sizeof(double);
    char *memory = malloc((size_t)count * width + 1);
    float *floats = (float *)memory;
    double *doubles = (double *)memory;
    for (int64_t i = 0; i < count; i++) {
        if (type == KOLO_TYPE_FLOAT) floats[i] = (float)value(round, comm->rank, i);
        if (type == KOLO_TYPE_DOUBLE) doubles[i] = value(round, comm->rank, i) / 3;
    }
    EXPECT(comm->kind->allreduce(comm, memory, count, type, KOLO_REDUCE_SUM) == KOLO_OK, "%lld", (long long)count);
    /* Each of size - 1 additions rounds by at most half an ulp of a partial sum, which is below size. */
    double bound = comm->size * comm->size * (type == KOLO_TYPE_FLOAT ? 0x1p-24 : 0x1p-53);
    for (int64_t i = 0; i < count; i++) {
        double want = 0, got = type == KOLO_TYPE_FLOAT ? (double)floats[i] : doubles[i];
        for (int m = 0; m < comm->size; m++) want += value(round, m, i) / (type == KOLO_TYPE_FLOAT ? 1 : 3);
        EXPECT(fabs(got - want) <= bound, "element %lld of %lld: wanted %.17g, got %.17g", (long long)i,
               (long long)count, want, got);
    }
    EXPECT(same_everywhere(comm, memory, (size_t)count * width), "%lld elements of type %d", (long long)count, type);
    free(memory);
    return true;
}

static inline bool check_broadcast(kolo_comm *comm, uint64_t round, size_t bytes)
{
    int root = (int)(mix(round, bytes, 7) % (uint64_t)comm->size);
    unsigned char *data = malloc(bytes + 1);
    memset(data, comm->rank, bytes + 1);
    if (comm->rank == root)
        for (size_t i = 0; i < bytes; i++) data[i] = byte(round, root, 0, i);
    EXPECT(comm->kind->broadcast(comm, data, bytes, root) == KOLO_OK, "%zu bytes from %d", bytes, root);
    for (size_t i = 0; i < bytes; i++)
        EXPECT(data[i] == byte(round, root, 0, i), "byte %zu of %zu from %d", i, bytes, root);
    EXPECT(data[bytes] == (unsigned char)comm->rank, "written past the end");
    free(data);
    return true;
}

static inline bool check_allgather(kolo_comm *comm, uint64_t round, size_t bytes, bool in_place)
{
    size_t size = (size_t)comm->size;
    unsigned char *all = malloc(size * bytes + 1), *mine = malloc(bytes + 1);
    unsigned char *data = in_place ? all + (size_t)comm->rank * bytes : mine;
    for (size_t i = 0; i < bytes; i++) data[i] = byte(round, comm->rank, 0, i);
    EXPECT(comm->kind->allgather(comm, data, bytes, all) == KOLO_OK, "%zu bytes", bytes);
    for (size_t m = 0; m < size; m++)
        for (size_t i = 0; i < bytes; i++)
            EXPECT(all[m * bytes + i] == byte(round, (int)m, 0, i), "byte %zu of %zu from %zu", i, bytes, m);
    free(all);
    free(mine);
    return true;
}

/* Sizes of 0 … most for each member; parts lie in `all` in reverse order and with gaps when `scattered`. */
static inline bool check_allgatherv(kolo_comm *comm, uint64_t round, size_t most, bool scattered)
{
    int size = comm->size;
    size_t *bytes = calloc((size_t)size, sizeof *bytes), *offsets = calloc((size_t)size, sizeof *offsets), total = 0;
    for (int k = 0; k < size; k++) {
        int m = scattered ? size - 1 - k : k;
        bytes[m] = mix(round, (uint64_t)m, 3) % (most + 1);
        offsets[m] = total + (scattered ? 3 : 0);
        total = offsets[m] + bytes[m];
    }
    unsigned char *all = calloc(total + 1, 1), *data = malloc(bytes[comm->rank] + 1);
    for (size_t i = 0; i < bytes[comm->rank]; i++) data[i] = byte(round, comm->rank, 0, i);
    EXPECT(comm->kind->allgatherv(comm, data, all, bytes, offsets) == KOLO_OK, "up to %zu bytes", most);
    for (int m = 0; m < size; m++)
        for (size_t i = 0; i < bytes[m]; i++)
            EXPECT(all[offsets[m] + i] == byte(round, m, 0, i), "byte %zu of %zu from %d", i, bytes[m], m);
    EXPECT(all[total] == 0, "written past the end");
    free(bytes);
    free(offsets);
    free(all);
    free(data);
    return true;
}

static inline bool check_alltoallv(kolo_comm *comm, uint64_t round, size_t most)
{
    int size = comm->size, me = comm->rank;
    size_t *sizes = calloc((size_t)size * 4, sizeof *sizes), *send_bytes = sizes, *send_offsets = sizes + size;
    size_t *receive_bytes = sizes + 2 * size, *receive_offsets = sizes + 3 * size, out = 1, in = 2;
    for (int m = 0; m < size; m++) {
        send_bytes[m] = mix(round, (uint64_t)me * 100 + (uint64_t)m, 5) % (most + 1);
        receive_bytes[m] = mix(round, (uint64_t)m * 100 + (uint64_t)me, 5) % (most + 1);
        send_offsets[m] = out;
        receive_offsets[m] = in;
        out += send_bytes[m] + 1;
        in += receive_bytes[m] + 2;
    }
    unsigned char *send = calloc(out, 1), *receive = calloc(in, 1);
    for (int m = 0; m < size; m++)
        for (size_t i = 0; i < send_bytes[m]; i++) send[send_offsets[m] + i] = byte(round, me, m, i);
    EXPECT(comm->kind->alltoallv(comm, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets) ==
               KOLO_OK,
           "up to %zu bytes", most);
    for (int m = 0; m < size; m++) {
        for (size_t i = 0; i < receive_bytes[m]; i++)
            EXPECT(receive[receive_offsets[m] + i] == byte(round, m, me, i), "byte %zu of %zu from %d", i,
                   receive_bytes[m], m);
        EXPECT(receive[receive_offsets[m] + receive_bytes[m]] == 0, "written past the part of %d", m);
    }
    free(sizes);
    free(send);
    free(receive);
    return true;
}

/* What an element of member m is for check_reductions: small enough that a product of 16 fits in 64 bits. */
static inline int64_t small(uint64_t round, int m, int64_t i)
{
    return (int64_t)(mix(round, (uint64_t)m + 50, (uint64_t)i) % 7) - 3;
}

static inline int64_t reduce_small(uint64_t round, int size, int64_t i, kolo_reduce_op op)
{
    int64_t result = small(round, 0, i);
    for (int m = 1; m < size; m++) {
        int64_t next = small(round, m, i);
        if (op == KOLO_REDUCE_SUM || op == KOLO_REDUCE_MEAN) result += next;
        if (op == KOLO_REDUCE_PRODUCT) result *= next;
        if (op == KOLO_REDUCE_MIN && next < result) result = next;
        if (op == KOLO_REDUCE_MAX && next > result) result = next;
    }
    return result;
}

/* Every operation on every type: small whole numbers, which every type holds exactly (an int32_t modulo 2³²). */
static inline bool check_reductions(kolo_comm *comm, uint64_t round, int64_t count)
{
    for (int op = KOLO_REDUCE_SUM; op <= KOLO_REDUCE_PRODUCT; op++) {
        for (int type = KOLO_TYPE_FLOAT; type <= KOLO_TYPE_INT64; type++) {
            char *memory = malloc((size_t)count * 8 + 1);
            float *floats = (float *)memory;
            double *doubles = (double *)memory;
            int32_t *integers = (int32_t *)memory;
            int64_t *longs = (int64_t *)memory;
            for (int64_t i = 0; i < count; i++) {
                int64_t mine = small(round, comm->rank, i);
                if (type == KOLO_TYPE_FLOAT) floats[i] = (float)mine;
                if (type == KOLO_TYPE_DOUBLE) doubles[i] = (double)mine;
                if (type == KOLO_TYPE_INT32) integers[i] = (int32_t)mine;
                if (type == KOLO_TYPE_INT64) longs[i] = mine;
            }
            EXPECT(comm->kind->allreduce(comm, memory, count, (kolo_type)type, (kolo_reduce_op)op) == KOLO_OK, "%d",
                   op);
            for (int64_t i = 0; i < count; i++) {
                int64_t want = reduce_small(round, comm->size, i, (kolo_reduce_op)op);
                bool right = (type == KOLO_TYPE_FLOAT && floats[i] == (float)want) ||
                             (type == KOLO_TYPE_DOUBLE && doubles[i] == (double)want) ||
                             (type == KOLO_TYPE_INT32 && integers[i] == (int32_t)want) ||
                             (type == KOLO_TYPE_INT64 && longs[i] == want);
                EXPECT(right, "element %lld, operation %d, type %d", (long long)i, op, type);
            }
            free(memory);
        }
    }
    return true;
}

/* Two messages of `bytes` from `from` to `to` with one tag, and one with another, which is received first. */
static inline bool check_pair(kolo_comm *comm, uint64_t round, int from, int to, size_t bytes)
{
    unsigned char *data = malloc(bytes + 2);
    kolo_message message = {0};
    for (int k = 0; k < 2 && comm->rank == from; k++) {
        for (size_t i = 0; i < bytes; i++) data[i] = byte(round + (uint64_t)k, from, to, i);
        EXPECT(comm->kind->send(comm, data, bytes, to, 7) == KOLO_OK, "%zu bytes to %d", bytes, to);
    }
    if (comm->rank == from) EXPECT(comm->kind->send(comm, &from, sizeof from, to, 9) == KOLO_OK, "to %d", to);
    for (int k = 0; k < 2 && comm->rank == to; k++) {
        bool any = (round + (uint64_t)k) % 2 == 0;
        data[bytes] = 77;
        EXPECT(comm->kind->receive(comm, data, bytes + 1, any ? KOLO_ANY_RANK : from, 7, &message) == KOLO_OK, "%d",
               to);
        EXPECT(message.from == from && message.tag == 7 && message.bytes == (int64_t)bytes, "%d", message.from);
        for (size_t i = 0; i < bytes; i++) EXPECT(data[i] == byte(round + (uint64_t)k, from, to, i), "byte %zu", i);
        EXPECT(data[bytes] == 77, "written past the end");
    }
    int got = -1;
    bool there = false;
    if (comm->rank == to) {
        while (!there) EXPECT(comm->kind->probe(comm, from, KOLO_ANY_TAG, &there, &message) == KOLO_OK, "%d", to);
        EXPECT(message.tag == 9 && message.bytes == sizeof got, "tag %d", message.tag);
        EXPECT(comm->kind->receive(comm, &got, 1, from, 9, &message) == KOLO_INVALID, "no room");
        kolo_failure_take();
        EXPECT(comm->kind->receive(comm, &got, sizeof got, from, KOLO_ANY_TAG, &message) == KOLO_OK && got == from,
               "%d", got);
        EXPECT(comm->kind->probe(comm, KOLO_ANY_RANK, KOLO_ANY_TAG, &there, &message) == KOLO_OK && !there,
               "none left");
    }
    free(data);
    return true;
}

/* Messages between all pairs, one after the other, which may be larger than what is sent before it is received. */
static inline bool check_messages(kolo_comm *comm, uint64_t round, size_t bytes)
{
    if (strcmp(comm->kind->name, "nested") == 0) return true; /* nested_test.c */
    for (int from = 0; from < comm->size; from++) {
        for (int to = 0; to < comm->size; to++) {
            if (from != to && !check_pair(comm, round, from, to, bytes)) return false;
            EXPECT(comm->kind->barrier(comm) == KOLO_OK, "a receiver from anyone must only see this pair's");
        }
    }
    return true;
}

/* Everything, `rounds` times: sizes of nothing, one, fewer than members, not divisible, and one larger than `large`. */
static inline bool check_comm(kolo_comm *comm, uint64_t seed, int rounds, int64_t large)
{
    for (uint64_t round = seed; round < seed + (uint64_t)rounds; round++) {
        int64_t counts[] = {0, 1, 7, 64, 1003, (int64_t)(mix(round, 1, 1) % 20000), large + 5};
        int sizes = round == seed ? 7 : 6;
        for (int k = 0; k < sizes; k++) {
            size_t bytes = (size_t)counts[k];
            if (!check_allreduce(comm, round, counts[k], KOLO_TYPE_FLOAT)) return false;
            if (!check_allreduce(comm, round, counts[k], KOLO_TYPE_DOUBLE)) return false;
            if (counts[k] < 20000 && !check_reductions(comm, round, counts[k])) return false;
            if (bytes < 3900 && !check_messages(comm, round, bytes)) return false;
            if (!check_broadcast(comm, round + (uint64_t)k, bytes)) return false;
            if (!check_allgather(comm, round, bytes, false)) return false;
            if (!check_allgather(comm, round, bytes, true)) return false;
            if (!check_allgatherv(comm, round, bytes, k % 2 == 0)) return false;
            if (!check_alltoallv(comm, round, bytes)) return false;
            EXPECT(comm->kind->barrier(comm) == KOLO_OK, "round %llu", (unsigned long long)round);
        }
    }
    return true;
}

#endif
