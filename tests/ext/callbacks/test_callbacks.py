"""Callbacks in programs: event files as TensorBoard reads them; that what one rank decides, all do."""
import re
import struct
import subprocess

import patience
import pytest
from mpi_workshop import BUILD, compile_program



@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("callbacks/callbacks_program.c", tmp_path_factory.mktemp("callbacks"))


def run(program, *words, ranks=1):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks)] if ranks > 1 else []
    done = patience.run([*launcher, program, *words], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [re.findall(r"-?[\d.]+(?:e-?\d+)?", line.split("rank", 1)[1]) for line in done.stdout.splitlines() if "rank" in line]


# ---- Event files ----


def crc32c(data):
    """Castagnoli's polynomial, reflected; masked as TFRecord masks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        assert of_length == crc32c(data[:8])
        record, data = data[12 : 12 + length], data[12 + length :]
        assert struct.unpack("<I", data[:4]) == (crc32c(record),)
        yield record
        data = data[4:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """[(number, value)] of a protocol buffer's message."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(key & 7) or varint(data, at)
            value, at = data[at : at + size], at + size
        found.append((key >> 3, value))
    return found


def scalars(folder):
    """{tag: {step: value}} of a folder's one file."""
    (path,) = folder.glob("events.out.tfevents.*")
    events = [dict(fields(record)) for record in records(path.read_bytes())]
    assert events[0][3] == b"brain.Event:2"
    found = {}
    for event in events[1:]:
        for _, value in fields(event[5]):
            parts = dict(fields(value))
            (number,) = struct.unpack("<f", parts[2])
            found.setdefault(parts[1].decode(), {})[event[2]] = number
    return found


@pytest.mark.parametrize("ranks", [1, 2])
def test_events(program, tmp_path, ranks):
    lines = run(program, "events", tmp_path, ranks=ranks)
    train, validation = scalars(tmp_path / "train"), scalars(tmp_path / "validation")
    assert {"epoch_loss", "epoch_accuracy", "epoch_learning_rate", "batch_loss"} <= set(train)
    assert set(validation) == {"epoch_loss", "epoch_accuracy"}
    assert list(train["epoch_loss"]) == list(validation["epoch_loss"]) == [0, 1, 2, 3, 4]
    assert list(train["batch_loss"]) == list(range(2, 31, 2))
    first = next(line for line in lines if line[0] == "0")
    assert train["epoch_loss"][0] == pytest.approx(float(first[3]), rel=1e-6)
    assert validation["epoch_loss"][0] == pytest.approx(float(first[4]), rel=1e-6)


def test_tensorboard_opens_them(program, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator",
                                      reason="TensorBoard is not in this environment; test_events reads the bytes")
    run(program, "events", tmp_path)
    for part in "train", "validation":
        events = accumulator.EventAccumulator(str(tmp_path / part)).Reload()
        wanted = scalars(tmp_path / part)
        assert set(events.Tags()["scalars"]) == set(wanted)
        for tag, numbers in wanted.items():
            assert {event.step: event.value for event in events.Scalars(tag)} == pytest.approx(numbers, nan_ok=True)


# ---- All ranks alike ----


def test_what_one_rank_stops_all_stop(program):
    """The last rank's request, between epochs: the others must not wait for it in the next one."""
    assert [line[1] for line in sorted(run(program, "stops", ranks=3))] == ["3", "3", "3"]


def test_ranks_decide_alike(program):
    """Without kolo_metric_average() each reports the loss of its own samples; what is decided is of all."""
    lines = sorted(run(program, "plateau", ranks=3))
    assert len({line[3] for line in lines}) == 3
    assert len({line[2] for line in lines}) == 1 and float(lines[0][2]) < 0.01


def rows_of_log(folder):
    lines = (folder / "log.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","))) for line in lines[1:]]
    return [(row["epoch"], row["loss"], row["accuracy"]) for row in rows]


@pytest.mark.parametrize("how", ["anew", "append"])
def test_a_log_is_whole_after_kills(program, tmp_path, how):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir(), killed.mkdir()
    run(program, "log", straight, "0", how)
    wanted = rows_of_log(straight)
    assert [row[0] for row in wanted] == ["0", "1", "2", "3", "4"]
    for kills in (5, 3, 9, -3, 7):
        ended = subprocess.run([program, "log", killed, str(kills), how], capture_output=True, timeout=60)
        assert ended.returncode == -9, ended
    run(program, "log", killed, "0", how)
    assert rows_of_log(killed) == wanted


@pytest.mark.parametrize("how", ["anew", "append"])
def test_a_log_is_whole_after_a_kill_before_the_first_epochs_backup(program, tmp_path, how):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir(), killed.mkdir()
    run(program, "log", straight, "0", how, "0")
    for kills in (-1, 3):
        ended = subprocess.run([program, "log", killed, str(kills), how, "0"], capture_output=True, timeout=60)
        assert ended.returncode == -9, ended
    run(program, "log", killed, "0", how, "0")
    assert rows_of_log(killed) == rows_of_log(straight)
