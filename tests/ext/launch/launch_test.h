/* For tests of kolorun's parts: cmocka, and what kolorun says on stderr. */
#ifndef KOLO_LAUNCH_TEST_H
#define KOLO_LAUNCH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs `code` with stderr caught; what was said stands in `said`. */
#define CATCH_STDERR(said, code)                                                                                       \
    do {                                                                                                               \
        char path_[] = "/tmp/kolo_launch_test_XXXXXX";                                                                 \
        int file_ = mkstemp(path_), kept_ = dup(STDERR_FILENO);                                                        \
        assert_true(file_ >= 0 && kept_ >= 0);                                                                         \
        unlink(path_);                                                                                                 \
        dup2(file_, STDERR_FILENO);                                                                                    \
        code;                                                                                                          \
        fflush(stderr);                                                                                                \
        dup2(kept_, STDERR_FILENO);                                                                                    \
        ssize_t length_ = pread(file_, said, sizeof said - 1, 0);                                                      \
        said[length_ > 0 ? length_ : 0] = '\0';                                                                        \
        close(file_);                                                                                                  \
        close(kept_);                                                                                                  \
    } while (0)

#endif
