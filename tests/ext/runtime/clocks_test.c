/* Offsets of clocks: members whose clocks differ by known times. */
#include "ext/comm/threads.h"

#include "core/timeline.h"
#include "runtime/timeline.h"

static _Thread_local int64_t skew;

static int64_t skewed_clock(void)
{
    return kolo_timeline_now() + skew;
}

/* Members 0 and 1 have the same clock by its name, so that nothing is measured. */
static bool measures_offsets(kolo_comm *comm, void *argument)
{
    (void)argument;
    static const char *const names[] = {"one", "one", "two", "three", "four"};
    static const int64_t skews[] = {7000, 7000, -5000000000000, 123456789012345, 7000};
    int64_t offset = -1, error = -1;
    skew = skews[comm->rank];
    EXPECT(kolo_clock_offset(comm, names[comm->rank], skewed_clock, &offset, &error) == KOLO_OK, "member %d",
           comm->rank);
    int64_t wrong = offset - (skews[0] - skew);
    bool measured = comm->rank >= 2;
    EXPECT(measured ? error > 0 : error == 0, "member %d: error %lld", comm->rank, (long long)error);
    EXPECT(llabs(wrong) <= error, "member %d: offset wrong by %lld, at most %lld", comm->rank, (long long)wrong,
           (long long)error);
    comm->kind->close(comm);
    return true;
}

static void offsets_are_as_exact_as_they_say(void **state)
{
    (void)state;
    kolo_comm *members[5];
    assert_int_equal(kolo_comm_local_open(5, members), KOLO_OK);
    run_members(5, members, measures_offsets, NULL);
}

static void a_process_has_one_clock(void **state)
{
    (void)state;
    char one[KOLO_CLOCK_NAME] = "", other[KOLO_CLOCK_NAME] = "";
    kolo_clock_name(one);
    kolo_clock_name(other);
    assert_string_equal(one, other);
    assert_true(strlen(one) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(offsets_are_as_exact_as_they_say),
                                       cmocka_unit_test(a_process_has_one_clock)};
    return cmocka_run_group_tests_name("runtime/clocks", tests, NULL, NULL);
}
