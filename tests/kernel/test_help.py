"""Completion, and whether a cell is complete: what is offered, where, and what is not."""
import pytest
from kernel.driver import Kernel

SESSION = r"""#include <stdio.h>
struct node { int value; struct node *next; struct { int deep; } inner; };
struct node list = {1, NULL}, *head = &list;
enum color { RED, GREEN, BLUE }; enum color paint = RED;
#define LIMIT 5
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
    ("kolo_dense(10, .|", ["activation", "name", "no_bias"]), ("kolo_fit(model, data, .epo|", ["epochs"]),
    ("kolo_fit(model, data, .epochs = 3, .ep|", []), ("%writef|", []), ("%%writef|", ["%%writefile"]),
    ("!cat da|", ["data.csv"]), ("%cd de|", ["deep/"]), ("%%writefile d|", ["data.csv", "deep/"]),
]


@pytest.mark.parametrize("marked, matches", EXACT, ids=[repr(marked) for marked, _ in EXACT])
def test_completion(kernel, marked, matches):
    assert complete(kernel, marked)["matches"] == matches


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


def test_the_c_library_is_known_before_it_is_included(kernel):
    reply = kernel.ask("inspect", "strlen(s)", 3)
    assert reply["found"] and "#include <string.h>" in reply["data"]["text/plain"] and "strlen(const char *" in reply["data"]["text/plain"]
    assert not kernel.ask("inspect", "nobody_knows_this", 3)["found"]


COMPLETE = ["int a = 3;", "if (x) y = 3;", "do { } while (1);", "struct s { int a; };", "%cd /", "!ls", "?printf", "printf?",
            "%%writefile a\nx\n", "#define X 1", "// x", "label:", ""]
INCOMPLETE = {"if (x) {": "    ", "if (x)": "", "int f(void)": "", "do {} ": "", "struct s {": "    ", "#define X \\": "",
              "/* open": "", "f(1,": "    ", "%%writefile a": "", "a = ": "", "!ls \\": "",
              "if (x) {\n    if (y) {\n        z;": "        "}
INVALID = ["}", "a)", '"open', "'a", "int a = 3; }"]


@pytest.mark.parametrize("code", COMPLETE)
def test_complete(kernel, code):
    assert kernel.ask("is_complete", code)["status"] == "complete"


@pytest.mark.parametrize("code", INCOMPLETE)
def test_incomplete(kernel, code):
    assert kernel.ask("is_complete", code) == {"status": "incomplete", "indent": INCOMPLETE[code]}


@pytest.mark.parametrize("code", INVALID)
def test_invalid(kernel, code):
    assert kernel.ask("is_complete", code)["status"] == "invalid"
