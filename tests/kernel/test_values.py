"""The values of trailing expressions: every type that clang has in GNU C17, shown as C writes it."""
import base64
import random
import struct

import pytest
from kernel.driver import Kernel

START = "\n".join(f"#include <{name}.h>" for name in (
    "stdio", "stdlib", "string", "stdint", "stdbool", "complex", "wchar", "uchar", "time", "sys/time", "stdarg", "math", "kolo"))


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    assert k.run(START).status == "ok"
    yield k
    k.close()


VALUES = [
    # integers
    ("1 + 2", "3"), ("-7", "-7"), ("4294967295u", "4294967295"), ("18446744073709551615ull", "18446744073709551615"),
    ("(short)-3", "-3"), ("(unsigned short)65535", "65535"), ("(signed char)-3", "-3"), ("(uint8_t)200", "200"),
    ("-((__int128)1 << 100)", "-1267650600228229401496703205376"), ("(__int128)-1", "-1"),
    ("(unsigned __int128)-1", "340282366920938463463374607431768211455"),
    ("(_BitInt(37))-12345", "-12345"), ("(unsigned _BitInt(100))1 << 99", "633825300114114700748351602688"),
    ("(bool)5", "true"), ("(_Bool)0", "false"), ("sizeof(int)", "4"), ("(time_t)1700000000", "1700000000"),
    # characters and strings
    ("(char)'a'", "'a'"), ("(char)'\\n'", "'\\n'"), ("(char)'\\''", "'\\''"), ("(char)200", "'\\xc8'"), ("(char)0", "'\\0'"),
    ("(wchar_t)0x448", "L'ш'"), ("(char16_t)0x161", "u'š'"), ("(char32_t)0x1f600", "U'😀'"),
    ('"text"', '"text"'), ('u8"größe"', '"größe"'), ('"\\xff\\xfe abc"', '"\\xff\\xfe abc"'),
    ('"a\\tb\\033[1m\\"\\\\\\n"', '"a\\tb\\x1b[1m\\"\\\\\\n"'), ('"größe 变量 😀"', '"größe 变量 😀"'),
    ('wchar_t wide[] = L"šljiva"; wide', 'L"šljiva"'), ('const wchar_t *to_wide = L"😀 ok"; to_wide', 'L"😀 ok"'),
    ('char16_t wide_16[] = u"š😀"; wide_16', 'u"š😀"'), ('char32_t wide_32[] = U"š"; wide_32', 'U"š"'),
    ('L"šljiva"', 'L"šljiva"'), ('u"š"', 'u"š"'),
    ("char four[4] = {'a', 'b', 'c', 'd'}; four", '"abcd"'), ('char room[16] = "hi"; room', '"hi"'),
    ("char data[4] = {0, 1, 2, -3}; data", "{0, 1, 2, -3}"), ("uint8_t octets[3] = {1, 255}; octets", "{1, 255, 0}"),
    ('const char *texts[] = {"a", "b", NULL}; texts', '{"a", "b", NULL}'),
    # reals
    ("1.0f / 3", "0.33333334"), ("0.1", "0.1"), ("(long double)1 / 3", "0.33333333333333333334"), ("1e4000L", "1e+4000"),
    ("(_Float16)1.1", "1.1"), ("(__bf16)1.5f", "1.5"), ("(__float128)1 / 3", "0.3333333333333333333333333333333333"),
    ("0.0 / 0.0", "nan"), ("-NAN", "nan"), ("-0.0", "-0.0"), ("-1 / 0.0", "-inf"), ("5e-324", "5e-324"),
    ("double several[] = {NAN, -INFINITY, 0.1, -0.0}; several", "{nan, -inf, 0.1, -0.0}"),
    ("1.0 - 2.0 * I", "1.0 - 2.0i"), ("1.5f + 2.0f * I", "1.5 + 2.0i"), ("__builtin_complex(-1.0, -0.0)", "-1.0 - 0.0i"),
    # vectors, atomics, enums, bit-fields
    ("typedef float four_floats __attribute__((vector_size(16)));\nfour_floats v4 = {1, 2, 3, 4};\nv4 * 2", "{2.0, 4.0, 6.0, 8.0}"),
    ("_Atomic int shared = 5; shared", "5"), ("struct xy { int x, y; }; _Atomic struct xy both; both", "{.x = 0, .y = 0}"),
    ("typedef enum { RED = 1, GREEN = 2, BLUE = 4 } color; color c = RED | BLUE; c", "RED | BLUE"),
    ("(color)GREEN", "GREEN"), ("GREEN", "GREEN"), ("(BLUE)", "BLUE"), ("GREEN + 1", "3"), ("KOLO_RELU", "KOLO_RELU"), ("(color)9", "9"), ("(color)0", "0"), ("enum { LOW = -5, HIGH = 5 } range = LOW; range", "LOW"),
    ("enum count { ZERO, ONE, TWO }; (enum count)3", "3"), ("(enum count)1", "ONE"),
    ("enum mode { NO, READ, WRITE, BOTH, RUN }; (enum mode)(BOTH | RUN)", "7"),
    ("enum right { R = 4, W = 2, X = 1, ALL = 7 }; (enum right)7", "ALL"), ("(enum right)5", "R | X"),
    ("struct packed_bits { bool b : 1; color c : 3; int s : 3; unsigned u : 5; long l : 40; } bits = {true, GREEN, -2, 17, -5}; bits",
     "{.b = true, .c = GREEN, .s = -2, .u = 17, .l = -5}"),
    ("struct { unsigned a : 1, : 3, b : 4; } with_room = {1, 9}; with_room", "{.a = 1, .b = 9}"),
    ("int count = 2, columns = 3; double sized[count][columns]; memset(sized, 0, sizeof sized); sized", "{{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}}"),
    ("bits.b", "true"), ("(bits.c)", "GREEN"), ("bits.s", "-2"), ("bits.l", "-5"), ("bits.u = 3", "3"),
    # structs, unions, arrays
    ("union either { int i; float f; unsigned char b[4]; } either = {.f = 1.0f}; either",
     "{.i = 1065353216, .f = 1.0, .b = {0, 0, 128, 63}}"),
    ("struct { int a; struct { int x, y; }; union { int i; float g; }; struct { char n[8]; } in; } nested = {1, {2, 3}, {0}, {\"hej\"}}; nested",
     '{.a = 1, .x = 2, .y = 3, .i = 0, .g = 0.0, .in = {.n = "hej"}}'),
    ("struct flexible { int n; int data[]; }; struct flexible flexible = {3}; flexible", "{.n = 3}"),
    ("struct { int n; int none[0]; } zero_long = {1}; zero_long", "{.n = 1, .none = {}}"),
    ("int rows[2][3] = {{1, 2, 3}, {4, 5, 6}}; rows", "{{1, 2, 3}, {4, 5, 6}}"), ("rows[1]", "{4, 5, 6}"), ("*rows", "{1, 2, 3}"),
    ("int cube[2][2][2] = {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}; cube", "{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}"),
    ("long table[3][12] = {{1}}; table", "{{1" + ", 0" * 11 + "},\n {0" + ", 0" * 11 + "},\n {0" + ", 0" * 11 + "}}"),
    ("struct timeval instant = {1, 500000}; instant", "{.tv_sec = 1, .tv_usec = 500000}"),
    ("struct link { int v; struct link *next; }; struct link made(void) { return (struct link){7, NULL}; }\nmade()", "{.v = 7, .next = NULL}"),
    ("struct three { int a[3]; }; struct three three(void) { return (struct three){{1, 2, 3}}; }\nthree().a", "{1, 2, 3}"),
    ("(struct xy){.x = 3}", "{.x = 3, .y = 0}"), ("(int[]){1, 2, 3}", "{1, 2, 3}"), ("const volatile struct xy fixed = {8, 9}; fixed", "{.x = 8, .y = 9}"),
    ("struct large { double a[3000000]; } *large = calloc(1, sizeof *large);\n(*large).a[0]", "0.0"),
    # expressions
    ("int x = 1; x = 7", "7"), ("x += 2", "9"), ("x++", "9"), ("((void)1, 2)", "2"), ("x ? 1.5 : 2", "1.5"), ("({ int z = 3; z * 2; })", "6"),
    ("({ __label__ L; L:; 4; })", "4"), ("_Generic(x, int: \"int\", default: 0)", '"int"'), ("sizeof rows", "24"),
    # pointers
    ("(void *)0x1234", "(void *) 0x1234"), ("NULL", "NULL"), ("(char *)0x10", "(char *) 0x10"), ("(struct xy *)0x10", "(struct xy *) 0x10"),
    ("int helper(int a) { return a; }\nhelper", "(int (*)(int)) helper"), ("&helper", "(int (*)(int)) helper"), ("printf", "(int (*)(const char *, ...)) printf"),
    ("struct { const char *name; int (*f)(const char *); } command = {\"puts\", puts}; command", '{.name = "puts", .f = puts}'),
    ("struct opaque; (struct opaque *)0x1234", "(struct opaque *) 0x1234"),
    ("*(int (*)[4])0x10", "{… (4 elements)}"),
    ("(void)0", None), ("x;", None), ("free(NULL)", None),
]


@pytest.mark.parametrize("code, value", VALUES, ids=[repr(code[:50]) for code, _ in VALUES])
def test_value(kernel, code, value):
    outcome = kernel.run(code)
    assert outcome.status == "ok", outcome.error
    assert outcome.value == value and outcome.stderr == ""


def test_pointers_show_what_is_there(kernel):
    kernel.run("int pointed = 5, *to = &pointed, **to_to = &to;\nstruct link ring = {1, &ring};")
    assert kernel.run("to").value.startswith("(int *) 0x") and kernel.run("to").value.endswith(" → 5")
    assert kernel.run("to_to").value.startswith("(int **) 0x")
    ring = kernel.run("&ring").value
    address = ring.split()[3]
    assert ring == f"(struct link *) {address} → {{.v = 1, .next = {address}}}"
    assert kernel.run("stdout").value.startswith("(FILE *) 0x") and "→" not in kernel.run("stdout").value
    assert kernel.run("here: ; &&here").value.startswith("(void *) 0x")


def test_what_is_long_is_abridged_and_its_size_is_said(kernel):
    value = kernel.run("int huge[100000]; huge").value
    assert value.endswith(", … (100000 elements)}") and len(value) < 1000
    value = kernel.run("char *long_text = malloc(5000); memset(long_text, 'x', 4999); long_text[4999] = 0; long_text").value
    assert value.startswith('"xxx') and value.endswith('x…"') and len(value) < 2100
    assert kernel.run("*large").value.endswith("… (3000000 elements)}}")
    assert len(kernel.run("struct xy matrix[300][300]; matrix").value) < 30000


FUZZED = """
enum kind { A = 1, B = 2, C = 64 };
struct inner { char s[5]; wchar_t w[3]; enum kind k; unsigned bits : 3; long more : 50; bool b; char16_t u[2]; };
union any { struct inner in; char *text; const wchar_t *wide; void *p; long double ld; __float128 q; _Float16 h[4]; int (*f)(void); };
struct fuzzed { union any any[3]; struct fuzzed *next; char **names; float _Complex z; unsigned __int128 big; double d[2][3]; FILE *file; };
struct fuzzed fuzzed;
int still_here(int a) { return a; }
"""


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 60), marks=pytest.mark.long("more random bytes"))], ids=str)
def test_random_bytes_as_any_struct_cost_nothing(kernel, seeds):
    assert kernel.run(FUZZED).status == "ok"
    for seed in seeds:
        random.seed(seed)
        fill = random.choice(["rand()", "rand() % 3", "-1", "rand() & 0x7f", "i % 8 == 5 ? 0x7f : rand()"])
        code = f"srand({seed}); for (size_t i = 0; i < sizeof fuzzed; i++) ((unsigned char *)&fuzzed)[i] = (unsigned char)({fill});\n"
        outcome = kernel.run(code + random.choice(["fuzzed", "&fuzzed", "fuzzed.any", "fuzzed.names", "fuzzed.next", "fuzzed.any[1].text"]))
        assert outcome.status == "ok" and outcome.value, (seed, outcome.error)
    assert kernel.run("still_here(3)").value == "3"


def picture_size(bundle):
    data = base64.b64decode(bundle["image/png"])
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


def test_a_model_shows_its_table(kernel):
    bundle = kernel.run("kolo_model *net = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10)); net").results[0]
    assert "dense (dense)" in bundle["text/plain"] and "7,850" in bundle["text/plain"]
    assert kernel.run("kolo_summary(net);").stdout.strip() == bundle["text/plain"].strip()
    assert kernel.run("kolo_model *nothing = NULL; nothing").value == "NULL"


def test_data_show_sample_images_with_their_labels(kernel):
    bundle = kernel.run("kolo_data *digits = kolo_synthetic_digits(KOLO_TEST, .samples = 25); digits").results[0]
    lines = bundle["text/plain"].splitlines()
    assert lines[0].startswith("25 samples of shape {28, 28, 1}, from digits drawn by Kolo")
    assert lines[1].startswith("10 classes, samples of each: 0: ") and len(lines[2].split(",")) == 20
    width, height = picture_size(bundle)
    assert width > 2.5 * height
    table = kernel.run("float rows_of[3][2] = {{1, 2}, {3, 4}, {5, 6}}; int32_t their[3] = {0, 1, 1};\n"
                       "kolo_data_from_arrays(&rows_of[0][0], their, .samples = 3, .shape = {2})").results[0]
    assert "sample 2 (label 1): 5, 6" in table["text/plain"] and "image/png" not in table
    assert kernel.run("(kolo_data *)NULL").value == "NULL"


def test_a_history_shows_its_curves_and_its_table(kernel):
    kernel.run("kolo_compile(net, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY});")
    fit = "kolo_fit(net, digits, .epochs = 2, .verbose = KOLO_NONE"
    bundle = kernel.run(fit + ", .validation_data = digits)").results[0]
    header, *rows = bundle["text/plain"].splitlines()
    assert header.split() == ["epoch", "loss", "accuracy", "val_loss", "val_accuracy", "seconds", "images/s"] and len(rows) == 2
    assert picture_size(bundle) == (740, 300) and bundle["image/svg+xml"].lstrip().startswith("<svg")
    assert "val_loss" not in kernel.run(f"const kolo_history *history = {fit}); history").results[0]["text/plain"]
    assert kernel.run("*history").value.startswith("{.epochs = 2,")


def test_a_pointer_to_nothing_of_kolos_is_a_fault_like_others(kernel):
    kernel.run("int survivor = 3;")
    outcome = kernel.run("(kolo_data *)0x1234")
    assert outcome.status == "error" and "Segmentation fault" in outcome.error
    assert kernel.run("1 + 1").value == "2"
