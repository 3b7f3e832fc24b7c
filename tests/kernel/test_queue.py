"""What follows a cell that fails: the cells that were queued when it failed are aborted, and no others."""
import datetime
import os
import subprocess
import sys

import patience
import pytest
from kernel.driver import Kernel

FAILS_WHEN_TOLD = "getchar(); *(volatile int *)0 = 1;"


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    k.run("#include <stdio.h>\nint ran = 0;")
    yield k
    k.close()


def queue_behind_a_failing_cell(kernel, *codes, **options):
    """What was sent, the failing cell first, which runs until the others are there."""
    sent = [kernel.client.execute(FAILS_WHEN_TOLD, allow_stdin=True, **options)]
    patience.message(kernel.client.get_stdin_msg, 30)
    sent += [kernel.client.execute(code) for code in codes]
    kernel.client.input("now")
    return sent


def fail_and_go_on(kernel, times):
    """Three queued cells, the first of which fails, and a fourth as soon as they are answered."""
    before = int(kernel.run("ran").value)
    for _ in range(times):
        sent = queue_behind_a_failing_cell(kernel, "ran += 10000;", "ran += 10000;")
        replies = [kernel._reply(request) for request in sent]
        after = kernel._reply(kernel.client.execute("ran++;"))
        assert [reply["status"] for reply in (*replies, after)] == ["error", "aborted", "aborted", "ok"]
        assert after["execution_count"] == replies[0]["execution_count"] + 1, "an aborted cell has counted"
    assert kernel.run("ran").value == str(before + times)


def test_a_failing_cell_aborts_what_is_queued_and_nothing_sent_after_the_replies(kernel):
    fail_and_go_on(kernel, 20)


@pytest.mark.long("four thousand cells")
@pytest.mark.timeout(900)
def test_a_failing_cell_aborts_what_is_queued_a_thousand_times(kernel):
    fail_and_go_on(kernel, 1000)


@pytest.mark.long("four thousand cells on a busy machine")
@pytest.mark.timeout(900)
def test_a_failing_cell_aborts_what_is_queued_a_thousand_times_on_a_busy_machine(kernel):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        fail_and_go_on(kernel, 1000)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_an_aborted_cell_shows_no_input_and_no_number(kernel):
    sent = queue_behind_a_failing_cell(kernel, "1;")
    said, content = {request: [] for request in sent}, None
    while any(one[-1:] != ["idle"] for one in said.values()):
        message = patience.message(kernel.client.get_iopub_msg, 10)
        if (request := message["parent_header"].get("msg_id")) in said:
            said[request].append(message["content"].get("execution_state", message["msg_type"]))
    assert said[sent[1]] == ["busy", "idle"]
    for request in sent:
        content = kernel._reply(request)
    assert content == {"status": "aborted"}


def send(kernel, code, date):
    """As if the client had made it at that moment."""
    message = kernel.client.session.msg("execute_request", {
        "code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True})
    message["header"]["date"] = date
    kernel.client.shell_channel.send(message)
    return message["header"]["msg_id"]


def test_a_cell_that_was_on_its_way_when_another_failed_is_aborted(kernel):
    now = datetime.datetime.now(datetime.timezone.utc)
    first = send(kernel, "nope", now)
    assert kernel._reply(first)["status"] == "error"
    late = send(kernel, "ran++;", now + datetime.timedelta(microseconds=10))
    assert kernel._reply(late)["status"] == "aborted"
    # A clock that was set back proves nothing.
    back = send(kernel, "ran++;", now - datetime.timedelta(hours=1))
    assert kernel._reply(back)["status"] == "ok"
