"""Headers of the user's own, beside the notebook or where %cd has gone."""
import pytest
from kernel.driver import Kernel


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    (tmp_path / "a folder").mkdir()
    monkeypatch.chdir(tmp_path)
    kernel = Kernel()
    yield kernel
    kernel.close()


def write(kernel, name, text):
    assert kernel.run(f"%%writefile {name}\n{text}").status == "ok"


def test_a_header_written_by_a_cell(kernel):
    write(kernel, "mine.h", "static inline int twice(int a) { return 2 * a; }")
    assert kernel.run('#include "mine.h"\ntwice(4)').value == "8"
    assert kernel.run("twice(5)").value == "10"


def test_a_header_that_changes(kernel):
    write(kernel, "mine.h", "#define HERE 1")
    assert kernel.run('#include "mine.h"\nHERE').value == "1"
    write(kernel, "mine.h", "#define HERE 20000")
    assert kernel.run('#include "mine.h"\nHERE').value == "20000"
    assert kernel.run("HERE").value == "20000"


def test_headers_of_two_folders(kernel):
    write(kernel, "mine.h", "#define MINE 1")
    assert kernel.run('#include "mine.h"').status == "ok"
    assert kernel.run('%cd "a folder"').status == "ok"
    write(kernel, "other.h", "#define OTHER 2")
    assert kernel.run('#include "other.h"\nMINE + OTHER').value == "3"


def test_a_header_that_is_not_there_is_named_at_its_line(kernel):
    outcome = kernel.run('int before;\n#include "nowhere.h"')
    assert outcome.error.count("In[1]:2:10") and "nowhere.h" in outcome.error and "/tmp" not in outcome.error
    assert kernel.run("1 + 1").value == "2"


def test_a_mistake_in_a_header_does_not_last(kernel):
    write(kernel, "mine.h", "int broken(")
    assert kernel.run('#include "mine.h"').status == "error"
    assert kernel.run("1 + 1").value == "2"


@pytest.mark.parametrize("loss", ["%restart", "#include <signal.h>\nraise(SIGKILL);"])
def test_a_headers_variables_have_their_values_again(kernel, loss):
    write(kernel, "mine.h", "#define MINE 3\nstruct pair { int a, b; };\nstatic const struct pair table[2] = {{1, 2}, {3, 4}};\n"
                            "static int count = 5;\nstatic inline int next(void) { return ++count + table[1].b; }")
    assert kernel.run('#include "mine.h"\nnext()').value == "10"
    kernel.run(loss)
    assert kernel.run('#include "mine.h"\nnext() + MINE').value == "13"
    assert kernel.run('#include "mine.h"\nnext()').value == "11", "included once more, it keeps its values"


def test_a_header_that_only_the_ranks_had_is_defined_here_with_its_values(kernel):
    write(kernel, "mine.h", "#ifndef MINE\n#define MINE\nstatic const int table[2] = {1, 2};\nstatic int counter = 7;\n"
                            "static inline int sum(void) { return table[1] + counter; }\n#endif")
    kernel.run("%ranks 2")
    assert kernel.run('%%ranks\n#include "mine.h"\nsum()').value == "[0,1] 9"
    assert kernel.run("%%ranks\ncounter = 50 + table[0]; sum()").value == "[0,1] 53"
    here = kernel.run('#include "mine.h"\nsum()')
    assert here.value == "9" and "set by" not in here.stderr
    assert kernel.run('#include "mine.h"\ncounter = 20; sum()').value == "22"
    assert kernel.run('#include "mine.h"\nsum()').value == "22"  # included before: nothing is defined again
    assert kernel.run("%%ranks\nsum()").value == "[0,1] 53"
    assert kernel.run('%%ranks\n#include "mine.h"\nsum()').value == "[0,1] 53"
