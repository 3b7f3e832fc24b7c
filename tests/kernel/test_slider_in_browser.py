"""%slider as a learner meets it: JupyterLab in Chromium, with the front end of ipywidgets."""
from pathlib import Path

import pytest
from jupyter_core.paths import jupyter_path
from labs.browser import PATIENCE, needs_chromium, notebook_of, playwright

FRONT_END = "@jupyter-widgets/jupyterlab-manager/package.json"
pytestmark = [
    needs_chromium,
    pytest.mark.long("a browser of its own"),
    pytest.mark.skipif(not any((Path(folder) / FRONT_END).exists() for folder in jupyter_path("labextensions")),
                       reason="jupyterlab_widgets is not in this Python: run make setup"),
]


def test_a_learner_moves_the_slider_and_a_cell_moves_it_back(tmp_path):
    with notebook_of(["%slider batch 1 512", "batch", "batch = 300;"], tmp_path) as notebook:
        notebook.start(0)
        output = notebook.output(0)
        output.locator(".noUi-handle").wait_for()
        readout = output.locator(".widget-readout")
        assert readout.inner_text() == "1" and "batch" in output.inner_text()
        track = output.locator(".noUi-base").bounding_box()
        notebook.page.mouse.click(track["x"] + 0.75 * track["width"], track["y"] + track["height"] / 2)
        playwright.expect(readout).not_to_have_text("1", timeout=PATIENCE)
        moved = readout.inner_text()
        assert 350 < int(moved) < 420, moved
        assert notebook.run(1).strip().endswith(moved)
        notebook.picture("kernel-slider")
        notebook.run(2)
        readout.filter(has_text="300").wait_for()
        notebook.page.keyboard.press("Control+s")
        notebook.page.locator(".jp-NotebookPanel:not(.jp-mod-dirty)").first.wait_for()
        notebook.page.reload()
        notebook.output(0).locator(".widget-readout").filter(has_text="300").wait_for()  # the page asks the kernel for it
