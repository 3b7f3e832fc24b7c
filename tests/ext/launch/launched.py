"""What the tests of kolorun share: starting it, waiting for its end, and reading what it says.

The binary is $KOLO_BUILD/bin/kolorun (default: build).
"""
import os
import re
import select
import subprocess
import uuid
from pathlib import Path

import patience

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KOLORUN = str((ROOT / os.environ.get("KOLO_BUILD", "build") / "bin" / "kolorun").resolve())
TAGGED = re.compile(rb"^\[1,(\d+)\]<(stdout|stderr)>:(.*)$", re.S)


def processes_with(mark):
    """Living processes whose environment holds `mark`: {pid: command line}."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if state != "Z" and mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, IndexError):
            pass
    return found


class Job:
    """One kolorun, in a process group of its own as under a shell; `left()` finds every process it brought about."""

    def __init__(self, *arguments, env=None, **options):
        self.mark = "KOLO_TEST_MARK=" + uuid.uuid4().hex
        name, value = self.mark.split("=")
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        self.process = subprocess.Popen([KOLORUN, *map(str, arguments)], env=dict(os.environ, **{name: value}, **(env or {})),
                                        start_new_session=True, **options)

    def left(self):
        return processes_with(self.mark)

    def wait_for(self, wanted, seconds=10):
        """Waits until `wanted(self.left())` is true and returns that."""
        value = patience.until(lambda: wanted(self.left()), seconds)
        assert value, f"did not come about in {seconds} s; there are: {self.left()}"
        return value

    def gone_within(self, seconds):
        start = patience.now()
        self.wait_for(lambda left: not left, seconds)
        return patience.now() - start

    def finish(self, timeout=60, **options):
        try:
            self.out, self.err = patience.communicate(self.process, timeout, **options)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.code = self.process.returncode
        return self

    def read_until(self, text, times=1, seconds=10):
        """Reads stdout until `text` has come so many times; what else has come with it is read, too."""
        seen, end = b"", patience.now() + seconds
        while seen.count(text) < times:
            assert patience.now() < end, f"{text} did not come {times} times; got {seen}"
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                seen += os.read(self.process.stdout.fileno(), 65536)
        return seen


def run(*arguments, input=None, timeout=60, **options):
    """Runs kolorun to its end, and checks what always holds: no process is left behind."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    job = Job(*arguments, **options).finish(timeout=timeout, input=input)
    assert not job.left()
    return job


def by_rank(output, stream="stdout"):
    """{rank: [lines]} of tagged output; every line must be tagged."""
    lines = {}
    for line in output.split(b"\n")[:-1]:
        match = TAGGED.match(line)
        assert match, f"not a tagged line: {line!r}"
        assert match[2].decode() == stream
        lines.setdefault(int(match[1]), []).append(match[3])
    return lines


def sentences(err):
    """kolorun's own lines on stderr."""
    return [line[len("kolorun: "):] for line in err.decode().split("\n") if line.startswith("kolorun: ")]


def ranks_of(left, program):
    return [pid for pid, command in left.items() if program in command and "--as-rank" not in command and "mpirun" not in command
            and "kolorun" not in command]


def started(job, program, count):
    return job.wait_for(lambda left: len(ranks_of(left, program)) == count and ranks_of(left, program))


def fake_mpirun(folder, script):
    (folder / "mpirun").write_text("#!/bin/sh\n" + script)
    (folder / "mpirun").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}
