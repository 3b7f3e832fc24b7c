"""zmq_*.c: ranks that no launcher started find each other by TF_CONFIG, do what any comm must do, and notice who is missing."""
import signal
import time

import by_hand
import pytest
from mpi_workshop import compile_program


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("comm/mpi_ranks.c", tmp_path_factory.mktemp("ranks"))


def assert_all_pass(outcomes):
    assert [code for _, _, code in outcomes] == [0] * len(outcomes), outcomes


@pytest.mark.parametrize("ranks, mode", [(2, "check"), (4, "check"), (3, "nested"), (4, "again")])
def test_every_operation(program, ranks, mode):
    assert_all_pass(by_hand.run([program, mode], ranks))


KEY, OTHER_KEY = "5a" * 32, "a5" * 32


def test_encrypted_ranks(program):
    assert_all_pass(by_hand.run([program, "check"], 3, KOLO_CLUSTER_KEY=KEY))


@pytest.mark.parametrize("other", [OTHER_KEY, ""], ids=["another", "none"])
def test_a_process_without_the_key_stays_out(program, other):
    cluster = {"worker": by_hand.free_addresses(2)}
    limits = ("2", "2") if other else ("6", "60")  # without a key rank 1 fails as soon as rank 0 refuses it
    processes = [by_hand.start([program, "check"], cluster, "worker", i, KOLO_STALL_LIMIT=limits[i], KOLO_CLUSTER_KEY=key)
                 for i, key in enumerate((KEY, other))]
    outcomes = by_hand.finish(processes)
    assert [code for _, _, code in outcomes] == [1, 1]
    assert all("all ranks need the same KOLO_CLUSTER_KEY" in err for _, err, _ in outcomes[:1 if other else 2]), outcomes
    assert f"waits for rank 1 ({cluster['worker'][1]}); all ranks need the same KOLO_CLUSTER_KEY" in outcomes[0][1]


def test_a_malformed_key(program):
    [(_, err, code)] = by_hand.finish([by_hand.start([program, "check"], {"worker": by_hand.free_addresses(2)}, "worker", 0,
                                                     KOLO_CLUSTER_KEY="secret")])
    assert code != 0 and "KOLO_CLUSTER_KEY: wanted 64 hexadecimal digits (openssl rand -hex 32), got 6 characters" in err


def test_process_sets_and_join_are_refused(program):
    outcomes = by_hand.run([program, "refused"], 2)
    for _, err, code in outcomes:
        for call in "kolo_add_process_set", "kolo_join":
            assert any(call in line and "got ranks that TF_CONFIG names" in line for line in err.splitlines()), err
        assert code == 0  # the calls after them were as usual


def test_in_any_order_of_their_start(program):
    """The highest rank comes first, and waits."""
    cluster = {"chief": by_hand.free_addresses(1), "worker": by_hand.free_addresses(2)}
    processes = []
    for kind, index in ("worker", 1), ("worker", 0), ("chief", 0):
        processes.append(by_hand.start([program, "nested"], cluster, kind, index))
        time.sleep(0.3)
    assert_all_pass(by_hand.finish(processes))


@pytest.mark.parametrize("how, code, sentence", [("finish", 1, "rank 3 ({}) has failed or has not come, which ends the job"), ("exit", 3, "rank 3 ({})")])
def test_a_rank_that_fails_ends_the_job(program, how, code, sentence):
    """Each of the others names the first that failed, not one that failed because of it."""
    cluster = {"worker": by_hand.free_addresses(4)}
    processes = [by_hand.start([program, "fail", how], cluster, "worker", i) for i in range(4)]
    outcomes = by_hand.finish(processes)
    assert [result for _, _, result in outcomes] == [1, 1, 1, code]
    for _, err, _ in outcomes[:3]:
        assert f"kolo_barrier: {sentence.format(cluster['worker'][3])}" in err


def test_a_rank_that_never_comes_is_named(program):
    cluster = {"worker": by_hand.free_addresses(3)}
    processes = [by_hand.start([program, "check"], cluster, "worker", i, KOLO_STALL_LIMIT="1") for i in (0, 2)]
    outcomes = by_hand.finish(processes)
    assert all(code == 1 and f"rank 1 ({cluster['worker'][1]})" in err for _, err, code in outcomes), outcomes
    assert any("after 1 s (KOLO_STALL_LIMIT)" in err for _, err, _ in outcomes)


def test_a_host_without_an_address_is_named(program):
    cluster = {"worker": ["nosuchhost.invalid:2222", *by_hand.free_addresses(1)]}
    [(_, err, code)] = by_hand.finish([by_hand.start([program, "check"], cluster, "worker", 1, KOLO_STALL_LIMIT="1")])
    assert code == 1 and "waits for rank 0 (nosuchhost.invalid:2222); no address is known for the host of nosuchhost.invalid:2222" in err


def test_a_rank_that_stands_still_is_named(program):
    """Stopped, not dead: its connection stays."""
    cluster = {"worker": by_hand.free_addresses(2)}
    processes = [by_hand.start([program, "fail", "stop"], cluster, "worker", i, KOLO_STALL_LIMIT="1") for i in range(2)]
    [(_, err, code)] = by_hand.finish(processes[:1])
    processes[1].send_signal(signal.SIGKILL)
    by_hand.finish(processes[1:])
    assert code == 1 and "rank 1 has not come for 1 s (KOLO_STALL_LIMIT)" in err


def test_two_processes_with_one_task(program):
    """On one host the second cannot listen. The job of the first goes on."""
    cluster = {"worker": by_hand.free_addresses(2)}
    first = by_hand.start([program, "nested"], cluster, "worker", 0)
    time.sleep(0.3)
    [(_, err, code)] = by_hand.finish([by_hand.start([program, "nested"], cluster, "worker", 0)])
    assert code == 1 and f"rank 0 cannot listen at {cluster['worker'][0]}: Address already in use" in err
    assert_all_pass(by_hand.finish([first, by_hand.start([program, "nested"], cluster, "worker", 1)]))


def test_a_process_of_another_job_is_refused(program):
    addresses = by_hand.free_addresses(4)
    first = by_hand.start([program, "nested"], {"worker": addresses[:2]}, "worker", 0)
    stranger = by_hand.start([program, "nested"], {"worker": [addresses[0], *addresses[2:]]}, "worker", 1)
    [(_, err, code)] = by_hand.finish([stranger])
    assert code == 1 and f"rank 0 ({addresses[0]}) refuses this process, rank 1: its TF_CONFIG has another cluster" in err
    assert_all_pass(by_hand.finish([first, by_hand.start([program, "nested"], {"worker": addresses[:2]}, "worker", 1)]))


def test_a_wrong_one_is_wrong_use(program):
    [(out, err, code)] = by_hand.finish([by_hand.start([program, "check"], {"worker": ["one:1"]}, "worker", 1)])
    assert (out, code) == ("", 2)
    assert "kolo_init: TF_CONFIG: \"index\" of \"task\": wanted less than 1" in err and len(err.splitlines()) == 1


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asynchronous")
    return compile_program("comm/asynchronous_ranks.c", folder)


@pytest.mark.parametrize("mode", ["everything", "message", "forgotten", "many"])
def test_asynchronous_calls(asynchronous, mode):
    """A thread has collectives and another one messages at the same time."""
    assert_all_pass(by_hand.run([asynchronous, mode], 2))
