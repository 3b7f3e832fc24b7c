"""kolo-what-if: what it answers of recordings that training made, and what it refuses."""
import os
import re
import shutil
import statistics

import patience
import pytest
from ext.runtime.test_timeline import Trace, end
from mpi_workshop import BUILD, compile_program

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Of one rank and of two, each with one thread; of work for a device that computes later; of workers."""
    folder = tmp_path_factory.mktemp("what_if")
    program = compile_program("runtime/timeline_ranks.c", folder)
    for name, launch, words, variables in [("one", [], [], {}), ("two", [BUILD / "bin/kolorun", "-np", "2"], [], {}),
                                           ("enqueued", [], [], {"KOLO_BACKEND": "enqueued"}), ("mirrored", [], ["mirrored"], {})]:
        done = patience.run([*launch, program, *words], capture_output=True, text=True, timeout=100, cwd=folder,
                            env={**os.environ, "KOLO_CPU_DEVICES": "2", "KOLO_THREADS": "1", "KOLO_TIMELINE": f"{folder}/{name}.json", **variables})
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def ask(folder, *words):
    return patience.run([BUILD / "bin/kolo-what-if", *words], capture_output=True, text=True, timeout=60, cwd=folder)


def answers(done):
    """{devices: [step in ms, samples/s, efficiency in percent, sums, exposed, waiting]}"""
    assert done.returncode == 0 and not done.stderr, done.stderr
    rows = re.findall(r"^modelled +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) % +([\d.]+) +([\d.]+) +([\d.]+)", done.stdout, re.M)
    return {int(row[0]): [float(number) for number in row[1:]] for row in rows}


def test_a_recording_says_what_a_replay_needs(recordings):
    for name, ranks in ("one", 1), ("two", 2):
        trace = Trace(recordings / f"{name}.json")
        for rank in range(ranks):
            steps = trace.of(rank, cat="step")
            assert len(steps) == 8 and all(step["args"]["samples"] > 0 for step in steps)
            bytes_of = {}
            for event in trace.of(rank, cat="backward"):
                if "bytes" in event["args"]:
                    assert bytes_of.setdefault(event["name"], event["args"]["bytes"]) == event["args"]["bytes"]
            assert len(bytes_of) >= 3
            if ranks > 1:
                summed = [event["args"]["bytes"] for event in trace.of(rank, cat="reduce", name="sum bucket") if event["args"]["step"] == 3]
                assert sum(summed) == sum(bytes_of.values())


def recorded(trace):
    """Milliseconds of a step as kolo_what_if.h defines it: medians of what is before the backward pass's end, behind it, and
    between two steps, without the first step."""
    steps, backward = trace.of(0, cat="step"), trace.of(0, cat="backward")
    assert not trace.of(0, cat="wait") + trace.of(0, cat="reduce") + trace.of(0, cat="collective")
    turns = [max(end(event) for event in backward if step["ts"] <= event["ts"] < end(step)) for step in steps]
    samples = steps[1:][(len(steps) - 1) // 2]["args"]["samples"]
    alike = [(step, turn) for step, turn in zip(steps[1:], turns[1:]) if step["args"]["samples"] == samples]
    gaps = [after["ts"] - end(before) for before, after in zip(steps[1:], steps[2:]) if after["args"]["step"] == before["args"]["step"] + 1]
    return sum(statistics.median(times) for times in ([turn - step["ts"] for step, turn in alike], [end(step) - turn for step, turn in alike], gaps)) / 1e3


def test_one_device_is_the_recording(recordings):
    done = ask(recordings, "one.json", "memory=1", "devices=1,2,4", "pace=same", "cores=2")
    rows = answers(done)
    assert sorted(rows) == [1, 2, 4] and rows[1][0] == pytest.approx(recorded(Trace(recordings / "one.json")), abs=0.002)
    assert rows[1][2] == 100 and rows[1][3] == rows[1][5] == 0
    assert rows[4][0] == pytest.approx(2 * rows[1][0] + rows[4][3], abs=0.003)
    assert "the memory of a host at 1 GB/s, given" in done.stdout


def test_a_machine_and_two_ranks(recordings):
    rows = answers(ask(recordings, "one.json", "machine=pcie-8", "network=ethernet-1", "devices=1,8,64", "compression=fp16"))
    assert sorted(rows) == [1, 8, 64] and 0 < rows[8][3] < rows[64][3]
    assert "as recorded" in ask(recordings, "two.json").stdout or "measured on this one" in ask(recordings, "two.json").stdout


@pytest.mark.parametrize("words, code, said", [
    (["nope.json"], 1, "kolo_what_if: nope.json: wanted a file to read, got: No such file or directory"),
    (["enqueued.json"], 1, "enqueued.json: wanted a timeline with backward events (a GPU computes later than a timeline shows)"),
    (["mirrored.json"], 1, "mirrored.json: wanted a timeline of one device a rank, got 2 devices of rank 0"),
    (["one.json", "other=two.json"], 1, ".other_trace: wanted 1 ranks of 1 threads, got 2 of 1"),
    (["one.json", "machine=dgx-9"], 1, "kolo_link_model_open: machine: wanted dgx-1v"),
    (["one.json", "devices=0"], 1, ".devices: wanted at least 1, got 0"),
    (["one.json", "devices=2,,3"], 2, "kolo-what-if: devices=: wanted 1,2,4,8: so many devices, got \"2,,3\""),
    (["one.json", "batch=x"], 2, "kolo-what-if: batch=: wanted N: samples a device in a step, got \"x\""),
    (["one.json", "memory=-1"], 2, "kolo-what-if: memory=: wanted GB/s"),
    (["one.json", "algorithm=fast"], 2, "kolo-what-if: algorithm=: wanted fastest|ring"),
    (["one.json", "two.json"], 2, "kolo-what-if: wanted devices=, machine="),
    (["one.json", "file=chart.gif"], 1, ".file: wanted one that ends in .svg or .png, got \"chart.gif\""),
    ([], 2, "Usage: kolo-what-if TRACE [OPTION=VALUE …]")])
def test_wrong_words_are_one_sentence(recordings, words, code, said):
    done = ask(recordings, *words)
    assert done.returncode == code and said in done.stderr and not done.stdout, done.stderr
    assert done.stderr.count("\n") == 1 or not words


def test_help_names_each_option():
    done = ask("/", "--help")
    assert done.returncode == 0 and all(f"\n  {name} " in done.stdout for name in ("devices", "machine", "link", "noise_scale"))
