"""A long session, in short: 300 cells, and what grew with them. tests/bench/long_session.py does it with 10,000."""
import patience
import pytest
from bench import long_session
from kernel.driver import Kernel

pytestmark = pytest.mark.long("it runs 300 cells, and 200 more")
CELLS, LOOKS = 300, 6


@pytest.fixture(scope="module")
def seen():
    return long_session.session(CELLS, LOOKS)


@pytest.fixture(scope="module")
def grown(seen):
    return long_session.summary(seen)


def test_memory_of_a_cell(grown):
    assert grown["kb_per_cell"] <= 24


@pytest.mark.parametrize("what", ["threads", "descriptors"])
@pytest.mark.parametrize("process", ["kernel", "supervisor", "worker"])
def test_a_process_holds_no_more(seen, process, what):
    counts = [now[f"{process} {what}"] for _, now in seen[1:]]
    assert max(counts) - min(counts) <= 1, counts  # the clang that waits has a pipe


def test_mappings(grown):
    """65,530 are what Linux gives a process."""
    assert grown["kernel mappings"] <= 0.1 and grown["supervisor mappings"] == 0 and grown["worker mappings"] <= 2


def test_files_are_of_what_still_stands(grown):
    assert grown["files"] <= 0.6 and grown["files KB"] <= 6


def test_the_last_cells_are_as_fast_as_the_first(grown):
    assert grown["slower_cpu"] <= 1.5


def test_what_only_runs_leaves_nothing():
    """Expressions, statements, and one function defined again and again."""
    kernel = Kernel()
    try:
        kernel.run("int total = 0; int step(void) { return 1; }")
        counts = []
        for n in range(20):
            kernel.run(f"total += {n};")
            kernel.run(f"int step(void) {{ return {n}; }}\nstep()")
            counts.append(long_session.look(kernel.process)["files"])
        assert max(counts) - min(counts) <= 2, counts  # the clang that waits has files of its own
        kernel.run("#include <signal.h>\nraise(SIGKILL);")
        assert kernel.run("step()").value == "19"
    finally:
        kernel.close()


def test_a_new_worker_has_hundreds_of_cells_at_once():
    kernel = Kernel()
    try:
        for n in range(200):
            assert kernel.run(f"int f{n}(void) {{ return {n}{f' + f{n - 1}()' if n else ''}; }}").status == "ok"
        kernel.run("#include <signal.h>\nraise(SIGKILL);")
        begin = patience.now()
        assert kernel.run("f199()").value == str(sum(range(200)))
        assert patience.now() - begin < 2
    finally:
        kernel.close()
