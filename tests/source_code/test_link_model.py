"""Lesson 7's program: what it models says so in every line, and what it predicts is held beside what was published."""
import json
import re

import pytest
from source_code.cnn import BUILD, run

PROGRAM = BUILD / "bin/link_model"
ROW = re.compile(r"modelled  (?P<name>.{30,}?)  (?P<from>fitted|predicted) +modelled +(?P<modelled>\S+)  published +(?P<published>\S+)"
                 r"  error +(?P<error>[-+][\d.]+) %(: (?P<why>.+))?$")


def model(*options):
    return run(*options, program=PROGRAM)


@pytest.fixture(scope="module")
def published():
    done = model("--published")
    assert done.code == 0 and done.err == "", done.err
    lines = done.out.splitlines()
    assert all(line.startswith("modelled  ") for line in lines)
    return lines


@pytest.fixture(scope="module")
def rows(published):
    found = [ROW.match(line) for line in published if "  error " in line]
    assert len(found) > 100 and all(found)
    return [row.groupdict() for row in found]


def test_every_error_is_that_of_its_two_figures(rows):
    for row in rows:
        error = 100 * (float(row["modelled"]) / float(row["published"]) - 1)
        assert abs(error - float(row["error"])) < 0.2, row  # both figures are printed with four digits


def test_a_large_error_has_a_reason(rows):
    """And only a large one has."""
    for row in rows:
        assert (abs(float(row["error"])) > 10) == bool(row["why"]), row


def test_fitted_rows_fit(rows):
    """The loosest fit is one latency between processors for the seven pairs of a DGX-1V that it counts in."""
    errors = [abs(float(row["error"])) for row in rows if row["from"] == "fitted"]
    assert max(errors) < 7 and sorted(errors)[-9] < 2


def test_the_summary_counts_them(published, rows):
    predicted = [row for row in rows if row["from"] == "predicted"]
    within = [row for row in predicted if abs(float(row["error"])) <= 10]
    assert published[-2] == (f"modelled  {len(rows)} rows: {len(rows) - len(predicted)} fitted, {len(predicted)} predicted, of which "
                             f"{len(within)} are within 10 % of what was published")
    ideal = re.match(r"modelled  devices that lost nothing to links and hosts would have been within 10 % in (\d+) of those", published[-1])
    assert len(within) > 2 * int(ideal[1]) > 0  # 87 and 30 of 97 were seen


@pytest.mark.parametrize("table", ["Horovod, VGG-16", "Horovod, Inception V3", "Horovod, ResNet-101"])
def test_horovods_512_gpus(published, table):
    start = next(i for i, line in enumerate(published) if f"== {table}" in line)
    rows = [ROW.match(line) for line in published[start + 1:start + 3]]
    assert all(abs(float(row["error"])) <= 10 for row in rows if row)
    assert "512 GPUs" in published[start + 1]


def test_16384_devices():
    done = model("--machine", "dgx-a100", "--hosts", 2048, "--network", "ib-hdr", "--bytes", "1e9")
    lines = done.out.splitlines()
    assert done.code == 0 and all(line.startswith("modelled  ") for line in lines)
    assert lines[0] == "modelled  allreduce of 1e+09 bytes over 16384 devices of 2048 x dgx-a100, ib-hdr"
    times = [float(re.search(r"([\d.]+) ms", line)[1]) for line in lines[1:]]
    assert "(the fastest)" in lines[1] and times[0] == min(times) and len(times) == 4


def test_fewer_devices_and_one_algorithm():
    done = model("--machine", "dgx-1v", "--devices", 2, "--bytes", "48.49e6", "--algorithm", "ring")
    assert done.code == 0 and len(done.out.splitlines()) == 2
    # two devices, one NVLink of 24.245 GB/s: two rounds of half of the bytes, and of 1.62 µs
    assert "ring                     2.003 ms         2 rounds" in done.out


@pytest.mark.parametrize("operation, lines", [("broadcast", 4), ("reduce_scatter", 3), ("allgather", 3)])
def test_other_operations(operation, lines):
    done = model("--machine", "dgx-a100", "--hosts", 2, "--operation", operation)
    assert done.code == 0 and len(done.out.splitlines()) == lines and f"{operation} of 1e+08 bytes over 16 devices" in done.out


def test_efficiency_of_training():
    done = model("--machine", "pcie-4", "--hosts", 6, "--network", "ethernet-10", "--step", 0.1, "--bytes", "100e6")
    lines = done.out.splitlines()
    assert done.code == 0 and all(line.startswith("modelled  ") for line in lines)
    assert [int(line.split()[1]) for line in lines[1:]] == [1, 2, 4, 8, 16, 24]
    efficiency = [float(re.search(r"efficiency +([\d.]+) %", line)[1]) for line in lines[1:]]
    assert efficiency[0] == 100 and efficiency[2] > efficiency[3] and efficiency == sorted(efficiency, reverse=True)
    buckets = model("--machine", "pcie-4", "--hosts", 6, "--network", "ethernet-10", "--step", 0.1, "--bytes", "100e6", "--bucket-bytes", "10e6")
    assert float(re.search(r"efficiency +([\d.]+) %", buckets.out.splitlines()[-1])[1]) > efficiency[-1]


def test_a_machine_of_ones_own(tmp_path):
    box = tmp_path / "box.json"
    names = ["a", "b", "c"]
    nodes = [{"name": "s", "kind": "switch"}] + [{"name": name, "kind": "device"} for name in names]
    links = [{"from": name, "to": "s", "kind": "x", "gigabytes_per_second": 4, "microseconds": 1} for name in names]
    box.write_text(json.dumps({"nodes": nodes, "links": links}))
    done = model("--machine", box, "--matrix")
    assert done.code == 0 and all(line.startswith("modelled  ") for line in done.out.splitlines())
    assert done.out.count("    4.00") == 6 and done.out.count("    8.00") == 6 and done.out.count("    2.00") == 6


def test_a_broken_file_is_one_sentence(tmp_path):
    box = tmp_path / "box.json"
    box.write_text('{"nodes": [{"name": "a", "kind": "gpu"}], "links": []}')
    done = model("--machine", box)
    assert done.code == 1 and done.out == "" and len(done.err.splitlines()) == 1
    assert 'box.json: nodes[0]: wanted device, switch, nic or host as "kind", got "gpu"' in done.err


@pytest.mark.parametrize("options, code, words", [
    (["--machine", "dgx-9"], 1, ["wanted dgx-1v", '"dgx-9"']),
    (["--devices", "9"], 1, [".devices", "1 to 8", "got 9"]),
    (["--devices", "99999999"], 2, ["--devices", "1 to 524288"]),
    (["--hosts", "65537"], 1, [".hosts", "65536"]),
    (["--network", "token-ring"], 2, ["--network", "ib-ndr"]),
    (["--algorithm", "star"], 2, ["--algorithm", "parameter_server"]),
    (["--algorithm", "hierarchical"], 1, ["several hosts"]),
    (["--bytes", "-1"], 2, ["--bytes", "at least 0"]),
    (["--operation", "scan"], 2, ["--operation", "reduce_scatter"]),
    (["--operation", "allgather", "--algorithm", "tree"], 1, ["an all-gather", "tree"]),
    (["--step", "0"], 2, ["--step", "above 0"]),
    (["--step", "1", "--bucket-bytes", "1"], 1, [".bucket_bytes", "100000th"]),
    (["--epochs", "3"], 2, ["--epochs", "--help"]),
], ids=str)
def test_wrong_use_is_one_sentence(options, code, words):
    done = model(*options)
    assert done.code == code and len(done.err.splitlines()) == 1, done.err
    assert all(word in done.err for word in words), done.err


def test_help():
    done = model("--help")
    assert done.code == 0 and "--published" in done.out and "so many modelled devices (default: all)" in " ".join(done.out.split())
