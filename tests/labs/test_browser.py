"""Chromium opens JupyterLab, runs a notebook's cells, and sees a training's bar and a plot.

The screenshot is kept in the build's folder: screenshots/lab.png.
"""
from labs.browser import needs_chromium, notebook_of

pytestmark = needs_chromium

TRAINING = """#include <kolo.h>
kolo_data *digits = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 2000);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY});
const kolo_history *history = kolo_fit(model, digits, .epochs = 3);"""
PLOT = """double loss[3];
for (int i = 0; i < 3; i++) loss[i] = history->epoch[i].loss;
kolo_plot("Seen in a browser", .x_label = "epoch", .y_label = "loss", .series = {{"loss", NULL, loss, 3}});"""


def test_a_cell_trains_and_a_plot_is_seen(tmp_path):
    with notebook_of((TRAINING, PLOT), tmp_path) as notebook:
        notebook.start(0)
        notebook.start(1)
        # SVG arrives as an image of JupyterLab's own making.
        picture = notebook.output(1).locator("img, svg").first
        picture.wait_for(state="visible")
        notebook.page.wait_for_function("""() => [...document.querySelectorAll('.jp-OutputArea-output img')]
            .every(picture => picture.complete && picture.naturalWidth > 300)""")
        box, lines = picture.bounding_box(), notebook.text(0).strip().splitlines()
        notebook.picture("lab")
        errors = notebook.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count()
    assert box["width"] > 300 and box["height"] > 150
    assert len(lines) == 6, lines  # an epoch and its bar, drawn over, three times
    assert all("━" * 20 in line and "loss" in line for line in lines[1::2]), lines
    assert errors == 0
