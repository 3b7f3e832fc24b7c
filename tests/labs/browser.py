"""JupyterLab in Chromium: a server of its own over one notebook, and a page that shows it. For tests."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import patience
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not in this Python: run make setup")
CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium: apt install chromium")

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
PATIENCE = 600_000  # ms; the limit of the test, which stretches with the load, comes first


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_server(process, url, log):
    def answers():
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    assert patience.until(answers, 120, pause=0.2), "JupyterLab did not answer:\n" + log.read_text()


def write_notebook(path, sources):
    """Without nbformat, whose import takes three seconds."""
    spec = {"name": "kolo", "display_name": "C (Kolo)", "language": "c"}
    cells = [{"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
             for number, source in enumerate(sources)]  # fmt: skip
    path.write_text(json.dumps({"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}))


@contextmanager
def serve(sources, folder):
    """JupyterLab's address with a token, serving a notebook of these cells; settings of its own."""
    served, own, log = folder / "served", folder / "jupyter", folder / "server.log"
    served.mkdir()
    write_notebook(served / "small.ipynb", sources)
    environment = dict(os.environ, JUPYTER_TOKEN="seen-by-this-test-only")
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"):
        environment[name] = str(own / name.lower())
    found = [str(BUILD / "share/jupyter"), os.environ.get("JUPYTER_PATH", "")]
    environment["JUPYTER_PATH"] = os.pathsep.join(filter(None, found))
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port_retries=0",
               f"--port={port}", f"--ServerApp.root_dir={served}"]
    with log.open("w") as out, subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                                stderr=out, start_new_session=True) as process:
        try:
            wait_for_server(process, f"http://127.0.0.1:{port}/api/status?token=seen-by-this-test-only", log)
            yield f"http://127.0.0.1:{port}/lab/tree/small.ipynb?token=seen-by-this-test-only&reset"
        finally:
            process.terminate()  # and it ends its kernels
            try:
                patience.wait(process, 30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


class Notebook:
    """The page, once its kernel is idle."""

    def __init__(self, page, address):
        self.page = page
        page.goto(address)
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")
        kernel = page.locator(".jp-Toolbar-kernelName:visible").first
        playwright.expect(kernel).to_contain_text("C (Kolo)", timeout=PATIENCE)
        self.wait_until_idle()

    def wait_until_idle(self):
        self.page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']", state="attached")

    def edit(self, index):
        self.cells.nth(index).locator(".cm-content").click()

    def start(self, index):
        self.edit(index)
        self.page.keyboard.press("Shift+Enter")

    def run(self, index):
        self.start(index)
        self.page.wait_for_function(
            "i => /\\d/.test(document.querySelectorAll('.jp-Notebook .jp-CodeCell')[i]"
            ".querySelector('.jp-InputPrompt').textContent)", arg=index)
        return self.text(index)

    def output(self, index):
        return self.cells.nth(index).locator(".jp-OutputArea-output")

    def text(self, index):
        return "".join(self.output(index).all_inner_texts())

    def picture(self, name):
        shots = BUILD / "screenshots"
        shots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=shots / f"{name}.png")


@contextmanager
def browser_page():
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(PATIENCE)
        yield page
        browser.close()


@contextmanager
def notebook_of(sources, folder):
    with serve(sources, folder) as address, browser_page() as page:
        yield Notebook(page, address)
