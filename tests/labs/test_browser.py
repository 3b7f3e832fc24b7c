"""Chromium opens JupyterLab, runs a notebook's cells, and sees a training's bar and a plot.

The screenshot is kept in the build's folder: screenshots/lab.png.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not in this Python: run make setup")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium: apt install chromium")

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
PATIENCE = 120_000  # ms, on a machine that is busy

TRAINING = """#include <kolo.h>
kolo_data *digits = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 2000);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY});
const kolo_history *history = kolo_fit(model, digits, .epochs = 3);"""
PLOT = """double loss[3];
for (int i = 0; i < 3; i++) loss[i] = history->epoch[i].loss;
kolo_plot("Seen in a browser", .x_label = "epoch", .y_label = "loss", .series = {{"loss", NULL, loss, 3}});"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_server(process, url, log):
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.2)
    pytest.fail("JupyterLab did not answer within two minutes:\n" + log.read_text())


@pytest.fixture
def lab(tmp_path):
    """JupyterLab's address with a token, serving a folder with one notebook; settings of its own."""
    folder, own = tmp_path / "served", tmp_path / "jupyter"
    folder.mkdir()
    cells = [nbformat.v4.new_code_cell(source) for source in (TRAINING, PLOT)]
    spec = {"name": "kolo", "display_name": "C (Kolo)", "language": "c"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec}), folder / "small.ipynb")
    environment = dict(os.environ, JUPYTER_TOKEN="seen-by-this-test-only")
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"):
        environment[name] = str(own / name.lower())
    found = [str(BUILD / "share/jupyter"), os.environ.get("JUPYTER_PATH", "")]
    environment["JUPYTER_PATH"] = os.pathsep.join(filter(None, found))
    port, log = free_port(), tmp_path / "server.log"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port_retries=0",
               f"--port={port}", f"--ServerApp.root_dir={folder}"]
    with log.open("w") as out, subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                                stderr=out, start_new_session=True) as process:
        try:
            wait_for_server(process, f"http://127.0.0.1:{port}/api/status?token=seen-by-this-test-only", log)
            yield f"http://127.0.0.1:{port}/lab/tree/small.ipynb?token=seen-by-this-test-only&reset"
        finally:
            process.terminate()  # and it ends its kernels
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def page():
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(PATIENCE)
        yield page
        browser.close()


def test_a_cell_trains_and_a_plot_is_seen(lab, page):
    page.goto(lab)
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    kernel = page.locator(".jp-Toolbar-kernelName:visible").first
    playwright.expect(kernel).to_contain_text("C (Kolo)", timeout=PATIENCE)
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']", state="attached")
    cells.nth(0).locator(".cm-content").click()
    for _ in range(2):
        page.keyboard.press("Shift+Enter")
    # SVG arrives as an image of JupyterLab's own making.
    picture = cells.nth(1).locator(".jp-OutputArea-output img, .jp-OutputArea-output svg").first
    picture.wait_for(state="visible")
    page.wait_for_function("""() => [...document.querySelectorAll('.jp-OutputArea-output img')]
        .every(picture => picture.complete && picture.naturalWidth > 300)""")
    box = picture.bounding_box()
    text = cells.nth(0).locator(".jp-OutputArea-output").all_inner_texts()
    shots = BUILD / "screenshots"
    shots.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=shots / "lab.png")
    assert box["width"] > 300 and box["height"] > 150
    lines = "".join(text).strip().splitlines()
    assert len(lines) == 6, lines  # an epoch and its bar, drawn over, three times
    assert all("━" * 20 in line and "loss" in line for line in lines[1::2]), lines
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0
