"""nccl.c among ranks with GPUs of their own: tests/ext/backend/cuda/ranks.c under kolorun, over the shim, whose NCCL
joins processes."""
import re
from pathlib import Path
import signal
import time

import patience
import pytest
from source_code.cnn import BUILD, Job, complaints, run

PROGRAM, SHIM = BUILD / "tests/ext/backend/cuda/ranks", BUILD / "shim/lib"
MORE = pytest.mark.long("more of the same")
DIVERGED = "after epoch 1 the loss or a weight is infinite"

pytestmark = pytest.mark.skipif(not (SHIM / "libkolo_cuda.so").exists() or not PROGRAM.exists(),
                                reason="there is no plugin over the shim, or not its ranks: make tests")  # fmt: skip


def on_gpus(gpus=4, **variables):
    return {"KOLO_BACKEND": None, "KOLO_SHIM_DEVICES": str(gpus), "LD_LIBRARY_PATH": str(SHIM), **variables}


def only_on(rank, setting):
    """A program, and its first options: ranks.c, with a setting in the environment of one rank alone."""
    return ["-c", f'[ "$OMPI_COMM_WORLD_RANK" != {rank} ] || export {setting}; exec "$0" "$@"', PROGRAM]


def lines(out):
    """What each rank printed: {rank: lines}."""
    found = {}
    for rank, line in re.findall(r"^\[1,(\d+)\]<stdout>:(.*)$", out, re.M):
        found.setdefault(int(rank), []).append(line)
    return found


def trained(ranks, *cases, gpus=4, told=(), **variables):
    """Each case's weights, as checksum and norm, loss and counters, which are the same on all ranks."""
    job = run("train", *cases, ranks=ranks, env=on_gpus(gpus, **variables), program=PROGRAM)
    assert job.code == 0, job.err
    said = [line for line in complaints(job.err) if not line.startswith("kolorun:")]
    assert len(said) == len(told) and all(part in line for part, line in zip(told, said)), job.err
    of_ranks = lines(job.out)
    assert len(of_ranks) == ranks and all(of == of_ranks[0] for of in of_ranks.values()), job.out
    results = {line.split()[0]: line.split()[1:] for line in of_ranks[0]}
    assert list(results) == list(cases)
    return results


def close(ones, others, bound):
    """bfloat16 rounds to 8 bits, in another order on each kind of CPU."""
    for case, one in ones.items():
        limit = 2**-8 if case == "bf16" else bound
        norm, loss = map(float, one[1:3])
        assert float(others[case][1]) == pytest.approx(norm, rel=limit), case
        assert float(others[case][2]) == pytest.approx(loss, rel=limit, nan_ok=True), case
        assert others[case][3:] == one[3:], case


@pytest.fixture(scope="module")
def pair():
    """Two ranks, of which one meets a sample that is no number: neither takes that step."""
    parts = "own_optimizer", "own_strategy", "by_hand"
    cases = trained(2, "fp32", "bf16", "synchronized", "deterministic", "accumulate", "fp16", "spoilt", *parts, told=[DIVERGED])
    assert cases["fp16"][3:] == ["8", "8", "32768"] and cases["spoilt"][3:] == ["8", "6", "8192"]
    assert cases["accumulate"][3:] == ["8", "4", "1"]
    return cases


@pytest.mark.parametrize("only", [["fp32", "spoilt", "by_hand"], pytest.param(None, marks=pytest.mark.long("all cases"))], ids=["some", "all"])
def test_ranks_learn_what_they_learn_on_the_cpu(pair, only):
    """bfloat16 where the CPU has it."""
    bf16 = "avx512" in Path("/proc/cpuinfo").read_text()
    cases = {case: result for case, result in pair.items() if (bf16 or case != "bf16") and (not only or case in only)}
    close(cases, trained(2, *cases, told=[DIVERGED], KOLO_DEVICES="cpu"), 1e-4)


def test_ranks_learn_what_one_does(pair):
    """Batch norm aside, which has statistics of each rank's own where they are not synchronised."""
    alone = ["synchronized", "deterministic"]
    one, four = trained(1, *alone), trained(4, *alone)
    for many in pair, four:
        close({case: one[case] for case in alone}, many, 1e-6)
        assert many["deterministic"][0] == one["deterministic"][0]


def test_ranks_of_several_gpus(pair):
    """Rank 0 has the first two, rank 1 the others, if there are others."""
    host = "sums over the devices are made on the host: replicas 0 and 2 compute on the same GPU"
    for gpus, told in (4, []), (2, [host]):
        (mirrored,) = trained(2, "mirrored", gpus=gpus, told=told).values()
        close({"synchronized": mirrored}, pair, 1e-6)


def test_second_streams_change_no_bit(pair):
    """NCCL sums on them, and the host where two ranks have one GPU."""
    wanted = {"buckets": pair["fp32"], "accumulate_buckets": pair["accumulate"], "fp16_buckets": pair["fp16"]}
    assert trained(2, *wanted) == wanted
    host = "sums over the devices are made on the host: replicas 0 and 1 compute on the same GPU, which NCCL does not serve"
    assert trained(2, "buckets", gpus=1, told=[host])["buckets"] == pair["fp32"]
    two = trained(2, "two", "two_buckets")
    assert two["two"] == two["two_buckets"]


def test_one_gpu_for_two_ranks(pair):
    """NCCL would refuse it; the host sums, in the same order."""
    host = "sums over the devices are made on the host: replicas 0 and 1 compute on the same GPU, which NCCL does not serve"
    assert trained(2, "fp32", gpus=1, told=[host])["fp32"] == pair["fp32"]
    (unpinned,) = trained(2, "unpinned", told=[host + ": kolo_pin_device(kolo_local_rank()) gives each rank another"]).values()
    assert unpinned == pair["fp32"]


@pytest.mark.parametrize("setting, told", [
    ("CUDA_VISIBLE_DEVICES=", "wanted the same on all ranks, got kind of device: GPU on rank 0, CPU on rank 1"),
    pytest.param("KOLO_SHIM_OLD_DRIVER=1", "wanted the same on all ranks, got kind of device: GPU on rank 0, CPU on rank 1", marks=MORE),
    ("KOLO_SHIM_CAPABILITY=70", "mixed_bf16 wants a GPU of compute capability 8.0 or higher, got one of 7.0"),
    pytest.param("KOLO_SHIM_WITHOUT_CODE=1", "libkolo_cuda.so was built without code for it", marks=MORE),
], ids=["no device", "old driver", "older device", "no code"])  # fmt: skip
def test_unequal_devices_end_a_fit_on_all(setting, told):
    """All ranks are told, and train on in what they can do."""
    case = "bf16" if "CAPABILITY" in setting else "fp32"  # not every CPU has bfloat16
    job = run(*only_on(1, setting), "train", case, ranks=3, env=on_gpus(), program="sh", limit=20)
    said = [line for line in complaints(job.err) if not line.startswith("kolorun:")]
    assert job.code == 1 and said and all(told in line for line in said), job.err


def test_ranks_score_in_leaves_of_one_size():
    """A sample counts once, also where one rank's device has less memory and takes fewer at a time."""
    (plenty,) = trained(2, "validated").values()
    job = run(*only_on(1, "KOLO_SHIM_MEMORY=90000"), "train", "validated", ranks=2, env=on_gpus(), program="sh")
    of_ranks = lines(job.out)
    assert job.code == 0 and len(of_ranks) == 2 and of_ranks[0] == of_ranks[1], job.err
    (short,) = (line.split()[1:] for line in of_ranks[0])
    assert float(short[2]) == pytest.approx(float(plenty[2]), rel=1e-5)


def test_a_rank_that_cannot_begin_holds_nobody_up():
    """What comes after that is for all ranks again."""
    job = run(*only_on(1, "KOLO_SHIM_CAPABILITY=70"), "train", "bf16", "fp32", ranks=2, env=on_gpus(), program="sh", limit=20)
    of_ranks = lines(job.out)
    assert "rank 0: ranks.c" in job.err and "kolo_fit: rank 1 cannot begin: " in job.err
    assert len(of_ranks) == 2 and of_ranks[0] == of_ranks[1] and of_ranks[0][0].startswith("fp32 ")


@pytest.mark.parametrize("command", ["die", "die_beside"])
@pytest.mark.parametrize("how, told", [
    ("kill", "rank 2 .*killed by signal 9"),
    ("lost", "rank 2: ranks.c:.* kolo_fit: the device is lost to this process"),
    pytest.param("7", "rank 2: ranks.c:.* kolo_fit: .* on the device failed", marks=MORE),
], ids=["kill", "lost", "a call"])  # fmt: skip
def test_a_rank_that_ends_in_a_step_ends_the_job(command, how, told):
    begun = patience.now()
    job = run(command, 5, how, ranks=3, env=on_gpus(), program=PROGRAM, limit=20)
    assert job.code != 0 and re.search(told, job.err) and patience.now() - begun < 10, job.err
    assert not re.search(r"rank [01]", job.err), job.err


@pytest.mark.parametrize("command", ["die", "die_beside"])
def test_nccl_finds_that_a_rank_is_lost(command):
    job = run(command, -1, "never", ranks=3, env=on_gpus(KOLO_SHIM_NCCL_LOST="1"), program=PROGRAM, limit=20)
    assert job.code == 1 and "rank 1: ranks.c" in job.err and "NCCL: a sum over the group failed" in job.err


def test_interrupt():
    job = Job("die", -1, "never", ranks=2, env=on_gpus(), program=PROGRAM)
    job.wait_for_output(b"training")
    job.process.send_signal(signal.SIGINT)
    assert job.finish(10).code == 130


@pytest.mark.parametrize("failing, deaf", [(1, None), (1, "1"), pytest.param(0, None, marks=MORE)])
def test_no_call_of_one_rank_holds_up_those_that_join(failing, deaf):
    """Whether NCCL tells them of it or not."""
    job = run("join", failing, ranks=3, env=on_gpus(KOLO_SHIM_NCCL_DEAF=deaf), program=PROGRAM, limit=30)
    assert job.code == 0, job.err
    said = lines(job.out)[0]
    assert said.pop() == f"joined {len(said) + 1} times, failed {len(said)} times" and len(said) >= 4
    assert said[-1] == "NCCL: joining a group failed: unhandled cuda error"
