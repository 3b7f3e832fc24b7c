/* A team: threads that do the same work side by side, again and again. */
#ifndef KOLO_BACKEND_TEAM_H
#define KOLO_BACKEND_TEAM_H

#include "core/error.h"

typedef struct kolo_team kolo_team;

/* Opens a team of size ≥ 1 members. Member 0 is the thread that calls kolo_team_run(). Between runs the others spin for
 * a tenth of a millisecond, if there is a core for each member on each rank of this machine, and then sleep. Their
 * signals are blocked (core/signals.h). */
kolo_status kolo_team_open(int size, kolo_team **team);
/* Runs work(argument, member) on every member and waits for all. Returns the failure that happened first.
 * KOLO_COMM is returned only if there is no other code, and KOLO_COMM_CALLED_OFF, which only says that another member
 * failed, only if there is no other failure. */
kolo_status kolo_team_run(kolo_team *team, kolo_status (*work)(void *argument, int member), void *argument);
void kolo_team_close(kolo_team **team); /* takes NULL */
int kolo_team_size(const kolo_team *team);

#endif
