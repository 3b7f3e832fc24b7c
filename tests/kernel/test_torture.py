"""The torture suite: torture.py's cells on one kernel a list. Whatever a cell does, it is answered once, and the next runs."""
import time

import pytest
from kernel.driver import Kernel
from kernel.torture import PRELUDE, ROWS


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


def judge(outcome, expected):
    number = outcome.reply["execution_count"]

    def at_cell(part):
        return part.replace("In[k]", f"In[{number}]")

    shown = f"value {outcome.value!r}\nstdout {outcome.stdout[:2000]!r}\nstderr {outcome.stderr[:2000]!r}\n{outcome.error}"
    assert len(outcome.errors) == (outcome.status == "error"), shown
    for internal in ("kolo_value", "kolo_probe", "kolo_cell", "<kolo>", "/tmp/kolo-", "In_", "$"):
        assert internal not in outcome.error + outcome.stderr, f"{internal} in {shown}"
    if not expected.get("any"):
        assert (outcome.status == "error") == ("error" in expected), shown
    for part in expected.get("error", []):
        assert at_cell(part) in outcome.error, f"{at_cell(part)!r} is not in: {shown}"
    if "error" in expected and not expected.get("any_loss"):
        assert ("gone" in outcome.error) == expected.get("lost", False), shown
    if "value" in expected:
        assert outcome.value == expected["value"], shown
    if "has" in expected:
        assert expected["has"] in (outcome.value or ""), shown
        assert len(outcome.value) < 30000
    if "out" in expected:
        assert outcome.stdout == expected["out"], shown
    if "out_has" in expected:
        assert expected["out_has"] in outcome.stdout, shown
    if "err" in expected:
        assert at_cell(expected["err"]) in outcome.stderr, shown
    assert len(outcome.stdout) + len(outcome.stderr) <= 64 << 20


CASES = [(topic, index) for topic, rows in ROWS.items() for index in range(len(rows))]


@pytest.mark.parametrize("topic, index", CASES, ids=[f"{topic}-{index}" for topic, index in CASES])
def test_cell(kernels, topic, index):
    code, expected = ROWS[topic][index]
    kernel = kernel_for(kernels, topic)
    start = time.monotonic()
    outcome = kernel.run(code, answers=expected.get("answers", ()), interrupt_after=expected.get("interrupt"), timeout=90,
                         allow_stdin=bool(expected.get("answers") or expected.get("asked")))
    took = time.monotonic() - start
    judge(outcome, expected)
    assert took <= expected.get("limit", 10)
    assert kernel.run("41 + 1", store_history=False).value == "42"
