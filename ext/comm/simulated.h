/* A comm in front of another one, with a modelled clock: the collectives are those of the comm below, with the same
 * bits, and the clock adds up how long they would take on the links of a model (link/link_model.h). kolo_link_model.h
 * has the public part. */
#ifndef KOLO_COMM_SIMULATED_H
#define KOLO_COMM_SIMULATED_H

#include "comm/comm.h"

/* *comm is in front of `under`, which the caller closes after it. It simulates nothing yet. */
kolo_status kolo_comm_simulated_open(kolo_comm *under, kolo_comm **comm);
/* From now on member r is device r of the model; NULL: nothing is simulated. Sets the clock to 0. Fails, and changes
 * nothing, if the model has too few devices, or lacks the algorithm. No member may be in a collective. */
kolo_status kolo_comm_simulate(kolo_comm *comm, const kolo_simulate_links_args *how);
/* This member's clock. */
kolo_modelled_clock kolo_comm_clock(kolo_comm *comm);

#endif
