/* How a rank's watcher finds kolorun.
 *
 * KOLORUN_CONTACT is "unix:NAME" (an abstract Unix socket: nothing to leave behind) when all ranks are on this host,
 * and "tcp:PORT:ADDRESS,ADDRESS,..." otherwise. KOLORUN_TOKEN is the secret that makes a connection one of this job's.
 */
#ifndef KOLO_LAUNCH_CONTACT_H
#define KOLO_LAUNCH_CONTACT_H

#include <stdbool.h>

enum { CONTACT_TOKEN = 33 }; /* 32 hexadecimal digits and the end */

struct contact {
    int fd; /* listening, non-blocking, close-on-exec */
    char token[CONTACT_TOKEN];
};

/* Opens the listening socket and sets KOLORUN_CONTACT and KOLORUN_TOKEN. False after one sentence. */
bool contact_listen(bool all_local, struct contact *contact);
/* Connects to kolorun as those variables say; the descriptor, or -1 with errno. Waits two seconds for each address. */
int contact_reach(void);

#endif
