"""Processes of a test: what they are, and their end."""
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

MARK = "KOLO_TEST_UNIT"  # an environment variable that tells which unit of tests/run a process comes from


def field(folder, name):
    try:
        return (folder / name).read_bytes()
    except OSError:
        return b""


def marked(mark):
    """The living processes, whatever session they went to, that carry the mark of this unit or of a unit that it runs in
    turn: {pid: folder of /proc}."""
    carried = re.compile(rf"(?:^|\0){MARK}={re.escape(str(mark))}[\0/]".encode())
    return {int(folder.name): folder for folder in Path("/proc").glob("[0-9]*")
            if carried.search(field(folder, "environ")) and int(folder.name) != os.getpid()}


def family(mark=None):
    """A line for each process of a unit, this process's own if none is named: what it is, and what it waits in."""
    lines = []
    for pid, folder in sorted(marked(mark or os.environ.get(MARK)).items()):
        state = field(folder, "stat").rpartition(b")")[2].split()
        if state and state[0] != b"Z":
            command = field(folder, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
            lines.append(f"{pid} {state[0].decode()} {field(folder, 'wchan').decode() or '-'}: {command[:200]}")
    return "\n".join(lines)


def stacks(pid):
    """What each thread of a C program does, where there is gdb."""
    if not shutil.which("gdb"):
        return ""
    try:
        shown = subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 20"], text=True,
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=60, errors="replace")  # fmt: skip
    except subprocess.TimeoutExpired:
        return "gdb did not answer in 60 s\n"
    return "".join(f"{line}\n" for line in shown.stdout.splitlines() if line.startswith(("Thread", "#")))


def kill(process, mark):
    """Ends a unit: its process group, and those of its processes that left that."""
    for end in (lambda: os.killpg(process.pid, signal.SIGKILL), *(lambda pid=pid: os.kill(pid, signal.SIGKILL)
                                                                   for pid in marked(mark))):  # fmt: skip
        try:
            end()
        except ProcessLookupError:
            pass
