"""Drives the built kernel through jupyter_client, with a kernelspec of its own that nothing installed can shadow."""
import atexit
import json
import os
import queue
import tempfile
import threading
from pathlib import Path

import patience
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build"))
EXECUTABLE = Path(os.environ.get("KOLO_KERNEL", BUILD / "bin" / "kolo-kernel"))


def make_kernelspec(folder):
    """A folder for JUPYTER_PATH in which the kernelspec 'kolo' is the kernel under test."""
    spec = json.loads((ROOT / "kernel" / "kernelspec" / "kernel.json").read_text())
    spec["argv"][0] = str(EXECUTABLE)
    target = Path(folder) / "kernels" / "kolo"
    target.mkdir(parents=True)
    (target / "kernel.json").write_text(json.dumps(spec))


def use_kernelspec():
    """For the whole process: jupyter_kernel_test looks kernels up by name."""
    folder = tempfile.mkdtemp(prefix="kolo-test-")
    make_kernelspec(folder)
    os.environ["JUPYTER_PATH"] = folder + os.pathsep + os.environ.get("JUPYTER_PATH", "")
    os.environ["XDG_DATA_HOME"] = folder


def children(process):
    """The children of all threads of a process: /proc lists each thread's apart."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


class Outcome:
    """What one cell did."""

    def __init__(self):
        self.stdout = self.stderr = ""
        self.order, self.errors, self.results, self.displays, self.messages = [], [], [], [], []
        self.questions = []  # what the input box was opened with
        self.reply = None
        self.seconds = 0.0

    @property
    def status(self):
        return self.reply["status"]

    @property
    def value(self):
        return self.results[-1]["text/plain"] if self.results else None

    @property
    def error(self):
        """Everything the one error said."""
        return "\n".join([self.errors[0]["ename"], self.errors[0]["evalue"], *self.errors[0]["traceback"]]) if self.errors else ""

    def take(self, message):
        kind, content = message["msg_type"], message["content"]
        self.messages.append((kind, content))
        if kind == "stream":
            setattr(self, content["name"], getattr(self, content["name"]) + content["text"])
            self.order.append((content["name"], content["text"]))
        elif kind == "error":
            self.errors.append(content)
        elif kind == "execute_result":
            self.results.append(content["data"])
        elif kind in ("display_data", "update_display_data"):
            self.displays.append((kind, content))
            self.order.append((kind, content["data"]))


INTERNAL = ("kolo_value", "kolo_probe", "kolo_cell", "<kolo>", "/tmp/kolo-", "In_", "$")  # what no learner is to see


def check(outcome, expected):
    """Holds what a cell did against a row's `expected`, all optional: error (parts of the one error; "In[k]" is the
    cell), lost (are the variables gone? any_loss: they may be), any (an error or none), value, has (part of the value),
    out (all of stdout), out_has, err (part of stderr). Returns what was shown, for what a test asserts itself."""

    def at_cell(part):
        return part.replace("In[k]", f"In[{outcome.reply['execution_count']}]")

    shown = f"value {outcome.value!r}\nstdout {outcome.stdout[:2000]!r}\nstderr {outcome.stderr[:2000]!r}\n{outcome.error}"
    assert len(outcome.errors) == (outcome.status == "error"), shown
    for internal in INTERNAL:
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
    if "out" in expected:
        assert outcome.stdout == expected["out"], shown
    if "out_has" in expected:
        assert expected["out_has"] in outcome.stdout, shown
    if "err" in expected:
        assert at_cell(expected["err"]) in outcome.stderr, shown
    return shown


kernels = []  # kept, since collecting a ZeroMQ context together with its open sockets may wait for them for ever


@atexit.register
def close_sockets():
    for kernel in kernels:
        kernel.client.stop_channels()
        kernel.client.context.destroy(linger=0)
        kernel.manager.context.destroy(linger=0)


class Kernel:
    def __init__(self, options=None, **environment):
        """options: of the manager."""
        use_kernelspec()
        self.manager = KernelManager(kernel_name="kolo", **(options or {}))
        self.manager.start_kernel(env={**os.environ, **environment})
        self.client = self.manager.client()
        kernels.append(self)
        self.client.start_channels()
        self.client.wait_for_ready()  # the limit of the test is its end

    @property
    def process(self):
        return self.manager.provisioner.pid

    def run(self, code, answers=(), interrupt_after=None, timeout=60, **options):
        """The cell's outcome."""
        options.setdefault("allow_stdin", bool(answers))
        outcome, start = Outcome(), patience.now()
        request = self.client.execute(code, **options)
        if interrupt_after is not None:
            interrupted = threading.Event()
            patience.call_after(interrupt_after, lambda: (self.manager.interrupt_kernel(), interrupted.set()))
        answers = list(answers)
        while True:
            if answers:
                self._answer(answers, request, outcome)
            try:
                message = patience.message(self.client.get_iopub_msg, 0.05 if answers else timeout)
            except queue.Empty:
                if answers and patience.now() - start < timeout:
                    continue
                raise AssertionError(f"no idle within {timeout} s of {code!r}") from None
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            outcome.take(message)
        outcome.seconds = patience.now() - start
        outcome.reply = self._reply(request)
        if interrupt_after is not None:
            assert interrupted.wait(60)
            outcome.seconds -= interrupt_after
        return outcome

    def _answer(self, answers, request, outcome):
        """A question of an earlier cell, which was interrupted, is not answered."""
        try:
            question = patience.message(self.client.get_stdin_msg, 0.05)
        except queue.Empty:
            return
        if question["parent_header"].get("msg_id") == request:
            outcome.questions.append(question["content"]["prompt"])
            self.client.input(answers.pop(0))

    def _reply(self, request):
        while True:
            reply = patience.message(self.client.get_shell_msg, 10)
            if reply["parent_header"].get("msg_id") == request:
                return reply["content"]

    def ask(self, method, *arguments, **options):
        """complete, inspect, is_complete, history, kernel_info: the reply's content."""
        return self._reply(getattr(self.client, method)(*arguments, **options))

    def close(self, now=False):
        """now: without a word to it, since it may be gone."""
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=now)
