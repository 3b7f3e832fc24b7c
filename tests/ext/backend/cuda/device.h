/* A stream of the tested backend, and arrays on its device: for tests of what is no operation of a plan. */
#ifndef KOLO_TESTS_DEVICE_H
#define KOLO_TESTS_DEVICE_H

#include "ext/backend/rig.h"
#include "ext/backend/tested.h"

#define DEVICE_GUARD 32 /* bytes behind an array that nobody is to write */

static const kolo_stream_kind *streams;
static kolo_stream *stream;

static inline kolo_status device_open_stream(int device, kolo_stream **opened)
{
    kolo_stream_place place = {.backend = tested_backend(), .device = device, .threads = 1};
    return place.backend->streams->open(&place, opened);
}

/* False, and a sentence, where the plugin does not load. */
static inline bool device_open(void)
{
    const kolo_backend *backend = tested_backend();
    if (!backend) return false;
    streams = backend->streams;
    return device_open_stream(0, &stream) == KOLO_OK;
}

static inline bool device_is_simulated(void)
{
    return rig_is_simulated(tested_backend());
}

/* from NULL: bytes of 0xFF, which are no number. shift: bytes that the array begins behind a place of 256. */
static inline void *device_array(const void *from, size_t bytes, size_t shift)
{
    size_t all = bytes + shift + DEVICE_GUARD;
    void *memory, *poison = malloc(all);
    assert_non_null(poison);
    memset(poison, 0xFF, all);
    rig_ok(streams->allocate(stream, all, "a test", &memory));
    if (!device_is_simulated()) rig_ok(streams->copy(stream, memory, poison, all)); /* the shim's begins so */
    if (from) rig_ok(streams->copy(stream, (char *)memory + shift, from, bytes));
    free(poison);
    return (char *)memory + shift;
}

/* One of the shim's functions. */
static inline void *device_symbol(const char *name)
{
    Dl_info plugin;
    assert_true(dladdr(tested_backend(), &plugin) != 0);
    void *library = dlopen(plugin.dli_fname, RTLD_NOLOAD | RTLD_NOW), *found = dlsym(library, name);
    assert_non_null(found);
    dlclose(library);
    return found;
}

/* The caller frees it. Fails where the guard was written over. */
static inline void *device_read(const void *array, size_t bytes)
{
    unsigned char *copy = malloc(bytes + DEVICE_GUARD);
    assert_non_null(copy);
    rig_ok(streams->copy(stream, copy, array, bytes + DEVICE_GUARD));
    rig_ok(streams->synchronize(stream));
    for (size_t i = 0; i < DEVICE_GUARD; i++) assert_int_equal(copy[bytes + i], 0xFF);
    return copy;
}

static inline void device_free(void *array, size_t shift)
{
    if (array) streams->release(stream, (char *)array - shift);
}

#endif
