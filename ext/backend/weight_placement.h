/* Where the replicas of a process keep their weights and the optimizer's state. */
#ifndef KOLO_BACKEND_WEIGHT_PLACEMENT_H
#define KOLO_BACKEND_WEIGHT_PLACEMENT_H

typedef enum kolo_weight_placement {
    KOLO_WEIGHTS_COPIED = 0, /* the default: each replica has its own weights and updates them */
    KOLO_WEIGHTS_SHARED, /* one set in memory that all replicas share: one reduction tree adds up their gradients, and
                          each replica updates a part of the weights */
    KOLO_WEIGHTS_CENTRAL /* one set, which the .parameter_device updates */
} kolo_weight_placement;

#endif
