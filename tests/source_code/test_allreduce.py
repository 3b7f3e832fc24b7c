"""Lesson 2.2's program: every algorithm gives the sum, figures that can be, one sentence for wrong use."""
import json

import pytest
from source_code.cnn import BUILD, run

PROGRAM = BUILD / "bin/allreduce"
BETWEEN_RANKS, BETWEEN_THREADS = ["library", "ring", "tree", "gather"], ["shared", "ring", "tree", "gather"]
QUICK = ["--max-bytes", 65540, "--factor", 256, "--seconds", 0.001]  # 4, 1024 and 262144 bytes, without the last


def check_json(path, members, algorithms, sizes):
    done = json.loads(path.read_text())
    assert done["ranks"] * done["devices"] == members
    assert [(r["bytes"], r["algorithm"]) for r in done["results"]] == [(b, a) for b in sizes for a in algorithms]
    for r in done["results"]:
        bus = r["bytes"] / r["seconds"] * 2 * (members - 1) / members / 1e9  # nccl-tests' definition
        assert r["bus_bandwidth"] == pytest.approx(bus, rel=1e-4) and r["seconds"] > 0


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks(tmp_path, ranks):
    done = run(*QUICK, "--json", tmp_path / "a.json", ranks=ranks, program=PROGRAM)
    assert done.code == 0 and done.err == "", done.err
    check_json(tmp_path / "a.json", ranks, BETWEEN_RANKS, [4, 1024])
    assert done.out.count("\n") == 1 + 2 * len(BETWEEN_RANKS)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.json"], "a file is left over"


@pytest.mark.parametrize("devices", [2, 5])
def test_threads(tmp_path, devices):
    done = run(*QUICK, "--devices", devices, "--json", tmp_path / "a.json", program=PROGRAM, env={"KOLO_DEVICES": "cpu"})
    assert done.code == 0 and done.err == "", done.err
    check_json(tmp_path / "a.json", devices, BETWEEN_THREADS, [4, 1024])


def test_one_algorithm_and_one_size():
    done = run("--algorithm", "ring", "--min-bytes", 4800, "--max-bytes", 4800, "--seconds", 0.001, ranks=2, program=PROGRAM)
    rows = [line.split("<stdout>:")[-1].split() for line in done.out.splitlines()]
    assert done.code == 0 and len(rows) == 2 and rows[1][:2] == ["ring", "4800"], done.out + done.err


def test_help_has_what_it_understands():
    done = run("--help", program=PROGRAM)
    assert done.code == 0 and "--min-bytes=N" in done.out and "library|shared|ring|tree|gather" in done.out


@pytest.mark.parametrize("options, words", [
    (["--devices", "99"], ["--devices", "1 to 8", '"99"']),
    (["--devices", "1"], ["at least two members", "got one"]),
    (["--min-bytes", "6"], ["whole floats", "--min-bytes 6"]),
    (["--min-bytes", "8", "--max-bytes", "4"], ["--min-bytes 8 and --max-bytes 4"]),
    (["--factor", "1"], ["--factor", "at least 2"]),
    (["--seconds", "0"], ["--seconds", "above 0"]),
    (["--algorithm", "star"], ["--algorithm", "ring", "star"]),
    (["--devices", "2", "--algorithm", "library"], ["between ranks", "--devices"]),
    (["--epochs", "3"], ["--epochs", "--help"]),
    (["4096"], ["options only"]),
], ids=str)
def test_wrong_use_is_one_sentence(options, words):
    done = run(*options, program=PROGRAM, env={"KOLO_DEVICES": "cpu"})
    assert done.code == 2 and done.out == "" and len(done.err.splitlines()) == 1
    assert all(word in done.err for word in words), done.err


def test_ranks_have_no_threads_and_no_file_where_none_can_be(tmp_path):
    done = run("--devices", 2, ranks=2, program=PROGRAM)
    assert done.code == 2 and "--devices in a program of one rank" in done.err
    done = run("--devices", 2, "--json", tmp_path / "none/a.json", program=PROGRAM, env={"KOLO_DEVICES": "cpu"})
    assert done.code == 1 and len(done.err.splitlines()) == 1 and "can be written" in done.err
