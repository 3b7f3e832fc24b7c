"""A layer, a loss and a metric of the learner's own, written in cells, are the same structs as Kolo's; histories and scores show every metric."""
import json
import re

import pytest

from kernel.driver import Kernel


@pytest.fixture(scope="module")
def kernel():
    one = Kernel()
    for cell in CELLS:
        outcome = one.run(cell)
        assert outcome.status == "ok" and not outcome.stderr, outcome.error + outcome.stderr
    yield one
    one.close()


CELLS = [
    """#include <kolo.h>
#include <kolo/losses/loss.h>
#include <kolo/layers/layer.h>
#include <math.h>
#include <stdio.h>
float x[200 * 3], y[200];
for (int i = 0; i < 600; i++) x[i] = sin(1.7 * i + i % 7);
for (int s = 0; s < 200; s++) y[s] = 2 * x[3 * s] - x[3 * s + 1] + 0.5;
kolo_data *data = kolo_data_from_arrays(x, .samples = 200, .shape = {3}, .targets = y);""",
    # the mean of e^4, and the share of samples closer than a number
    """double fourth(const kolo_row *row, float *gradient)
{
    double sum = 0;
    for (int i = 0; i < row->count; i++) {
        double e = row->outputs[i] - row->targets[i];
        sum += e * e * e * e / row->count;
        if (gradient) gradient[i] = 4 * e * e * e / row->count;
    }
    return sum;
}
kolo_loss_kind mine = {.name = "fourth", .wants = KOLO_WANTS_TARGETS, .row = fourth};""",
    """void close_ones(const kolo_row *row, double weight, double *sums)
{
    sums[0] += weight * (fabs(row->outputs[0] - row->targets[0]) < row->number);
}
kolo_metric_kind closer = {.name = "close", .wants = KOLO_WANTS_TARGETS, .row = close_ones};""",
    # y = x · scale, with a scale for each number, all arithmetic in the cell
    """void times(const kolo_custom_call *call)
{
    int n = call->in_shape[0].dim[0];
    for (int i = 0; i < call->microbatch * n; i++) call->out[0][i] = call->in[0][i] * call->in[1][i % n];
}
void times_backward(const kolo_custom_call *call)
{
    int n = call->in_shape[0].dim[0];
    for (int i = 0; i < n; i++) call->out[1][i] = 0;
    for (int i = 0; i < call->microbatch * n; i++) {
        if (call->out[0]) call->out[0][i] = call->in[0][i] * call->in[2][i % n];
        if (i < call->samples * n) call->out[1][i % n] += call->in[0][i] * call->in[1][i];
    }
}""",
    """kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    node->out = node->in;
    return kolo_declare_parameter(builder, node, "scale", node->in, KOLO_INIT_ONES, 0, 0);
}
kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    int scale = kolo_plan_weights(plan, flow->node->parameters[0], flow->node->in);
    return kolo_plan_custom(plan, flow, times, 2, (int[]){flow->x, scale}, 1, &flow->y, &flow->node->out);
}
kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    int scale = kolo_plan_weights(plan, flow->node->parameters[0], flow->node->in);
    int outs[2] = {-1, kolo_plan_gradient(plan, flow->node->parameters[0], flow->node->in)};
    kolo_shape shapes[2] = {flow->node->in, flow->node->in};
    kolo_status status = kolo_plan_custom(plan, flow, times_backward, 3, (int[]){flow->dy, flow->x, scale}, 2, outs, shapes);
    flow->dx = outs[0];
    return status;
}
kolo_layer_kind scale_kind = {.name = "scale", .build = build, .forward = forward, .backward = backward};""",
    """kolo_model *model = kolo_sequential(kolo_input(3), kolo_dense(3), kolo_layer_of(&scale_kind), kolo_dense(1));
kolo_compile(model, .loss = {&mine}, .metrics = {{&closer, 0.2}, KOLO_METRIC_MAE}, .optimizer = kolo_adam(.learning_rate = 0.02),
    .seed = 4);""",
]


def test_a_model_of_own_parts_learns(kernel):
    outcome = kernel.run("const kolo_history *h = kolo_fit(model, data, .epochs = 40, .validation_data = data, .verbose = 2);\n"
                         'printf("%g %g %g\\n", h->epoch[0].loss, h->epoch[39].loss, h->epoch[39].val_metric[0]);')
    assert outcome.status == "ok", outcome.error
    lines = outcome.stdout.splitlines()
    first, last, close = map(float, lines[-1].split())
    assert last < 0.01 * first and close > 0.85
    assert re.search(r" - close: \S+ - mae: \S+ - loss: \S+ - val_close: \S+ - val_mae: \S+ - val_loss: \S+$", lines[-2]), lines[-2]


def test_its_gradient_is_its_slope(kernel):
    outcome = kernel.run("""float gradient[64];
double worst = 0;
kolo_gradients(model, data, gradient);
int at = 0;
for (int w = 0; w < kolo_weight_count(model); w++) {
    kolo_weight weight = kolo_weight_get(model, w);
    for (int i = 0; i < weight.count; i++, at++) {
        float kept = weight.values[i];
        weight.values[i] = kept + 1.0f / 256; double up = kolo_gradients(model, data, NULL);
        weight.values[i] = kept - 1.0f / 256; double down = kolo_gradients(model, data, NULL);
        weight.values[i] = kept;
        worst = fmax(worst, fabs((up - down) * 128 - gradient[at]));
    }
}
printf("%d %g\\n", at == kolo_count_params(model), worst);""")
    assert outcome.status == "ok", outcome.error
    equal, worst = outcome.stdout.split()
    assert equal == "1" and float(worst) < 2e-3  # the loss is of the fourth order: the step itself costs 2^-16 times its third slope


def test_scores_and_a_history_are_shown_with_every_metric(kernel):
    scores = kernel.run("kolo_evaluate(model, data)").value
    assert re.fullmatch(r"close: \d\.\d{4} - mae: \S+ - loss: \S+ - 200 samples in \d+\.\d s", scores), scores
    shown = kernel.run("h").results[-1]
    assert shown["text/plain"].splitlines()[0].split() == ["epoch", "loss", "close", "mae", "val_loss", "val_close", "val_mae", "seconds",
                                                            "images/s"]
    assert all(name in shown["image/svg+xml"] for name in ("close", "val_close", "mae", "val_mae", "loss", "val_loss"))


def test_a_history_is_kept_read_and_plotted(kernel, tmp_path):
    path = tmp_path / "h.json"
    outcome = kernel.run(f'kolo_history *copy = kolo_history_copy(h);\nkolo_history_save(copy, "{path}");\n'
                         f'kolo_history *again = kolo_history_load("{path}");\nkolo_plot_history(again, .metrics = {{"close"}});\n'
                         'printf("%d %d %g", again->epochs, again->metrics, kolo_history_get(again, 39, "val_close") - h->epoch[39].val_metric[0]);\n'
                         'kolo_history_free(&copy);\nkolo_history_free(&again);\nagain')
    assert outcome.status == "ok" and outcome.value == "NULL", outcome.error
    epochs, metrics, difference = outcome.stdout.split()
    assert (epochs, metrics) == ("40", "2") and abs(float(difference)) < 1e-9
    assert "val_close" in outcome.displays[0][1]["data"]["image/svg+xml"]
    saved = json.loads(path.read_text())
    assert saved["metrics"] == ["close", "mae"] and {"loss", "accuracy", "val_loss", "val_accuracy", "close", "val_mae"} <= set(saved["epochs"][0])


RECIPES = {
    "KOLO_HUBER(2.5)": "KOLO_HUBER(2.5)",
    "KOLO_LABEL_SMOOTHING(KOLO_BINARY_CROSSENTROPY, 0.1)": "KOLO_LABEL_SMOOTHING(KOLO_BINARY_CROSSENTROPY, 0.1)",
    "KOLO_MSE": "KOLO_MSE",
    "KOLO_F1(KOLO_WEIGHTED)": "KOLO_F1(KOLO_WEIGHTED)",
    "KOLO_TOP_K(5)": "KOLO_TOP_K(5)",
    "KOLO_AUC": "KOLO_AUC",
    "(kolo_loss){&mine}": "the loss 'fourth'",
}


@pytest.mark.parametrize("code", RECIPES)
def test_losses_and_metrics_are_shown_as_their_c(kernel, code):
    assert kernel.run(code).value == RECIPES[code]


def test_a_definition_run_again_is_used(kernel):
    kernel.run("kolo_model *m = kolo_sequential(kolo_input(3), kolo_dense(1));\nkolo_compile(m, .loss = {&mine}, .seed = 1);")
    before = float(kernel.run("kolo_evaluate(m, data).loss").value)
    kernel.run(CELLS[1].replace("double sum = 0;", "double sum = 100;"))
    kernel.run("kolo_compile(m, .loss = {&mine}, .seed = 1);")
    assert float(kernel.run("kolo_evaluate(m, data).loss").value) == pytest.approx(before + 100, rel=1e-5)


def test_a_faulty_loss_is_a_fault_of_the_cell(kernel):
    outcome = kernel.run("double bad(const kolo_row *row, float *gradient)\n{\n    return row->targets[1L << 40];\n}\n"
                         "kolo_loss_kind bad_kind = {.name = \"bad\", .wants = KOLO_WANTS_TARGETS, .row = bad};\n"
                         "kolo_compile(model, .loss = {&bad_kind});\nkolo_evaluate(model, data)")
    assert outcome.status == "error" and "Segmentation fault" in outcome.error
    assert f"In[{outcome.reply['execution_count']}]:3 in bad()" in outcome.error and "return row->targets[1L << 40];" in outcome.error
    assert kernel.run("1 + 1").value == "2"
