"""kolo_send() and kolo_receive() that wait in vain end with a sentence, and a message is received as what it was sent."""
import re

import by_hand
import pytest
from mpi_workshop import compile_program, make_small_pieces, mpirun, pytestmark  # noqa: F401

LONG = pytest.mark.long("the same with another way of communicating")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    library = make_small_pieces(tmp_path_factory.mktemp("messages"), piece=2**30)
    return {"shared": compile_program("comm/message_ranks.c", tmp_path_factory.mktemp("shared")),
            "messages": compile_program("comm/message_ranks.c", library, library=library)}


WAITS = {
    "both-send": (r"kolo_send: rank \d has waited 2 s \(KOLO_STALL_LIMIT\) for rank \d to receive a message of 16777216 bytes with tag 0",
                  r"; rank \d waits in kolo_send of 16777216 bytes to rank \d \(message_ranks\.c:\d+\)"),
    "both-receive": (r"kolo_receive: rank \d has waited 2 s \(KOLO_STALL_LIMIT\) for a message from rank \d with tag 5",
                     r"; rank \d waits in kolo_receive from rank \d \(message_ranks\.c:\d+\)"),
}


@pytest.mark.parametrize("how, way", [("both-send", "shared"), ("both-receive", "messages"),
                                      *(pytest.param(*case, marks=LONG) for case in (("both-receive", "shared"), ("both-send", "messages")))])
def test_two_that_wait_for_each_other_are_named(programs, how, way):
    result = mpirun(2, programs[way], how, threads=1000, stall_limit=2)
    waited, there = WAITS[how]
    assert result.returncode == 1 and "went on" not in result.stdout
    assert re.search(r"message_ranks\.c:\d+: " + waited + (there if way == "shared" else ""), result.stderr), result.stderr


@pytest.mark.long("a message and a collective")
def test_a_message_and_a_collective(programs):
    result = mpirun(2, programs["shared"], "crossed", threads=1000, stall_limit=2)
    assert result.returncode == 1
    assert re.search(r"rank 0 has not come for 2 s.*; rank 0 waits in kolo_receive from rank 1 \(|"
                     r"rank 0 has waited 2 s.*; rank 1 waits in barrier \(", result.stderr), result.stderr


@pytest.mark.parametrize("how, sentence", [
    ("receive-finished", "kolo_receive: rank 0 has finished (kolo_finish) without sending this message"),
    ("any-finished", "kolo_receive: every other rank has finished (kolo_finish) without sending this message"),
    ("send-finished", "kolo_send: rank 0 has finished (kolo_finish)")])
@pytest.mark.parametrize("way", ["shared", pytest.param("messages", marks=LONG)])
def test_a_rank_that_has_finished_is_known_at_once(programs, way, how, sentence):
    result = mpirun(2, programs[way], how, threads=1000, stall_limit=50)
    assert sentence in result.stderr and "status 7" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 1 and result.seconds < 20


@pytest.mark.parametrize("way", ["messages", pytest.param("shared", marks=LONG)])
def test_a_rank_at_work_is_waited_for(programs, way):
    result = mpirun(3, programs[way], "work", threads=1000, stall_limit=1.5)
    assert result.returncode == 0, result.stdout + result.stderr


TYPES = "kolo_receive: wanted a message of doubles, got one of int32_t from rank 0 with tag 7"


@pytest.mark.parametrize("way", ["shared", pytest.param("messages", marks=LONG)])
def test_a_message_is_received_as_what_it_was_sent(programs, way):
    result = mpirun(2, programs[way], "types")
    assert result.returncode == 0 and TYPES in result.stdout, result.stdout + result.stderr


def test_by_tf_config(programs):
    for _, err, code in by_hand.run([programs["shared"], "both-receive"], 2, KOLO_STALL_LIMIT="2"):
        assert code == 1 and re.search(WAITS["both-receive"][0] + "|rank . .*(has failed|is gone)", err), err
    outcomes = by_hand.run([programs["shared"], "types"], 2)
    assert [code for _, _, code in outcomes] == [0, 0] and TYPES in outcomes[1][0], outcomes
    _, (out, err, code) = by_hand.run([programs["shared"], "any-finished"], 2)
    assert code == 1 and "every other rank has finished (kolo_finish) without" in err and "status 7" in out
