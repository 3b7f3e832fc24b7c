"""Devices and strategies from a notebook's cells: masks that a cell sets, and a strategy of the learner's own."""
import base64
import shutil
from pathlib import Path

import pytest

from kernel import driver
from kernel.driver import BUILD, Kernel


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    k.run("""#include <kolo.h>
#include <stdlib.h>
kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 64);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
int devices_of(kolo_strategy strategy)
{
    kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.1), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .strategy = strategy, .seed = 1, .deterministic = true);
    const kolo_history *history = kolo_fit(model, data, .batch_size = 32, .verbose = KOLO_NONE);
    return history ? history->devices : -1;
}""")
    yield k
    k.close()


def test_a_cell_masks_devices_at_any_time(kernel):
    assert kernel.run("kolo_device_count()").value == "8"
    assert kernel.run("devices_of(kolo_mirrored())").value == "8"
    kernel.run('setenv("CUDA_VISIBLE_DEVICES", "2,5,1", 1);')
    assert kernel.run("kolo_device_count()").value == "3"
    assert "number 5 of 8" in kernel.run("kolo_device_get(1).description").value
    assert kernel.run("devices_of(kolo_mirrored())").value == "3"
    assert kernel.run('kolo_set_visible_devices("0");\ndevices_of(kolo_mirrored())').value == "1"
    kernel.run('kolo_set_visible_devices(NULL);\nsetenv("CUDA_VISIBLE_DEVICES", "", 1);')
    assert kernel.run("devices_of(kolo_mirrored())").value == "1"
    kernel.run('unsetenv("CUDA_VISIBLE_DEVICES");')


def test_a_wrong_mask_is_one_sentence(kernel):
    outcome = kernel.run('setenv("CUDA_VISIBLE_DEVICES", "1,12", 1);\nkolo_devices(.print = true).count')
    assert outcome.value == "1" and "Number of devices: 1" in outcome.stdout
    assert outcome.stderr.count("CUDA_VISIBLE_DEVICES: wanted numbers from 0 to 7") == 1 and '"12"' in outcome.stderr
    kernel.run('unsetenv("CUDA_VISIBLE_DEVICES");')


def test_a_strategy_of_ones_own(kernel):
    outcome = kernel.run("""#include <kolo/strategy/strategy.h>
static kolo_status own_replicas(const kolo_strategy *strategy, int *count)
{
    *count = strategy->devices ? strategy->devices : 2;
    return KOLO_OK;
}
static kolo_status own_step(kolo_replica *replica, const kolo_batch *batch)
{
    if (kolo_replica_compute(replica, batch) != KOLO_OK) return KOLO_COMM;
    if (kolo_replica_allreduce(replica) != KOLO_OK) return KOLO_COMM;
    return kolo_replica_update(replica);
}
kolo_strategy_kind own = {.name = "own", .replicas = own_replicas, .step = own_step};
devices_of(kolo_strategy_of(&own, .devices = 3))""")
    assert outcome.value == "3", outcome.error


def test_a_strategy_shows_its_options(kernel):
    shown = kernel.run('kolo_mirrored(.device_names = {"cpu:0", "cpu:2"}, .parameter_device = "host", .staging = true)').value
    assert shown == 'kolo_mirrored(.device_names = {"cpu:0", "cpu:2"}, .parameter_device = "host", .staging = true)'


def test_a_topology_is_shown_as_its_matrix(kernel):
    shown = kernel.run("kolo_topology(3)").value
    assert "cpu:0  cpu:1  cpu:2  processors  NUMA node" in shown and "the device itself" in shown
    assert kernel.run("kolo_topology().between[1][1].name").value == '"X"'
    failed = kernel.run("kolo_topology(-1)")
    assert failed.value == "no devices" and "wanted at least 1 device, got -1" in failed.stderr


def test_bandwidth_between_devices(kernel):
    (result,) = kernel.run("kolo_peer_bandwidth(2, .bytes = 1000000, .seconds = 0.001)").results
    shown, picture = result["text/plain"], result["image/svg+xml"]
    assert base64.b64decode(result["image/png"]).startswith(b"\x89PNG")
    assert all(word in picture for word in ("One way, GB/s", "Latency, µs", "cpu:1")) and "<title>gnuplot" not in picture
    assert 'width="800" height="800"' in picture and not picture.splitlines()[0].strip()
    assert shown.startswith("Of CPU devices: the memory of this machine") and shown.count("from \\ to  cpu:0  cpu:1") >= 1
    assert kernel.run("kolo_peer_bandwidth(-2)").value == "no devices"


def test_devices_are_shown_as_their_table(kernel):
    lines = kernel.run("kolo_devices(2)").value.splitlines()
    assert lines[0].split() == ["device", "cores", "memory", "description"]
    assert lines[1].startswith("cpu:0 ") and lines[2].startswith("cpu:1 ") and lines[3] == "Number of devices: 2"
    assert "virtual" in kernel.run("kolo_devices().device[1].description").value


@pytest.fixture
def on_simulated_gpus(monkeypatch, tmp_path):
    """A kernel looks for its library beside itself: there it finds the shim's."""
    shim = BUILD.resolve() / "shim/lib"
    if not (shim / "libkolo_cuda.so").exists():
        pytest.skip("there is no plugin over the shim: make build/shim/lib/libkolo_cuda.so")
    (tmp_path / "bin").mkdir()
    for name in "kolo-kernel", "kolo-worker", "kolo-rank", "kolorun":
        shutil.copy2(BUILD / "bin" / name, tmp_path / "bin")
    (tmp_path / "lib").symlink_to(shim)
    (tmp_path / "include").symlink_to(BUILD.resolve() / "include")
    monkeypatch.delenv("KOLO_DEVICES", raising=False)
    monkeypatch.setattr(driver, "EXECUTABLE", tmp_path / "bin/kolo-kernel")
    monkeypatch.setenv("KOLO_SHIM_DEVICES", "2")
    monkeypatch.setenv("KOLO_SHIM_MACHINE", "dgx-1")
    monkeypatch.delenv("KOLO_BACKEND", raising=False)


def test_gpus_with_their_memory(on_simulated_gpus):
    """What a model takes of a device is told while it has it."""
    k = Kernel()
    try:
        k.run("#include <kolo.h>")
        lines = k.run("kolo_devices()").value.splitlines()
        assert lines[0].split() == ["device", "cores", "memory", "free", "taken", "description"]
        assert lines[2].startswith("gpu:1 ") and "0.00 GB  simulated device 1" in lines[2]
        assert "NV1" in k.run("kolo_topology()").value
        k.run("""kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 64);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY);
kolo_fit(model, data, .batch_size = 32, .verbose = KOLO_NONE);""")
        assert int(k.run("kolo_device_get(0).taken_bytes").value) > 7850 * 4
        k.run("kolo_model_free(&model);")
        assert k.run("kolo_device_get(0).taken_bytes").value == "0"
    finally:
        k.close()


def test_a_fit_on_gpus_is_interrupted_and_restart_frees_them(on_simulated_gpus):
    k = Kernel()
    try:
        k.run("""#include <kolo.h>
#include <unistd.h>
kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 64);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = kolo_mirrored());""")
        fit = "kolo_fit(model, data, .batch_size = 32, .epochs = %s, .verbose = KOLO_NONE)->epochs"
        for after in 0.2, 0.4:
            outcome = k.run(fit % 1000000, interrupt_after=after)
            assert outcome.error.startswith("KeyboardInterrupt") and outcome.seconds < 5
        assert k.run(fit % 2).value == "2"
        assert int(k.run("kolo_device_get(1).taken_bytes").value) > 7850 * 4
        worker = Path("/proc") / k.run("getpid()").value
        assert worker.exists()
        k.run("%restart")
        assert not worker.exists() and k.run("kolo_device_get(1).taken_bytes").value == "0"
    finally:
        k.close()


def test_ranks_have_a_gpu_each(on_simulated_gpus):
    """They sum by NCCL: nobody says that the host does it. An interrupt leaves them able to go on."""
    k = Kernel()
    try:
        k.run("%ranks 2")
        fit = """%%%%ranks
const kolo_history *%s = kolo_fit(model, data, .batch_size = 16, .epochs = %d, .verbose = KOLO_NONE);"""
        outcome = k.run("""%%ranks
#include <kolo.h>
kolo_init(NULL, NULL);
kolo_pin_device(kolo_local_rank());
kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 64);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_distributed(kolo_sgd()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);""")
        assert outcome.status == "ok" and outcome.stderr == "", outcome.error
        assert k.run(fit % ("first", 2)).stderr == ""
        assert k.run(fit % ("long_one", 1000000), interrupt_after=0.4).error.startswith("KeyboardInterrupt")
        assert k.run(fit % ("third", 2)).status == "ok"
        assert k.run("%%ranks\nkolo_weight_get(model, 1).values[3]").value.startswith("[0,1] ")
        assert k.run("%%ranks\nkolo_device_get(1 - kolo_rank()).taken_bytes").value == "[0,1] 0"
    finally:
        k.close()
