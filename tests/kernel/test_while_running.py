"""What the kernel answers while a cell runs: help, and the requests of subshells (JEP 91)."""
import time

import patience
import pytest
from kernel.driver import Kernel

# Such a cell runs until its client sends it a line, which a test does after it has been answered.
RUNS_UNTIL_TOLD = "getchar();"


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    k.run("#include <stdio.h>\n#include <string.h>\nint answer = 42;\nstruct point { int x, y; } here = {1, 2};")
    k.ask("inspect", "kolo_fit", 8)
    yield k
    k.close()


def begin(kernel, code=RUNS_UNTIL_TOLD):
    """A cell that runs until end()."""
    request = kernel.client.execute(code, allow_stdin=True)
    patience.message(kernel.client.get_stdin_msg, 30)
    return request


def end(kernel, request):
    kernel.client.input("now")
    assert kernel._reply(request)["status"] == "ok"


def ask_all(kernel):
    assert kernel.ask("complete", "answ", 4)["matches"] == ["answer"]
    assert {"x", "y"} <= set(kernel.ask("complete", "here.", 5)["matches"])
    assert "strlen" in kernel.ask("inspect", "strlen", 6)["data"]["text/plain"]
    assert "answer" in kernel.ask("inspect", "answer", 6)["data"]["text/plain"]
    assert kernel.ask("is_complete", "int f(void) {")["status"] == "incomplete"
    assert kernel.ask("history", hist_access_type="tail", n=1)["history"]
    assert kernel.ask("kernel_info")["status"] == "ok"


@pytest.mark.parametrize("code", [RUNS_UNTIL_TOLD, "!read line", "%time getchar()", "%%run\n#include <stdio.h>\nint main(void) { getchar(); }"],
                         ids=["C", "shell", "magic", "program"])
def test_help_is_given_while_a_cell_runs(kernel, code):
    running = begin(kernel, code)
    ask_all(kernel)
    end(kernel, running)
    assert kernel.run("answer").value == "42"


def test_help_while_a_cell_runs_does_not_disturb_its_value(kernel):
    running = begin(kernel, "getchar();\n(struct point){3, 4}")
    for _ in range(3):
        ask_all(kernel)
    end(kernel, running)
    values = []
    while not values:
        message = patience.message(kernel.client.get_iopub_msg, 10)
        if message["msg_type"] == "execute_result" and message["parent_header"]["msg_id"] == running:
            values.append(message["content"]["data"]["text/plain"])
    assert "3" in values[0] and "4" in values[0]


def test_help_given_meanwhile_leaves_the_kernel_busy(kernel):
    running = begin(kernel)
    kernel.ask("is_complete", "1")
    end(kernel, running)
    states = []
    while states[-1:] != [(running, "idle")]:
        message = patience.message(kernel.client.get_iopub_msg, 10)
        if message["msg_type"] == "status":
            states.append((message["parent_header"].get("msg_id"), message["content"]["execution_state"]))
    after_help = [i for i, (parent, state) in enumerate(states) if parent != running and state == "idle"]
    assert states[after_help[-1] + 1] == (running, "busy")


# ---- an interrupt of a cell that reads ----

def interrupt_a_question(kernel, delay):
    """delay: after the cell was sent; None: as soon as it has asked."""
    request = kernel.client.execute("int line; scanf(\"%d\", &line);", allow_stdin=True)
    if delay is None:
        patience.message(kernel.client.get_stdin_msg, 30)
    else:
        time.sleep(delay)
    kernel.manager.interrupt_kernel()
    reply = kernel._reply(request)
    assert reply["status"] == "error" and reply["ename"] == "KeyboardInterrupt", reply


def test_an_interrupt_at_any_moment_ends_a_cell_that_reads(kernel):
    for moment in (None, 0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, None):
        interrupt_a_question(kernel, moment)
    assert kernel.run("answer").value == "42"


@pytest.mark.long("hundreds of cells, each interrupted at another moment")
def test_an_interrupt_is_never_lost(kernel):
    for step in range(300):
        interrupt_a_question(kernel, None if step % 5 == 0 else (step % 100) * 0.001)
    assert kernel.run("answer").value == "42"


def test_an_answer_that_comes_too_late_is_not_the_next_ones(kernel):
    interrupt_a_question(kernel, None)
    kernel.client.input("7")
    assert kernel.run("int line; scanf(\"%d\", &line); line", answers=["8"]).value == "8"


# ---- subshells ----

def control(kernel, kind, **content):
    message = kernel.client.session.msg(kind + "_request", content)
    kernel.client.control_channel.send(message)
    while True:
        reply = patience.message(kernel.client.get_control_msg, 10)
        if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
            assert reply["msg_type"] == kind + "_reply"
            return reply["content"]


def in_subshell(kernel, subshell, kind, **content):
    message = kernel.client.session.msg(kind + "_request", content)
    message["header"]["subshell_id"] = subshell
    kernel.client.shell_channel.send(message)
    return message["header"]["msg_id"]


def test_subshells_are_created_listed_and_deleted(kernel):
    assert "kernel subshells" in kernel.ask("kernel_info")["supported_features"]
    assert control(kernel, "list_subshell") == {"status": "ok", "subshell_id": []}
    made = [control(kernel, "create_subshell") for _ in range(2)]
    assert all(one["status"] == "ok" for one in made)
    ids = {one["subshell_id"] for one in made}
    assert len(ids) == 2 and set(control(kernel, "list_subshell")["subshell_id"]) == ids
    for one in ids:
        assert control(kernel, "delete_subshell", subshell_id=one) == {"status": "ok"}
    assert control(kernel, "list_subshell") == {"status": "ok", "subshell_id": []}
    refused = control(kernel, "delete_subshell", subshell_id=made[0]["subshell_id"])
    assert refused["status"] == "error" and "there is no subshell" in refused["evalue"]
    gone = kernel._reply(in_subshell(kernel, made[0]["subshell_id"], "execute", code="1"))
    assert gone["status"] == "error" and gone["ename"] == "UnknownSubshellError"


def test_a_subshell_answers_while_a_cell_runs(kernel):
    subshell = control(kernel, "create_subshell")["subshell_id"]
    idle = kernel._reply(in_subshell(kernel, subshell, "execute", code="answer++;"))
    assert idle["status"] == "ok"
    running = begin(kernel)
    busy = kernel._reply(in_subshell(kernel, subshell, "execute", code="answer++;"))
    assert busy["ename"] == "BusyError" and "a cell is running" in busy["evalue"]
    assert kernel._reply(in_subshell(kernel, subshell, "complete", code="answ", cursor_pos=4))["matches"] == ["answer"]
    end(kernel, running)
    assert kernel.run("answer--").value == "43"
    control(kernel, "delete_subshell", subshell_id=subshell)


def results_of(kernel, request):
    found = []
    while True:
        message = patience.message(kernel.client.get_iopub_msg, 10)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "execute_result":
            found.append(message["content"]["data"]["text/plain"])
        if message["content"].get("execution_state") == "idle":
            return found


def test_a_subshell_reads_a_variable_while_a_cell_changes_it(kernel):
    subshell = control(kernel, "create_subshell")["subshell_id"]
    kernel.run('int step = 0, squares[3]; char *name = "a name";')
    running = begin(kernel, "step = 7; squares[2] = 49; here.x = 5; getchar();")
    for name, shown in (("step", "7"), (" squares\n", "{0, 0, 49}"), ("name", '"a name"'), ("here", "{.x = 5, .y = 2}")):
        asked = in_subshell(kernel, subshell, "execute", code=name)
        assert kernel._reply(asked)["status"] == "ok"
        assert results_of(kernel, asked) == [shown]
    assert "value: 7" in kernel.ask("inspect", "step", 4)["data"]["text/plain"]
    for other in ("step + 1", "nothing_of_that_name", "strlen", "5", ""):
        assert kernel._reply(in_subshell(kernel, subshell, "execute", code=other))["ename"] == "BusyError"
    end(kernel, running)
    control(kernel, "delete_subshell", subshell_id=subshell)


def test_a_failure_aborts_only_its_own_subshell(kernel):
    subshell = control(kernel, "create_subshell")["subshell_id"]
    failing = kernel.client.execute("getchar(); *(volatile int *)0 = 1;", allow_stdin=True)
    patience.message(kernel.client.get_stdin_msg, 30)
    queued = kernel.client.execute("1;")
    other = in_subshell(kernel, subshell, "is_complete", code="1")
    assert kernel._reply(other)["status"] == "complete"
    kernel.client.input("now")
    assert kernel._reply(failing)["status"] == "error" and kernel._reply(queued)["status"] == "aborted"
    assert kernel._reply(in_subshell(kernel, subshell, "execute", code="1"))["status"] == "ok"
    control(kernel, "delete_subshell", subshell_id=subshell)
