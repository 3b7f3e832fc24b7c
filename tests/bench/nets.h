/* The networks that are measured, and noise of their shapes to train them on: nets.c. The peers in peers/ build the
 * same ones. */
#ifndef KOLO_BENCH_NETS_H
#define KOLO_BENCH_NETS_H

#include <kolo.h>

typedef struct net {
    const char *name;
    kolo_model *(*make)(void); /* not compiled */
    kolo_data *(*noise)(int64_t samples); /* the same in every process */
    kolo_optimizer (*optimizer)(void);
} net;

/* NULL where there is none of that name: cnn, resnet20, gpt, higgs. */
const net *find_net(const char *name);

#endif
