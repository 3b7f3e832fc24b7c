"""What the lesson's program says to wrong use and to a world that fails: one sentence on stderr, an exit code that is
not 0, and no file that was not there before."""
import gzip
import os
import re
import resource
import shutil
import subprocess

import pytest
from source_code.cnn import complaints, idx, run, write_data

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
SIDE = 10


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data", train=40, test=10, side=SIDE)


def refused(result, code, *words):
    """One sentence, which holds `words`. Ranks that find the same each say the same, and kolorun names one of them."""
    lines = complaints(result.err)
    own = [line for line in lines if not line.startswith("kolorun: ")]
    assert result.code == code, f"exit code {result.code}: {result.err}"
    assert len({re.sub(r"^rank \d+: ", "", line) for line in own}) == 1, f"wanted one sentence, got:\n{result.err}"
    assert len(own) <= result.ranks and len(set(own)) == len(own)
    assert len(lines) - len(own) == (result.ranks > 1)
    for word in words:
        assert word in own[0]
    assert not re.search(r"Traceback|assert|core dumped|MPI_ABORT|mpirun", result.err)
    assert "step" not in result.out, "training began"


def folder_of(path):
    return sorted((p.relative_to(path), p.lstat().st_size) for p in path.rglob("*"))


# ---- Options ----

USES = [
    (["--batch-size", "0"], 2, ["--batch-size", "at least 1", '"0"']),
    (["--batch-size", "-5"], 2, ["--batch-size", '"-5"']),
    (["--batch-size", "many"], 2, ["--batch-size", '"many"']),
    (["--batch-size", "99999999999"], 2, ["--batch-size", "99999999999"]),
    (["--batch-size", ""], 2, ["--batch-size", '""']),
    (["--batch-size"], 2, ["--batch-size"]),
    (["--epochs", "0"], 2, ["--epochs"]),
    (["--epochs", "1.5"], 2, ["--epochs", "1.5"]),
    (["--steps-per-epoch", "0"], 2, ["--steps-per-epoch"]),
    (["--learning-rate", "0"], 2, ["--learning-rate"]),
    (["--learning-rate", "-1e-3"], 2, ["--learning-rate"]),
    (["--learning-rate", "nan"], 2, ["--learning-rate", "nan"]),
    (["--precision", "fp8"], 2, ["--precision", "fp32", "bf16", "fp16", "tf32", "fp8"]),
    (["--seed", "x"], 2, ["--seed"]),
    (["--devices", "0"], 2, ["--devices"]),
    (["--strategy", "gossip"], 2, ["--strategy", "gossip"]),
    (["--strategy", "one_device", "--devices", "2"], 2, ["--devices", "one_device"]),
    (["--batch-sise", "3"], 2, ["--batch-sise", "--help"]),
    (["-x"], 2, ["-x"]),
    (["mnist"], 2, ["mnist"]),
    (["--drop-remainder=1"], 2, ["--drop-remainder"]),
    (["--save", "a", "--history", "a"], 2, ["--history"]),
]


@pytest.mark.parametrize("options, code, words", USES, ids=str)
def test_wrong_options(data, tmp_path, options, code, words):
    before = folder_of(tmp_path)
    refused(run("--data", data, *options, cwd=tmp_path), code, *words)
    assert folder_of(tmp_path) == before


@pytest.mark.parametrize("options, words", [(["--batch-size", "0"], ["--batch-size"]), (["--frobnicate"], ["--frobnicate"])])
def test_wrong_options_on_ranks(data, options, words):
    """Rank 0 says it for all, and the job's code is 2."""
    refused(run("--data", data, *options, ranks=3), 2, *words)


@pytest.mark.parametrize("ranks", ["0", "-1", "many", ""])
def test_wrong_number_of_ranks(data, ranks):
    result = run("--data", data, ranks=ranks)
    assert result.code == 2 and len(result.err.splitlines()) == 1 and result.err.startswith("kolorun: "), result.err


@pytest.mark.parametrize("ranks", [None, 2])
def test_no_step_would_run(data, ranks):
    refused(run("--data", data, "--batch-size", 41, "--drop-remainder", ranks=ranks), 1, "40", "no step")


@pytest.mark.parametrize("ranks", [None, 2])
def test_more_steps_than_the_data_has(data, ranks):
    refused(run("--data", data, "--batch-size", 10, "--steps-per-epoch", 9, ranks=ranks), 1, "steps_per_epoch", "9")


def test_more_devices_than_there_are(data):
    """Refused before any data is read: /nowhere is not even looked for."""
    refused(run("--data", "/nowhere", "--devices", 99), 2, "--devices", "1 to 8", '"99"')
    refused(run("--data", data, "--devices", 3, env={"KOLO_CPU_DEVICES": "2"}), 2, "--devices", "1 to 2", '"3"')
    refused(run("--data", data, "--devices", 99, ranks=2), 2, "--devices", '"99"')


# ---- Environment ----


@pytest.mark.parametrize("ranks", [None, 2])
def test_backend_that_is_not_there(data, ranks):
    """kolo_init() finds it, before the data is read."""
    where = "/nowhere" if ranks is None else data
    refused(run("--data", where, env={"KOLO_BACKEND": "nonsense"}, ranks=ranks), 2, "nonsense", "onednn", "reference")


@pytest.mark.parametrize("name", ["KOLO_CPU_DEVICES", "KOLO_THREADS"])
@pytest.mark.parametrize("value", ["banana", "0", "-3", "1000000000"])
def test_count_in_the_environment_that_is_none(data, name, value):
    """One sentence, and nothing is trained on devices that nobody asked for."""
    result = run("--data", data, "--epochs", 1, "--batch-size", 10, env={name: value})
    assert result.code == 2 and result.out == ""
    (sentence,) = result.err.splitlines()
    assert name in sentence and value in sentence


# ---- Data ----


def cut(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


def pack(path):
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return packed


def truncated(folder):
    cut(folder / IMAGES, 1000)
    return [IMAGES, "1000"]


def truncated_header(folder):
    cut(folder / IMAGES, 9)
    return [IMAGES]


def truncated_gz(folder):
    packed = pack(folder / IMAGES)
    cut(packed, packed.stat().st_size // 2)
    return [IMAGES + ".gz"]


def damaged_gz(folder):
    packed = pack(folder / IMAGES)
    content = bytearray(packed.read_bytes())
    content[len(content) // 2] ^= 0x55
    packed.write_bytes(content)
    return [IMAGES + ".gz"]


def gz_that_is_none(folder):
    (folder / IMAGES).rename(folder / (IMAGES + ".gz"))
    (folder / (IMAGES + ".gz")).write_bytes(b"<html>Not Found</html>")
    return [IMAGES + ".gz"]


def too_long(folder):
    with open(folder / LABELS, "ab") as file:
        file.write(b"more")
    return [LABELS]


def too_few_labels(folder):
    (folder / LABELS).write_bytes(idx(bytes(39), 39))
    return ["40", "39"]


def empty(folder):
    (folder / LABELS).write_bytes(b"")
    return [LABELS]


def empty_gz(folder):
    (folder / LABELS).unlink()
    (folder / (LABELS + ".gz")).write_bytes(b"")
    return [LABELS]


def no_samples(folder):
    (folder / IMAGES).write_bytes(idx(b"", 0, SIDE, SIDE))
    (folder / LABELS).write_bytes(idx(b"", 0))
    return [IMAGES]


def wrong_magic(folder):
    content = (folder / IMAGES).read_bytes()
    (folder / IMAGES).write_bytes(b"\x00\x00\x08\x07" + content[4:])
    return [IMAGES]


def text_for_images(folder):
    (folder / IMAGES).write_bytes(b"<!DOCTYPE html><title>404 Not Found</title>" * 99)
    return [IMAGES]


def wrong_type(folder):
    (folder / IMAGES).write_bytes(idx(bytes(4 * 40 * SIDE * SIDE), 40, SIDE, SIDE, kind=0x0D))
    return [IMAGES]


def giant_sizes(folder):
    (folder / IMAGES).write_bytes(idx(bytes(100), 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF))
    return [IMAGES]


def swapped(folder):
    images, labels = (folder / IMAGES).read_bytes(), (folder / LABELS).read_bytes()
    (folder / IMAGES).write_bytes(labels)
    (folder / LABELS).write_bytes(images)
    return [IMAGES]


def no_labels(folder):
    (folder / LABELS).unlink()
    return [LABELS]


def no_test_images(folder):
    (folder / "t10k-images-idx3-ubyte").unlink()
    return ["t10k-images-idx3-ubyte"]


def pictures_of_another_size(folder):
    write_data(folder.with_name("other"), train=5, test=10, side=SIDE + 2)
    shutil.copy(folder.with_name("other") / "t10k-images-idx3-ubyte", folder)
    return [f"{SIDE}", f"{SIDE + 2}"]


def folder_in_place_of_a_file(folder):
    (folder / IMAGES).unlink()
    (folder / IMAGES).mkdir()
    return [IMAGES]


def dangling_link(folder):
    (folder / IMAGES).unlink()
    (folder / IMAGES).symlink_to("nowhere")
    return [IMAGES]


def too_small_for_the_network(folder):
    write_data(folder, train=40, test=10, side=3)
    return ["conv2d", "3"]


DAMAGES = [truncated, truncated_header, truncated_gz, damaged_gz, gz_that_is_none, too_long, too_few_labels, empty, empty_gz,
           no_samples, wrong_magic, text_for_images, wrong_type, giant_sizes, swapped, no_labels, no_test_images,
           pictures_of_another_size, folder_in_place_of_a_file, dangling_link, too_small_for_the_network]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
def test_damaged_data(data, tmp_path, damage):
    words = damage(data)
    before = folder_of(tmp_path)
    refused(run("--data", data, "--save", tmp_path / "w", "--history", tmp_path / "h"), 1, *words)
    assert folder_of(tmp_path) == before


def test_damaged_data_on_ranks(data):
    """Each rank reads for itself, and may say so."""
    words = truncated(data)
    refused(run("--data", data, ranks=3), 1, *words)


@pytest.mark.parametrize("name", ["nowhere", "/nowhere/at/all", "/etc/passwd", "/etc", ""])
def test_data_that_is_not_there(name):
    refused(run("--data", name), 1 if name else 2, name)


def test_kolo_data_that_is_not_there(tmp_path):
    refused(run(env={"KOLO_DATA": str(tmp_path / "nowhere")}), 1, "KOLO_DATA", "nowhere")
    refused(run(env={"KOLO_DATA": str(tmp_path)}), 1, "KOLO_DATA", str(tmp_path))
    refused(run("--data", "fashion-mnist", env={"KOLO_DATA": str(tmp_path)}), 1, "fashion-mnist")


# ---- Targets ----


@pytest.mark.parametrize("option", ["--save", "--history"])
@pytest.mark.parametrize("target", ["nowhere/file", ".", "data", "/dev/full", "/proc/file", "long" * 100])
def test_unwritable_target(data, tmp_path, option, target):
    before = folder_of(tmp_path)
    refused(run("--data", data, option, target, cwd=tmp_path), 1, option)
    assert folder_of(tmp_path) == before


def test_unwritable_target_on_ranks(data, tmp_path):
    """Rank 0 writes, so rank 0 looks, and all hear of it."""
    refused(run("--data", data, "--save", tmp_path / "nowhere/file", ranks=3), 1, "--save")


def test_target_without_permission(data, tmp_path):
    """Root may write anywhere, so it is tried without that right; anybody else just lacks it."""
    (tmp_path / "locked").mkdir(mode=0o555)
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    result = run("--data", data, "--save", tmp_path / "locked/w", launcher=without if os.geteuid() == 0 else [])
    refused(result, 1, "--save", "locked/w")


def check_nothing_but_the_old(result, folder):
    refused_lines = [line for line in complaints(result.err) if not line.startswith("kolorun: ")]
    assert result.code == 1 and len(refused_lines) == 1 and "w.safetensors" in refused_lines[0], result.err
    assert [p.name for p in folder.iterdir()] == ["w.safetensors"]
    assert (folder / "w.safetensors").read_bytes() == b"the old file"


def test_file_size_limit_at_save(data, tmp_path):
    """A disk that is full only when the weights come, as a limit on files gives it: the old file stays."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "w.safetensors").write_bytes(b"the old file")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))  # noqa: E731
    result = run("--data", data, "--epochs", 1, "--batch-size", 40, "--save", folder / "w.safetensors", preexec_fn=limit)
    check_nothing_but_the_old(result, folder)


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small file system can be mounted here; the limit on file sizes stands in for it")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("ranks", [None, 2])
def test_full_disk_at_save(data, small_disk, ranks):
    (small_disk / "w.safetensors").write_bytes(b"the old file")
    result = run("--data", data, "--epochs", 1, "--batch-size", 40, "--save", small_disk / "w.safetensors", ranks=ranks)
    check_nothing_but_the_old(result, small_disk)
