"""A class of accounts on this machine: each has its own files, cores and memory, and none disturbs another."""
import json
import os
import re
import subprocess
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import patience
import pytest

from dockerfiles.board_test import BOARD, Board
from dockerfiles.remote_kernel import RemoteKernel, transport_of
from workshop import ROOT, run

CLASS = ROOT / "dockerfiles/kolo-class"
GROUPS = [Path("/sys/fs/cgroup/cgroup.subtree_control"), Path("/sys/fs/cgroup/memory")]
readable = subprocess.run(["su", "-s", "/bin/sh", "nobody", "-c", f"test -x {ROOT}/.venv/bin/jupyter"], capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.long("accounts are made, and a JupyterLab starts in each"),
    pytest.mark.skipif(os.environ.get("KOLO_SLOW") != "1", reason="KOLO_SLOW=1 makes accounts on this machine, and removes them"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes accounts"),
    pytest.mark.skipif(not any(os.access(group, os.W_OK) for group in GROUPS), reason="no control group can be written here"),
    pytest.mark.skipif(not readable, reason="this checkout cannot be read by other accounts"),
]
NAMES = ["testone", "testtwo", "testthree"]
ENVIRONMENT = {**os.environ, "WITH": "users", "CPUS": "1", "MEMORY": "1500m", "PORT": "19301"}


def school(*words):
    # A server that goes on must not hold the test's pipes open.
    return patience.run([str(CLASS), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)


def answers(url):
    try:
        RemoteKernel.ask(type("Site", (), {"site": re.match(r"http://[^/]+", url)[0], "token": url.split("token=")[1]}), "/api/kernelspecs")
        return True
    except (urllib.error.URLError, ConnectionError):
        return False


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    names = tmp_path_factory.mktemp("class") / "names"
    names.write_text("\n".join(NAMES) + "\n")
    done = school("start", str(names))
    try:
        assert done.returncode == 0, done.stderr
        found = dict(re.findall(r"^(\S+) .*(http://\S+)$", done.stdout, re.MULTILINE))
        assert [found[name] for name in NAMES]
        for name in NAMES:
            assert patience.until(lambda: answers(found[name]), 240), name
        yield found
    finally:
        school("forget", *NAMES)


def test_each_has_c_and_files_of_its_own(urls):
    for name in NAMES:
        kernel = RemoteKernel(urls[name])
        assert kernel.run("6 * 7") == ("ok", "42")
        assert f"kolo-{name}" in kernel.run("!id -un")[1]
        assert "No such" not in kernel.run("!ls ~/kolo/Start_Here.ipynb && touch ~/kolo/mine")[1]
        other = NAMES[NAMES.index(name) - 1]
        kernel.run(f"!touch /tmp/of-{name}")
        # Kernels of many accounts that start together must not find the same free port.
        assert transport_of(kernel.id) == "ipc"
        assert "Permission denied" in kernel.run(f"!ls /home/kolo-{other}/kolo")[1]
        kernel.close()


def test_a_loop_and_full_memory_do_not_disturb_another(urls):
    looping, greedy, calm = (RemoteKernel(urls[name]) for name in NAMES)
    looping.send("#include <pthread.h>\nvoid *spin(void *x) { for (;;) ; return x; }\npthread_t t[8];\n"
                 "for (int i = 0; i < 8; i++) pthread_create(t + i, NULL, spin, NULL);\nspin(NULL);")
    # A cell of the greedy one ends, since the account's memory does.
    status, shown = greedy.run("#include <stdlib.h>\nfor (;;) {\n    volatile char *p = malloc(64 << 20);\n"
                               "    for (long i = 0; i < 64 << 20; i += 4096) p[i] = 1;\n}")
    assert status == "error" and "memory" in shown.lower(), shown
    assert greedy.run("1 + 1") == ("ok", "2"), "the learner's own kernel goes on"
    assert calm.run("6 * 7") == ("ok", "42")
    for kernel in (looping, greedy, calm):
        kernel.close()


def test_a_stop_keeps_what_was_written(urls):
    done = school("stop", NAMES[0])
    assert done.returncode == 0, done.stderr
    states = dict(re.findall(r"^(\S+) +(running|stopped) ", school("list").stdout, re.MULTILINE))
    assert states[NAMES[0]] == "stopped" and states[NAMES[1]] == "running"
    assert Path(f"/home/kolo-{NAMES[0]}/kolo/mine").exists()
    # A command that is not told how learners are kept finds those that there are.
    untold = {name: value for name, value in ENVIRONMENT.items() if name != "WITH"}
    assert NAMES[0] in run([CLASS, "list"], env=untold).stdout


def test_a_ring_of_accounts(urls, tmp_path):
    """The class is the cluster: programs of two accounts train one network, and one of them is slow."""
    board = Board(tmp_path / "class.json")
    kernels = [RemoteKernel(urls[name], "Start_Here.ipynb") for name in NAMES[1:]]
    try:
        program = ("cnn_mnist --strategy multi_worker_mirrored --data synthetic --epochs 1 --steps-per-epoch 2 --batch-size 32 "
                   "--no-validation --history history.json")
        assert run([BOARD, "open", board.instructor, "2", *program.split()]).returncode == 0
        for name, kernel in zip(NAMES[1:], kernels):
            assert f"shows '{name}'" in kernel.run(f"!kolo-board join {board.learner} {name}")[1]
        news = kernels[0].run("!kolo-board news")[1]
        line = re.search("!kolo-board ring .*", news)[0]
        with ThreadPoolExecutor() as threads:
            slow = line.replace("ring", "--slow 3 ring", 1)
            outcomes = list(threads.map(lambda one: one[0].run(one[1]), zip(kernels, (line, slow))))
        assert all(status == "ok" and "ring: all 2 are there. This is rank" in shown for status, shown in outcomes), outcomes
        assert "slow" not in outcomes[0][1].replace(line, "") and "slow" in outcomes[1][1]
        histories = [kernel.run("!cat history.json 2>/dev/null || true")[1] for kernel in kernels]
        assert [json.loads(history)["ranks"] for history in histories if history] == [2], outcomes
    finally:
        for kernel in kernels:
            kernel.close()
        board.end()


def test_a_full_disk_leaves_no_half_made_learner(urls, tmp_path):
    (tmp_path / "names").write_text("testfull\n")
    done = run(["unshare", "--mount", "bash", "-c", f"mount -t tmpfs -o size=1m tmpfs /home && {CLASS} start {tmp_path}/names"], env=ENVIRONMENT)
    assert done.returncode == 1 and "No space left" in done.stderr and done.stderr.endswith("kolo: testfull could not be started.\n")
    assert run(["getent", "passwd", "kolo-testfull"]).returncode == 2 and not Path("/var/lib/kolo-class/testfull").exists()


def test_a_name_that_is_not_in_the_class(urls):
    done = school("stop", "nobodyhere")
    assert done.returncode == 1 and done.stderr == "kolo: there is no learner 'nobodyhere' in this class.\n"


def test_forgotten_learners_leave_nothing(urls):
    assert school("forget", *NAMES).returncode == 0
    for name in NAMES:
        assert run(["getent", "passwd", f"kolo-{name}"]).returncode == 2
        assert not Path(f"/home/kolo-{name}").exists() and not Path(f"/var/lib/kolo-class/{name}").exists()
        assert not list(Path("/sys/fs/cgroup").glob(f"*/kolo-{name}"))
        assert not Path(f"/tmp/of-{name}").exists(), "the next account may get the same number"
