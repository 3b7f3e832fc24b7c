"""The class's board: what learners send, what the instructor sees, and that nobody waits for a board that is gone."""
import csv
import io
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import patience
import pytest

from workshop import ROOT, run

BOARD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")) / "bin/kolo-board"


class Board:
    """A running board, with its two URLs."""

    def __init__(self, file, port=0, *options):
        self.file = str(file)
        self.process = subprocess.Popen([BOARD, "serve", "--file", file, "--port", str(port), *options], stdout=subprocess.PIPE, text=True)
        self.instructor, self.learner = (re.search(r"http://\S+", self.process.stdout.readline())[0] for _ in range(2))

    @property
    def port(self):
        return int(re.search(r":(\d+)/", self.learner)[1])

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = patience.wait(self.process, 20)
        self.process.stdout.close()
        return code


@pytest.fixture
def board(tmp_path):
    one = Board(tmp_path / "class.json")
    yield one
    if one.process.returncode is None:
        one.end()


@pytest.fixture
def learner(tmp_path):
    def act(name, *words):
        return run([BOARD, *words], env={"PATH": "/usr/bin:/bin", "KOLO_BOARD_FILE": str(tmp_path / name / "board.json")})

    return act


def ask(url, body=None):
    with urllib.request.urlopen(urllib.request.Request(url, data=body)) as answer:
        return answer.read().decode()


def refused(url, body=None):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(url, body)
    return error.value.code, error.value.read().decode()


def state(board):
    return json.loads(ask(board.instructor + "/state"))["learners"]


def test_what_the_instructor_sees(board, learner):
    for name in ("ada", "grace"):
        done = learner(name, "join", board.learner, name)
        assert done.returncode == 0 and f"shows '{name}'" in done.stdout, done.stderr
    learner("ada", "send", "3.a", "tried")
    learner("ada", "send", "3.a", "passed")
    learner("grace", "send", "3.a", "hint", "2")
    assert learner("grace", "wait").stdout.startswith("The board shows that you wait for help.")
    seen = state(board)
    assert seen["ada"]["items"]["3.a"] | {"when": 0} == {"tries": 2, "hints": 0, "passed": True, "when": 0}
    assert seen["grace"]["items"]["3.a"]["hints"] == 2 and seen["grace"]["waiting"] and not seen["ada"]["waiting"]
    assert learner("grace", "helped").stdout == "The board no longer shows that you wait.\n"
    assert not state(board)["grace"]["waiting"]


def test_nobody_is_on_the_board_who_has_not_joined(board, learner):
    assert (learner("ada", "send", "3.a", "passed").returncode, state(board)) == (0, {})
    learner("ada", "join", board.learner, "ada")
    assert "Nothing is sent" in learner("ada", "leave").stdout
    learner("ada", "send", "3.a", "passed")
    assert state(board) == {}


@pytest.mark.parametrize("word", ["wait", "helped", "news"])
def test_who_asks_for_help_hears_whether_the_board_knows(board, learner, word):
    done = learner("ada", word)
    assert (done.returncode, done.stderr) == (1, "kolo-board: you are not on the board: run the line with 'kolo-board join' first\n")
    learner("ada", "join", board.learner, "ada")
    board.end()
    done = learner("ada", word)
    assert (done.returncode, done.stdout) == (1, "") and "the board does not answer now" in done.stderr


def test_urls_name_the_host(tmp_path):
    one = Board(tmp_path / "class.json", 0, "--host", "lab.example.org")
    one.end()
    assert one.instructor.startswith("http://lab.example.org:") and one.learner.startswith("http://lab.example.org:")


def test_a_message_reaches_each_learner_once(board, learner):
    for name in ("ada", "grace"):
        learner(name, "join", board.learner, name)
    assert run([BOARD, "push", board.instructor, "Look at the ring's order.\nint next = (rank + 1) % size;"]).returncode == 0
    said = "From the instructor:\nLook at the ring's order.\nint next = (rank + 1) % size;\n"
    assert learner("ada", "send", "2.2.a", "tried").stdout == said
    assert learner("ada", "send", "2.2.a", "tried").stdout == ""
    assert learner("grace", "news").stdout == said


def test_results_are_csv_that_no_spreadsheet_runs(board, learner):
    learner("ada", "join", board.learner, '=HYPERLINK("x")')
    learner("ada", "send", "3.a", "passed")
    text = run([BOARD, "results", board.instructor]).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["learner"], row["exercise"], row["passed"], row["tries"]) for row in rows] == [("'=HYPERLINK(\"x\")", "3.a", "1", "1")]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", rows[0]["when"])


def test_results_of_a_board_that_has_ended(board, learner):
    learner("ada", "join", board.learner, "ada")
    learner("ada", "send", "3.a", "passed")
    running = run([BOARD, "results", board.instructor]).stdout
    assert running.count("\n") == 2
    board.end()
    environment = {**os.environ, "BOARD": board.file}
    assert run([ROOT / "dockerfiles/kolo-class", "results"], env=environment).stdout == running
    done = run([BOARD, "results", board.file + "x"])
    assert (done.returncode, done.stdout) == (1, "") and "cannot be read: No such file" in done.stderr


def test_a_board_that_is_gone_delays_nobody_and_loses_nothing(board, learner, tmp_path):
    learner("ada", "join", board.learner, "ada")
    port = board.port
    assert board.end() == 0
    for exercise in ("1.a", "1.b"):
        done = learner("ada", "send", exercise, "passed")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    noted = json.loads((tmp_path / "ada/board.json").read_text())
    assert len(noted["unsent"]) == 2 and noted["again"] > 0
    again = Board(tmp_path / "class.json", port)
    assert again.learner == board.learner, "the same class goes on"
    learner("ada", "news")
    assert set(state(again)["ada"]["items"]) == {"1.a", "1.b"}
    again.end()


def test_what_could_not_be_written_counts_once(board, learner, tmp_path):
    """As on a full disk: the board refuses, the learner keeps the event and sends it again."""
    learner("ada", "join", board.learner, "ada")
    (tmp_path / "class.json.part").mkdir()
    learner("ada", "send", "1.a", "tried")
    assert refused(board.instructor + "/messages", b'{"text": "hello"}')[0] == 500
    assert len(json.loads((tmp_path / "ada/board.json").read_text())["unsent"]) == 1
    (tmp_path / "class.json.part").rmdir()
    assert "hello" not in learner("ada", "news").stdout
    assert state(board)["ada"]["items"]["1.a"]["tries"] == 1


def test_a_clock_that_was_wrong_does_not_silence_a_learner(board, learner, tmp_path):
    learner("ada", "join", board.learner, "ada")
    file = tmp_path / "ada/board.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"again": int(time.time()) + 10**6}))
    learner("ada", "send", "1.a", "passed")
    assert set(state(board)["ada"]["items"]) == {"1.a"}


def test_keys_are_the_class_owners_only(board, tmp_path):
    assert (tmp_path / "class.json").stat().st_mode & 0o077 == 0
    base = f"http://127.0.0.1:{board.port}"
    for path in ("/", "/state", "/0/state", board.instructor[-32:-1], "/" + board.instructor[-32:-1] + "0/state"):
        assert refused(base + ("" if path.startswith("/") else "/") + path)[0] == 403
    assert refused(board.learner + "/state")[0] == 404
    assert refused(board.learner + "/messages", b'{"text": "x"}')[0] == 404
    assert refused(board.instructor + "/events", b"[]")[0] == 404


@pytest.mark.parametrize("body, code, sentence", [
    (b"", 400, "wanted JSON"),
    (b"{", 400, "wanted JSON"),
    (b"{}", 400, "wanted a list of events"),
    (b'[{"learner": 3}]', 400, "wanted learner, exercise and event as strings"),
    (b'[{"learner": "", "exercise": "1.a", "event": "passed"}]', 400, "a learner's name has 1 to 40 bytes"),
    (b'[{"learner": "a\\u0007", "exercise": "1.a", "event": "passed"}]', 400, "a learner's name"),
    (b'[{"learner": "a", "exercise": "", "event": "passed"}]', 400, "an exercise's name"),
    (b'[{"learner": "a", "exercise": "1.a", "event": "won"}]', 400, "an event is tried, passed, hint, waiting or served"),
    (b'[{"learner": "a", "exercise": "1.a", "event": "hint", "number": 1000}]', 400, "a hint's number is from 0 to 100"),
    (b"[" + b" " * 70000 + b"]", 413, "a request has at most 64 KB"),
])  # fmt: skip
def test_malformed_events(board, body, code, sentence):
    assert (refused(board.learner + "/events", body)[0]) == code
    assert sentence in refused(board.learner + "/events", body)[1]
    assert state(board) == {}


@pytest.mark.parametrize("words, sentence", [
    ([], "wanted a command, got ''"),
    (["watch"], "wanted a command, got 'watch'"),
    (["push", "http://127.0.0.1:1/x"], "wanted push URL TEXT"),
    (["serve", "--port", "70000"], "--port is a number from 0 to 65535, got '70000'"),
    (["serve", "--address", "here"], "--address is an IPv4 address of this machine, got 'here'"),
    (["send", "1.a", "hint", "two"], "a hint's number is from 0 to 100, got 'two'"),
    (["join", "http://127.0.0.1:1/x", ""], "a learner's name has 1 to 40 bytes"),
])  # fmt: skip
def test_wrong_use(words, sentence, tmp_path):
    done = run([BOARD, *words], cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(f"kolo-board: {sentence}") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_joining_what_is_no_board(learner, tmp_path):
    done = learner("ada", "join", "http://127.0.0.1:1/key", "ada")
    assert done.returncode == 1 and "the board does not take learners at this URL" in done.stderr
    assert not (tmp_path / "ada/board.json").exists()


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "other.json").write_text('{"mine": 1}')
    done = run([BOARD, "serve", "--file", tmp_path / "other.json", "--port", "0"])
    assert done.returncode == 1 and "wanted a class's JSON" in done.stderr
    assert (tmp_path / "other.json").read_text() == '{"mine": 1}'
