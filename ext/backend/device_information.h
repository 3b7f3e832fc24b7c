/* Information from the driver of this machine's devices. Only the meter allocates memory on a device. */
#ifndef KOLO_BACKEND_DEVICE_INFORMATION_H
#define KOLO_BACKEND_DEVICE_INFORMATION_H

#include "core/error.h"
#include "backend/meter.h"

typedef struct kolo_device_information {
    /* The number of devices that the driver reports; 0: there is no driver. Masks such as CUDA_VISIBLE_DEVICES are
     * ignored. */
    int (*devices)(void);
    /* Gets the name and the memory of one device. Fails with a sentence. */
    kolo_status (*describe)(int device, char name[96], int64_t *memory_bytes, int64_t *free_bytes);
    /* The bytes of its memory that streams of this process have allocated. */
    int64_t (*held)(int device);
    /* Whether an entry of CUDA_VISIBLE_DEVICES that is not a number names the device: "GPU-8932f937", "MIG-…". `entry`
     * has `length` characters and need not end there. */
    bool (*is_called)(int device, const char *entry, size_t length);
    /* Gets the place of a device; gets the connection of two different ones, without .name. Members that the driver
     * does not report are unknown. */
    void (*locate)(int device, kolo_spot *spot);
    void (*connect)(int device, int other, kolo_connection *connection);
    /* Measures how fast devices copy to each other. */
    const kolo_meter *meter;
} kolo_device_information;

#endif
