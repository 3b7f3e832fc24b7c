"""An all-reduce that a learner writes in a cell: checked, used in training, and named when it is wrong."""
import re

import pytest
from kernel.driver import Kernel

ADD_UP = """#include <kolo.h>
#include <stdlib.h>
int calls = 0;
kolo_status add_up(float *values, int64_t count, void *user)
{
    float *other = malloc(count * sizeof *other + 1);
    calls++;
    for (int r = 1; r < kolo_size(); r++) {
        if (kolo_rank() == r) kolo_send(values, count, 0);
        if (kolo_rank() == 0) kolo_receive(other, count, r);
        for (int64_t i = 0; i < count && kolo_rank() == 0; i++) values[i] += other[i];
    }
    for (int r = 1; r < kolo_size(); r++) {
        if (kolo_rank() == 0) kolo_send(values, count, r);
        if (kolo_rank() == r) kolo_receive(values, count, 0);
    }
    free(other);
    return KOLO_OK;
}
kolo_own_comm mine = {.name = "mine", .allreduce = add_up, .in_rank_order = true};"""
TRAIN = """kolo_data *digits = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 512);
kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(.learning_rate = 1e-3), .comm = &mine),
             .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .seed = 1);
calls = 0;
const kolo_history *h = kolo_fit(model, digits, .epochs = 2, .batch_size = 64, .verbose = 0);
calls"""


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    outcome = k.run("%ranks 2")
    assert outcome.status == "ok", outcome.error
    assert k.run("%%ranks\n#include <kolo.h>\nkolo_init(NULL, NULL);").status == "ok"
    yield k
    k.close()


def test_a_cells_allreduce_is_checked_and_trains(kernel):
    assert kernel.run("%%ranks\n" + ADD_UP).status == "ok"
    outcome = kernel.run("%%ranks\nkolo_check_comm(&mine, .count = 10000).share > 0")
    assert outcome.value == "[0,1] 1", outcome.error + outcome.stderr
    assert re.search(r"\[0\] comm mine: right on 2 ranks. Bus bandwidth with 10000 floats: ", outcome.stdout)
    outcome = kernel.run("%%ranks\n" + TRAIN)
    assert outcome.value == "[0,1] 8", outcome.error + outcome.stderr  # 2 epochs of 512 / (2 · 64) steps
    assert kernel.run("%%ranks\nh->epoch[1].loss < h->epoch[0].loss").value == "[0,1] 1"


def test_a_change_that_breaks_it_is_named_and_the_ranks_live_on(kernel):
    broken = ADD_UP.replace("if (kolo_rank() == 0) kolo_send", "if (kolo_rank() == 0 && count < 1000) kolo_send")
    assert broken != ADD_UP and kernel.run("%%ranks\n" + broken).status == "ok"
    outcome = kernel.run("%%ranks\nkolo_check_comm(&mine, .count = 10, .seconds = 0.5).share > 0")
    shown = outcome.stdout + outcome.stderr + outcome.error
    assert re.search(r"comm mine: the sum of 1009 floats failed: .*rank 1 has waited 0.5 s for a message from rank 0 with tag 0", shown), shown
    assert kernel.run("%%ranks\n" + ADD_UP).status == "ok"
    assert kernel.run("%%ranks\nkolo_check_comm(&mine, .count = 10, .quiet = true).share > 0").value == "[0,1] 1"


def test_a_sum_that_fails_on_one_rank_fails_on_all_and_they_live_on(kernel):
    one = ADD_UP.replace("return KOLO_OK;", "return calls == 3 && kolo_rank() == 1 ? KOLO_IO : KOLO_OK;")
    assert one != ADD_UP and kernel.run("%%ranks\n" + one).status == "ok"
    outcome = kernel.run("%%ranks\n" + TRAIN + ";\nh == NULL")
    assert outcome.value == "[0,1] 1", outcome.error + outcome.stderr
    assert 'comm mine: the sum of 7850 floats failed: .allreduce returned "input/output error" on rank 1' in outcome.stderr
    assert kernel.run("%%ranks\n" + ADD_UP).status == "ok"
    assert kernel.run("%%ranks\nkolo_check_comm(&mine, .count = 10, .quiet = true).share > 0").value == "[0,1] 1"


def test_a_training_that_waits_for_ever_is_ended_and_the_ranks_live_on(kernel):
    assert kernel.run('%%ranks\n#include <stdlib.h>\nsetenv("KOLO_STALL_LIMIT", "0.5", 1);').status == "ok"
    one = ADD_UP.replace("calls++;", "calls++;\n    if (calls == 3) kolo_receive(other, 1, 1 - kolo_rank(), .tag = 9);")
    assert one != ADD_UP and kernel.run("%%ranks\n" + one).status == "ok"
    outcome = kernel.run("%%ranks\n" + TRAIN + ";\nh == NULL")
    assert outcome.value == "[0,1] 1", outcome.error + outcome.stderr
    # Each waits for the other: the one that gives up first says so, and the other may only hear of it.
    assert re.search(r"rank (0|1) has waited 0.5 s for a message from rank (?!\1)[01] with tag 9", outcome.stderr), outcome.stderr
    assert kernel.run("%%ranks\n" + ADD_UP).status == "ok"
    assert kernel.run("%%ranks\nkolo_check_comm(&mine, .count = 10, .quiet = true).share > 0").value == "[0,1] 1"
