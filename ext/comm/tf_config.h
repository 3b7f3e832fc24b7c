/* TF_CONFIG: the variable by which TensorFlow's processes, started each by itself, know one another.
 *
 *   {"cluster": {"chief": ["host:port"], "worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}
 *
 * The rules are those of tf.distribute.cluster_resolver.TFConfigClusterResolver and of MultiWorkerMirroredStrategy: the
 * chief, of which there is at most one, and the workers train together. The chief is the first of them, or worker 0 if
 * there is no chief. An evaluator is a job of its own. Parameter servers ("ps") may be listed, but do not train so. */
#ifndef KOLO_COMM_TF_CONFIG_H
#define KOLO_COMM_TF_CONFIG_H

#include "core/error.h"

#define KOLO_TASK_ADDRESS 272 /* bytes, with the terminating 0 */
enum { KOLO_TASKS_MAX = 1024 };

typedef struct kolo_cluster {
    int rank, size; /* this process among the chief and the workers, and their number; an evaluator is 0 of 1 */
    char (*addresses)[KOLO_TASK_ADDRESS]; /* [size] "host:port" */
} kolo_cluster;

/* Reads the text. Fails with one sentence if it does not give this process's place. The caller frees *cluster, also
 * after a failure. NULL, "" and "{}" give a process alone. */
kolo_status kolo_tf_config_read(const char *text, kolo_cluster *cluster);
void kolo_cluster_free(kolo_cluster *cluster);

#endif
