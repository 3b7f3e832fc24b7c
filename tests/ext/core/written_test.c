/* Which options stand in the text of a call. */
#include "ext/core/small.h"

#include "core/written.h"

static void options_are_found_where_they_stand(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool written;
    } cases[] = {
        {".rate = 0", true},
        {".other = 1, .rate=0", true},
        {"10, .rate = 0, .other = 2", true},
        {".rate[2] = 0", true},
        {" . rate = 0", true},
        {".rates = 0", false},
        {".other.rate = 0", false},
        {".schedule = kolo_constant(.rate = 0)", false},
        {".list = {.rate = 0, .rate = 1}", false},
        {".name = \".rate = 0\"", false},
        {".name = \"\\\", .rate = 0\"", false},
        {".sign = ',', .rate = 0", true},
        {".sign = '\\'', .rate = 0", true},
        {".other = a.rate == 0", false},
        {".other = x, .rate == 0", false},
        {"rate", false},
        {"", false},
        {"(", false},
        {"\"", false},
        {"'\\", false},
        {NULL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (kolo_written(cases[i].text, "rate") != cases[i].written) fail_msg("\"%s\"", cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(options_are_found_where_they_stand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
