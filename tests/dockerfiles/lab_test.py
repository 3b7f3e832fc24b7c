"""`make lab`'s JupyterLab: it listens, asks for its token, knows the kernel, and ends at Ctrl-C and with make."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import patience
import pytest

from dockerfiles.remote_kernel import RemoteKernel
from workshop import ROOT, run

LAB = ROOT / "dockerfiles/lab.sh"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lab_environment(port, **more):
    environment = {**os.environ, "PORT": str(port), "NO_BROWSER": "1", **more}
    for name in ("JUPYTER_TOKEN", "MAKEFLAGS", "MAKELEVEL"):
        environment.pop(name, None)
    return environment


@contextlib.contextmanager
def running(*command, **environment):
    """The URL that a running lab printed, and its process."""
    process = subprocess.Popen(command or [LAB], cwd=ROOT, env=lab_environment(free_port(), **environment),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, start_new_session=True)
    try:
        url = next(found[0] for found in (re.search(r"http://\S+", line) for line in process.stdout) if found)
        yield url, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def lab():
    with running() as made:
        yield made


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.status, answer.read()


@pytest.fixture
def lab():
    with running() as started:
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
    assert patience.until(lambda: not run(["pgrep", "-P", process.pid]).stdout, 5), "a child that nobody waits for stays a zombie"
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


@pytest.mark.long("a JupyterLab starts, and a kernel")
@pytest.mark.parametrize("deep", [False, True], ids=["short", "longer than a socket's path"])
def test_kernels_take_no_ports(deep):
    """Kernels that start together must not find the same free port, in whatever folder Jupyter keeps its files."""
    with tempfile.TemporaryDirectory(prefix="kolo-") as top:
        folder = Path(top, "deep" * 20 if deep else "run")
        temporary = Path(top, "tmp")
        temporary.mkdir()
        with running(JUPYTER_RUNTIME_DIR=str(folder), TMPDIR=str(temporary)) as (url, process):
            kernel = RemoteKernel(url)
            assert kernel.run("6 * 7") == ("ok", "42")
            connection, = Path(top).rglob(f"kernel-{kernel.id}.json")
            assert json.loads(connection.read_text())["transport"] == "ipc"
            assert connection.is_relative_to(temporary if deep else folder) and not connection.parent.stat().st_mode & 0o077
            kernel.close()
            os.killpg(process.pid, signal.SIGTERM)
            patience.wait(process, 60)
        assert not list(temporary.iterdir())


DOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
       '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')


def test_a_page_with_pictures_becomes_latex(tmp_path):
    """Kolo's pictures are PNG and SVG: of the two LaTeX takes the PNG, for which nobody needs Inkscape."""
    picture = nbformat.v4.new_output("display_data", dict(zip(("image/png", "image/svg+xml"), DOT)))
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("kolo_show_history(history);", outputs=[picture])])
    nbformat.write(page, tmp_path / "page.ipynb")
    done = run([ROOT / ".venv/bin/jupyter", "nbconvert", "--to", "latex", tmp_path / "page.ipynb"],
               env={**os.environ, "JUPYTER_CONFIG_PATH": str(ROOT / "dockerfiles/jupyter")})
    assert done.returncode == 0, done.stderr
    png, = (tmp_path / "page_files").glob("*.png")
    assert f"page_files/{png.name}" in (tmp_path / "page.tex").read_text()


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
