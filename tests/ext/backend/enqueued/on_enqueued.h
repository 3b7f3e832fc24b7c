/* First in a test that is another one, of the stream that enqueues: models take it where the test names a backend of
 * the host's or none. */
#ifndef KOLO_TESTS_ON_ENQUEUED_H
#define KOLO_TESTS_ON_ENQUEUED_H

#include <stdlib.h>
#include <string.h>

#include <kolo.h>

#define KOLO_TEST_BACKEND      "enqueued"
#define KOLO_TEST_OWN_MEMORIES true
#define KOLO_TEST_EPOCHS_LATE  1

__attribute__((constructor)) static void choose_backend(void)
{
    setenv("KOLO_BACKEND", "enqueued", 1);
}

static inline kolo_status compile_enqueued(kolo_compile_args args, kolo_here here)
{
    bool there = !args.backend || strcmp(args.backend, "reference") == 0 || strcmp(args.backend, "onednn") == 0;
    if (there) args.backend = "enqueued";
    return kolo_compile_at(&args, here);
}
#undef kolo_compile
#define kolo_compile(...) compile_enqueued((kolo_compile_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)

#endif
