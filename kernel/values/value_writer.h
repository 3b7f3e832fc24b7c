/* Shared by the parts of value.c. Every function here reads at most `available` bytes, so that no bytes of a value can
 * make it fault. Read first: value.h. */
#ifndef KERNEL_VALUES_VALUE_WRITER_H
#define KERNEL_VALUES_VALUE_WRITER_H

#include "values/value.h"

enum {
    SHOWN_ELEMENTS = 100,    /* of an array */
    SHOWN_CHARACTERS = 2000, /* of a string */
    DEEPEST = 12,            /* structs in structs */
    LONGEST = 20000,         /* bytes of the whole, after which parts are left out */
    READ_AHEAD = 100000      /* bytes of a value that are read */
};

typedef struct writer {
    const memory *from;
    text out;
    int depth;                        /* 1: the value itself; more: a part of it */
    size_t breaks[SHOWN_ELEMENTS * 8]; /* after the commas between the value's own parts */
    size_t break_count;
    bool parts_are_long; /* the parts are structs, arrays or strings: worth a line each */
} writer;

void write_value(writer *w, CXType type, const unsigned char *bytes, size_t available);

/* The type without typedefs, qualifiers and _Atomic. */
CXType plain_type(CXType type);
/* Is it, or is what its typedefs stand for, called `name`? */
bool type_is_called(CXType type, const char *name);
/* The type of an array's elements, by the name that its author gave it. */
CXType element_type(CXType array);

uint64_t unsigned_of(const unsigned char *bytes, size_t size);
int64_t signed_of(const unsigned char *bytes, size_t size);

/* value_number.c: integers, reals, complex numbers and vectors. */
void write_number(writer *w, CXType plain, const unsigned char *bytes, size_t size);
void write_complex(writer *w, CXType plain, const unsigned char *bytes, size_t size);

/* value_text.c */
typedef enum character { NO_CHARACTER, CHARACTER, WIDE_16, WIDE_32, WIDE } character;
character character_of(CXType type);
void write_character(writer *w, character kind, const unsigned char *bytes);
/* An array of characters, up to its NUL. */
void write_characters(writer *w, character kind, const unsigned char *bytes, size_t size);
/* The string behind a pointer; false when there is none to read. */
bool write_pointed_string(writer *w, character kind, uint64_t address);

/* value_record.c: structs, unions, enums. */
void write_record(writer *w, CXType plain, const unsigned char *bytes, size_t available);
void write_enum(writer *w, CXType plain, const unsigned char *bytes, size_t size);

/* value_pointer.c */
void write_pointer(writer *w, CXType type, CXType plain, uint64_t address);
void write_function(writer *w, CXType type, uint64_t address);

#endif
