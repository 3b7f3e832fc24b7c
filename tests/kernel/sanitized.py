#!/usr/bin/env python3
"""The kernel's tests on sanitized binaries: `make asan` and `make tsan`. sanitized.py address|thread [TEST ...]

The kernel, the worker and the ranks are built with the sanitizer; cells are not, and what a cell does wrong is its own.
Judged are the sanitizers' reports, leaks of the kernel among them: one that is not about a cell's own code fails. A test
that fails is told, and does not count: in a worker with a sanitizer's runtime, calls that a cell would be recovered from
are the runtime's, so faults and interrupts end otherwise there. But three of four must pass, or this says nothing.
"""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SUITES = ["test_protocol.py", "test_cells.py", "test_values.py", "test_state.py", "test_survival.py"]
# libclang gives a thread a stack for signals, which the runtime would take for its own when the thread ends.
KERNEL = "detect_leaks=1 use_sigaltstack=0"
# A cell's fault is the worker's to handle; the runtime would end the process.
WORKER = ("handle_segv=0 handle_sigbus=0 handle_abort=0 handle_sigfpe=0 handle_sigill=0 use_sigaltstack=0 detect_leaks=0 "
          "detect_stack_use_after_return=0 allocator_may_return_null=1")  # fmt: skip
THREAD = "handle_segv=0 handle_sigbus=0 handle_abort=0 handle_sigfpe=0 handle_sigill=0 use_sigaltstack=0 report_signal_unsafe=0"


def environment(folder):
    """Options of the runtimes: libraries that are not built with them are left alone."""
    for name, options in {"kolo-kernel": KERNEL, "kolo-worker": WORKER, "kolo-rank": WORKER}.items():
        (folder / name).write_text(options.replace(" ", "\n") + "\n")
    log = f"log_path={folder}/report"
    return {**os.environ, "ASAN_OPTIONS": f"include_if_exists={folder}/%b:{log}",
            "UBSAN_OPTIONS": f"print_stacktrace=1:{log}",
            "TSAN_OPTIONS": f"{log} ignore_noninstrumented_modules=1 {THREAD}"}  # fmt: skip


def reports(folder):
    """Each report's text; an UndefinedBehaviorSanitizer's begins with a place in the source."""
    for path in sorted(folder.glob("report*")):
        yield from re.split(r"(?m)^(?==+$|==\d+==ERROR|\S+:\d+:\d+: runtime error)", path.read_text(errors="replace"))


def of_a_cell(report):
    """Is the innermost frame that is not the runtime's a cell's?"""
    frames = re.findall(r"^ +#\d+ 0x\w+ in (\S+) ([^\n]*)|^ +#\d+ (\S+) ([^\n]*)", report, re.MULTILINE)
    for named, where, plain, plain_where in frames:
        if "sanitizer" not in where + plain_where:
            return bool(re.search(r"/In\[\d+\]|/cell-\d+\.so", where + plain_where)) or (named or plain).startswith("In_")
    return False


def main():
    kind, suites = sys.argv[1], [f"kernel/{name}" for name in SUITES]
    with tempfile.TemporaryDirectory(prefix="kolo-sanitized-") as folder:
        folder, junit = Path(folder), Path(folder) / "tests.xml"
        subprocess.run([sys.executable, "-m", "pytest", "-c", "pytest.ini", "-o", "addopts=-q -ra --import-mode=importlib",
                        f"--junit-xml={junit}", "--tb=no", *(sys.argv[2:] or suites)], cwd=TESTS, env=environment(folder))  # fmt: skip
        cases = list(ElementTree.parse(junit).iter("testcase"))
        failed = sum(any(child.tag in ("failure", "error") for child in case) for case in cases)
        all_reports = [r for r in reports(folder) if re.search("runtime error|ERROR|WARNING", r)]
        found = [r for r in all_reports if not of_a_cell(r)]
    for report in found[:20]:
        print(report[:4000])
    print(f"{kind} sanitizer on the kernel: {len(cases)} tests, {failed} failed; {len(all_reports)} reports, "
          f"{len(all_reports) - len(found)} of them about cells' own code")  # fmt: skip
    sys.exit(bool(found) or failed * 4 > len(cases) or not cases)


if __name__ == "__main__":
    main()
