"""A class of thirty on this machine: each learner has a kernel and trains, one loops for ever, one fills the memory.

Nothing is lost, and what it cost is printed: KOLO_LEARNERS=30 says for how many. CLASS.md has figures of such runs.
"""
import csv
import io
import os
import re
import statistics
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import patience
import pytest
import websocket

from dockerfiles.board_test import BOARD, board  # noqa: F401: a fixture
from dockerfiles.class_users_test import CLASS, answers, pytestmark  # noqa: F401: the same machine is wanted
from dockerfiles.remote_kernel import RemoteKernel
from workshop import run

LEARNERS = int(os.environ.get("KOLO_LEARNERS", 30))
NAMES = [f"load{number:02d}" for number in range(1, LEARNERS + 1)]
LOOPING, GREEDY, OTHERS = NAMES[0], NAMES[1], NAMES[2:]
ENVIRONMENT = {**os.environ, "WITH": "users", "CPUS": "1", "MEMORY": os.environ.get("MEMORY", "2g"), "PORT": "19401"}
LOOP = """#include <pthread.h>
void *spin(void *x) { for (;;) ; return x; }
pthread_t t[8];
for (int i = 0; i < 8; i++) pthread_create(t + i, NULL, spin, NULL);
spin(NULL);"""
FILL = """#include <stdlib.h>
for (;;) {
    volatile char *p = malloc(64 << 20);
    for (long i = 0; i < 64 << 20; i += 4096) p[i] = 1;
}"""
TRAIN = """#include <kolo.h>
#include <stdio.h>
int mine = {number};
kolo_data *images = kolo_mnist(KOLO_TRAIN);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_conv2d(32, .kernel = {{3, 3}}, .activation = KOLO_RELU),
    kolo_max_pool2d(2, 2), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {{KOLO_ACCURACY}});
const kolo_history *h = kolo_fit(model, images, .epochs = 1, .steps_per_epoch = 20, .batch_size = 64);
printf("loss %.4f of learner %d\\n", kolo_history_get(h, 0, "loss"), mine);"""
RANKS = "!kolorun -np 8 cnn_mnist --batch-size 64 --epochs 1 --steps-per-epoch 4 --no-validation"


def school(*words):
    return patience.run([str(CLASS), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=ENVIRONMENT, timeout=900)


def processes_of(name):
    """Of an account: {pid: command line}."""
    found = run(["pgrep", "-a", "-u", f"kolo-{name}"]).stdout
    return {int(pid): command for pid, command in re.findall(r"^(\d+) (.*)$", found, re.MULTILINE)}


def megabytes(pids):
    """Their PSS: memory that n processes share counts to one part in n for each."""
    total = 0
    for pid in pids:
        try:
            total += int(re.search(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)[1])
        except (OSError, TypeError):
            pass  # it has ended
    return total / 1024


def measure(name):
    """(of JupyterLab, of the kernel with all that it has started)"""
    all_of = processes_of(name)
    lab = [pid for pid, command in all_of.items() if "jupyter-lab" in command]
    return megabytes(lab), megabytes(set(all_of) - set(lab))


class Report(list):
    """Lines, each written at once too: a run that fails has shown how far it came (pytest -s)."""

    def append(self, line):
        print(line, flush=True)
        super().append(line)


class Peaks(threading.Thread):
    """The most memory that each learner's kernel had, looked at every second or so."""

    def __init__(self, names):
        super().__init__(daemon=True)
        self.names, self.most, self.ended = names, dict.fromkeys(names, 0.0), threading.Event()

    def run(self):
        while not self.ended.wait(1):
            for name in self.names:
                self.most[name] = max(self.most[name], measure(name)[1])

    def end(self):
        self.ended.set()
        self.join()
        return list(self.most.values())


def middle_and_worst(values, unit):
    return f"median {statistics.median(values):.1f} {unit}, worst {max(values):.1f} {unit}"


@pytest.fixture
def urls(tmp_path):
    (tmp_path / "names").write_text("\n".join(NAMES) + "\n")
    begun = time.monotonic()
    done = school("start", str(tmp_path / "names"))
    try:
        assert done.returncode == 0, done.stderr
        found = dict(re.findall(r"^(\S+) .*(http://\S+)$", done.stdout, re.MULTILINE))
        assert patience.until(lambda: all(answers(found[name]) for name in NAMES), 600, pause=0.5)
        yield found, time.monotonic() - begun
    finally:
        for name in NAMES:
            print(f"log of {name}: {Path('/var/lib/kolo-class', name, 'log').read_text()[-2000:]}")  # pytest shows it where the test failed
        school("forget", *NAMES)


def open_kernel(url):
    """The kernel, the seconds until its first answer, and how often the server closed the connection before that: it does
    while it waits for a kernel that is slow to start, and a page connects again."""
    begun, closed = time.monotonic(), 0
    kernel = RemoteKernel(url, "Start_Here.ipynb")
    while True:
        try:
            assert kernel.run("6 * 7") == ("ok", "42")
            return kernel, time.monotonic() - begun, closed
        except websocket.WebSocketConnectionClosedException:
            closed += 1
            assert closed < 5, "the kernel does not answer"
            kernel.connect()


def train(kernel, number):
    begun = time.monotonic()
    status, shown = kernel.run(TRAIN.format(number=number))
    assert status == "ok" and re.search(rf"loss \d+\.\d+ of learner {number}\n", shown), shown
    return time.monotonic() - begun


@pytest.mark.timeout(1800)
def test_a_class_at_once(urls, board, capsys):  # noqa: F811
    found, labs = urls
    report = Report()
    with open("/proc/meminfo") as lines:
        all_memory = int(next(lines).split()[1]) / 1048576
    report.append(f"{LEARNERS} learners on {os.cpu_count()} cores and {all_memory:.0f} GB; load before {os.getloadavg()[0]:.1f}")
    report.append(f"JupyterLab answers for all: {labs:.0f} s after the start")
    with ThreadPoolExecutor(LEARNERS) as threads:
        opened = list(threads.map(lambda name: open_kernel(found[name]), NAMES))
        kernels = dict(zip(NAMES, (kernel for kernel, _, _ in opened)))
        report.append(f"first cell's answer, all at once: {middle_and_worst([seconds for _, seconds, _ in opened], 's')}")
        report.append(f"connections that had to be made again: {sum(closed for _, _, closed in opened)}")
        rest = [measure(name) for name in NAMES]
        report.append(f"memory of a JupyterLab: {middle_and_worst([lab for lab, _ in rest], 'MB')}")
        report.append(f"memory of a kernel at rest: {middle_and_worst([kernel for _, kernel in rest], 'MB')}")
        joined = list(threads.map(lambda name: kernels[name].run(f"!kolo-board join {board.learner} {name}"), NAMES))
        assert all(status == "ok" for status, _ in joined), joined

        kernels[LOOPING].send(LOOP)
        full = threads.submit(kernels[GREEDY].run, FILL)
        peaks = Peaks(OTHERS)
        peaks.start()
        seconds = list(threads.map(lambda name: train(kernels[name], NAMES.index(name)), OTHERS))
        report.append(f"a training of 20 steps, all at once, beside an endless loop: {middle_and_worst(seconds, 's')}")
        report.append(f"memory of a kernel that trains: {middle_and_worst(peaks.end(), 'MB')}")
        status, shown = full.result()
        assert status == "error" and "memory" in shown.lower(), shown
        told = list(threads.map(lambda name: kernels[name].run("!kolo-board send 3.a passed"), NAMES[1:]))
        assert all(status == "ok" for status, _ in told), told

    for name in OTHERS:
        assert kernels[name].run("mine") == ("ok", str(NAMES.index(name))), "each kernel kept its variables"
    assert kernels[GREEDY].run("1 + 1") == ("ok", "2")
    rows = csv.DictReader(io.StringIO(run([BOARD, "results", board.instructor]).stdout))
    assert sorted(row["learner"] for row in rows if row["passed"] == "1") == NAMES[1:]

    peaks = Peaks(OTHERS[:1])
    peaks.start()
    status, shown = kernels[OTHERS[0]].run(RANKS)
    report.append(f"memory of eight ranks of lesson 3 and their kernel: {middle_and_worst(peaks.end(), 'MB')}")
    assert status == "ok", shown
    for kernel in kernels.values():
        kernel.close()
    with capsys.disabled():
        print("\n" + "\n".join(report))
