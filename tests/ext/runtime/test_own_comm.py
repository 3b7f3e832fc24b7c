"""All-reduces of a learner's own: kolo_check_comm() tells right ones from wrong ones, and training uses them."""
import re
import shutil

import patience
import pytest
from mpi_workshop import compile_program, make_small_pieces, mpirun

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("runtime/own_comm_ranks.c", tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def by_messages(tmp_path_factory):
    library = make_small_pieces(tmp_path_factory.mktemp("messages"), piece=2**30)
    return compile_program("runtime/own_comm_ranks.c", library, library=library)


def told(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return [re.sub(r"^rank \d+: ", "", line) for line in result.stdout.splitlines()]


def check_right(result, ranks, *names):
    lines = told(result)
    for name in names:
        assert lines.count(f"{name}|right") == lines.count(f"{name}|went on") == ranks, lines
        report = [line for line in lines if line.startswith(f"comm {name}")]
        assert len(report) == 1 and re.fullmatch(
            rf"comm {name}: right on {ranks} ranks. Bus bandwidth with 100000 floats: [\d.e+-]+ GB/s, "
            r"\d+ % of the built-in all-reduce's [\d.e+-]+ GB/s", report[0])


@pytest.mark.parametrize("ranks, threads", [(3, 1000), *(pytest.param(*case, marks=pytest.mark.long("more of the same")) for case in ((2, 1), (5, 1000)))])
def test_a_right_one_is_right(program, ranks, threads):
    check_right(mpirun(ranks, program, "check", "ring", "naive", threads=threads), ranks, "ring", "naive")


WAITED = r"(comm \w+: the sum of \d+ floats failed: .*)?rank \d has waited 1 s for "
WRONG = {
    "forgets": r"comm forgets: wanted -?\d+ in element 1008 of 1009 on rank 1, got -?\d+$",
    "orders": r"comm orders: wanted the same bits on all ranks in element \d+ of \d+, got \S+ on rank 0, \S+ on rank \d$",
    "ordered-ring": r"comm ordered-ring: wanted \S+ in element \d+ of \d+ on rank \d, got \S+$",
    "outside": r"comm outside: wanted values\[0 … 1008\], got a write to values\[1009\] on rank 1$",
    "leaves": r"comm leaves: after a sum of 1 floats rank 0 has not received a message of 4 bytes from rank 1 with tag 7$",
    "hangs": WAITED + r"rank \d to receive a message with tag 0$",
    "waits": WAITED + r"a message from rank \d with tag [05]$",
    "fails": r"comm fails: the sum of 2 floats failed: .allreduce returned \"input/output error\" on rank 1$",
    "gives-up": r"(comm gives-up: the sum of 2 floats failed|kolo_receive): .allreduce returned \"input/output error\" on rank 1$",
    "too-long": r"wanted a message of at most 0 bytes, got 4 bytes from 0 with tag 0$",
}


@pytest.mark.parametrize("way", ["shared", pytest.param("messages", marks=pytest.mark.long("the same between hosts"))])
def test_a_wrong_one_is_named_in_a_sentence_and_the_ranks_go_on(program, by_messages, way):
    lines = told(mpirun(3, program if way == "shared" else by_messages, "check", *WRONG, "ring", threads=1000))
    for name, sentence in WRONG.items():
        mine = [line.split("|")[1] for line in lines if line.startswith(name + "|")]
        assert mine.count("went on") == 3 and len(mine) == 6, mine
        assert len([line for line in mine if re.search(sentence, line)]) == 3, mine
    assert lines.count("ring|right") == 3


def test_its_failure_is_told_after_an_earlier_mistake(program):
    result = mpirun(2, program, "after", "waits", threads=1000)
    assert result.returncode == 1 and len(re.findall("wanted a root", result.stderr)) == 2
    assert re.search(r"kolo_check_comm: comm waits: the sum of \d+ floats failed: rank \d has waited 1 s for a message", result.stderr)


@pytest.mark.parametrize("ranks, words", [
    (3, ["ring"]), pytest.param(2, ["naive", "mirrored"], marks=pytest.mark.long("the same with two devices a rank"))])
def test_training_with_it_learns_the_same(program, ranks, words):
    lines = told(mpirun(ranks, program, "train", *words, threads=1000))
    assert len(lines) == ranks
    for line in lines:
        how, calls, difference = line.rsplit(" ", 2)
        assert how == "trained" and int(calls) == 2 * -(-96 // (8 * ranks)) and float(difference) < 1e-5


def test_a_failure_in_training_is_told_and_ends_the_job(program):
    result = mpirun(3, program, "train", "waits", threads=1000, stall_limit=1)
    assert result.returncode == 1
    assert re.search(r"own_comm_ranks.c:\d+: kolo_receive: rank \d has waited 1 s for a message from rank \d with tag", result.stderr)


@pytest.mark.parametrize("way", ["shared", pytest.param("messages", marks=pytest.mark.long("the same between hosts"))])
def test_a_status_that_one_rank_returns_in_training_is_told_on_all(program, by_messages, way):
    """The others wait for its messages. They are told long before their limit, and none of them is said to be missing."""
    result = mpirun(3, program if way == "shared" else by_messages, "train", "gives-up", threads=1000, stall_limit=50)
    assert result.returncode == 1 and result.seconds < 20
    assert re.search(r'rank 1: own_comm_ranks.c:\d+: kolo_fit: comm gives-up: the sum of \d+ floats failed: .allreduce returned "input/output error" on rank 1', result.stderr)
    assert re.search(r'rank [02]: own_comm_ranks.c:\d+: kolo_\w+: .*.allreduce returned "input/output error" on rank 1$', result.stderr, re.M), result.stderr
    assert "has not come" not in result.stderr


def test_what_it_cannot_do_is_refused(program):
    lines = told(mpirun(2, program, "refuse"))
    for sentence in ("kolo_compile: comm empty: wanted a kolo_own_comm with an .allreduce, got NULL",
                     "kolo_compile: comm ring: wanted training that is not .deterministic",
                     "kolo_compile: comm ring: wanted a strategy with an all-reduce, got downpour",
                     "kolo_check_comm: wanted a kolo_own_comm, got NULL"):
        assert len([line for line in lines if sentence in line]) == 2, lines
    alone = patience.run([program, "refuse"], capture_output=True, text=True)
    assert "comm ring: wanted at least 2 ranks, got 1: start the program with kolorun -np 4" in alone.stdout
