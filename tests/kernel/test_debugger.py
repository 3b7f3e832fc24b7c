"""The debugger as JupyterLab drives it: debug requests on the control channel, events on iopub."""
import ctypes
import json
import os
import re
import shutil
import signal
import time

import patience
import pytest
from kernel.driver import Kernel, Outcome
from labs.browser import needs_chromium, notebook_of

ipykernel_compiler = pytest.importorskip("ipykernel.compiler")

pytestmark = pytest.mark.skipif(not shutil.which("lldb-dap-19"),
                                reason="NOT TESTED: there is no lldb-dap-19: apt install lldb-19")

EARLIER = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define FACTOR 3
struct point { double x, y; };
int twice(int n)
{
    int result = n * 2;
    return result;
}
int by_size(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}
struct point origin = {1, 2.5};
int table[5] = {5, 4, 3, 2, 1};
const char *word = "hello";
struct { int inside; } nameless = {7};
int (*chosen)(int) = twice;"""

LOOP = """int total = 0;
for (int i = 0; i < 3; i++) {
    total += twice(i);
    printf("%d\\n", total);
}
total"""

ENDLESS = """int go = 1, rounds = 0;
while (go) {
    usleep(1000);
    rounds++;
}"""


class Session(Kernel):
    """A kernel and what its debugger says."""

    def __init__(self):
        super().__init__()
        self.sequence, self.events, self.said, self.request = 0, [], [], None

    def ask(self, command, **arguments):
        if not isinstance(command, str) or hasattr(self.client, command):
            return super().ask(command, **arguments)
        self.sequence += 1
        content = {"type": "request", "seq": self.sequence, "command": command, "arguments": arguments}
        message = self.client.session.msg("debug_request", content)
        self.client.control_channel.send(message)
        while True:
            reply = patience.message(self.client.get_control_msg, 60)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                break
        answer = reply["content"]
        assert (answer["type"], answer["request_seq"], answer["command"]) == ("response", self.sequence, command)
        self.said.append(answer)
        return answer

    def body(self, command, **arguments):
        answer = self.ask(command, **arguments)
        assert answer["success"], answer
        return answer["body"]

    def switch_on(self):
        self.body("initialize", clientID="jupyterlab", linesStartAt1=True)
        answer = self.ask("attach")
        if not answer["success"] and "ptrace" in answer["message"]:
            pytest.skip("NOT TESTED: " + answer["message"])
        assert answer["success"], answer

    def breakpoints(self, code, *lines):
        path = self.body("dumpCell", code=code)["sourcePath"]
        body = self.body("setBreakpoints", source={"path": path}, breakpoints=[{"line": n} for n in lines])
        assert [b["verified"] for b in body["breakpoints"]] == [True] * len(lines)
        return path

    def take(self, timeout):
        message = patience.message(self.client.get_iopub_msg, timeout)
        if message["msg_type"] == "debug_event":
            self.events.append(message["content"])
        elif message["parent_header"].get("msg_id") == self.request:
            self.outcome.take(message)
        return message

    def event(self, name, timeout=30):
        end = patience.now() + timeout
        while True:
            while self.events:
                event = self.events.pop(0)
                if event["event"] == name:
                    return event.get("body", {})
            self.take(max(0.01, end - patience.now()))

    def start(self, code, **options):
        self.outcome = Outcome()
        self.request = self.client.execute(code, **options)

    def stopped(self):
        self.thread = self.event("stopped")["threadId"]
        return self.frames()

    def run_to(self, code, *lines, **options):
        """Runs a cell with breakpoints at those lines: the frames where it stops."""
        self.breakpoints(code, *lines)
        self.start(code, **options)
        return self.stopped()

    def frames(self):
        frames = self.body("stackTrace", threadId=self.thread)["stackFrames"]
        self.top = frames[0]["id"] if frames else None
        return [(f["name"], f["line"]) for f in frames]

    def step(self, how):
        self.body(how, threadId=self.thread)
        return self.stopped()

    def finish(self, timeout=30):
        """Everything the cell has said by the time it is idle, and its reply."""
        end, idle = patience.now() + timeout, False
        while not idle:
            message = self.take(max(0.01, end - patience.now()))
            idle = (message["parent_header"].get("msg_id") == self.request
                    and message["content"].get("execution_state") == "idle")
        self.outcome.reply = self._reply(self.request)
        return self.outcome

    def go_on(self):
        self.body("continue", threadId=self.thread)
        return self.finish()

    def variables(self, scope="Locals"):
        scopes = self.body("scopes", frameId=self.top)["scopes"]
        reference = next(s["variablesReference"] for s in scopes if s["name"] == scope)
        return {v["name"]: v for v in self.body("variables", variablesReference=reference)["variables"]}

    def values(self, scope="Locals"):
        return {name: v["value"] for name, v in self.variables(scope).items()}

    def evaluate(self, expression):
        return self.body("evaluate", expression=expression, frameId=self.top, context="repl")["result"]

    def children(self, variable):
        body = self.body("variables", variablesReference=variable["variablesReference"])
        return {v["name"]: v["value"] for v in body["variables"]}


@pytest.fixture(scope="module")
def shared():
    kernel = Session()
    try:
        assert kernel.run(EARLIER).status == "ok"
        kernel.switch_on()
        kernel.event("initialized")
        yield kernel
    finally:
        kernel.close()


@pytest.fixture
def kernel(shared):
    shared.events.clear()
    yield shared
    for place in shared.body("debugInfo")["breakpoints"]:
        shared.body("setBreakpoints", source={"path": place["source"]}, breakpoints=[])
    if shared.body("debugInfo")["stoppedThreads"]:
        shared.ask("continue", threadId=shared.thread)
    assert shared.run("1 + 1").value == "2"


def family(process):
    """Process ids below this one, and their command lines."""
    found, queue_ = {}, [process]
    while queue_:
        parent = queue_.pop()
        for entry in os.listdir("/proc"):
            try:
                fields = open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split() if entry.isdigit() else None
                if fields and int(fields[1]) == parent and fields[0] != "Z":
                    found[int(entry)] = open(f"/proc/{entry}/cmdline").read().replace("\0", " ")
                    queue_.append(int(entry))
            except (OSError, IndexError):
                pass
    return found


def gone(processes, seconds):
    end = patience.now() + seconds
    while patience.now() < end:
        left = []
        for p in processes:
            try:
                left += [p] if open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[0] != "Z" else []
            except OSError:
                pass
        if not left:
            return True
        time.sleep(0.05)
    return False


def test_the_kernel_says_that_it_debugs(kernel):
    info = kernel.ask("kernel_info")
    assert info["debugger"] is True and "debugger" in info["supported_features"]


def test_cells_are_known_by_the_hash_of_their_code(kernel):
    info = kernel.body("debugInfo")
    assert info["isStarted"] and info["hashMethod"] == "Murmur2"
    for code in ["", "a", "ab", "abc", "abcd", "int x;\n", "äöü€ = 1;", LOOP]:
        path = kernel.body("dumpCell", code=code)["sourcePath"]
        hashed = ipykernel_compiler.murmur2_x86(code, info["hashSeed"])
        assert path == f"{info['tmpFilePrefix']}{hashed}{info['tmpFileSuffix']}"
        assert kernel.body("source", source={"path": path})["content"] == code


def test_a_breakpoint_stops_the_cell(kernel):
    frames = kernel.run_to(LOOP, 3)
    assert len(frames) == 1 and re.fullmatch(r"In\[\d+\]", frames[0][0]) and frames[0][1] == 3
    values = kernel.values()
    assert values["i"] == "0" and values["total"] == "0" and values["word"].endswith('"hello"')
    assert [line for _, line in kernel.step("next")] == [4]
    assert [line for _, line in kernel.step("next")] == [2]
    assert [line for _, line in kernel.step("next")] == [3]
    assert kernel.values()["i"] == "1"
    kernel.breakpoints(LOOP)
    outcome = kernel.go_on()
    assert outcome.status == "ok" and outcome.value == "6" and outcome.stdout == "0\n2\n6\n"


def test_a_step_leads_into_functions_of_earlier_cells_and_out(kernel):
    cell = kernel.run_to(LOOP, 3)[0]
    assert kernel.step("stepIn") == [("twice", 8), cell]
    assert kernel.values()["n"] == "0"
    assert kernel.step("next") == [("twice", 9), cell]
    assert kernel.values() == {"n": "0", "result": "0"}
    assert kernel.step("stepOut") == [cell]
    kernel.breakpoints(LOOP)
    assert kernel.go_on().value == "6"


def test_a_breakpoint_in_a_function_of_an_earlier_cell(kernel):
    kernel.breakpoints(EARLIER, 9)
    kernel.start("chosen(21)")
    frames = kernel.stopped()
    assert frames[0] == ("twice", 9) and len(frames) == 2
    assert kernel.values()["result"] == "42"
    assert kernel.go_on().value == "42"


def test_a_callback_is_stepped_into_through_the_library(kernel):
    code = "qsort(table, 5, sizeof *table, by_size);\ntable[0]"
    kernel.run_to(code, 1)
    frames = kernel.step("stepIn")
    assert frames[0] == ("by_size", 13) and len(frames) == 2
    assert kernel.go_on().value == "1"


def test_the_last_step_of_a_cell_ends_it(kernel):
    code = "int last = 1;\nlast++;"
    kernel.run_to(code, 2)
    kernel.body("next", threadId=kernel.thread)
    assert kernel.finish().status == "ok"
    assert kernel.run("last").value == "2"


def test_stepping_out_of_a_cell_ends_it(kernel):
    code = "int left = 1;\nleft = 5;\nleft"
    kernel.run_to(code, 2)
    kernel.body("stepOut", threadId=kernel.thread)
    assert kernel.finish().value == "5"


def test_expressions_know_the_session(kernel):
    code = "int seen = 1;\nseen++;"
    kernel.run_to(code, 2)
    for expression, value in [("seen", "1"), ("twice(20) + FACTOR", "43"), ("origin.y * 2", "5"), ("table[1] + 0", None),
                              ("chosen(4)", "8"), ("seen = 40", "40"), ("twice(seen) + origin.y", "82.5")]:
        assert kernel.evaluate(expression) == value or value is None
    wrong = kernel.ask("evaluate", expression="nothing_here", frameId=kernel.top, context="repl")
    assert not wrong["success"] and "nothing_here" in wrong["message"]
    kernel.go_on()
    assert kernel.run("seen").value == "41"


def test_locals_hide_the_session(kernel):
    code = "for (int total = 77; total < 78; total++)\n    putchar('x');"
    kernel.run("int total = 1;")
    kernel.run_to(code, 2)
    assert kernel.evaluate("total") == "77"
    kernel.go_on()


def test_a_struct_is_the_cells_whatever_libraries_call_theirs(kernel):
    code = "origin.x = 4;\norigin.x++;"
    kernel.run_to(code, 2)
    shown = kernel.variables("Globals")
    assert kernel.children(shown["origin"]) == {"x": "4", "y": "2.5"}
    assert shown["origin"]["type"] == "struct point" and shown["nameless"]["type"] == "struct"
    assert kernel.children(shown["nameless"]) == {"inside": "7"}
    assert shown["chosen"]["value"].endswith("(twice)")
    kernel.go_on()


def test_variables_between_cells(kernel):
    kernel.run("int between = 12;")
    variables = {v["name"]: v for v in kernel.body("inspectVariables")["variables"]}
    assert variables["between"]["value"] == "12" and variables["between"]["type"] == "int"
    assert len(kernel.children(variables["table"])) == 5
    kernel.run("between = 13;")
    variables = {v["name"]: v["value"] for v in kernel.body("inspectVariables")["variables"]}
    assert variables["between"] == "13"
    assert kernel.body("richInspectVariables", variableName="between")["data"]["text/plain"] == "13"


def test_a_long_array_is_not_sent_whole(kernel):
    kernel.run("double many[100000];")
    variables = {v["name"]: v for v in kernel.body("inspectVariables")["variables"]}
    assert len(kernel.children(variables["many"])) <= 600
    assert len(variables["many"]["value"]) < 400


def test_a_running_cell_is_paused(kernel):
    kernel.start(ENDLESS)
    time.sleep(1)
    assert kernel.ask("evaluate", expression="rounds", context="repl")["message"] == "the cell is running"
    kernel.body("pause", threadId=1)
    frames = kernel.stopped()
    assert frames[-1][1] in (2, 3, 4)
    assert int(kernel.evaluate("rounds")) > 10
    kernel.evaluate("go = 0")
    assert kernel.go_on().status == "ok"


def test_nothing_is_paused_between_cells(kernel):
    assert "no cell" in kernel.ask("pause", threadId=1)["message"]


def test_a_breakpoint_set_while_the_cell_runs(kernel):
    kernel.start(ENDLESS)
    time.sleep(0.5)
    kernel.breakpoints(ENDLESS, 4)
    assert kernel.stopped()[0][1] == 4
    kernel.breakpoints(ENDLESS)
    kernel.evaluate("go = 0")
    assert kernel.go_on().status == "ok"


@pytest.mark.parametrize("stopped", [True, False])
def test_an_interrupt_ends_a_cell_that_is_debugged(kernel, stopped):
    kernel.breakpoints(ENDLESS, *[4] * stopped)
    kernel.start(ENDLESS)
    if stopped:
        kernel.stopped()
    time.sleep(0.5)
    start = patience.now()
    kernel.manager.interrupt_kernel()
    outcome = kernel.finish()
    assert patience.now() - start < 3
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and re.search(r"In\[\d+\]:[234]", outcome.error)
    assert kernel.run("go").value == "1"


def test_a_fault_stops_and_is_reported_as_always(kernel):
    kernel.start("int *nowhere = NULL;\n*nowhere = 3;")
    body = kernel.event("stopped")
    kernel.thread = body["threadId"]
    assert body["reason"] == "exception" and "SIGSEGV" in body["description"]
    assert [line for _, line in kernel.frames()] == [2]
    outcome = kernel.go_on()
    assert re.search(r"Segmentation fault at In\[\d+\]:2", outcome.error) and "*nowhere = 3;" in outcome.error


@pytest.mark.parametrize("name", ["SIGSTOP", "SIGTSTP"])
def test_a_stop_signal_is_shown_and_passed_over(kernel, name):
    kernel.start(f"#include <signal.h>\nraise({name});\n5")
    assert kernel.stopped()[-1][1] == 2
    assert kernel.go_on().value == "5"


def test_an_undefined_function_is_named(kernel):
    assert re.search(r"absent\(\).*In\[\d+\]:2", kernel.run("int absent(int);\nabsent(1)").error)
    assert kernel.run("int absent(int n) { return n + 1; }\nabsent(1)").value == "2"


def test_endless_recursion_stops_in_time(kernel):
    kernel.start("int deep(int n)\n{\n    return n + deep(n + 1);\n}\ndeep(0)")
    start = patience.now()
    assert kernel.stopped()[0][0] == "deep"
    assert patience.now() - start < 10
    assert "Stack overflow" in kernel.go_on().error


def test_a_thread_is_stopped_too(kernel):
    code = ("#include <pthread.h>\nvoid *work(void *data)\n{\n    int *n = data;\n    *n += 1;\n    return NULL;\n}\n"
            "pthread_t thread;\nint count = 0;\npthread_create(&thread, NULL, work, &count);\n"
            "pthread_join(thread, NULL);\ncount")
    assert kernel.run_to(code, 5) == [("work", 5)]
    assert kernel.evaluate("*n") == "0"
    assert len(kernel.body("threads")["threads"]) == 2
    assert kernel.go_on().value == "1"


def test_input_goes_on(kernel):
    code = 'int given;\nscanf("%d", &given);\nprintf("got %d\\n", given);'
    kernel.run_to(code, 2, allow_stdin=True)
    kernel.body("next", threadId=kernel.thread)
    patience.message(kernel.client.get_stdin_msg, 30)
    kernel.client.input("42")
    assert [line for _, line in kernel.stopped()] == [3]
    assert kernel.go_on().stdout == "got 42\n"


def test_what_ends_a_cell_ends_it_as_always(kernel):
    assert re.search(r"exit\(4\) was called at In\[\d+\]:2", kernel.run("if (fork() == 0) _exit(1);\nexit(4);").error)
    assert kernel.run("!echo shell").stdout == "shell\n"
    assert re.search(r"In\[\d+\]:2", kernel.run("int fine = 1;\nint wrong = nothing;").error)


def test_a_new_worker_is_debugged_as_well(kernel):
    assert "Killed" in kernel.run("#include <signal.h>\nraise(SIGKILL);").error
    assert kernel.run_to(LOOP, 3)[0][1] == 3
    kernel.breakpoints(LOOP)
    assert kernel.go_on().value == "6"


def test_the_same_code_run_again_stops_again(kernel):
    kernel.breakpoints(LOOP, 4)
    for _ in range(2):
        kernel.start(LOOP)
        assert kernel.stopped()[0][1] == 4
        kernel.breakpoints(LOOP)
        assert kernel.go_on().value == "6"
        kernel.breakpoints(LOOP, 4)


def test_nothing_of_the_kernels_own_is_shown(kernel):
    """Last of those that share a kernel: looks at all that was said."""
    said = json.dumps([answer for answer in kernel.said if answer["command"] not in ("debugInfo", "dumpCell")])
    said = re.sub(r"ipykernel_[\w-]+/\d+\.c|\"evaluateName\": \"[^\"]*\"", "", said)
    assert not re.search(r"/tmp|cell-\d|kolo[_$]|In_\d|\w\$\d|worker\.c", said)


def test_off_it_is_out_of_the_way():
    kernel = Session()
    try:
        kernel.run(EARLIER)
        assert kernel.body("debugInfo")["isStarted"] is False
        assert not any("lldb" in command for command in family(kernel.process).values())
        kernel.switch_on()
        kernel.run_to(LOOP, 3)
        kernel.body("disconnect", restart=False, terminateDebuggee=False)
        assert kernel.finish().value == "6"
        assert kernel.body("debugInfo")["isStarted"] is False
        assert gone([p for p, command in family(kernel.process).items() if "lldb" in command], 3)
        assert kernel.run(LOOP).value == "6"
        kernel.switch_on()
        kernel.run_to(LOOP, 3)
        kernel.breakpoints(LOOP)
        assert kernel.go_on().value == "6"
    finally:
        kernel.close()


@pytest.mark.parametrize("killed", [False, True])
def test_no_process_is_left(killed):
    kernel = Session()
    kernel.run(EARLIER)
    kernel.switch_on()
    kernel.run_to(LOOP, 3)
    processes = family(kernel.process)
    assert any("lldb-dap" in command for command in processes.values())
    if killed:
        os.kill(kernel.process, signal.SIGKILL)
    kernel.close()
    assert gone(processes, 3 if killed else 5)


def test_a_debugger_that_hangs_is_given_up():
    kernel = Session()
    try:
        kernel.run(EARLIER)
        kernel.switch_on()
        adapter = next(p for p, command in family(kernel.process).items() if "lldb-dap" in command)
        kernel.run_to(LOOP, 3)
        os.kill(adapter, signal.SIGSTOP)
        answer = kernel.ask("stackTrace", threadId=kernel.thread)
        assert not answer["success"] and "answer" in answer["message"]
        kernel.manager.interrupt_kernel()
        assert kernel.finish().errors
        assert kernel.run("1 + 1").value == "2"
    finally:
        kernel.close()


def test_where_nothing_may_be_traced_cells_run_all_the_same():
    kernel = Session()
    try:
        kernel.run(EARLIER)
        worker = max(p for p, command in family(kernel.process).items() if "kolo-worker" in command)
        seize, detach = 0x4206, 17
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(seize, worker, None, None):
            pytest.skip("NOT TESTED: this test may not trace the worker itself")
        kernel.body("initialize")
        answer = kernel.ask("attach")
        assert not answer["success"] and "ptrace" in answer["message"]
        outcome = kernel.run("twice(4)")
        assert outcome.value == "8" and "ptrace" in outcome.stderr
        assert "ptrace" not in kernel.run("twice(5)").stderr
    finally:
        kernel.close()


@needs_chromium
@pytest.mark.long("JupyterLab in a browser takes as long as the rest of this file")
def test_in_jupyterlab(tmp_path):
    with notebook_of([EARLIER, LOOP], tmp_path) as notebook:
        page = notebook.page
        notebook.run(0)
        page.locator(".jp-DebuggerBugButton").first.click()
        gutter = notebook.cells.nth(1).locator(".cm-breakpoint-gutter").first
        gutter.wait_for()
        line = notebook.cells.nth(1).locator(".cm-lineNumbers .cm-gutterElement").filter(has_text="3").first.bounding_box()
        column = gutter.bounding_box()
        page.mouse.click(column["x"] + column["width"] / 2, line["y"] + line["height"] / 2)
        page.locator(".jp-DebuggerBreakpoint").wait_for()
        notebook.start(1)
        frame = page.locator(".jp-DebuggerCallstackFrame")
        frame.filter(has_text=":3").wait_for()
        page.locator("[data-command='debugger:stepIn']").first.click()
        frame.filter(has_text="twice").wait_for()
        assert frame.count() == 2 and "Cell [1]:8" in frame.first.inner_text()
        notebook.picture("kernel-debugger")
        page.locator(".jp-DebuggerBugButton").first.click()
        notebook.output(1).filter(has_text="6").first.wait_for()
