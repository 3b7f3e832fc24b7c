"""Workers over ranks: what they learn is what threads learn, to the bit, and each way to end a rank is told."""
import json
import os
import re
import shutil
from pathlib import Path

import patience
import pytest
from source_code.test_n6 import write_table

BUILD = Path(os.environ.get("KOLO_BUILD", Path(__file__).resolve().parents[3] / "build")).resolve()
HIGGS = BUILD / "bin/higgs"
AS_IT_COMES = ["parameter_server", "downpour", "adag", "dynsgd", "async_easgd", "async_eamsgd"]
AT_ONCE = ["easgd", "averaging", "local_sgd", "ensemble"]

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module", autouse=True)
def table(tmp_path_factory):
    """A small table: each program would take a second to draw the synthetic one."""
    train.table = write_table(tmp_path_factory.mktemp("higgs") / "table", rows=2300)


def train(strategy, *options, ranks=1, launch=(), fault=""):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks), *launch] if ranks > 1 else []
    # A rank that comes late must still get the batches that it needs to reach its fault.
    epochs = 20 if "step=" in " ".join([*launch, fault]) else 2
    command = [*launcher, HIGGS, "--data", train.table, "--seed", "3", "--epochs", epochs, "--steps-per-epoch", "23",
               "--strategy", strategy, *options]
    return patience.run([str(word) for word in command], capture_output=True, text=True, timeout=120,
                        env={**os.environ, **({"KOLO_FAULT": fault} if fault else {})})


def learnt(folder, strategy, *options, ranks=1):
    """The bytes of the weights, and the history."""
    done = train(strategy, *options, "--save", folder / "w.safetensors", "--history", folder / "h.json", ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "w.safetensors").read_bytes(), json.loads((folder / "h.json").read_text())


@pytest.mark.parametrize("strategy", [pytest.param(name, marks=[] if name == "downpour" else pytest.mark.long("one strategy after the other"))
                                      for name in AS_IT_COMES + AT_ONCE])
def test_ranks_in_turn_are_threads_in_turn(tmp_path, strategy):
    threads, first = learnt(tmp_path, strategy, "--deterministic", "--workers", 3)
    ranks, second = learnt(tmp_path, strategy, "--deterministic", ranks=3)
    assert threads == ranks
    assert (first["strategy"], first["workers"], first["ranks"]) == (strategy, 3, 1)
    assert (second["strategy"], second["workers"], second["ranks"]) == (strategy, 3, 3)
    assert first["f1"] == second["f1"] == first["epochs"][1]["val_f1_score_weighted"]
    assert [epoch["images"] for epoch in second["epochs"]] == [23 * 64] * 2
    assert [epoch["loss"] for epoch in first["epochs"]] == pytest.approx([epoch["loss"] for epoch in second["epochs"]], rel=1e-6)


@pytest.mark.parametrize("strategy", [pytest.param(name, marks=[] if name == "async_easgd" else pytest.mark.long("one strategy after the other"))
                                      for name in AS_IT_COMES + AT_ONCE])
def test_what_happens_over_ranks_is_replayed_over_threads(tmp_path, strategy):
    order = tmp_path / "order.json"
    ranks, _ = learnt(tmp_path, strategy, "--record", order, ranks=3)
    said = json.loads(order.read_text())
    assert (said["strategy"], said["workers"], said["steps"], len(said["epochs"])) == (strategy, 3, 23, 2)
    for epoch in said["epochs"]:
        assert sorted(batch for _, batches in epoch for batch in batches) == list(range(23))
    assert ranks == learnt(tmp_path, strategy, "--replay", order, "--workers", 3)[0]
    assert ranks == learnt(tmp_path, strategy, "--replay", order, ranks=3)[0]


@pytest.mark.parametrize("strategy", [pytest.param(name, marks=[] if name == "parameter_server" else pytest.mark.long("one strategy after the other"))
                                      for name in AS_IT_COMES])
def test_servers_on_several_ranks_do_not_change_the_bits(tmp_path, strategy):
    threads, first = learnt(tmp_path, strategy, "--deterministic", "--workers", 3, "--servers", 2)
    for servers in 2, 3, 5:  # two of the ranks keep a part; all do; some keep two
        ranks, second = learnt(tmp_path, strategy, "--deterministic", "--servers", servers, ranks=3)
        assert threads == ranks, servers
        assert [epoch["val_loss"] for epoch in first["epochs"]] == [epoch["val_loss"] for epoch in second["epochs"]]


@pytest.mark.parametrize("strategy", [pytest.param(name, marks=[] if name == "dynsgd" else pytest.mark.long("one strategy after the other"))
                                      for name in AS_IT_COMES])
def test_what_happens_with_several_servers_is_replayed_with_one(tmp_path, strategy):
    order = tmp_path / "order.json"
    ranks, _ = learnt(tmp_path, strategy, "--record", order, "--servers", 3, "--workers", 2, ranks=2)
    assert ranks == learnt(tmp_path, strategy, "--replay", order, "--workers", 4)[0]
    assert ranks == learnt(tmp_path, strategy, "--replay", order, "--servers", 2, "--workers", 2, ranks=2)[0]


@pytest.mark.long("the same as above with other numbers")
def test_a_rank_may_have_several_workers(tmp_path):
    four, history = learnt(tmp_path, "downpour", "--deterministic", "--workers", 2, ranks=2)
    assert history["workers"] == 4
    assert four == learnt(tmp_path, "downpour", "--deterministic", "--workers", 4)[0]


@pytest.mark.parametrize("options, sentence", [
    (["--replay", "/nowhere/order.json"], "/nowhere/order.json: wanted a file to read"),
    (["--record", "/nowhere/order.json"], "/nowhere/order.json"),
    (["--workers", "100"], "wanted at most 256 workers over all ranks, got 300")])
def test_wrong_options_end_all_ranks_with_a_sentence(options, sentence):
    done = train("downpour", *options, ranks=3)
    assert done.returncode != 0 and sentence in done.stdout + done.stderr, done.stdout + done.stderr


OTHER_END = pytest.mark.long("another way to end")
KILLED_EASGD = pytest.param("easgd", "kill", 137, marks=OTHER_END)
ENDED_BY_SEGV = pytest.param("async_easgd", "segv", 139, marks=OTHER_END)
ENDED_BY_EXIT = pytest.param("parameter_server", "exit", 0, marks=OTHER_END)


@pytest.mark.parametrize("strategy, what, code", [("downpour", "kill", 137), KILLED_EASGD, ENDED_BY_SEGV, ENDED_BY_EXIT])
def test_the_others_go_on_without_a_dead_worker(tmp_path, strategy, what, code):
    history = tmp_path / "h.json"
    done = train(strategy, "--history", history, ranks=3, launch=["--keep-going"], fault=f"rank=2,step=4,what={what}")
    said = done.stdout + done.stderr
    assert done.returncode == code and "worker 2 on rank 2 is gone: the other workers go on" in said, said
    assert "F1 (weighted)" in done.stdout
    epochs = json.loads(history.read_text())["epochs"]
    assert epochs[1]["steps"] == 23 and epochs[1]["images"] == 23 * 64  # two workers share what three had


def test_without_the_centre_all_end(tmp_path):
    done = train("downpour", "--history", tmp_path / "h.json", ranks=3, launch=["--keep-going"], fault="rank=0,step=4,what=kill")
    said = done.stdout + done.stderr
    assert done.returncode == 137, said
    for rank in 1, 2:
        assert f"worker {rank} has lost the centre on rank 0: the process at the other end is gone" in said, said
    assert not (tmp_path / "h.json").exists()


SERVERS = ["--servers", "2"]  # on ranks 0 and 1 of three


@pytest.mark.parametrize("strategy, what, code", [
    ("downpour", "kill", 137), pytest.param("parameter_server", "segv", 139, marks=OTHER_END)])
def test_the_others_go_on_with_their_servers_without_a_dead_worker(tmp_path, strategy, what, code):
    history = tmp_path / "h.json"
    done = train(strategy, *SERVERS, "--history", history, ranks=3, launch=["--keep-going"], fault=f"rank=2,step=4,what={what}")
    said = done.stdout + done.stderr
    assert done.returncode == code and "worker 2 on rank 2 is gone: the other workers go on" in said, said
    assert "F1 (weighted)" in done.stdout
    epochs = json.loads(history.read_text())["epochs"]
    assert epochs[1]["steps"] == 23 and epochs[1]["images"] == 23 * 64


@pytest.mark.parametrize("order", [[], pytest.param(["--deterministic"], marks=pytest.mark.long("the order of exchanges is fixed"))])
@pytest.mark.parametrize("strategy", ["downpour", pytest.param("parameter_server", marks=pytest.mark.long("a second strategy"))])
def test_without_a_server_all_end(tmp_path, strategy, order):
    done = train(strategy, *SERVERS, *order, "--history", tmp_path / "h.json", ranks=3, launch=["--keep-going"],
                 fault="rank=1,step=4,what=kill")
    said = done.stdout + done.stderr
    assert done.returncode == 137 and "the other workers go on" not in said, said
    lost = ["the server on rank 1, which keeps a part of the weights, is lost: "]
    for rank, sentences in (0, lost), (2, [*lost, "worker 2 has lost the centre on rank 0: "]):  # if rank 0 ends first
        lines = [line for line in said.splitlines() if line.startswith(f"[1,{rank}]") and "kolo_fit" in line]
        assert len(lines) == 1 and any(sentence in lines[0] for sentence in sentences), said
    assert not (tmp_path / "h.json").exists()


@pytest.mark.long("a worker that hangs before one server is below")
def test_a_worker_that_hangs_before_several_servers_ends_all_after_the_limit():
    done = train("downpour", *SERVERS, ranks=3, launch=["--stall-limit", "2", "--fault", "rank=2,step=4,what=hang"])
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "worker 2 has not come for 2 s (KOLO_STALL_LIMIT): the others wait for its batch" in said, said


@pytest.mark.parametrize("rank, what, sentence", [(2, "cut", "its link is cut"), pytest.param(2, "drop", "no answer for 3 s", marks=OTHER_END)])
def test_a_link_to_a_server_that_fails_is_noticed(rank, what, sentence):
    done = train("downpour", *SERVERS, ranks=3, launch=["--keep-going", "--stall-limit", "3"], fault=f"rank={rank},step=4,what={what}")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and sentence in said, said
    assert f"worker {rank} on rank {rank} is gone: the other workers go on" in said and "F1 (weighted)" in done.stdout, said


def test_a_slow_rank_takes_fewer_batches(tmp_path):
    order = tmp_path / "order.json"
    done = train("downpour", "--window", "1", "--record", order, ranks=3, fault="rank=1,what=slow:20x")
    assert done.returncode == 0, done.stdout + done.stderr
    for epoch in json.loads(order.read_text())["epochs"]:
        batches = [sum(len(batches) for worker, batches in epoch if worker == which) for which in range(3)]
        # without a core another rank may take as few
        assert sum(batches) == 23 and 2 * batches[1] < batches[0] + batches[2], batches


@pytest.mark.parametrize("strategy", ["downpour", pytest.param("easgd", marks=pytest.mark.long("a second strategy"))])
def test_a_worker_that_hangs_ends_all_after_the_limit(strategy):
    done = train(strategy, ranks=3, launch=["--stall-limit", "2", "--fault", "rank=2,step=4,what=hang"])
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "worker 2 has not come for 2 s (KOLO_STALL_LIMIT): the others wait for its batch" in said, said


@pytest.mark.parametrize("strategy", ["downpour", pytest.param("easgd", marks=pytest.mark.long("a second strategy"))])
def test_the_others_go_on_without_a_worker_that_hangs(strategy):
    done = train(strategy, ranks=3, launch=["--keep-going", "--stall-limit", "2", "--fault", "rank=2,step=4,what=hang"])
    said = done.stdout + done.stderr
    assert done.returncode == 1 and re.search(r"worker 2 on rank 2 has not come for \d+ s \(KOLO_STALL_LIMIT\): it is given up", said), said
    assert "worker 2 on rank 2 is gone: the other workers go on" in said and "F1 (weighted)" in done.stdout, said
    assert re.search(r"kolorun: rank 2 \(.*\) has done nothing for 4 s, and other ranks have ended: it is ended", said), said


@pytest.mark.parametrize("strategy", ["downpour", pytest.param("easgd", marks=pytest.mark.long("a second strategy"))])
def test_a_worker_without_an_answer_gives_up(strategy):
    """The centre answers a worker that has to wait for others, so silence means that a message was lost."""
    done = train(strategy, ranks=3, launch=["--keep-going", "--stall-limit", "3"], fault="rank=2,step=4,what=drop")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "worker 2 has lost the centre on rank 0: no answer for 3 s" in said, said
    assert "worker 2 on rank 2 is gone: the other workers go on" in said and "F1 (weighted)" in done.stdout, said


@pytest.mark.parametrize("strategy", ["easgd", pytest.param("downpour", marks=pytest.mark.long("a second strategy"))])
def test_a_cut_link_is_noticed_at_both_ends(strategy):
    done = train(strategy, ranks=3, launch=["--keep-going"], fault="rank=1,step=4,what=cut")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "worker 1 has lost the centre on rank 0: its link is cut" in said, said
    assert "worker 1 on rank 1 is gone: the other workers go on" in said and "F1 (weighted)" in done.stdout, said
