"""kolorun --autotune: kolo_fit() tries sizes of buckets while it trains, keeps the fastest, and learns the same bits."""
import csv
import os
import re
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")

COLUMNS = ["tuning", "bucket_bytes", "buckets", "steps", "seconds_per_step", "chosen"]
CUTS = {"KOLO_NONE": "0", "262144": "8", "1048576": "2"}  # of the network of autotune_ranks.c; larger sizes are one sum
UPDATES = 3 + 2 * 6 * len(CUTS)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/autotune_ranks.c", tmp_path_factory.mktemp("ranks"), "-lcmocka")


class Run:
    """lines: what each rank printed, if all printed the same; said: what rank 0 said of autotuning."""

    def __init__(self, program, ranks, options, *arguments, code=0, **environment):
        environment = {"KOLO_THREADS": "1", "KOLO_CPU_DEVICES": "4"} | environment
        launcher = [BUILD / "bin/kolorun", "-np", str(ranks), *map(str, options)] if ranks else []
        result = patience.run([*launcher, program, *map(str, arguments)], env=os.environ | environment, capture_output=True, text=True,
                              timeout=100)
        assert result.returncode == code, result.stderr
        self.err = result.stderr
        self.lines = sorted({line.split(">:", 1)[-1] for line in result.stdout.splitlines()})
        self.said = [line.split("autotune: ", 1)[1] for line in result.stderr.splitlines() if "autotune: " in line]

    def learnt(self):
        """The weights' checksum, the buckets that were seen in the steps' order, and the last."""
        (line,) = self.lines
        checksum, rest = line.split(" seen ")
        seen, last = rest.split(" last ")
        return checksum, seen.split(), last


def rows_of(log):
    with open(log, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    assert reader.fieldnames == COLUMNS
    return rows


def check_choice(rows, last):
    """Each cut was measured in ten steps; the one with the least median was chosen, and is that of the last step."""
    assert {row["bucket_bytes"]: row["buckets"] for row in rows} == CUTS and {row["steps"] for row in rows} == {"10"}
    assert all(0 < float(row["seconds_per_step"]) < 100 for row in rows)
    (chosen,) = [row for row in rows if row["chosen"] == "1"]
    assert float(chosen["seconds_per_step"]) == min(float(row["seconds_per_step"]) for row in rows) and chosen["buckets"] == last
    return chosen


MORE = pytest.mark.long("the same with other numbers, or for another reason")


@pytest.mark.parametrize("ranks, devices, accumulate", [
    (2, 1, 1), *(pytest.param(*case, marks=MORE) for case in ((3, 1, 1), (2, 2, 2)))])
def test_the_fastest_size_is_kept_and_no_bit_changes(program, tmp_path, ranks, devices, accumulate):
    log, steps = tmp_path / "log.csv", (UPDATES + 3) * accumulate
    plain, before, _ = Run(program, ranks, [], "train", 1, steps, accumulate, devices).learnt()
    tuned = Run(program, ranks, ["--autotune", "--autotune-log-file", log], "train", 1, steps, accumulate, devices)
    checksum, seen, last = tuned.learnt()
    assert len(before) == 1 and before[0] == seen[0], "it begins with the default"
    assert checksum == plain and sorted(seen) == sorted(CUTS.values())
    chosen = check_choice(rows_of(log), last)
    (sentence,) = tuned.said
    assert sentence.startswith(f"chose .bucket_bytes = {chosen['bucket_bytes']} (") and len(re.findall(r"\d s\b", sentence)) == len(CUTS), tuned.err
    assert all(size in sentence for size in CUTS)


def test_rank_0s_medians_decide(program):
    """The other ranks' seconds want another size, and all ranks take rank 0's. Outliers change nothing."""
    for buckets in CUTS.values():
        run = Run(program, 2, ["--autotune"], "decide", buckets)
        assert run.lines == [buckets] and ", 1 s a step (median of 10)" in run.said[-1], run.err


@pytest.mark.long("it trains in three jobs")
def test_a_short_fit_goes_on_in_the_next(program, tmp_path):
    log = tmp_path / "log.csv"
    short = Run(program, 2, ["--autotune", "--autotune-log-file", log], "train", 1, UPDATES // 2)
    assert short.said == [f"nothing chosen yet, after {UPDATES // 2 // 2 * 2} of {UPDATES} updates; a further kolo_fit() goes on"]
    assert sum(int(row["steps"]) for row in rows_of(log)) > 0 and {row["chosen"] for row in rows_of(log)} == {"0"}
    checksum, _, last = (whole := Run(program, 2, ["--autotune", "--autotune-log-file", log], "train", 4, 12)).learnt()
    check_choice(rows_of(log), last)
    assert len(whole.said) == 2 and whole.said[1].startswith("chose ")
    assert checksum == Run(program, 2, [], "train", 4, 12).learnt()[0]


@pytest.mark.parametrize("way, why", [
    ("deterministic", "in deterministic mode gradients are summed in one piece"),
    ("chosen", "the program has chosen .bucket_bytes"),
    pytest.param("adasum", "Adasum combines gradients in one piece", marks=MORE),
    pytest.param("alone", "no other rank trains along", marks=MORE),
    pytest.param("workers", "the strategy does not sum the gradients in every step", marks=MORE),
    pytest.param("small", "the model is too small for several buckets", marks=MORE),
])
def test_nothing_to_tune_is_said_once(program, tmp_path, way, why):
    run = Run(program, 2, ["--autotune", "--autotune-log-file", tmp_path / "log.csv"], way)
    assert run.said == [f"nothing to tune: {why}"] and rows_of(tmp_path / "log.csv") == []


def test_one_rank_and_a_gpus_stream_have_nothing_to_tune(program):
    assert Run(program, 1, ["--autotune"], "plain").said == ["nothing to tune: no other rank trains along"]
    assert Run(program, 0, [], "plain", KOLO_AUTOTUNE="1").said == ["nothing to tune: no other rank trains along"]
    enqueued = Run(program, 2, ["--autotune"], "plain", KOLO_BACKEND="enqueued")
    assert enqueued.said == ["nothing to tune: on GPUs the buckets are fixed by the captured graphs"]


@pytest.mark.parametrize("options, environment", [
    (["--no-autotune"], {"KOLO_AUTOTUNE": "1"}), *(pytest.param([], environment, marks=MORE) for environment in ({}, {"KOLO_AUTOTUNE": "0"}))])
def test_nothing_is_tried_unless_it_is_wanted(program, options, environment):
    run = Run(program, 2, options, "train", 1, UPDATES + 3, **environment)
    assert run.said == [] and len(run.learnt()[1]) == 1


def test_wrong_variables_fail_before_the_first_step(program):
    assert 'KOLO_AUTOTUNE: wanted 0 or 1, got "yes"' in Run(program, 2, [], "plain", code=1, KOLO_AUTOTUNE="yes").err
    failed = Run(program, 2, ["--autotune"], "plain", code=1, KOLO_AUTOTUNE_LOG="/no/such/log.csv")
    assert "/no/such/log.csv: wanted a file that can be written" in failed.err and not failed.said
    differ = Run(program, 2, [], "differ", code=1)
    assert "wanted the same on all ranks, got KOLO_AUTOTUNE: 1 on rank 0, 0 on rank 1" in differ.err
