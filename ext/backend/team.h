/* A team: threads that do the same work side by side, again and again. */
#ifndef KOLO_BACKEND_TEAM_H
#define KOLO_BACKEND_TEAM_H

#include "core/error.h"

typedef struct kolo_team kolo_team;

/* Opens a team of size ≥ 1 members. Member 0 is the thread that calls kolo_team_run(). Between runs the others spin for
 * a tenth of a millisecond, if all members of all ranks have a core each, and then sleep. They block all signals. */
kolo_status kolo_team_open(int size, kolo_team **team);
/* Runs work(argument, member) on every member and waits for all. Fails with the failure that came first by time,
 * except that KOLO_COMM, which only says that somebody else failed, gives way to any other. */
kolo_status kolo_team_run(kolo_team *team, kolo_status (*work)(void *argument, int member), void *argument);
void kolo_team_close(kolo_team **team); /* takes NULL */
int kolo_team_size(const kolo_team *team);

#endif
