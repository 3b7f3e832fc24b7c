/* How a rank's watcher connects to kolorun.
 *
 * KOLORUN_CONTACT is "unix:NAME" (an abstract Unix socket, which leaves no file) if all ranks are on this host, and
 * "tcp:PORT:ADDRESS,ADDRESS,..." otherwise. KOLORUN_TOKEN is the secret by which kolorun recognises connections of this
 * job.
 */
#ifndef KOLO_LAUNCH_CONTACT_H
#define KOLO_LAUNCH_CONTACT_H

#include <stdbool.h>

enum { CONTACT_TOKEN = 33 }; /* 32 hexadecimal digits and a 0 */

struct contact {
    int fd; /* listening, non-blocking, close-on-exec */
    char token[CONTACT_TOKEN];
};

/* Opens the listening socket and sets KOLORUN_CONTACT and KOLORUN_TOKEN. Returns false after one sentence on
 * failure. */
bool contact_listen(bool all_local, struct contact *contact);
/* Makes the system find out within 20 seconds that the host at the other end of an idle connection is gone: reading
 * then fails with ETIMEDOUT or EHOSTUNREACH. Does nothing for a Unix socket. */
void contact_keep_alive(int fd);
/* Connects to kolorun by KOLORUN_CONTACT. Returns the descriptor, or -1 with errno. Waits at most two seconds for each
 * address. */
int contact_reach(void);

#endif
