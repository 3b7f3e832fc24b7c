/* The number in a variable of the session's, which the worker tells and takes. See widgets.h. */
#define _GNU_SOURCE
#include "widgets/widgets.h"
#include "session_worker.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    bool floating, is_signed;
} types[] = {
    {"signed char", false, true}, {"unsigned char", false, false},
    {"short", false, true},       {"unsigned short", false, false},
    {"int", false, true},         {"unsigned int", false, false},
    {"long", false, true},        {"unsigned long", false, false},
    {"long long", false, true},   {"unsigned long long", false, false},
    {"float", true, true},        {"double", true, true},
    {"long double", true, true},
};

bool number_of(const entity *variable, number *n)
{
    static const char changing[] = "volatile ";
    const char *type = variable->plain;
    bool there = variable->kind == ENTITY_VARIABLE && variable->link && variable->defined && variable->size && type;
    if (!there || variable->threads || variable->is_const) return false;
    if (!strncmp(type, changing, strlen(changing))) type += strlen(changing);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, type)) continue;
        *n = (number){variable->link, types[i].name, types[i].floating, types[i].is_signed, variable->size};
        return true;
    }
    return false;
}

bool number_fits(const number *n, const slider *one)
{
    if (n->floating) return n->size > sizeof(float) || fmax(fabs(one->least), fabs(one->most)) <= (double)FLT_MAX;
    int bits = (int)(8 * n->size) - n->is_signed;
    double least = n->is_signed ? -ldexp(1, bits) : 0;
    return one->whole && one->least >= least && one->most < ldexp(1, bits);
}

static bool address_of(session *s, const number *n, uint64_t *address)
{
    worker_process *w = &s->worker;
    if (!worker_is_up(w)) return false;
    if (worker_ask(w, MESSAGE_ADDRESS, n->link, strlen(n->link) + 1) != OUTCOME_ANSWER || w->last.code) return false;
    *address = w->last.address;
    return true;
}

/* Bytes of the machine's order, lowest first. */
static double whole_of(const number *n, const unsigned char *bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, bytes, n->size);
    unsigned unused = 64 - 8 * (unsigned)n->size;
    return n->is_signed ? (double)((int64_t)(bits << unused) >> unused) : (double)bits;
}

static double floating_of(const number *n, const unsigned char *bytes)
{
    float single;
    double plain;
    long double longer;
    if (n->size == sizeof single) return memcpy(&single, bytes, sizeof single), (double)single;
    if (n->size == sizeof plain) return memcpy(&plain, bytes, sizeof plain), plain;
    return memcpy(&longer, bytes, sizeof longer), (double)longer;
}

bool number_read(session *s, const number *n, double *value)
{
    unsigned char bytes[sizeof(long double)];
    uint64_t address;
    memory worker = worker_memory(s);
    if (!address_of(s, n, &address) || !worker.read(worker.closure, address, n->size, bytes)) return false;
    *value = n->floating ? floating_of(n, bytes) : whole_of(n, bytes);
    return true;
}

static void put_floating(const number *n, double value, unsigned char *bytes)
{
    float single = (float)value;
    long double longer = value;
    if (n->size == sizeof single) memcpy(bytes, &single, sizeof single);
    else if (n->size == sizeof value) memcpy(bytes, &value, sizeof value);
    else memcpy(bytes, &longer, sizeof longer);
}

bool number_write(session *s, const number *n, double value)
{
    unsigned char bytes[sizeof(long double)] = {0};
    uint64_t address;
    if (!address_of(s, n, &address)) return false;
    uint64_t whole = n->floating ? 0 : value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    if (n->floating) put_floating(n, value, bytes);
    else memcpy(bytes, &whole, n->size);
    message poke = {.kind = MESSAGE_POKE, .address = address};
    return worker_tell(&s->worker, poke, bytes, n->size) == OUTCOME_ANSWER && !s->worker.last.code;
}
