"""The kernel as its users meet it: JupyterLab in Chromium. Each test leaves a picture in the build's screenshots/."""
import re

import patience
import pytest
from kernel.driver import BUILD
from labs.browser import needs_chromium, notebook_of

pytestmark = needs_chromium

CELLS = [
    '#include <stdio.h>\n#include <unistd.h>\n#include <kolo.h>\n'
    'struct point { double x, y; };\nstruct point p = {1, 2.5};\np',
    'int *nowhere = NULL;\n*nowhere = 1;',
    'for (;;) { printf("round\\n"); sleep(1); }',
    'int answer;\nprintf("A number: ");\nscanf("%d", &answer);\nanswer * 2',
    'kolo_fi',
    'kolo_fit(',
    'double squares[10];\nfor (int i = 0; i < 10; i++) squares[i] = i * i;\n'
    'kolo_plot("Squares", .x_label = "i", .y_label = "i squared", .series = {{"squares", NULL, squares, 10}});',
    'printf("%d\\n", 2.5);\nint wrong = nothing;',
    '// The distance from the origin.\n// Never negative.\ndouble distance(struct point a)\n{\n    return a.x + a.y;\n}\n'
    'enum color { RED, GREEN, BLUE } paint = RED;',
    'distance(',
    'printf',
    'p.x',
    'dist',
    'paint == ',
    """kolo_data *digits = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 2000);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY});
kolo_fit(model, digits, .epochs = 3);""",
    'kolo_start_timeline("step.json");\nkolo_fit(model, digits, .epochs = 2, .batch_size = 200, .verbose = 0);\n'
    'kolo_stop_timeline();\nkolo_show_timeline("step.json");',
    "%what_if step.json machine=dgx-a100 devices=1,8,64 network=ethernet-10 noise_scale=2000",
]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with notebook_of(CELLS, tmp_path_factory.mktemp("lab")) as opened:
        opened.run(0)
        yield opened


def test_a_value(notebook):
    assert "{.x = 1.0, .y = 2.5}" in notebook.text(0)
    notebook.picture("kernel-value")


def test_a_fault_names_its_line(notebook):
    assert re.search(r"Segmentation fault at In\[\d+\]:2", notebook.run(1))
    notebook.picture("kernel-fault")


def test_an_interrupt(notebook):
    notebook.start(2)
    notebook.output(2).filter(has_text="round").wait_for()
    notebook.picture("kernel-running")
    notebook.page.locator("jp-button[data-command='notebook:interrupt-kernel'], [data-jp-item-name='interrupt'] jp-button").first.click()
    start = patience.now()
    notebook.output(2).filter(has_text="interrupted").wait_for()
    assert patience.now() - start < 3
    notebook.picture("kernel-interrupt")


def test_an_input_box(notebook):
    notebook.start(3)
    box = notebook.page.locator(".jp-Stdin-input")
    box.fill("21")
    notebook.picture("kernel-input")
    box.press("Enter")
    notebook.output(3).filter(has_text="42").wait_for()


def test_completion(notebook):
    notebook.edit(4)
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.press("Tab")
    offered = notebook.page.locator(".jp-Completer-match")
    notebook.page.wait_for_function("() => document.querySelector('.jp-CodeCell .cm-focused')?.textContent.includes('kolo_fit')"
                                    " || document.querySelector('.jp-Completer-match')")
    notebook.picture("kernel-completion")
    assert offered.count() == 0 or any("kolo_fit" in text for text in offered.all_inner_texts())
    notebook.page.keyboard.press("Escape")


def test_options_are_offered_and_help_is_shown(notebook):
    notebook.edit(5)
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.press("Shift+Tab")
    tip = notebook.page.locator(".jp-Tooltip")
    tip.wait_for()
    assert "kolo_fit(model, data" in tip.inner_text()
    notebook.picture("kernel-help")
    notebook.page.keyboard.press("Escape")
    notebook.edit(5)
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.type("model, data, .")
    notebook.page.keyboard.press("Tab")
    notebook.page.locator(".jp-Completer-match", has_text="epochs").first.wait_for()
    notebook.picture("kernel-options")
    notebook.page.keyboard.press("Escape")


def shown_by_shift_tab(notebook, cell, picture):
    notebook.edit(cell)
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.press("Shift+Tab")
    tip = notebook.page.locator(".jp-Tooltip")
    tip.wait_for()
    notebook.picture(picture)
    text = tip.inner_text()
    notebook.page.keyboard.press("Escape")
    return text


def test_help_is_laid_out_alike_everywhere(notebook):
    notebook.run(8)
    text = shown_by_shift_tab(notebook, 9, "kernel-help-function")
    assert "double distance(struct point a)" in text and "The distance from the origin." in text and "defined in In[" in text
    text = shown_by_shift_tab(notebook, 10, "kernel-help-printf")
    assert text.startswith("int printf(const char *restrict format, ...)") and "#include <stdio.h>" in text
    assert "member of struct point" in shown_by_shift_tab(notebook, 11, "kernel-help-member")


def offered_by_tab(notebook, cell, picture):
    notebook.edit(cell)
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.press("Tab")
    notebook.page.locator(".jp-Completer-match").first.wait_for()
    notebook.page.locator(".jp-Completer-docpanel, .jp-Completer-typeExtended").first.wait_for()
    notebook.picture(picture)
    names = notebook.page.locator(".jp-Completer-match").all_inner_texts()
    notebook.page.keyboard.press("Escape")
    return names


def test_what_fits_is_offered_first_with_its_type(notebook):
    assert offered_by_tab(notebook, 13, "kernel-completion-enum")[:3] == ["BLUE", "GREEN", "RED"]


def see_picture(notebook, cell, name):
    picture = notebook.output(cell).locator("img, svg").first  # SVG arrives as an image of JupyterLab's own making
    picture.wait_for(state="visible")
    notebook.page.wait_for_function("""() => [...document.querySelectorAll('.jp-OutputArea-output img')]
        .every(picture => picture.complete && picture.naturalWidth > 300)""")
    picture.scroll_into_view_if_needed()
    notebook.picture(name)
    box, cell_box = picture.bounding_box(), notebook.cells.nth(cell).bounding_box()
    assert box["x"] + box["width"] <= cell_box["x"] + cell_box["width"], "the cell cuts the picture off"
    return box


def test_a_plot(notebook):
    notebook.run(6)
    box = see_picture(notebook, 6, "kernel-plot")
    assert box["width"] > 300 and box["height"] > 150


def test_a_training_draws_its_bars(notebook):
    lines = notebook.run(14).strip().splitlines()
    notebook.picture("kernel-training")
    assert lines[0].startswith("Epoch 1/3"), lines
    assert len(lines) >= 6 and all("━" * 20 in line and "loss" in line for line in lines[1:6:2]), lines  # drawn over, not repeated


def test_a_timeline_and_what_it_says_of_another_machine(notebook):
    assert "Error" not in notebook.run(15), notebook.text(15)
    assert see_picture(notebook, 15, "kernel-timeline")["width"] > 600
    assert re.search(r"modelled +64 ", notebook.run(16)), notebook.text(16)
    assert see_picture(notebook, 16, "kernel-what-if")["width"] > 300


def test_mistakes_are_shown_where_they_are(notebook):
    text = notebook.run(7)
    assert re.search(r"In\[\d+\]:2:13", text) and "nothing" in text and "^" in text
    notebook.picture("kernel-mistake")


CONTRASTS = """() => {
    const numbers = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
    const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
    const linear = v => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
    const luminance = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
    const ground = element => {
        const behind = [];
        for (let e = element; e; e = e.parentElement) behind.unshift(numbers(getComputedStyle(e).backgroundColor));
        return behind.reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    return [...document.querySelectorAll(".jp-OutputArea-output pre span")].map(span => {
        const [dark, light] = [luminance(numbers(getComputedStyle(span).color)), luminance(ground(span))].sort((a, b) => a - b);
        return [span.textContent, (light + 0.05) / (dark + 0.05)];
    });
}"""  # of each coloured or bold word, as WCAG 2 defines it


def choose_theme(page, name):
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_text("Theme", exact=True).first.hover()
    page.get_by_text(name, exact=True).first.click()
    page.wait_for_function("dark => document.body.dataset.jpThemeLight === String(!dark)", arg="Dark" in name)


def test_errors_are_legible_in_both_themes(notebook):
    notebook.run(1)
    notebook.run(7)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        choose_theme(notebook.page, theme)
        notebook.output(7).last.scroll_into_view_if_needed()
        notebook.picture("kernel-mistake-" + theme.split()[1].lower())
        contrasts = notebook.page.evaluate(CONTRASTS)
        sentences = [contrast for words, contrast in contrasts if "Segmentation fault" in words or words.strip() == "^"]
        assert len(sentences) >= 2 and min(sentences) >= 4.5, (theme, contrasts)
        assert all(contrast >= 3 for _, contrast in contrasts), (theme, contrasts)
