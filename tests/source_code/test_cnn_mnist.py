"""What the lesson's program prints and how it ends: alone, in a terminal, under kolorun, and when it is disturbed."""
import gzip
import json
import os
import pty
import re
import select
import signal
import time

import patience
import pytest
from source_code.cnn import KOLORUN, LIMIT, PROGRAM, Job, complaints, run, train, write_data

EPOCH = re.compile(r"(\d+)/\1 - \d+s - [\d.]+(s|ms|us)/step - accuracy: [\d.e-]+ - loss: [\d.e+-]+ - val_accuracy: [\d.e-]+ - val_loss: [\d.e+-]+")
SIDE = 10


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), train=200, test=50, side=SIDE)


@pytest.fixture(scope="session")
def long_data(tmp_path_factory):
    """Enough for a training that is still running when a test disturbs it."""
    return write_data(tmp_path_factory.mktemp("long"), train=1500, test=10, side=SIDE)


# ---- Output ----


def test_help():
    for ranks in None, 2:
        result = run("--help", ranks=ranks)
        assert result.code == 0 and result.err == ""
        text = result.out
        for option in ("data batch-size epochs drop-remainder learning-rate precision seed deterministic devices strategy save "
                       "history").split():  # fmt: skip
            assert text.count(f"--{option}=") + text.count(f"--{option} ") == 1, option


def check_log(lines, epochs):
    """Per epoch: which it is, one line of numbers, and what the throughput callback says."""
    assert len(lines) == 4 * epochs, lines
    for epoch in range(epochs):
        head, numbers, seconds, images = lines[4 * epoch : 4 * epoch + 4]
        assert head == f"Epoch {epoch + 1}/{epochs}"
        assert EPOCH.fullmatch(numbers), numbers
        assert re.fullmatch(r"Epoch time : \d+\.\d\d", seconds) and re.fullmatch(r"Images/sec: \d+\.\d\d", images)


@pytest.mark.parametrize("devices", [1, 3])
def test_log_has_a_line_an_epoch(data, devices):
    result = run("--data", data, "--epochs", 3, "--batch-size", 50, "--devices", devices)
    assert result.code == 0 and result.err == ""
    check_log(result.out.splitlines(), 3)
    assert "\r" not in result.out and "\033" not in result.out


def test_only_rank_0_prints_and_every_line_is_tagged(data):
    result = run("--data", data, "--epochs", 3, "--batch-size", 10, ranks=5)
    assert result.code == 0 and result.err == ""
    lines = result.out.splitlines()
    assert all(line.startswith("[1,0]<stdout>:") for line in lines), result.out
    check_log([line.removeprefix("[1,0]<stdout>:") for line in lines], 3)


def in_terminal(*options, ranks=None):
    """What a terminal of 100 columns receives."""
    ours, theirs = pty.openpty()
    job = Job(*options, ranks=ranks, stdout=theirs, env={"TERM": "xterm", "COLUMNS": None})
    os.close(theirs)
    received, end = b"", patience.now() + LIMIT
    while patience.now() < end and select.select([ours], [], [], LIMIT)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # EIO: the other side was closed
            break
        received += piece
    os.close(ours)
    assert job.finish().code == 0
    return received.decode()


@pytest.mark.parametrize("ranks", [None, 2])
def test_terminal_has_a_bar_that_redraws(long_data, ranks):
    """Each redraw begins with \\r and the last one of an epoch is a whole bar."""
    text = in_terminal("--data", long_data, "--epochs", 2, "--batch-size", 25, ranks=ranks)
    steps = 60 // (ranks or 1)
    lines = text.split("\r\n")
    bars = [line for line in lines if f"/{steps}" in line]
    assert len(bars) == 2, text
    for bar in bars:
        plain = re.sub(r"\033\[[\d;]*[A-Za-z]", "", bar).split("\r")
        redraws = [redraw for redraw in plain if re.search(rf"\d+/{steps} ", redraw)]
        assert len(redraws) > 2
        done = [int(re.search(rf"(\d+)/{steps} ", redraw)[1]) for redraw in redraws]
        assert done == sorted(done) and done[-1] == steps
        assert "━" * 20 in redraws[-1] and "val_loss" in redraws[-1]


def test_says_what_the_digits_are_when_there_is_no_data():
    result = run("--epochs", 1, "--steps-per-epoch", 1, "--batch-size", 8, "--no-validation", env={"KOLO_DATA": None})
    assert result.code == 0
    (sentence,) = result.err.splitlines()
    assert "KOLO_DATA" in sentence and "digits" in sentence


# ---- Data in MNIST's format from elsewhere ----


def test_data_is_found_by_folder_by_name_and_packed(data, tmp_path):
    """Fashion-MNIST, say: a folder's path, a folder's name in KOLO_DATA, .gz beside plain files. The same weights."""
    home = tmp_path / "home"
    (home / "fashion-mnist").mkdir(parents=True)
    for file in data.iterdir():
        (home / "fashion-mnist" / (file.name + ".gz")).write_bytes(gzip.compress(file.read_bytes()))
    options = ("--deterministic", "--batch-size", 50)
    by_folder = train(tmp_path, data, *options)
    assert train(tmp_path, "fashion-mnist", *options, env={"KOLO_DATA": str(home)}).bytes == by_folder.bytes
    assert train(tmp_path, home / "fashion-mnist", *options).bytes == by_folder.bytes
    assert train(tmp_path, "mnist", *options, env={"KOLO_DATA": str(data)}).bytes == by_folder.bytes


@pytest.mark.parametrize("side, classes", [(12, 3), (32, 26)])
def test_pictures_and_classes_of_other_sizes(tmp_path, side, classes):
    data = write_data(tmp_path / "data", train=60, test=20, side=side, classes=classes)
    trained = train(tmp_path, data, "--batch-size", 20)
    header = json.loads(trained.bytes[8 : 8 + int.from_bytes(trained.bytes[:8], "little")])
    assert [entry["shape"] for name, entry in header.items() if name != "__metadata__"][-1] in ([classes], [128, classes])


@pytest.mark.parametrize("options, ranks", [(["--batch-size", 10], 2), *(
    pytest.param(["--batch-size", 20, *more], None, marks=pytest.mark.long("the same without ranks")) for more in ([], ["--devices", 2]))])
def test_it_learns(tmp_path, data, options, ranks):
    """Pictures of ten prototypes half hidden in noise: easy, so hardly any is missed after a few epochs."""
    last = train(tmp_path, data, *options, ranks=ranks, epochs=15).epochs[-1]
    assert last["val_accuracy"] > 0.9, last


def test_history_is_json_with_every_field(tmp_path, data):
    trained = train(tmp_path, data, "--batch-size", 64, epochs=3)
    assert (trained.ranks, trained.devices, len(trained.timed_epochs)) == (1, 1, 3)
    for epoch in trained.timed_epochs:
        assert set(epoch) >= {"loss", "accuracy", "val_loss", "val_accuracy", "seconds", "images_per_second", "images", "steps"}
        assert epoch["steps"] == 4 and epoch["images"] == 200 and epoch["seconds"] > 0
        assert epoch["images_per_second"] == pytest.approx(200 / epoch["seconds"], rel=1e-6)
        assert epoch["learning_rate"] == pytest.approx(1e-3)
    unvalidated = train(tmp_path, data, "--batch-size", 64, "--no-validation", epochs=1).epochs[0]
    assert unvalidated["val_loss"] is None and unvalidated["val_accuracy"] is None


# ---- Disturbed ----


@pytest.fixture
def long_run(long_data, tmp_path):
    """A training of minutes that has begun; whatever is left of it is ended."""
    jobs = []

    def start(*options, ranks=None):
        job = Job("--data", long_data, "--epochs", 10000, "--batch-size", 50, "--save", tmp_path / "w", "--history",
                  tmp_path / "h", *options, ranks=ranks)  # fmt: skip
        jobs.append(job)
        job.wait_for_output(b"Epoch 2/")
        return job

    yield start
    for job in jobs:
        job.end_all()


def check_ended(job, tmp_path, codes, seconds=5):
    start = patience.now()
    job.finish()
    assert patience.now() - start < seconds
    assert job.code in codes, (job.code, job.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ranks, options", [(None, []), (3, []), pytest.param(None, ["--devices", 4], marks=pytest.mark.long("devices of one process"))])
def test_interrupt(long_run, tmp_path, ranks, options):
    """Ctrl-C, as a terminal sends it: to every process of the foreground's group."""
    job = long_run(*options, ranks=ranks)
    os.killpg(job.process.pid, signal.SIGINT)
    check_ended(job, tmp_path, [130])


def ranks_of(job, count):
    """The processes that are ranks; kolorun's own watchers have other command lines."""
    return sorted(job.wait_for(lambda: len(found := job.left(PROGRAM)) == count and found, 10))


@pytest.mark.parametrize("number, code", [(signal.SIGSEGV, 139), *(pytest.param(*case, marks=pytest.mark.long("another signal"))
                                                                for case in [(signal.SIGKILL, 137), (signal.SIGTERM, 143)])])
def test_rank_that_dies_ends_the_job(long_run, tmp_path, number, code):
    job = long_run(ranks=3)
    victim = ranks_of(job, 3)[2]
    os.kill(victim, number)
    check_ended(job, tmp_path, [code])
    sentences = [line for line in complaints(job.err) if line.startswith("kolorun: rank ")]
    assert len(sentences) == 1 and f"pid {victim}" in sentences[0] and signal.strsignal(number) in sentences[0], job.err
    assert complaints(job.err)[-1] == sentences[0]


def test_rank_that_stops_is_named_and_can_go_on(long_data, tmp_path):
    job = Job("--data", long_data, "--epochs", 6, "--batch-size", 25, "--history", tmp_path / "h", ranks=3)
    job.wait_for_output(b"Epoch 1/")
    victim = ranks_of(job, 3)[1]
    os.kill(victim, signal.SIGSTOP)
    time.sleep(1)
    assert job.process.poll() is None
    os.kill(victim, signal.SIGCONT)
    assert job.finish().code == 0
    assert f"pid {victim}) was stopped by signal" in job.err
    assert len(json.loads((tmp_path / "h").read_text())["epochs"]) == 6


def test_reader_that_goes_away(data):
    """`cnn_mnist | head -1`: an end, not a hang."""
    for ranks in None, 2:
        job = Job("--data", data, "--epochs", 500, "--batch-size", 20, ranks=ranks)
        job.wait_for_output(b"Epoch 1/")
        job.process.stdout.close()
        job.process.stdout = None
        assert job.finish().code != 0


def test_the_build_is_whole():
    assert os.access(PROGRAM, os.X_OK) and os.access(KOLORUN, os.X_OK)
