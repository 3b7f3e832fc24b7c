"""Process sets: collectives of some ranks, in shared memory, by messages, and with ranks that spin."""
import re

import patience
import pytest
from mpi_workshop import compile_program, make_small_pieces, mpirun, pytestmark  # noqa: F401


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    library = make_small_pieces(tmp_path_factory.mktemp("small"))
    plain = compile_program("runtime/set_ranks.c", tmp_path_factory.mktemp("sets"))
    pieces = compile_program("runtime/set_ranks.c", library, library=library)
    return {"shared": (plain, 1000), "cores": (plain, 1), "messages": (pieces, 1000), "spinning": (pieces, 1)}


WAYS = ["shared", "messages", *(pytest.param(way, marks=pytest.mark.long("the same by ranks that spin")) for way in ("cores", "spinning"))]


def run(programs, way, *words, **variables):
    program, threads = programs[way]
    return mpirun(4, program, *words, threads=threads, **variables)


@pytest.mark.parametrize("way", WAYS)
def test_every_call_is_between_the_members(programs, way):
    result = run(programs, way, "check")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split() == ["fine"] * 4


def test_what_is_wrong_is_told(programs):
    result = run(programs, "shared", "wrong")
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    for sentence, times in [("twice: .*rank 0: wanted each rank once, got rank 1 twice", 4),
                            ("far: .*rank 1: wanted ranks from 0 to 3, got 4", 4),
                            ("none: .*rank 0: wanted 1 to 4 ranks, got 0", 4),
                            ("differ: .*wanted the same ranks on all ranks, got 1 on rank 0, 2 on rank 2", 4),
                            (r"no member: .*kolo_allreduce: .process_set: wanted a call by its members alone, ranks 1, 3, got one by rank [02]$", 2),
                            ("root: .*kolo_broadcast: wanted a root in the .process_set, got rank 0", 2)]:
        assert len([line for line in lines if re.search(sentence, line)]) == times, (sentence, lines)


def test_a_set_that_was_freed_is_told(programs):
    result = run(programs, "shared", "freed")
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(re.findall(r"^freed: .*kolo_barrier: .process_set: wanted a set of kolo_add_process_set\(\), got one that was freed$", result.stdout, re.M)) == 4, result.stdout


@pytest.mark.parametrize("way", WAYS)
def test_calls_that_differ_name_the_ranks_of_the_job(programs, way):
    result = run(programs, way, "differ")
    assert result.returncode == 1 and "went on" not in result.stdout
    assert len(re.findall(r"all ranks must make the same call: rank 1 called allreduce of 10 floats \(set_ranks.c:\d+\), "
                          r"rank 3 broadcast of 80 bytes from rank 1 \(set_ranks.c:\d+\)", result.stderr)) == 1, result.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("missing", [3, pytest.param(0, marks=pytest.mark.long("another rank"))])
def test_a_member_that_does_not_come_is_named(programs, way, missing):
    result = run(programs, way, str(missing))
    others = [rank for rank in (0, 1, 3) if rank != missing]
    wait = "rank [13] waits in" if missing == 0 and way in ("messages", "spinning") else "ranks %d, %d wait in" % tuple(others)
    assert result.returncode == 1
    assert re.search(rf"rank {missing} has not come for 1 s \(KOLO_STALL_LIMIT\) to process set 1 \(ranks 0, 1, 3\): {wait} allreduce of 20 floats", result.stderr), result.stderr


@pytest.mark.parametrize("way", ["shared", pytest.param("messages", marks=pytest.mark.long("the same by messages"))])
@pytest.mark.parametrize("how, there", [("orders", r"barrier \(set_ranks.c:\d+\) of process set 2 \(ranks 1, 3\)"),
                                        pytest.param("all", r"broadcast of 40 bytes from rank 0 \(set_ranks.c:\d+\)", marks=pytest.mark.long("another call"))])
def test_calls_of_different_sets_name_the_sets(programs, way, how, there):
    """Each of the two ranks waits for the other one, which nothing but the limit ends."""
    result = run(programs, way, how)
    assert result.returncode == 1 and "went on" not in result.stdout
    first = (r"rank 3 has not come for 2 s \(KOLO_STALL_LIMIT\) to process set 1 \(ranks 1, 3\): rank 1 waits in allreduce of 10 floats \(set_ranks.c:\d+\)"
             + (rf"; rank 3 waits in {there}" if way == "shared" else ""))
    second = r"rank 1 has not come for 2 s \(KOLO_STALL_LIMIT\) to process set 2 \(ranks 1, 3\): rank 3 waits in barrier"
    second += r".*; rank 1 waits in allreduce of 10 floats \(set_ranks.c:\d+\) of process set 1 \(ranks 1, 3\)" if way == "shared" else ""
    assert re.search(first, result.stderr) or re.search(second, result.stderr), result.stderr


@pytest.mark.parametrize("way", WAYS)
def test_a_set_at_work_is_waited_for(programs, way):
    result = run(programs, way, "work", stall_limit=3)
    assert result.returncode == 0, result.stderr


def test_a_program_of_one_rank_has_sets_of_one(tmp_path):
    source = tmp_path / "one.c"
    source.write_text("""#include <kolo.h>
int main(void)
{
    float value = 3;
    kolo_process_set *set = kolo_add_process_set(((const int[]){0}), 1);
    bool fine = set && kolo_process_set_rank(set) == 0 && kolo_process_set_size(NULL) == 1;
    fine = fine && kolo_allreduce(&value, 1, .process_set = set) == KOLO_OK && value == 3;
    fine = fine && kolo_barrier(.process_set = set) == KOLO_OK && kolo_join() == 0;
    kolo_process_set_free(&set);
    return fine && !set ? kolo_finish() : 1;
}
""")
    assert patience.run([compile_program(source, tmp_path)]).returncode == 0
