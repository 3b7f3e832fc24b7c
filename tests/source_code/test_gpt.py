"""The introduction's GPT as a learner runs it: on a small text of one's own, and on one that is not there."""
import json
import os
import re
import subprocess
from pathlib import Path

GPT = Path(os.environ["KOLO_BUILD"]) / "bin" / "gpt"


def run(*arguments):
    return subprocess.run([GPT, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def test_learns_a_small_text_and_prints_units(tmp_path):
    text, history = tmp_path / "text.txt", tmp_path / "history.json"
    text.write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 8)
    made = run("--data", text, "--batch-size", 4, "--epochs", 3, "--seed", 1, "--no-validation", "--history", history)
    assert made.returncode == 0, made.stderr
    assert float(re.search(r"^units/s: ([0-9.]+)$", made.stdout, re.M)[1]) > 0
    losses = [epoch["loss"] for epoch in json.loads(history.read_text())["epochs"]]
    assert len(losses) == 3 and losses[2] < losses[0] / 2


def test_a_text_that_is_not_there_is_one_sentence(tmp_path):
    made = run("--data", tmp_path / "none.txt")
    assert made.returncode == 1
    assert "none.txt: wanted a file to read" in made.stderr and made.stderr.count("\n") == 1
