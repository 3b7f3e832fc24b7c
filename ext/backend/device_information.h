/* What a driver tells about the devices of this machine that have a driver. Nothing here takes memory on a device. */
#ifndef KOLO_BACKEND_DEVICE_INFORMATION_H
#define KOLO_BACKEND_DEVICE_INFORMATION_H

#include "core/error.h"
#include "backend/meter.h"

typedef struct kolo_device_information {
    /* Devices that the driver shows; 0 where there is no driver. Masks such as CUDA_VISIBLE_DEVICES are ignored. */
    int (*devices)(void);
    /* Name and memory of one device. Fails with a sentence. */
    kolo_status (*describe)(int device, char name[96], int64_t *memory_bytes, int64_t *free_bytes);
    /* Bytes of its memory that streams of this process hold. */
    int64_t (*held)(int device);
    /* Whether `entry`, an entry of CUDA_VISIBLE_DEVICES of that length which is no number, names the device:
     * "GPU-8932f937", "MIG-…". */
    bool (*is_called)(int device, const char *entry, size_t length);
    /* Where a device is, and what connects two different ones: all members but .name, as far as the driver knows. */
    void (*locate)(int device, kolo_spot *spot);
    void (*connect)(int device, int other, kolo_connection *connection);
    /* Measures how fast devices copy to each other. */
    const kolo_meter *meter;
} kolo_device_information;

#endif
