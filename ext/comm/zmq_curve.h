/* Encryption between ranks that TF_CONFIG names, by CURVE: see kolo_init(). */
#ifndef KOLO_COMM_ZMQ_CURVE_H
#define KOLO_COMM_ZMQ_CURVE_H

#include <stdbool.h>

#include "kolo.h"

/* Is KOLO_CLUSTER_KEY set? */
bool kolo_zmq_encrypts(void);

/* Prepares a socket before it is bound or connected. Does nothing without KOLO_CLUSTER_KEY; a key that is malformed is
 * KOLO_INVALID. */
kolo_status kolo_zmq_encrypt(void *socket, bool listens);

#endif
