/* All ranks of a job have one secret key, KOLO_CLUSTER_KEY, and therefore one public key. Nobody else knows either: a
 * process that does not know the public key cannot begin CURVE's handshake with a listener (RFC 26/CURVEZMQ), and a
 * listener that does not know the secret key cannot answer one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "comm/zmq_curve.h"
#include "core/error.h"

enum { KEY_BYTES = 32, KEY_Z85 = 41 }; /* as Z85 with the terminating 0 */

static const char *given(void)
{
    const char *key = getenv("KOLO_CLUSTER_KEY");
    return key && *key ? key : NULL;
}

bool kolo_zmq_encrypts(void)
{
    return given() != NULL;
}

static kolo_status read_key(const char *text, uint8_t key[KEY_BYTES])
{
    size_t length = strlen(text);
    if (length == 2 * KEY_BYTES && strspn(text, "0123456789abcdefABCDEF") == length) {
        for (int i = 0; i < KEY_BYTES; i++) {
            char two[3] = {text[2 * i], text[2 * i + 1], '\0'};
            key[i] = (uint8_t)strtoul(two, NULL, 16);
        }
        return KOLO_OK;
    }
    return kolo_fail(KOLO_INVALID,
                     "KOLO_CLUSTER_KEY: wanted 64 hexadecimal digits (openssl rand -hex 32), got %zu characters",
                     length);
}

kolo_status kolo_zmq_encrypt(void *socket, bool listens)
{
    uint8_t key[KEY_BYTES];
    char secret[KEY_Z85], public[KEY_Z85];
    int server = 1;
    if (!given()) return KOLO_OK;
    KOLO_TRY(read_key(given(), key));
    bool done = zmq_z85_encode(secret, key, KEY_BYTES) && zmq_curve_public(public, secret) == 0 &&
                zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, KEY_Z85) == 0;
    if (listens) {
        done = done && zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &server, sizeof server) == 0;
    } else {
        done = done && zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, KEY_Z85) == 0 &&
               zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, public, KEY_Z85) == 0;
    }
    return done ? KOLO_OK
                : kolo_fail(KOLO_COMM, "KOLO_CLUSTER_KEY: ZeroMQ cannot encrypt here: %s", zmq_strerror(zmq_errno()));
}
