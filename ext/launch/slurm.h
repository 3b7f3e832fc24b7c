/* SLURM's variables. */
#ifndef KOLO_LAUNCH_SLURM_H
#define KOLO_LAUNCH_SLURM_H

#include <stdbool.h>
#include <stddef.h>

/* The number of tasks of an allocation: `ntasks` (SLURM_NTASKS), or else the sum of `per_node` (SLURM_TASKS_PER_NODE,
 * "4(x2),3"); 0: unknown. Both may be NULL. */
int slurm_tasks(const char *ntasks, const char *per_node);
/* The number of tasks on node `node`, which counts from 0; 0: unknown. */
int slurm_tasks_of_node(const char *per_node, size_t node);
/* Whether srun has started this process as one of several tasks, none of which knows of the others. Not so in a batch
 * script, a shell of salloc or srun --pty, or a rank of Open MPI. */
bool slurm_is_one_of_several_tasks(void);

#endif
