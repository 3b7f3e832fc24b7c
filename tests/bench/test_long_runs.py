"""Long runs of programs that are made up, so that what is said of them is known; and what is kept of figures."""
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import long_runs  # noqa: E402
import results  # noqa: E402

HOST = {"cpu": "made up", "cores": 2, "isa": ["avx2"], "load_before": 0}


def program(build, name, epochs, prints=""):
    """One that writes these epochs to --history."""
    path = build / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"""#!/bin/sh
echo "$@ $KOLO_DATA" >>{build}/asked
echo '{prints}'
while [ "$1" != --history ]; do shift; done
echo '{json.dumps({"epochs": epochs})}' >"$2"
""")
    path.chmod(0o755)


def asked(build):
    return (build / "asked").read_text().splitlines()


@pytest.mark.parametrize("accuracy, met", [(0.9899, False), (0.99, True)])
def test_figure_and_bound(tmp_path, accuracy, met):
    program(tmp_path, "cnn_mnist", [{"val_accuracy": 0.5}, {"val_accuracy": accuracy}])
    (tmp_path / "mnist").mkdir()
    mnist, = [run for run in long_runs.RUNS if run.name == "long/mnist"]
    entry, = long_runs.run_program(mnist, tmp_path, tmp_path, ["avx2"])
    assert (entry["value"], entry["met"], entry["command"]) == (accuracy, met, "cnn_mnist --epochs 12 --batch-size 128")
    assert "12" in asked(tmp_path)[0] and asked(tmp_path)[0].endswith(str(tmp_path)), "its data"
    long_runs.run_program(mnist, tmp_path, tmp_path, ["avx2", "amx_bf16"])
    assert "--precision bf16" in asked(tmp_path)[1]
    assert ("NOT MET" in results.figure_of(entry)) == (not met)


def test_first_thousand_images_count(tmp_path):
    program(tmp_path, "cifar", [{"val_accuracy": 0.9}], "Accuracy: 0.8600 on the first 1000 test images, 0.9000 on all 9")
    (tmp_path / "cifar-10").mkdir()
    cifar, = [run for run in long_runs.RUNS if run.name == "long/cifar"]
    entry, = long_runs.run_program(cifar, tmp_path, tmp_path, [])
    assert entry["value"] == 0.86 and entry["met"]
    assert cifar.met(0.86, 1200) and not cifar.met(0.86, 1201)


def test_no_data(tmp_path, capsys):
    assert long_runs.run_program(long_runs.RUNS[0], tmp_path, tmp_path, []) == []
    assert "make data" in capsys.readouterr().out


def test_a_program_that_fails(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "mnist").mkdir()
    (tmp_path / "bin/cnn_mnist").symlink_to("/bin/false")
    with pytest.raises(long_runs.Failed, match="cnn_mnist: exit code 1"):
        long_runs.run_program(long_runs.RUNS[0], tmp_path, tmp_path, [])


@pytest.mark.parametrize("theirs, met", [(2.05, True), (2.2, False)])
def test_losses_beside_pytorch(tmp_path, theirs, met):
    program(tmp_path, "gpt", [{"loss": 4}, {"loss": 2}])
    python = tmp_path / "python"
    losses = json.dumps({"losses": [4, theirs]})
    python.write_text(f"#!/bin/sh\nhead -1 $2 | wc -w >{tmp_path}/words; echo '{losses}'\n")
    python.chmod(0o755)
    entry, = long_runs.run_gpt(tmp_path, str(python))
    assert (entry["value"], entry["peer"]["torch"], entry["met"]) == (2, theirs, met)
    assert (tmp_path / "words").read_text().strip() == "81", "of each line of the text"
    alone, = long_runs.run_gpt(tmp_path, None)
    assert alone["met"] is None and "not judged" in results.figure_of(alone)


def test_what_is_kept(tmp_path, monkeypatch):
    """The newest of each name; the page shows all of them."""
    monkeypatch.setattr(results, "STORE", tmp_path / "results.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "RESULTS.md")
    rate = {"name": "cnn/fp32/512", "unit": "images/s", "value": 3000.0, "peak_bytes": 5e6, "not_measured": {},
            "peers": {"keras": {"value": 1500.0, "peak_bytes": 9e6}}, "machine": HOST, "date": "2020-01-01",
            "layers": [{"name": "conv2d", "forward_ms": 1.25, "backward_ms": 2.5}]}  # fmt: skip
    far = long_runs.entry("long/vae", "val_loss", 151.0, 60.0, ["vae"]) | {"machine": HOST, "date": "2020-01-02"}
    results.record([rate, far])
    results.record([rate | {"value": 4500.0, "date": "2020-01-03"}])
    page = results.PAGE.read_text()
    assert "| cnn/fp32/512 | images/s | 4,500 | Keras 1,500 (3.00 ×) | 5 (Keras 9) |" in page and "3,000" not in page
    assert "| long/vae | 151.0 val_loss | 60 | `vae` |" in page
    assert "conv2d 1.2 + 2.5" in page and "2020-01-03" in page and "2020-01-02" in page and "2020-01-01" not in page
    assert [entry["name"] for entry in json.loads(results.STORE.read_text())] == ["cnn/fp32/512", "long/vae"]
