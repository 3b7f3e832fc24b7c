"""A session of thousands of cells: what grows with it, and whether it slows down. long_session.py [CELLS] [--table]

Cells of ten kinds take turns: expressions, statements, functions and variables new and old, a struct redefined, a
header, cells that fail and fault. After every so many the session's processes are looked at from outside. Prints a line
of JSON (run.py reads it), and with --table each look.
"""
import argparse
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kernel.driver import Kernel  # noqa: E402

BEGIN = "#include <stdio.h>\n#include <kolo.h>\nint total = 0; struct point { int x, y; };"
CELLS = [  # in turns: {n} is the cell's number; what it shows, None: anything, or its error
    ("1 + {n}", "{n1}"),
    ("total += {n}; total", None),
    ("int f{n}(int a) { return a + {n}; }\nf{n}(1)", "{n1}"),
    ("double v{n} = {n} / 2.0; char *s{n} = \"number {n}\"; s{n}", '"number {n}"'),
    ("int again(int a) { return a + total; }\nint counter = {n}; again(counter)", None),
    ("struct point { int x, y, z{n}; };\nstruct point p = {.x = {n}}; p.x", "{n}"),
    ("for (int i = 0; i < 10; i++) total += i % 3;\nprintf(\"%d\\n\", total);", None),
    ("int undefined_{n} = nowhere_{n};", "CompileError"),
    ("int g{n}(void) { return total + f{n-6}(2); }\ntypedef int t{n}; enum e{n} { A{n} = {n} }; A{n} + (t{n})1", "{n1}"),
    ("#define LIMIT_{n} {n}\nint array{n}[16]; for (int i = 0; i < 16; i++) array{n}[i] = LIMIT_{n};\narray{n}[3]", "{n}"),
]  # fmt: skip


def processes(kernel):
    """{name: process id} of a kernel's own processes."""
    found, pids = {"kernel": kernel}, [int(p) for p in os.listdir("/proc") if p.isdigit()]
    parents = {}
    for pid in pids:
        try:
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    named = lambda pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"kolo-worker")  # noqa: E731
    below = lambda above: next(pid for pid, parent in parents.items() if parent == above and named(pid))  # noqa: E731
    reaper = below(kernel)
    found["supervisor"] = below(reaper)
    found["worker"] = below(found["supervisor"])
    return found


def session_folder(worker):
    """Where the cells' objects lie: the worker has them loaded."""
    return Path(re.search(r"\S+(?=/cell-\d+\.so)", Path(f"/proc/{worker}/maps").read_text())[0])


def cpu_milliseconds(pid):
    """Of the process and of those that it has waited for: the compilers. What other programs do weighs little in it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) * 1000 / os.sysconf("SC_CLK_TCK")


def look(kernel):
    """What the session holds now: kilobytes, and counts."""
    found, seen = processes(kernel), {}
    for name, pid in found.items():
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        seen[f"{name} KB"] = int(status["VmRSS"].split()[0])
        seen[f"{name} threads"] = int(status["Threads"])
        seen[f"{name} descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
        seen[f"{name} mappings"] = len(Path(f"/proc/{pid}/maps").read_text().splitlines())
    files = list(session_folder(found["worker"]).iterdir())
    seen["cpu ms"] = sum(cpu_milliseconds(pid) for pid in found.values())
    seen["files"] = len(files)
    seen["files KB"] = sum(f.stat().st_blocks for f in files if f.exists()) // 2
    return seen


def fill(template, n):
    words = {"{n}": str(n), "{n1}": str(n + 1), "{n-6}": str(n - 6)}
    for word, value in words.items():
        template = template.replace(word, value)
    return template


def run_cell(kernel, n):
    """Seconds, or an AssertionError where a cell did something else than it should."""
    code, wanted = CELLS[(n - 1) % len(CELLS)]
    outcome = kernel.run(fill(code, n))
    wanted = wanted and fill(wanted, n)
    if wanted == "CompileError":
        assert outcome.status == "error" and outcome.reply["ename"] == wanted, outcome.reply
    else:
        assert outcome.status == "ok", f"cell {n}: {outcome.error}"
        assert wanted is None or (outcome.value or "").startswith(wanted), f"cell {n}: {outcome.value}"
    return outcome.seconds


def session(cells, looks, tell=lambda *_: None):
    """Runs a session; [(cell, look)] with "cell ms" the median over the cells since the look before."""
    kernel, seen, times = Kernel(), [], []
    try:
        assert kernel.run(BEGIN).status == "ok"
        for n in range(1, cells + 1):
            times.append(run_cell(kernel, n))
            if n % (cells // looks) == 0:
                now = look(kernel.process) | {"cell ms": statistics.median(times) * 1000}
                seen.append((n, now))
                tell(n, now)
                times = []
        return seen
    finally:
        kernel.close()


def growth(seen, key):
    """Per cell, over the session but for its first tenth, in which caches fill."""
    late = [(n, now) for n, now in seen if n > seen[-1][0] / 10]
    return (late[-1][1][key] - late[0][1][key]) / (late[-1][0] - late[0][0])


def slower(seen):
    """How many times as much processor time the last cells took as the first, after those in which caches fill."""
    spent = [later[1]["cpu ms"] - earlier[1]["cpu ms"] for earlier, later in zip(seen, seen[1:])]
    return spent[-1] / spent[0]


def summary(seen):
    memory = sum(growth(seen, f"{name} KB") for name in ("kernel", "supervisor", "worker"))
    return {"kb_per_cell": memory, "slower": seen[-1][1]["cell ms"] / seen[0][1]["cell ms"], "slower_cpu": slower(seen),
            **{key: growth(seen, key) for key in seen[0][1]}}  # fmt: skip


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("cells", nargs="?", type=int, default=10000)
    options.add_argument("--table", action="store_true", help="print each look")
    options = options.parse_args()

    def tell(n, now):
        if options.table:
            print(n, *(f"{key}={value:.1f}" if isinstance(value, float) else f"{key}={value}" for key, value in now.items()),
                  flush=True)  # fmt: skip

    print(json.dumps(summary(session(options.cells, 20, tell))))


if __name__ == "__main__":
    main()
