/* shareable.c and mappings.c: memory that another process maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/mappings.h"

enum { BYTES = 1 << 20 };

static void places_are_found(void **state)
{
    (void)state;
    char *memory = kolo_shareable_allocate(BYTES), plain = 0;
    assert_non_null(memory);
    for (int i = 0; i < BYTES; i++) assert_int_equal(memory[i], 0);
    kolo_shareable_place all = kolo_shareable_find(memory, BYTES),
                         part = kolo_shareable_find(memory + 100, BYTES - 100);
    assert_true(all.serial != 0 && all.offset == 0 && all.bytes == BYTES && all.file.process == getpid());
    assert_true(part.serial == all.serial && part.offset == 100);
    assert_ptr_equal(kolo_shareable_own(&part), memory + 100);
    assert_true(kolo_shareable_find(memory + 1, BYTES).serial == 0); /* ends behind the block */
    assert_true(kolo_shareable_find(memory - 1, 2).serial == 0);
    assert_true(kolo_shareable_find(&plain, 1).serial == 0);
    assert_false(kolo_shareable_deallocate(&plain));
    assert_false(kolo_shareable_deallocate(NULL));
    assert_true(kolo_shareable_deallocate(memory));
    assert_null(kolo_shareable_own(&part));
    char *next = kolo_shareable_allocate(BYTES);
    assert_true(kolo_shareable_find(next, 1).serial != all.serial);
    assert_true(kolo_shareable_deallocate(next));
}

static void an_impossible_size_gives_none(void **state)
{
    (void)state;
    assert_null(kolo_shareable_allocate(SIZE_MAX / 4));
}

/* Ends a child of the test. */
static void expect(bool right)
{
    if (!right) _exit(1);
}

/* The child's own memory is a copy; the parent's is where it has mapped it. */
static void work_as_child(char *memory, kolo_shareable_place place)
{
    kolo_mappings *mappings = NULL;
    expect(memory[5] == 'p' && kolo_shareable_find(memory, 1).serial == 0);
    memory[5] = 'c';
    expect(kolo_shareable_deallocate(memory));
    expect(kolo_mappings_open(2, &mappings) == KOLO_OK && !kolo_mappings_has(mappings, 1, &place));
    expect(kolo_mappings_add(mappings, 1, &place) && !kolo_mappings_at(mappings, 1, &place));
    kolo_mappings_settle(mappings, true);
    char *mapped = kolo_mappings_at(mappings, 1, &place);
    expect(mapped && kolo_mappings_has(mappings, 1, &place) && !kolo_mappings_has(mappings, 0, &place));
    expect(mapped[0] == 'p');
    mapped[1] = 'm';
    kolo_mappings_close(&mappings);
    _exit(0);
}

static void another_process_maps_it_and_a_child_has_its_own(void **state)
{
    (void)state;
    char *memory = kolo_shareable_allocate(BYTES);
    memset(memory, 'p', BYTES);
    kolo_shareable_place place = kolo_shareable_find(memory + 4, 1);
    pid_t child = fork();
    if (child == 0) work_as_child(memory, place);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int i = 0; i < BYTES; i++) assert_int_equal(memory[i], i == 5 ? 'm' : 'p');
    assert_true(kolo_shareable_deallocate(memory));
}

/* A process that may hold no more data of its own: fork() still works, and the child's private mapping is refused. */
static void a_child_without_a_copy_of_its_own_has_none(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime needs data in the child */
#endif
    struct rlimit before, none = {.rlim_cur = 1}; /* Linux takes 0 for no limit */
    char *memory = kolo_shareable_allocate(BYTES);
    memset(memory, 'p', BYTES);
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the next test */
        memory[5] = 'c';
        _exit(0);
    }
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(memory[5], 'p');
    assert_true(kolo_shareable_deallocate(memory));
}

/* As work_as_child(), with the place that the parent gives. */
static void write_as_child(kolo_shareable_place place, int wait_for, int tell)
{
    kolo_mappings *mappings = NULL;
    char word = 0;
    expect(kolo_mappings_open(1, &mappings) == KOLO_OK && kolo_mappings_add(mappings, 0, &place));
    kolo_mappings_settle(mappings, true);
    char *mapped = kolo_mappings_at(mappings, 0, &place);
    mapped[0] = 'c';
    expect(write(tell, "1", 1) == 1 && read(wait_for, &word, 1) == 1);
    expect(mapped[0] == 0 && mapped[BYTES - 1] == 0); /* freed, and no fault */
    place.file.inode++; /* in another container the same PID is another process */
    expect(!kolo_mappings_add(mappings, 0, &place));
    _exit(0);
}

static void freed_memory_goes_back_to_the_system(void **state)
{
    (void)state;
    int to_child[2], to_parent[2], status;
    char word, *memory = kolo_shareable_allocate(BYTES);
    assert_true(pipe(to_child) == 0 && pipe(to_parent) == 0);
    memset(memory, 'p', BYTES);
    pid_t child = fork();
    if (child == 0) {
        kolo_shareable_place place = kolo_shareable_find(memory, 1); /* not the child's any more */
        expect(place.serial == 0 && read(to_child[0], &place, sizeof place) == sizeof place);
        write_as_child(place, to_child[0], to_parent[1]);
    }
    kolo_shareable_place place = kolo_shareable_find(memory, 1);
    assert_int_equal(write(to_child[1], &place, sizeof place), sizeof place);
    assert_int_equal(read(to_parent[0], &word, 1), 1);
    assert_int_equal(memory[0], 'c');
    assert_true(kolo_shareable_deallocate(memory));
    assert_int_equal(write(to_child[1], "1", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
}

/* A list that is full gives up the block that was used least recently. */
static void the_least_used_block_is_given_up(void **state)
{
    (void)state;
    enum { BLOCKS = KOLO_MAPPINGS_KEPT + 1 };
    kolo_mappings *mappings = NULL;
    kolo_shareable_place places[BLOCKS];
    char *blocks[BLOCKS];
    assert_int_equal(kolo_mappings_open(1, &mappings), KOLO_OK);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = kolo_shareable_allocate(BYTES);
        places[i] = kolo_shareable_find(blocks[i], 1);
        if (i == BLOCKS - 1) assert_true(kolo_mappings_has(mappings, 0, &places[0]));
        assert_true(kolo_mappings_add(mappings, 0, &places[i]));
    }
    kolo_mappings_settle(mappings, false);
    assert_null(kolo_mappings_at(mappings, 0, &places[0])); /* not all members have it */
    for (int i = 0; i < BLOCKS; i++) assert_int_equal(kolo_mappings_has(mappings, 0, &places[i]), i != 1);
    assert_true(kolo_mappings_add(mappings, 0, &places[1]));
    kolo_mappings_settle(mappings, true);
    assert_ptr_equal(kolo_mappings_at(mappings, 0, &places[1]), blocks[1]);
    assert_null(kolo_mappings_at(mappings, 0, &places[2])); /* that one stays out of use */
    for (int i = 0; i < BLOCKS; i++) assert_true(kolo_shareable_deallocate(blocks[i]));
    kolo_mappings_close(&mappings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_found),
        cmocka_unit_test(an_impossible_size_gives_none),
        cmocka_unit_test(another_process_maps_it_and_a_child_has_its_own),
        cmocka_unit_test(a_child_without_a_copy_of_its_own_has_none),
        cmocka_unit_test(freed_memory_goes_back_to_the_system),
        cmocka_unit_test(the_least_used_block_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
