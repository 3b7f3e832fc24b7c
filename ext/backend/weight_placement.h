/* Where the weights and the optimizer's state of a process's replicas are kept. */
#ifndef KOLO_BACKEND_WEIGHT_PLACEMENT_H
#define KOLO_BACKEND_WEIGHT_PLACEMENT_H

typedef enum kolo_weight_placement {
    KOLO_WEIGHTS_COPIED = 0, /* the default: each replica has its own and updates them */
    KOLO_WEIGHTS_SHARED, /* one set in memory that all replicas share: gradients are added up as they come, and each
                          replica updates a part */
    KOLO_WEIGHTS_CENTRAL /* one set, which .parameter_device updates */
} kolo_weight_placement;

#endif
