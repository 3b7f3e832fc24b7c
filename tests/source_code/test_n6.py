"""The program of lesson 6, small: what it says to wrong use, that it learns, standardises, and scores what it learnt."""
import json
import random
import re

import pytest
from source_code.cnn import BUILD, run, train
from source_code.test_wrong_use import refused

HIGGS = BUILD / "bin/higgs"
SCORES = re.compile(r"^F1 \(weighted\): (0\.\d{4}), accuracy: (0\.\d{4}), trained in [\d.]+ s$", re.M)


def write_table(folder, rows=400, stretch=1.0, shift=0.0):
    """UCI's form: the label, then 28 features, of which the first two tell the class."""
    rng = random.Random(5)
    lines = []
    for _ in range(rows):
        label = rng.random() < 0.3
        features = [rng.gauss(2 * label if i < 2 else 0, 1) for i in range(28)]
        lines.append(",".join([str(int(label))] + [f"{x * stretch + shift:.6e}" for x in features]))
    folder.mkdir()
    (folder / "HIGGS.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("higgs") / "table")


def test_help():
    result = run("--help", program=HIGGS)
    assert result.code == 0 and result.err == "" and "--data=" in result.out


@pytest.mark.parametrize("options, words", [
    (["--epochs"], ["--epochs", "a value"]),
    (["--batch-size", "0"], ["--batch-size"]),
], ids=str)  # fmt: skip
def test_wrong_options(table, options, words):
    refused(run("--data", table, *options, program=HIGGS), 2, *words)


def test_data_that_is_not_there_or_no_table(tmp_path):
    refused(run("--data", "/nowhere", program=HIGGS), 1, "/nowhere")
    (tmp_path / "HIGGS.csv").write_text("1,2,3\n")
    refused(run("--data", tmp_path, program=HIGGS), 1, "HIGGS.csv")


def test_learns_and_tells_the_weighted_f1(tmp_path, table):
    """The printed F1 is the last epoch's on the test rows; a constant answer would have 0.58 of 0.7."""
    history = tmp_path / "history.json"
    result = run("--data", table, "--epochs", 8, "--seed", 1, "--history", history, program=HIGGS)
    assert result.code == 0, result.err
    f1, accuracy = map(float, SCORES.search(result.out).groups())
    last = json.loads(history.read_text())["epochs"][-1]
    assert f1 == pytest.approx(last["val_f1_score_weighted"], abs=5e-5)
    assert accuracy == pytest.approx(last["val_accuracy"], abs=5e-5)
    assert f1 > 0.75


def test_the_units_of_a_column_do_not_matter(tmp_path, table):
    """Standardised, a table in other units is the same table, within the digits of its text."""
    other = write_table(tmp_path / "other", stretch=1e5, shift=3e5)
    one, two = (train(tmp_path, data, "--deterministic", program=HIGGS) for data in (table, other))
    assert one.epochs[-1]["val_loss"] == pytest.approx(two.epochs[-1]["val_loss"], rel=1e-3)


@pytest.mark.parametrize("ranks, devices", [(None, 2), (2, None)])
def test_devices_and_ranks_equal_one(tmp_path, table, ranks, devices):
    one = train(tmp_path, table, "--deterministic", program=HIGGS)
    spread = ["--devices", devices] if devices else []
    many = train(tmp_path, table, "--deterministic", "--batch-size", 64 // (ranks or 1), *spread, ranks=ranks, program=HIGGS)
    assert many.epochs == one.epochs and many.bytes == one.bytes


def test_synthetic_table():
    result = run("--data", "synthetic", "--steps-per-epoch", 5, "--no-validation", program=HIGGS)
    assert result.code == 0 and SCORES.search(result.out)


@pytest.mark.parametrize("ranks", [None, 3])
def test_an_ensemble_predicts_together(table, ranks):
    """Three models of a third of the rows each; of the data, whose classes overlap, none has all right."""
    workers = [] if ranks else ["--workers", 3]
    result = run("--data", table, "--epochs", 8, "--seed", 1, "--deterministic", "--batch-size", 8, "--strategy", "ensemble",
                 *workers, program=HIGGS, ranks=ranks)
    assert result.code == 0, result.err
    losses = [float(loss) for loss in re.findall(r"member \d: loss (\d\.\d{4})$", result.out, re.M)]
    assert len(losses) == len(set(losses)) == 3 and max(losses) < 0.6
    together = float(re.search(r"3 members together: accuracy (0\.\d{4})$", result.out, re.M)[1])
    assert together > 0.75
