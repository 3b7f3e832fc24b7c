"""`make lab`'s JupyterLab: it listens, asks for its token, knows the kernel, and ends at Ctrl-C and with make."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import patience
import pytest

from workshop import ROOT, run

LAB = ROOT / "dockerfiles/lab.sh"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lab_environment(port):
    environment = {**os.environ, "PORT": str(port), "NO_BROWSER": "1"}
    for name in ("JUPYTER_TOKEN", "MAKEFLAGS", "MAKELEVEL"):
        environment.pop(name, None)
    return environment


@contextlib.contextmanager
def running(*command):
    """The URL that a running lab printed, and its process."""
    process = subprocess.Popen(command, cwd=ROOT, env=lab_environment(free_port()), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        url = next(found[0] for found in (re.search(r"http://\S+", line) for line in process.stdout) if found)
        yield url, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.status, answer.read()


@pytest.fixture
def lab():
    with running(LAB) as started:
        yield started


def test_a_lab(lab):
    url, process = lab
    assert "/lab/tree/Start_Here.ipynb?token=" in url
    assert get(url)[0] == 200
    site, token = re.match(r"(http://[^/]+)/.*token=(\w+)", url).groups()
    known = json.loads(get(f"{site}/api/kernelspecs?token={token}")[1])
    assert known["default"] == "kolo"
    assert known["kernelspecs"]["kolo"]["spec"]["display_name"] == "C (Kolo)"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(f"{site}/api/kernelspecs")
    with open(f"/proc/{process.pid}/cmdline") as commandline:
        assert token not in commandline.read()
    os.killpg(process.pid, signal.SIGINT)
    start = patience.now()
    patience.wait(process, 30)
    assert patience.now() - start < 10


def test_a_signal_to_make_ends_it():
    with running("make", "-o", "setup", "lab") as (url, process):
        process.terminate()  # make alone, not its group
        patience.wait(process, 30)
        with pytest.raises(urllib.error.URLError, match="refused"):
            get(url)


def test_a_port_in_use():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run([LAB], env=lab_environment(port))
    assert done.returncode == 1
    assert re.fullmatch(rf"kolo: port {port} is in use by another program: run 'make lab PORT=\d+'\.\n", done.stderr)


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_an_impossible_port(port):
    done = run([LAB], env=lab_environment(port))
    assert done.returncode == 1 and done.stderr == f"kolo: PORT is a number from 1 to 65535, got '{port}'.\n"
