"""The introduction's programs: the CNN shared by data, by model and both ways, and the GPT block on text."""
import json
import re

import pytest
from source_code.cnn import BUILD, complaints, run, write_data

CNN, GPT = BUILD / "bin/cnn", BUILD / "bin/gpt"
SIDE = 12
WAYS = [("--parallel", "data"), ("--parallel", "model"), ("--parallel", "hybrid"),
        ("--parallel", "data", "--devices", 3), ("--parallel", "hybrid", "--devices", 6)]


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("pictures"), train=71, test=20, side=SIDE)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Lines in which each word says which comes next."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    words = "one two three four five six seven".split()
    path.write_text("".join(" ".join(words[(i + j) % 7] for j in range(9)) + "\n" for i in range(60)))
    return path


def train(folder, program, *options, **job):
    """History and the saved bytes of a training that must go well."""
    history, weights = folder / "history.json", folder / "weights.safetensors"
    result = run("--history", history, "--save", weights, "--seed", 3, *options, program=program, **job)
    assert (result.code, result.err) == (0, ""), result.err
    return json.loads(history.read_text()), weights.read_bytes(), result.out


def losses(history):
    return [(epoch["loss"], epoch["accuracy"]) for epoch in history["epochs"]]


@pytest.fixture(scope="session")
def one_device(tmp_path_factory, pictures):
    return train(tmp_path_factory.mktemp("one"), CNN, "--data", pictures, "--batch-size", 24, "--epochs", 2,
                 "--deterministic")


# ---------------------------------------------------------------- cnn


MORE = pytest.mark.long("another way")


@pytest.mark.parametrize("way", [WAYS[1], WAYS[4], *(pytest.param(way, marks=MORE) for way in (WAYS[0], *WAYS[2:4]))],
                         ids=lambda way: "-".join(map(str, way[1:])))
def test_every_way_to_share_learns_the_same(tmp_path, pictures, one_device, way):
    history, weights, _ = train(tmp_path, CNN, "--data", pictures, "--batch-size", 24, "--epochs", 2, "--deterministic",
                                *way)
    assert losses(history) == losses(one_device[0])
    assert weights == one_device[1], "the saved files differ"


def test_so_do_devices_that_work_in_turn(tmp_path, pictures):
    """Pieces of another size are added up in another order: a micro-batch has bits of its own."""
    small = "--data", pictures, "--batch-size", 24, "--epochs", 2, "--deterministic", "--micro-batch", 24
    first, weights, _ = train(tmp_path, CNN, *small)
    history, same, _ = train(tmp_path, CNN, *small, "--parallel", "model")
    assert losses(history) == losses(first) and same == weights


@pytest.mark.parametrize("way", [WAYS[2], *(pytest.param(way, marks=MORE) for way in ((), *WAYS[:2]))], ids=lambda way: "-".join(map(str, way[1:])))
def test_so_do_ranks(tmp_path, pictures, one_device, way):
    """12 for each of two ranks are one step's 24, whatever a rank does with them."""
    history, weights, _ = train(tmp_path, CNN, "--data", pictures, "--batch-size", 12, "--epochs", 2, "--deterministic",
                                *way, ranks=2)
    assert history["ranks"] == 2 and losses(history) == losses(one_device[0])
    assert weights == one_device[1], "the saved files differ"


def test_replicas_are_counted(tmp_path, pictures):
    small = "--data", pictures, "--epochs", 1, "--batch-size", 24, "--no-validation"
    for way, replicas in (("data", 2), ("model", 1), ("hybrid", 2)):
        history, _, out = train(tmp_path, CNN, *small, "--parallel", way)
        assert history["devices"] == replicas, way
        assert len(re.findall(r"^Images/sec: \d+\.\d\d$", out, flags=re.MULTILINE)) == 1


def test_the_cnn_learns(tmp_path, pictures):
    history, _, _ = train(tmp_path, CNN, "--data", pictures, "--epochs", 12, "--batch-size", 8, "--parallel", "model")
    assert history["epochs"][-1]["loss"] < 0.5 * history["epochs"][0]["loss"]


# ---------------------------------------------------------------- gpt


def test_the_gpt_learns_which_word_follows(tmp_path, text):
    history, _, out = train(tmp_path, GPT, "--data", text, "--epochs", 6, "--batch-size", 9)
    assert history["epochs"][-1]["val_loss"] < 0.5 * history["epochs"][0]["val_loss"]
    assert re.search(r"^units/s: \d+\.\d$", out, flags=re.MULTILINE)


def test_the_gpt_on_devices_and_ranks(tmp_path, text):
    options = "--data", text, "--epochs", 2, "--deterministic"
    first, weights, _ = train(tmp_path, GPT, *options, "--batch-size", 18)
    for job in ({"ranks": 2}, {"devices": 3}):
        devices = ["--devices", job["devices"]] if "devices" in job else []
        batch = 18 // job.get("ranks", 1)
        history, same, _ = train(tmp_path, GPT, *options, "--batch-size", batch, *devices, ranks=job.get("ranks"))
        assert losses(history) == losses(first) and same == weights, job


# ---------------------------------------------------------------- wrong use

USES = [
    (CNN, ["--parallel", "both"], 2, ["--parallel", "data", "model", "hybrid", '"both"']),
    (CNN, ["--parallel"], 2, ["--parallel"]),
    (CNN, ["--micro-batch", "0"], 2, ["--micro-batch", "at least 1"]),
    (CNN, ["--parallel", "model", "--devices", "3"], 2, ["--devices", "2", "model"]),
    (CNN, ["--parallel", "hybrid", "--devices", "5"], 2, ["--devices", "even", "hybrid"]),
    (CNN, ["--parallel", "data", "--strategy", "mirrored"], 2, ["--strategy", "data"]),
    (CNN, ["--parallel", "hybrid", "--devices", "98"], 2, ["8", "98"]),
    (CNN, ["--batch-size", "none"], 2, ["--batch-size"]),
    (GPT, ["--batch-size", "0"], 2, ["--batch-size"]),
    (GPT, ["--parallel", "data"], 2, ["--parallel", "--help"]),
    (GPT, ["--data", "/nowhere/text.txt"], 1, ["/nowhere/text.txt", "wanted a file to read"]),
]


@pytest.mark.parametrize("program, options, code, words", USES, ids=str)
def test_wrong_use_is_one_sentence(tmp_path, pictures, text, program, options, code, words):
    data = [] if "--data" in options else ["--data", pictures if program == CNN else text]
    result = run(*data, *options, "--save", tmp_path / "w", "--history", tmp_path / "h", program=program)
    assert result.code == code, result.err
    (sentence,) = complaints(result.err)
    assert all(word in sentence for word in words), sentence
    assert "step" not in result.out and list(tmp_path.iterdir()) == []


def test_wrong_use_on_ranks_is_said_once(pictures):
    result = run("--data", pictures, "--parallel", "model", "--devices", 3, program=CNN, ranks=2)
    assert result.code == 2
    assert sum("--devices" in line and "kolorun:" not in line for line in complaints(result.err)) == 1, result.err


@pytest.mark.parametrize("program", [CNN, *(pytest.param(program, marks=pytest.mark.long("another program"))
                                            for program in (GPT, BUILD / "bin/cnn_mnist"))], ids=lambda p: p.name)
def test_central_storage_has_all_its_devices(tmp_path, pictures, text, program):
    data = text if program == GPT else pictures
    history, _, _ = train(tmp_path, program, "--data", data, "--strategy", "central_storage", "--devices", 3)
    assert history["devices"] == 3


@pytest.mark.parametrize("program", [CNN, GPT], ids=lambda p: p.name)
def test_help_names_every_option(program):
    result = run("--help", program=program)
    assert (result.code, result.err) == (0, "")
    for option in ["--data", "--batch-size", "--epochs", "--learning-rate", "--precision", "--seed", "--deterministic",
                   "--devices", "--save", "--history"]:
        assert option in result.out, option
    assert ("--parallel" in result.out) == (program == CNN)
    assert "default: 256" in result.out
