"""Completion, inspection, and whether a cell is complete: what is offered, where, and what is not."""
import re
import shutil
import subprocess

import pytest
from kernel.driver import Kernel

SESSION = r"""#include <stdio.h>
struct node { int value; struct node *next; struct { int deep; } inner; };
struct node list = {1, NULL}, *head = &list;
enum color { RED, GREEN, BLUE }; enum color paint = RED;
#define LIMIT 5
typedef enum { MON, TUE } day; day today;
int paint_all(enum color c, int times) { return (int)c * times; }
int add_two(int first, int second) { return first + second; }"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    k = Kernel()
    k.run(SESSION)
    folder = tmp_path_factory.mktemp("files")
    (folder / "data.csv").write_text("1\n")
    (folder / "deep").mkdir()
    k.run(f"%cd {folder}")
    yield k
    k.close()


def complete(kernel, marked):
    at = marked.index("|")
    return kernel.ask("complete", marked[:at] + marked[at + 1:], at)


# Code with the cursor as '|', and all that is offered.
EXACT = [
    ("list.|", ["inner", "next", "value"]), ("head->next->inner.|", ["deep"]), ("(*head).ne|", ["next"]),
    ("int broken = ;\nundefined(3);\nhead->va|", ["value"]), ("struct node n = {.va|", ["value"]),
    ("add_t|", ["add_two"]), ("LIM|", ["LIMIT"]), ("whi|", ["while"]), ("retu|", ["return"]), ("if (paint == GRE|", ["GREEN"]),
    ("int f(int alpha_one) {\n    return alpha_|", ["alpha_one"]), ("int größe = 3; grö|", ["größe"]),
    ("kolo_dense(10, .|", ["activation", "device", "l2", "name", "no_bias"]), ("kolo_fit(model, data, .epo|", ["epochs"]),
    ("kolo_fit(model, data, .|", [  # no words of the comments
        "batch_size", "callbacks", "check_every", "class_weight", "drop_remainder", "epochs", "feed", "feed_threads", "initial_epoch", "micro_batch",
        "no_shuffle", "queue_capacity", "resume", "sharded", "shuffle_buffer", "steps_per_epoch", "validation_batch_size",
        "validation_data", "validation_freq", "validation_split", "verbose"]),
    ("kolo_receive(v, 3, 0, .m|", ["message"]), ("KOLO_FIRST|", []), ("KOLO_TYPE_OF_F|", []),
    ("kolo_fit(model, data, .epochs = 3, .ep|", []), ("%writef|", []), ("%%writef|", ["%%writefile"]),
    ("!cat da|", ["data.csv"]), ("%cd de|", ["deep/"]), ("%%writefile d|", ["data.csv", "deep/"]),
    ("struct node all[] = {{.|", ["inner", "next", "value"]), ("struct node all[2][2] = {{{1}, {.v|", ["value"]),
    ("struct node one = {.inner.|", ["deep"]), ("struct node one = {.inner = {.|", ["deep"]),
    ("enum col|", ["color"]), ("struct no|", ["node"]), ("nod|", []), ("union no|", []),
    ("// add_t|", []), ("/* add_t| */", []), ('puts("add_t|', []), ("'a|", []), ("3e|", []),
    ('fopen("da|', ["data.csv"]), ('fopen("./de|', ["./deep/"]), ("%cflags -Wpe|", ["-Wpedantic"]), ("%env HOM|", ["HOME"]),
    ("!mkfif|", ["mkfifo"]), ("!ls; mkfif|", ["mkfifo"]), ("%%sh\ncat da|", ["data.csv"]), ("%%sh\nmkfif|", ["mkfifo"]),
    ("%what_if ove|", ["overlap="]), ("%what_if data.csv overlap=|", ["off", "on"]), ("%what_if x.json machine=dgx|", ["dgx-1v", "dgx-a100", "dgx-h100"]),
    ("%what_if x.json other=da|", ["data.csv"]), ("%what_if x.json steps=d|", []), ("%what_if da|", ["data.csv"]),
    ("MPI_Comm_ran|", ["MPI_Comm_rank"]), ("%%ranks\nadd_t|", ["add_two"]), ("%%time\nadd_t|", ["add_two"]), ("%time add_t|", ["add_two"]),
    ("%%timeit\nint near_by = 3; near_|", ["near_by"]), ("%%run\nint helper(int q) { return q; }\nint main(void) { help|", ["helper"]),
]

# What must come first, in this order: what fits, what is near, the rest.
FIRST = [
    ("paint == |", ["BLUE", "GREEN", "RED"]), ("if (paint == |) { }", ["BLUE", "GREEN", "RED"]), ("today = |", ["MON", "TUE"]),
    ("switch (paint) { case |", ["BLUE", "GREEN", "RED"]), ("paint_all(|", ["BLUE", "GREEN", "RED"]),
    ("kolo_dense(10, .activation = |", ["KOLO_ELU", "KOLO_GELU", "KOLO_GELU_TANH", "KOLO_LEAKY_RELU", "KOLO_LINEAR"]),
    ("int f(int add_ends) { int add_all = 1; return add|", ["add_all", "add_ends", "add_two"]),
    ("int limit_here = 1;\nint LIMITED = 2;\nLIMIT|", ["LIMITED", "LIMIT"]),
]


@pytest.mark.parametrize("marked, matches", EXACT, ids=[repr(marked) for marked, _ in EXACT])
def test_completion(kernel, marked, matches):
    assert complete(kernel, marked)["matches"] == matches


@pytest.mark.parametrize("marked, first", FIRST, ids=[repr(marked) for marked, _ in FIRST])
def test_what_is_offered_first(kernel, marked, first):
    assert complete(kernel, marked)["matches"][:len(first)] == first


def test_headers_variables_are_not_taken_for_locals(kernel):
    offered = complete(kernel, "int count = |")["matches"]
    assert "optind" not in offered or offered.index("optind") > offered.index("today")


@pytest.mark.parametrize("tag, some", [("enum", "color"), ("struct", "node")])
def test_behind_its_keyword_a_tag_alone_is_offered(kernel, tag, some):
    reply = complete(kernel, f"{tag} |")
    assert reply["matches"][0] == some and {m["type"] for m in reply["metadata"]["_jupyter_types_experimental"]} == {"type"}


@pytest.mark.parametrize("marked, begin, end", [("add_|two(1, 2)", 0, 7), ("ä = li|st.value", 4, 8), ("x = |list", 4, 4)])
def test_the_whole_word_is_replaced(kernel, marked, begin, end):
    reply = complete(kernel, marked)
    assert (reply["cursor_start"], reply["cursor_end"]) == (begin, end)


def test_nothing_internal_is_offered(kernel):
    offered = complete(kernel, "kolo_|")["matches"] + complete(kernel, "|")["matches"]
    assert "kolo_fit" in offered
    assert not [n for n in offered if n.endswith(("_at", "_args", "_kind")) or n.startswith(("kolo_cell", "In_", "_"))]


def test_matches_have_types_and_signatures(kernel):
    reply = complete(kernel, "ä; add_t|")
    assert (reply["cursor_start"], reply["cursor_end"]) == (3, 8)
    assert reply["metadata"]["_jupyter_types_experimental"] == [
        {"text": "add_two", "type": "function", "signature": "(int first, int second) -> int", "start": 3, "end": 8}]


def test_headers(kernel):
    assert "types.h>" in complete(kernel, "#include <sys/ty|")["matches"]
    assert "kolo.h>" in complete(kernel, "#include <ko|")["matches"]


LIST = """/* A knot of a list.
 * Two lines. */
struct knot { int weight; /* in grams */ struct knot *behind; // the one after it
};
struct knot tail = {2, 0}, chain = {1, &tail}; // all of them
struct knot *top = &chain;
int answer_now = 42;
char *greeting = "hello";"""
FUNCTIONS = """// Adds two numbers.
// That is all.
static int sum_of(int a, int b)
{
    return a + b; // the sum
}

#define SIDE 5
#define AREA (SIDE * SIDE)
enum shade { DARK, LIGHT = 7 /* of the sun */ };"""


@pytest.fixture(scope="module")
def learned(kernel):
    kernel.places = {}
    for name, cell in (("list", LIST), ("functions", FUNCTIONS)):
        kernel.places[name] = f"In[{kernel.run(cell).reply['execution_count']}]"
    return kernel


def plain(text):
    return re.sub(r"\x1b\[\d*m", "", text)


def inspect(kernel, marked, detail=0):
    at = marked.index("|")
    reply = kernel.ask("inspect", marked[:at] + marked[at + 1:], at, detail)
    return plain(reply["data"]["text/plain"]) if reply["found"] else None


def asked(kernel, question):
    outcome = kernel.run(question)
    return plain(outcome.reply["payload"][0]["data"]["text/plain"]) if outcome.status == "ok" else outcome.error


# Code with the cursor as '|', and lines of what is told.
TOLD = [
    ("top->wei|ght", ["int weight", "in grams", "member of struct knot"]),
    ("chain.behind->beh|ind", ["struct knot *behind", "the one after it"]),
    ('printf("%d", chain.behind->we|ight', ["int weight"]),
    ("struct own { int w; // width\n};\nstruct own z = {.w| = 1};", ["int w", "width", "line 1 of this cell"]),
    ("int f(int alpha) { double beta = 2; // the second\n return alpha + be|ta; }\nint broken = ;\nundefined(3);",
     ["double beta", "the second"]),
    ("int f(int alpha) { double beta = 2; // the second\n return al|pha; }", ["int alpha", "parameter"]),
    ("for (int round = 0; rou|nd", ["int round"]), ("%%time\nint local = 3; lo|cal", ["int local", "line 2 of this cell"]),
    ("int helper(int n); // counts\nhel|per(3)", ["int helper(int n)", "counts"]),
    ("kolo_fit(model, data, .epo|chs = 3)", ["int epochs", "option of kolo_fit()"]),
    ("kolo_receive(v, 3, 0, .ta|g = 3)", ["int tag", "option of kolo_receive()"]),
    ("sum_of(1, |", ["static int sum_of(int a, int b)", "Adds two numbers.", "That is all."]),
    ("chai|n", ["struct knot chain", "all of them", "size: 16 bytes"]), ("answer_n|ow", ["int answer_now", "value: 42"]),
    ("AR|EA", ["#define AREA (SIDE * SIDE)", "expands to (5 * 5)", "value: 25"]), ("LIG|HT", ["LIGHT = 7", "of the sun", "constant of enum shade"]),
    ("str|len(s)", ["#include <string.h>"]), ("siz|eof", ["sizeof is a keyword of C"]),
]


@pytest.mark.parametrize("marked, lines", TOLD, ids=[repr(marked) for marked, _ in TOLD])
def test_what_stands_under_the_cursor(learned, marked, lines):
    told = inspect(learned, marked)
    assert told and not [line for line in lines if line not in told.split("\n")], told


@pytest.mark.parametrize("marked", ["nobody_knows|", "// prin|tf", '"answer_n|ow"', "top->nobody|", "12|"])
def test_nothing_is_told_of(learned, marked):
    assert inspect(learned, marked) is None


QUESTIONS = {
    "?struct knot": ["A knot of a list.", "struct knot { int weight;"], "chain.behind->weight?": ["int weight", "in grams"],
    "?greeting": ["char *greeting", 'value: "hello"'], "?kolo_fit": ["kolo_fit(model, data, .option = …)", "int epochs;"],
    "%time?": ["%time STATEMENT", "%%time"], "?printf": ["int printf(const char *restrict format, ...)", "#include <stdio.h>"],
    "?while": ["while (condition) statement"], "?M_PI": ["value: 3.14159", "#include <math.h>"], "?MPI_Send": ["int dest, int tag", "#include <mpi.h>"],
    "?strlne": ["there is no help on 'strlne'; the nearest name is 'strlen'"],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question(learned, question):
    told = asked(learned, question)
    assert not [part for part in QUESTIONS[question] if part not in told], told


def test_two_question_marks_show_the_body_and_where_it_is(learned):
    place = f"defined in {learned.places['functions']}, line 3"
    assert place in asked(learned, "?sum_of") and "return a + b;" not in asked(learned, "?sum_of")
    for told in (asked(learned, "??sum_of"), asked(learned, "sum_of??"), inspect(learned, "sum_|of", 1)):
        assert place in told and told.endswith("    return a + b; // the sum\n}\n")


def test_a_variable_s_value_is_the_present_one(learned):
    learned.run("answer_now = 43;")
    assert "value: 43" in inspect(learned, "answer_|now")


def test_the_manual_where_it_is_installed(learned):
    if not shutil.which("man") or subprocess.run(["man", "-w", "3", "sqrt"], capture_output=True, check=False).returncode:
        pytest.skip("no manual pages here")
    short, whole = inspect(learned, "sq|rt(2)"), inspect(learned, "sq|rt(2)", 1)
    assert "RETURN VALUE\n" in short and "SEE ALSO" not in short and "SEE ALSO\n" in whole and "\b" not in whole
    told = inspect(learned, "print|f(1)")
    assert "SYNOPSIS\n" in told and "int vprintf(" not in told and len(told.split("\n")) < 90


COMPLETE = ["int a = 3;", "if (x) y = 3;", "do { } while (1);", "struct s { int a; };", "%cd /", "!ls", "?printf", "printf?",
            "%%writefile a\nx\n", "#define X 1", "// x", "label:", "", "int a = 3;\n", "if (x) {\n    y;\n}\n", "a + b", "f(1)",
            "int f(void)\n{\n    return 1;\n}", "for (int i = 0; i < 3; i++) f(i);", "if (x) y; else z;", "/* a comment */", "#include <stdio.h>",
            "switch (x) { case 1: break; }", "int a[] = {1, 2};", "typedef struct { int a; } s;", "int a; // (", "char *s = \"{\";", "char c = '{';",
            "!echo (", "top->next?", "%%time\nf();\n", "while (x) ;", "int a = 1;\n%who"]
INCOMPLETE = {"if (x) {": "    ", "if (x)": "    ", "int f(void)": "", "do {} ": "", "struct s {": "    ", "#define X \\": "",
              "/* open": "", "f(1,": "    ", "%%writefile a": "", "a = ": "", "!ls \\": "",
              "if (x) {\n    if (y) {\n        z;": "        ", "else": "    ", "if (x) y;\nelse": "    ", "for (int i = 0; i < 3; i++)": "    ",
              "while (x)": "    ", "do": "    ", "do { x; } while (y)": "", "if (x)\n    for (;;)": "        ", "if (x) {\n    while (y)": "        ",
              "if (x) {\n    if (y)\n        z;": "    ", "if (x) // why": "    ", "switch (x) {": "    ", "switch (x)": "    ",
              "switch (x) {\n    case 1:": "        ", "switch (x) {\ncase 1:": "    ", "switch (x) { case 1:": "        ",
              "switch (x) {\ncase 1:\n    y();": "    ", "switch (x) {\ncase 1:\n    y();\n    break;": "", "switch (x) {\n    default:": "        ",
              "switch (x) {\ncase 1:\n    if (y)": "        ", "int f(void)\n{": "    ", "int f(void) {\n    int a = 1;\n": "    ",
              "int a[] = {": "    ", "f(g(1,": "        ", "x ? 1 :": "", "struct s { int a; }": "", "enum e { A,": "    ", "int f(int a,": "    ",
              "if (x) {\n}\nelse": "    ", "%%time\nfor (;;) {": "    "}
INVALID = ["}", "a)", '"open', "'a", "int a = 3; }", "if (x)) y;", "a[1]]", "{ ) }"]


@pytest.mark.parametrize("code", COMPLETE)
def test_complete(kernel, code):
    assert kernel.ask("is_complete", code)["status"] == "complete"


@pytest.mark.parametrize("code", INCOMPLETE)
def test_incomplete(kernel, code):
    assert kernel.ask("is_complete", code) == {"status": "incomplete", "indent": INCOMPLETE[code]}


@pytest.mark.parametrize("code", INVALID)
def test_invalid(kernel, code):
    assert kernel.ask("is_complete", code)["status"] == "invalid"
