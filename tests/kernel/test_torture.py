"""The torture suite: torture.py's cells on one kernel a list. Whatever a cell does, it is answered once, and the next runs."""

import patience
import pytest
from kernel.driver import Kernel, check
from kernel.torture import PRELUDE, ROWS


# Each topic has short tests in a file of its own: test_state.py, test_faults.py, test_survival.py.
pytestmark = pytest.mark.long("all cells together take two minutes")
CASES = [(topic, index) for topic, rows in ROWS.items() for index in range(len(rows))]


@pytest.fixture(scope="module")
def kernels():
    opened = {}
    yield opened
    for kernel in opened.values():
        kernel.close()


def kernel_for(kernels, topic):
    if topic not in kernels:
        kernels[topic] = Kernel()
        assert kernels[topic].run(PRELUDE).status == "ok"
    return kernels[topic]


@pytest.mark.parametrize("topic, index", CASES, ids=[f"{topic}-{index}" for topic, index in CASES])
def test_cell(kernels, topic, index):
    code, expected = ROWS[topic][index]
    kernel = kernel_for(kernels, topic)
    start = patience.now()
    outcome = kernel.run(code, answers=expected.get("answers", ()), interrupt_after=expected.get("interrupt"), timeout=90,
                         allow_stdin=bool(expected.get("answers") or expected.get("asked")))
    took = patience.now() - start
    check(outcome, expected)
    assert len(outcome.value or "") < 30000 and len(outcome.stdout) + len(outcome.stderr) <= 64 << 20
    assert took <= expected.get("limit", 10)
    assert kernel.run("41 + 1", store_history=False).value == "42"
