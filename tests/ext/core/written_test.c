/* Which options stand in the text of a call. */
#include "ext/core/small.h"

#include "core/written.h"

#include <string.h>

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

static void elements_of_lists_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *text, *written; /* the indices of those of the elements 0 to 5 that are written */
    } cases[] = {
        {".rate = {0, 1}", "01"},
        {".other = {1, 2, 3}, .rate = { 0, }", "0"},
        {".rate = {}", ""},
        {".rate = {[3] = 0, 1}", "34"},
        {".rate = {0, [ 2 ... 4 ] = 0}", "0234"},
        {".rate[2] = 0, .rate[ 5 ] = 1", "25"},
        {".rate = {f(1, 2), (int[]){3, 4}[0], 5}, .other = {1}", "012"},
        {".rate = {\"a,}\"[0], ',', 1}", "012"},
        {".rate = {1, [NAME] = 0, 2}", "0"},
        {".rate[NAME] = 0", ""},
        {".rate = NAME", ""},
        {".rate = {1, 2", "01"},
        {".rate = {", ""},
        {".rate = {[", ""},
        {".rate = {\"", "0"},
        {".nested = {.rate = {0, 1}}", ""},
        {"", ""},
        {NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int element = 0; element < 6; element++)
            if (kolo_written_element(cases[i].text, "rate", element) !=
                (strchr(cases[i].written, '0' + element) != NULL))
                fail_msg("\"%s\", element %d", cases[i].text, element);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(options_are_found_where_they_stand),
                                       cmocka_unit_test(elements_of_lists_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
