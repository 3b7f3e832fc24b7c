/* A world of ranks that TF_CONFIG names: see zmq_comm.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/zmq_comm.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/plugin.h"

static zmq_comm *world_comm; /* signs of life go to its ranks */

/* Only the thread that has joined the ranks calls this. */
static void show_life(void)
{
    zmq_comm *me = world_comm;
    double now = kolo_now();
    if (!me || me->stall_limit <= 0 || now - me->met < me->stall_limit / 4) return;
    me->met = now;
    for (int r = 0; r < me->comm.size; r++) {
        if (kolo_zmq_hears(me, r) && kolo_zmq_post(me, r, (letter_head){LETTER_LIFE, 0}, NULL, 0) != KOLO_OK)
            kolo_failure_take();
    }
}

static uint64_t hash_cluster(const kolo_cluster *cluster)
{
    uint64_t hash = KOLO_HASH_START;
    for (int r = 0; r < cluster->size; r++)
        hash = kolo_hash_add(hash, cluster->addresses[r], strlen(cluster->addresses[r]) + 1);
    return hash;
}

/* Ranks with the same name of their host are on one host. Hosts are numbered in the order of their first ranks. */
typedef char host_name[64];

static int first_on_host(const host_name *hosts, int rank)
{
    int first = 0;
    while (strcmp(hosts[first], hosts[rank]) != 0) first++;
    return first;
}

static void number_hosts(const zmq_comm *me, const host_name *hosts, kolo_world *world)
{
    int own = first_on_host(hosts, me->comm.rank);
    for (int r = 0; r < me->comm.size; r++) {
        int first = first_on_host(hosts, r);
        world->local_size += first == own;
        world->local_rank += first == own && r < me->comm.rank;
        world->cross_size += first == r;
        world->cross_rank += first == r && r < own;
    }
}

static kolo_status find_hosts(zmq_comm *me, kolo_world *world)
{
    host_name mine = {0}, *hosts = calloc((size_t)me->comm.size, sizeof mine);
    if (!hosts) return kolo_fail_memory((size_t)me->comm.size * sizeof mine, "the names of the hosts");
    if (gethostname(mine, sizeof mine - 1) != 0) memcpy(mine, "?", 2);
    kolo_status status = kolo_zmq_kind.allgather(&me->comm, mine, sizeof mine, hosts);
    if (status == KOLO_OK) number_hosts(me, (const host_name *)hosts, world);
    free(hosts);
    return status;
}

static kolo_status open_comm(zmq_comm *me)
{
    KOLO_TRY(kolo_tf_config_read(getenv("TF_CONFIG"), &me->cluster));
    me->comm = (kolo_comm){.kind = &kolo_zmq_kind, .rank = me->cluster.rank, .size = me->cluster.size};
    me->culprit = me->comm.rank;
    me->stall_limit = kolo_stall_limit();
    me->job = hash_cluster(&me->cluster);
    me->peers = calloc((size_t)me->comm.size, sizeof *me->peers);
    me->calls = calloc((size_t)me->comm.size, sizeof *me->calls);
    if (!me->peers || !me->calls) return kolo_fail_memory((size_t)me->comm.size * sizeof *me->peers, "the ranks");
    return kolo_zmq_join(me);
}

static kolo_status world_open(int *argc, char ***argv, kolo_world *world)
{
    (void)argc, (void)argv;
    zmq_comm *me = calloc(1, sizeof *me);
    if (!me) return kolo_fail_memory(sizeof *me, "the ranks");
    me->comm.kind = &kolo_zmq_kind;
    me->end = &me->first;
    pthread_mutexattr_t recursive; /* reading a greeting sends an answer */
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&me->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    *world = (kolo_world){.comm = &me->comm};
    kolo_status status = open_comm(me);
    if (status == KOLO_OK) status = find_hosts(me, world);
    if (status != KOLO_OK) {
        kolo_zmq_kind.abort(&me->comm);
        kolo_zmq_kind.close(&me->comm);
        return status;
    }
    me->met = kolo_now();
    world_comm = me;
    kolo_life_tell(show_life);
    return KOLO_OK;
}

/* A rank that ends in order says so, since its closed connections would mean that it was killed. */
static void leave(zmq_comm *me)
{
    const kolo_collective call = kolo_call_make(KOLO_CALL_FINISH, 0);
    for (int r = 0; r < me->comm.size; r++) {
        if (kolo_zmq_hears(me, r) && kolo_zmq_post(me, r, (letter_head){LETTER_CALL, 0}, &call, sizeof call) != KOLO_OK)
            kolo_failure_take();
    }
}

static void world_close(kolo_world *world, int code)
{
    zmq_comm *me = (zmq_comm *)world->comm;
    world_comm = NULL;
    kolo_life_tell(NULL);
    if (code) kolo_zmq_kind.abort(&me->comm);
    else leave(me);
    kolo_zmq_kind.close(&me->comm);
    world->comm = NULL;
}

const kolo_world_kind kolo_zmq_world = {
    .version = KOLO_PLUGIN_VERSION,
    .name = "zmq",
    .open = world_open,
    .close = world_close,
};
