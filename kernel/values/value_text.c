/* Characters and strings, narrow and wide, escaped as C escapes them. See value_writer.h. */
#define _GNU_SOURCE
#include "values/value_writer.h"

#include <string.h>

character character_of(CXType type)
{
    enum CXTypeKind kind = plain_type(type).kind;
    if (kind == CXType_Char_S || kind == CXType_Char_U) return CHARACTER;
    if (type_is_called(type, "wchar_t")) return WIDE;
    if (type_is_called(type, "char16_t")) return WIDE_16;
    return type_is_called(type, "char32_t") ? WIDE_32 : NO_CHARACTER;
}

static size_t unit_size(character kind)
{
    return kind == CHARACTER ? 1 : kind == WIDE_16 ? 2 : 4;
}

static const char *prefix_of(character kind)
{
    return kind == WIDE ? "L" : kind == WIDE_16 ? "u" : kind == WIDE_32 ? "U" : "";
}

/* The bytes of the UTF-8 sequence of a printable character that begins here; 0 where there is none. */
static size_t sequence(const unsigned char *bytes, size_t available)
{
    static const struct {
        unsigned char mask, lead;
        unsigned least;
    } forms[] = {{0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 1; more <= 3; more++) {
        if ((bytes[0] & forms[more - 1].mask) != forms[more - 1].lead) continue;
        unsigned value = bytes[0] & (unsigned char)~forms[more - 1].mask;
        for (size_t i = 1; i <= more; i++) {
            if (i >= available || (bytes[i] & 0xc0) != 0x80) return 0;
            value = value << 6 | (bytes[i] & 0x3f);
        }
        bool surrogate = value >= 0xd800 && value < 0xe000, control = value < 0xa0;
        return value < forms[more - 1].least || value > 0x10ffff || surrogate || control ? 0 : more + 1;
    }
    return 0;
}

static void write_escaped(writer *w, unsigned c, char quote)
{
    static const char named[] = "\n\t\r\a\b\f\v\\", letters[] = "ntrabfv\\";
    const char *found = c && c < 128 ? strchr(named, (int)c) : NULL;
    if (found) text_addf(&w->out, "\\%c", letters[found - named]);
    else if (c == (unsigned)quote) text_addf(&w->out, "\\%c", (char)c);
    else if (c < 32 || c >= 127) text_addf(&w->out, c ? "\\x%02x" : "\\0", c);
    else text_addf(&w->out, "%c", (char)c);
}

static void write_narrow(writer *w, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t whole = bytes[i] < 128 ? 0 : sequence(bytes + i, size - i);
        if (whole) text_add_bytes(&w->out, (const char *)bytes + i, whole);
        else write_escaped(w, bytes[i], '"');
        i += whole ? whole : 1;
    }
}

static void write_point(writer *w, unsigned point, char quote)
{
    unsigned char utf8[4] = {(unsigned char)(0xf0 | point >> 18), (unsigned char)(0x80 | (point >> 12 & 63)),
                             (unsigned char)(0x80 | (point >> 6 & 63)), (unsigned char)(0x80 | (point & 63))};
    size_t first = point < 0x800 ? 2 : point < 0x10000 ? 1 : 0;
    if (first == 2) utf8[2] = (unsigned char)(0xc0 | point >> 6);
    if (first == 1) utf8[1] = (unsigned char)(0xe0 | point >> 12);
    if (point < 128 || point > 0x10ffff || !sequence(utf8 + first, 4 - first)) write_escaped(w, point, quote);
    else text_add_bytes(&w->out, (const char *)utf8 + first, 4 - first);
}

/* The character at `bytes`; two units of UTF-16 may make one. Returns the units taken. */
static size_t write_wide_at(writer *w, character kind, const unsigned char *bytes, size_t count, char quote)
{
    unsigned point = (unsigned)unsigned_of(bytes, unit_size(kind));
    unsigned next = kind == WIDE_16 && count > 1 ? (unsigned)unsigned_of(bytes + 2, 2) : 0;
    bool pair = kind == WIDE_16 && point >> 10 == 0x36 && next >> 10 == 0x37;
    write_point(w, pair ? 0x10000 + ((point & 1023) << 10) + (next & 1023) : point, quote);
    return pair ? 2 : 1;
}

static void write_string(writer *w, character kind, const unsigned char *bytes, size_t count, bool cut)
{
    text_addf(&w->out, "%s\"", prefix_of(kind));
    if (kind == CHARACTER) write_narrow(w, bytes, count);
    for (size_t i = 0; kind != CHARACTER && i < count;)
        i += write_wide_at(w, kind, bytes + i * unit_size(kind), count - i, '"');
    text_add(&w->out, cut ? "…\"" : "\"");
}

void write_character(writer *w, character kind, const unsigned char *bytes)
{
    text_addf(&w->out, "%s'", prefix_of(kind));
    if (kind == CHARACTER) write_escaped(w, bytes[0], '\'');
    else write_wide_at(w, kind, bytes, 1, '\'');
    text_add(&w->out, "'");
}

static bool is_zero(const unsigned char *bytes, size_t size)
{
    while (size && !bytes[size - 1]) size--;
    return size == 0;
}

/* Characters before the NUL. `limit` when there is none. */
static size_t length_of(character kind, const unsigned char *bytes, size_t limit)
{
    size_t count = 0, unit = unit_size(kind);
    while (count < limit && !is_zero(bytes + count * unit, unit)) count++;
    return count;
}

void write_characters(writer *w, character kind, const unsigned char *bytes, size_t size)
{
    size_t limit = size / unit_size(kind), shown = limit < SHOWN_CHARACTERS ? limit : SHOWN_CHARACTERS;
    size_t length = length_of(kind, bytes, shown);
    bool data = kind == CHARACTER && length == 0 && !is_zero(bytes, size); /* "" would hide what is there */
    if (!data) {
        write_string(w, kind, bytes, length, length == shown && limit > length);
        return;
    }
    shown = limit < SHOWN_ELEMENTS ? limit : SHOWN_ELEMENTS;
    text_add(&w->out, "{");
    for (size_t i = 0; i < shown; i++) text_addf(&w->out, "%s%d", i ? ", " : "", (signed char)bytes[i]);
    if (shown < limit) text_addf(&w->out, ", … (%zu elements)", limit);
    text_add(&w->out, "}");
}

/* Read in steps that stay within a page: a bad address costs a refusal, not a fault. */
bool write_pointed_string(writer *w, character kind, uint64_t address)
{
    unsigned char found[SHOWN_CHARACTERS * 4 + 256];
    size_t size = 0, unit = unit_size(kind), room = SHOWN_CHARACTERS * unit;
    while (size < room) {
        size_t step = 256 - (address + size) % 256;
        if (!w->from->read(w->from->closure, address + size, step, found + size)) break;
        size += step;
        size_t length = length_of(kind, found, size / unit);
        if (length >= size / unit || length >= SHOWN_CHARACTERS) continue;
        write_string(w, kind, found, length, false);
        return true;
    }
    if (size) write_string(w, kind, found, size < room ? size / unit : SHOWN_CHARACTERS, true);
    return size > 0;
}
