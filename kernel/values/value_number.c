/* Numbers as C writes them: every integer, the fewest digits of a real that read back as the same. See value_writer.h.
 */
#define _GNU_SOURCE
#include "values/value_writer.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;
__extension__ typedef _Float128 float128;

uint64_t unsigned_of(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, bytes, size < 8 ? size : 8);
    return value;
}

int64_t signed_of(const unsigned char *bytes, size_t size)
{
    unsigned shift = size < 8 ? (unsigned)(64 - 8 * size) : 0;
    return (int64_t)(unsigned_of(bytes, size) << shift) >> shift;
}

static void write_int128(writer *w, const unsigned char *bytes, size_t size, bool is_signed)
{
    uint128 value = 0;
    memcpy(&value, bytes, size < 16 ? size : 16);
    bool negative = is_signed && (int128)value < 0;
    if (negative) value = -value;
    char digits[48];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value);
    if (negative) digits[--at] = '-';
    text_add_bytes(&w->out, digits + at, sizeof digits - at);
}

/* From "-1.25e+03" to "-1250.0": plain notation from 1e-5 up to 1e16, else with the exponent. */
static void write_digits(writer *w, const char *found)
{
    char digits[64];
    const char *mark = strchr(found, 'e');
    int exponent = mark ? (int)strtol(mark + 1, NULL, 10) : 0, count = 0;
    if (strstr(found, "nan")) found = "nan"; /* its sign means nothing */
    if (!mark || exponent < -5 || exponent >= 16) {
        text_add(&w->out, found);
        return;
    }
    for (const char *p = found; p < mark; p++) {
        if (isdigit((unsigned char)*p)) digits[count++] = *p;
    }
    if (found[0] == '-') text_add(&w->out, "-");
    for (int place = exponent < 0 ? 0 : exponent; place >= -1 || exponent - place < count; place--) {
        int at = exponent - place;
        if (place == -1) text_add(&w->out, ".");
        text_add_bytes(&w->out, at >= 0 && at < count ? &digits[at] : "0", 1);
    }
}

/* The value as a type with so many bits of precision holds it. */
static long double rounded(long double value, int precision)
{
    int exponent;
    long double fraction = frexpl(value, &exponent);
    return isfinite(value) ? ldexpl(rintl(ldexpl(fraction, precision)), exponent - precision) : value;
}

static bool reads_back(const char *digits, long double value, enum CXTypeKind kind)
{
    switch (kind) {
    case CXType_Float: return strtof(digits, NULL) == (float)value;
    case CXType_Double: return strtod(digits, NULL) == (double)value;
    case CXType_BFloat16: return rounded(strtold(digits, NULL), 8) == value;
    case CXType_Float16:
    case CXType_Half: return rounded(strtold(digits, NULL), 11) == value;
    default: return strtold(digits, NULL) == value;
    }
}

static void write_real(writer *w, long double value, enum CXTypeKind kind)
{
    char found[64];
    for (int precision = 0; precision < DECIMAL_DIG; precision++) {
        snprintf(found, sizeof found, "%.*Le", precision, value);
        if (reads_back(found, value, kind)) break;
    }
    write_digits(w, found);
}

static void write_float128(writer *w, const unsigned char *bytes)
{
    float128 value;
    char found[64], format[16];
    memcpy(&value, bytes, sizeof value);
    for (int precision = 0; precision < 36; precision++) {
        snprintf(format, sizeof format, "%%.%de", precision);
        strfromf128(found, sizeof found, format, value);
        if (strtof128(found, NULL) == value) break;
    }
    write_digits(w, found);
}

/* IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction. */
static long double half_of(uint64_t bits)
{
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25);
    return (long double)(bits >> 15 & 1 ? -size : size);
}

static long double real_of(enum CXTypeKind kind, const unsigned char *bytes)
{
    float single;
    double real;
    long double wide;
    uint32_t high = (uint32_t)unsigned_of(bytes, 2) << 16; /* bfloat16: a float's upper half */
    switch (kind) {
    case CXType_Float16:
    case CXType_Half: return half_of(unsigned_of(bytes, 2));
    case CXType_BFloat16: memcpy(&single, &high, sizeof single); return (long double)single;
    case CXType_Float: memcpy(&single, bytes, sizeof single); return (long double)single;
    case CXType_Double: memcpy(&real, bytes, sizeof real); return (long double)real;
    default: memcpy(&wide, bytes, sizeof wide); return wide;
    }
}

/* libclang has no kind for _BitInt(N) and for __bf16: their names tell. */
static void write_other(writer *w, CXType plain, const unsigned char *bytes, size_t size)
{
    char *spelling = clang_text(clang_getTypeSpelling(plain));
    bool bits = strstr(spelling, "_BitInt(") != NULL, is_signed = !strstr(spelling, "unsigned");
    if (!strcmp(spelling, "__bf16")) write_real(w, real_of(CXType_BFloat16, bytes), CXType_BFloat16);
    else if (bits && size <= 8) text_addf(&w->out, is_signed ? "%ld" : "%lu", (long)signed_of(bytes, size));
    else if (bits && size == 16) write_int128(w, bytes, size, is_signed);
    else {
        text_add(&w->out, "0x");
        for (size_t i = size; i-- > 0;) text_addf(&w->out, "%02x", bytes[i]);
    }
    free(spelling);
}

void write_number(writer *w, CXType plain, const unsigned char *bytes, size_t size)
{
    switch (plain.kind) {
    case CXType_Bool: text_add(&w->out, bytes[0] ? "true" : "false"); break;
    case CXType_UChar:
    case CXType_UShort:
    case CXType_UInt:
    case CXType_ULong:
    case CXType_ULongLong: text_addf(&w->out, "%lu", (unsigned long)unsigned_of(bytes, size)); break;
    case CXType_Char_S:
    case CXType_SChar:
    case CXType_Short:
    case CXType_Int:
    case CXType_Long:
    case CXType_LongLong: text_addf(&w->out, "%ld", (long)signed_of(bytes, size)); break;
    case CXType_Int128:
    case CXType_UInt128: write_int128(w, bytes, size, plain.kind == CXType_Int128); break;
    case CXType_Half:
    case CXType_Float16:
    case CXType_BFloat16:
    case CXType_Float:
    case CXType_Double:
    case CXType_LongDouble: write_real(w, real_of(plain.kind, bytes), plain.kind); break;
    case CXType_Float128: write_float128(w, bytes); break;
    default: write_other(w, plain, bytes, size); break;
    }
}

void write_complex(writer *w, CXType plain, const unsigned char *bytes, size_t size)
{
    CXType part = clang_getElementType(plain);
    size_t half = size / 2, begin;
    write_number(w, part, bytes, half);
    text_add(&w->out, " + ");
    begin = w->out.size;
    write_number(w, part, bytes + half, half);
    if (w->out.data[begin] == '-') { /* "1.0 + -2.0" reads as "1.0 - 2.0" */
        w->out.data[begin - 2] = '-';
        memmove(w->out.data + begin, w->out.data + begin + 1, w->out.size - begin);
        w->out.size--;
    }
    text_add(&w->out, "i");
}

const char *printf_of(CXType type)
{
    CXType plain = plain_type(type);
    character kind = character_of(plain.kind == CXType_Pointer ? clang_getPointeeType(plain) : type);
    if (plain.kind == CXType_Pointer) return kind == CHARACTER ? "\\\"%s\\\"\\n" : NULL;
    if (plain.kind == CXType_ConstantArray)
        return character_of(element_type(type)) == CHARACTER ? "\\\"%s\\\"\\n" : NULL;
    switch (plain.kind) {
    case CXType_Bool: return "true or false";
    case CXType_Char_S:
    case CXType_Char_U: return "'%c'\\n";
    case CXType_SChar:
    case CXType_Short:
    case CXType_UChar:
    case CXType_UShort:
    case CXType_Int: return "%d\\n";
    case CXType_UInt: return "%u\\n";
    case CXType_Long: return "%ld\\n";
    case CXType_ULong: return "%lu\\n";
    case CXType_LongLong: return "%lld\\n";
    case CXType_ULongLong: return "%llu\\n";
    case CXType_Float: return "%.7g\\n";
    case CXType_Double: return "%.15g\\n";
    case CXType_LongDouble: return "%.18Lg\\n";
    default: return NULL;
    }
}
