/* For the tests that read and write files: a folder of their own, IDX files to order, and what the last sentence said.
 */
#ifndef KOLO_TEST_FILES_H
#define KOLO_TEST_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <lzma.h>
#include <zlib.h>

#include <kolo.h>

/* A temporary folder, which becomes the working folder. cmocka's group set-up and tear-down. */
static char test_folder[64];

static inline int enter_folder(void **state)
{
    (void)state;
    strcpy(test_folder, "/tmp/kolo-test-XXXXXX");
    return mkdtemp(test_folder) && chdir(test_folder) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", test_folder);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static inline void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline size_t read_whole(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static inline void write_xz(const char *path, const void *bytes, size_t size)
{
    static unsigned char packed[1 << 20];
    size_t out = 0;
    assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, bytes, size, packed, &out, sizeof packed),
                     LZMA_OK);
    write_file(path, packed, out);
}

static inline void write_gzip(const char *path, const void *bytes, size_t size)
{
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

/* An IDX file of unsigned bytes: byte i of its data is i modulo `modulus`. Returns its size. */
static inline size_t make_idx(unsigned char *bytes, int rank, const uint32_t *dim, int modulus)
{
    size_t size = 4, count = 1;
    memcpy(bytes, (unsigned char[]){0, 0, 8, (unsigned char)rank}, 4);
    for (int axis = 0; axis < rank; axis++, size += 4) {
        for (int b = 0; b < 4; b++) bytes[size + (size_t)b] = (unsigned char)(dim[axis] >> (24 - 8 * b));
        count *= dim[axis];
    }
    for (size_t i = 0; i < count; i++) bytes[size + i] = (unsigned char)(i % (size_t)modulus);
    return size + count;
}

/* The library's last failure has this code, one sentence, and all of these words in it. */
static inline void assert_failure(kolo_status code, const char *first, ...)
{
    kolo_error error = kolo_last_error();
    assert_int_equal(error.code, code);
    assert_null(strchr(error.text, '\n'));
    va_list words;
    va_start(words, first);
    for (const char *word = first; word; word = va_arg(words, const char *)) {
        bool there = strstr(error.text, word);
        if (!there) print_error("\"%.*s\" lacks \"%s\"\n", 1000, error.text, word);
        assert_true(there);
    }
    va_end(words);
    kolo_clear_error();
}

#endif
