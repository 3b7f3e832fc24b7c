"""Learners' programs become the ranks of one job, by one command of the instructor's and one of each learner's."""
import contextlib
import json
import os
import re
import signal
import subprocess

import patience
import pytest

from dockerfiles.board_test import BOARD, Board, ask, board, learner, refused, state
from ext.launch.other_host import HERE, other_host
from workshop import BUILD, ROOT, run

__all__ = ["board", "learner"]
TRAINING = ["cnn_mnist", "--strategy", "multi_worker_mirrored", "--data", "synthetic", "--epochs", "1", "--steps-per-epoch", "4",
            "--batch-size", "32", "--no-validation", "--seed", "3"]


def opened(board, size, *program):
    done = run([BOARD, "open", board.instructor, str(size), *program])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def member(learner, board, tmp_path):
    """Starts a learner's `kolo-board ring`."""
    started = []

    def start(name, *program, joins=True, options=(), before=(), **variables):
        if joins:
            assert learner(name, "join", board.learner, name).returncode == 0
        environment = {"PATH": f"{BUILD}/bin:/usr/bin:/bin:/usr/sbin:/sbin", "KOLO_BOARD_FILE": str(tmp_path / name / "board.json"), "HOME": str(tmp_path),
                       "KOLO_CPU_DEVICES": "2", "KOLO_THREADS": "1", **variables}
        started.append(subprocess.Popen([*before, BOARD, *options, "ring", *map(str, program)], env=environment, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    out, err = patience.communicate(process, 120)
    return process.returncode, out, err


def there(board):
    return json.loads(ask(board.instructor + "/state"))["ring"]["there"]


def test_all_get_one_list_and_each_a_rank(board, learner, member, tmp_path):
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\necho "config=$TF_CONFIG key=$KOLO_CLUSTER_KEY words=$*"\n')
    show.chmod(0o755)
    assert f"!kolo-board ring {show} --epochs 2\n" in opened(board, 3, show, "--epochs", "2")
    processes = [member(name, show, "--epochs", "2") for name in ("ada", "alan", "grace")]
    outcomes = [ended(process) for process in processes]
    assert [code for code, _, _ in outcomes] == [0, 0, 0], outcomes
    configs = [json.loads(re.search("config=(.*) key", out)[1]) for _, out, _ in outcomes]
    assert sorted(config["task"]["index"] for config in configs) == [0, 1, 2]
    addresses = configs[0]["cluster"]["worker"]
    assert all(config["cluster"]["worker"] == addresses for config in configs)
    assert len(set(addresses)) == 3 and all(re.fullmatch(r"127\.0\.0\.1:\d+", address) for address in addresses)
    keys = {re.search("key=([0-9a-f]{64}) words=--epochs 2", out)[1] for _, out, _ in outcomes}
    assert len(keys) == 1 and keys.pop() not in (tmp_path / "class.json").read_text()
    for (_, out, _), config in zip(outcomes, configs):
        rank = config["task"]["index"]
        assert re.search(rf"ring: all 3 are there. This is rank {rank}" + (r"; rank 0 \(\w+\) shows the training\.\n" if rank else r"\.\n"), out)
    assert f"!kolo-board ring {show} --epochs 2\n" in learner("ada", "news").stdout


@pytest.mark.parametrize("slow", [[], ["--slow", "3"]], ids=["equal", "one is slow"])
def test_learners_train_one_network(board, member, tmp_path, slow):
    opened(board, 2, *TRAINING, "--history", tmp_path / "history.json")
    words = [*TRAINING, "--history", tmp_path / "history.json"]
    outcomes = [ended(process) for process in [member("ada", *words), member("grace", *words, options=slow)]]
    assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    assert json.loads((tmp_path / "history.json").read_text())["ranks"] == 2
    assert "slow" not in outcomes[0][2] and ("slow" in outcomes[1][2]) == bool(slow), outcomes


@pytest.fixture
def host(tmp_path):
    with contextlib.contextmanager(other_host)(tmp_path) as (name, _, _):
        yield name


def test_learners_of_two_machines_train_one_network(host, learner, member, tmp_path):
    """One reaches the board over the loopback interface, where the other cannot find it."""
    open_to_all = Board(tmp_path / "open.json", 0, "--address", "0.0.0.0", "--host", "127.0.0.1")
    try:
        opened(open_to_all, 2, *TRAINING)
        assert learner("ada", "join", open_to_all.learner, "ada").returncode == 0
        ada = member("ada", *TRAINING, joins=False)
        assert ada.stdout.readline() == "ring: 1 of 2 are there: ada\n"
        there = ["ip", "netns", "exec", host]
        joined = run([*there, BOARD, "join", open_to_all.learner.replace("127.0.0.1", HERE), "grace"],
                     env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "KOLO_BOARD_FILE": str(tmp_path / "grace/board.json")})
        assert joined.returncode == 0, joined.stderr
        outcomes = [ended(process) for process in (ada, member("grace", *TRAINING, joins=False, before=there))]
        assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    finally:
        open_to_all.end()


def test_who_interrupts_leaves_and_others_go_on(board, member):
    opened(board, 2, "true")
    ada = member("ada", "true")
    assert "ada" in ada.stdout.readline() and there(board) == ["ada"]
    ada.send_signal(signal.SIGINT)
    code, _, err = ended(ada)
    assert code == 130 and err == "kolo-board: you have left the ring\n"
    assert there(board) == []
    outcomes = [ended(process) for process in [member("alan", "true"), member("grace", "true")]]
    assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    assert json.loads(ask(board.instructor + "/state"))["ring"]["started"] == 1


def test_checks_do_not_wait_for_a_learner_in_the_ring(board, learner, member):
    opened(board, 2, "true")
    assert "ada" in member("ada", "true").stdout.readline()
    learner("ada", "send", "3.a", "passed")
    assert state(board)["ada"]["items"]["3.a"]["passed"]


def test_a_board_that_goes_ends_the_wait(board, member):
    opened(board, 2, "true")
    ada = member("ada", "true")
    assert "ada" in ada.stdout.readline()
    # A board that was started again has no ring open, and says so.
    port = board.port
    board.end()
    again = Board(board.file, port)
    try:
        code, _, err = ended(ada)
        assert code == 1 and err == "kolo-board: the board has no place in a ring: status 409: no ring is open: wait until the instructor opens one\n"
    finally:
        again.end()


@pytest.mark.parametrize("words, joins, code, sentence", [
    (["false"], True, 1, "the board has no place in a ring: status 409: all learners of the ring run the same: !kolo-board ring true --now"),
    (["true", "--now"], False, 1, "you are not on the board: run the line with 'kolo-board join' first"),
    (["nosuchprogram"], True, 2, "there is no program 'nosuchprogram' here"),
    (["--slow=0", "ring", "true"], True, 2, "--slow is a number from 1 to 1000, got '0'"),
    ([], True, 2, "wanted ring PROGRAM...: `kolo-board --help` lists the commands"),
])  # fmt: skip
def test_wrong_use_of_a_learner(board, member, words, joins, code, sentence):
    opened(board, 2, "true", "--now")
    options = words[:1] if words[:1] == ["--slow=0"] else []
    assert ended(member("ada", *words[2 * len(options):], joins=joins, options=options)) == (code, "", f"kolo-board: {sentence}\n")


@pytest.mark.parametrize("words, code, sentence", [
    (["2"], 2, "wanted open URL SIZE PROGRAM..."),
    (["one", "true"], 2, "a ring has 2 to 64 learners, got 'one'"),
    (["2", "true; false"], 1, "the ring was not opened: status 400: a ring's command has only letters, digits, spaces and"),
])  # fmt: skip
def test_wrong_use_of_the_instructor(board, words, code, sentence):
    done = run([BOARD, "open", board.instructor, *words])
    assert done.returncode == code and done.stderr.startswith(f"kolo-board: {sentence}") and done.stderr.count("\n") == 1
    assert refused(board.learner + "/ring", b"{}")[0] == 409


def test_the_class_script_opens_a_ring(board, member, tmp_path):
    environment = {**os.environ, "BOARD": board.file, "BOARD_PORT": str(board.port)}
    done = run([ROOT / "dockerfiles/kolo-class", "ring", "2", "true", "--epochs", "2"], env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "A ring of 2 is open. Learners run in a cell:\n!kolo-board ring true --epochs 2\n"
    outcomes = [ended(process) for process in [member(name, "true", "--epochs", "2") for name in ("ada", "grace")]]
    assert [code for code, _, _ in outcomes] == [0, 0], outcomes


def test_who_comes_later_hears_of_the_last_ring_alone(board, learner):
    opened(board, 2, "true", "--epochs", "1")
    assert run([BOARD, "push", board.instructor, "Look here."]).returncode == 0
    opened(board, 3, "true", "--epochs", "2")
    learner("ada", "join", board.learner, "ada")
    heard = learner("ada", "news").stdout
    assert heard.count("!kolo-board ring") == 1 and "--epochs 2" in heard and "Look here." in heard
    learner("ada", "join", board.learner, "ada")
    assert learner("ada", "news").stdout == ""
    opened(board, 2, "true", "--epochs", "3")
    heard = learner("ada", "news").stdout
    assert heard.count("!kolo-board ring") == 1 and "--epochs 3" in heard
