/* Runs a function on every member of a group at once, a thread each. */
#ifndef KOLO_TESTS_COMM_THREADS_H
#define KOLO_TESTS_COMM_THREADS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "conformance.h"

enum { MEMBERS_MAX = 16 };

typedef bool (*member_function)(kolo_comm *comm, void *argument);

typedef struct member_thread {
    pthread_t thread;
    member_function function;
    kolo_comm *comm;
    void *argument;
    bool passed;
} member_thread;

static inline void *member_main(void *data)
{
    member_thread *me = data;
    me->passed = me->function(me->comm, me->argument);
    return NULL;
}

static inline void run_members(int size, kolo_comm **members, member_function function, void *argument)
{
    member_thread threads[MEMBERS_MAX];
    for (int i = 0; i < size; i++) {
        threads[i] = (member_thread){.function = function, .comm = members[i], .argument = argument};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, member_main, &threads[i]), 0);
    }
    for (int i = 0; i < size; i++) assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
    for (int i = 0; i < size; i++) assert_true(threads[i].passed);
}

#endif
