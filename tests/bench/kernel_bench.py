"""How fast a Jupyter kernel answers: kernel_bench.py KERNEL c|python, for any Python that has jupyter_client.

Prints one line of JSON, seconds: from the start of the kernel to its first result; a short cell, the median of many; a
cell of thirty lines with its slowest twentieth left out, and its median; a completion once it is warm; and a cell that
prints 15,000 lines, fewer than the most that the kernel shows, until the last of them is here. run.py reads it.
"""
import json
import statistics
import sys
import time

from jupyter_client.manager import KernelManager

CELLS = 50
LINES = 15000  # less than the 20,000 from which the kernel shows no more
LONG_C = """struct record{n} { int id; double weights[4]; };
static double weigh{n}(const struct record{n} *record)
{
    double total = 0;
    for (int i = 0; i < 4; i++) total += record->weights[i] * (i + 1);
    return total;
}
int total{n} = {n};
double sums{n}[8];
void fill{n}(double *out, int count)
{
    for (int i = 0; i < count; i++) {
        struct record{n} record = {.id = i, .weights = {i, 2, 3, 4}};
        out[i] = weigh{n}(&record);
    }
}
int limit{n} = 8;
fill{n}(sums{n}, limit{n});
for (int i = 0; i < limit{n}; i++) {
    total{n} += (int)sums{n}[i];
}
if (total{n} > 10) {
    total{n} -= 1;
} else {
    total{n} += 1;
}
kolo_model *model{n} = NULL;
printf("%d\\n", total{n});
fflush(stdout);
total{n}
"""
LONG_PYTHON = """class Record{n}:
    def __init__(self, id, weights):
        self.id = id
        self.weights = weights


def weigh{n}(record):
    total = 0
    for i in range(4):
        total += record.weights[i] * (i + 1)
    return total


total{n} = {n}
sums{n} = [0] * 8


def fill{n}(out, count):
    for i in range(count):
        record = Record{n}(i, [i, 2, 3, 4])
        out[i] = weigh{n}(record)


fill{n}(sums{n}, 8)
for i in range(8):
    total{n} += int(sums{n}[i])
if total{n} > 10:
    total{n} -= 1
print(total{n})
total{n}
"""
CODE = {  # the first cell, a short one, a long one, what to complete, the lines
    "c": ("1 + 1", "int x{n} = {n}; for (int i = 0; i < 30; i++) x{n} += i; printf(\"%d\\n\", x{n});", LONG_C,
          "kolo_fit(model1, NULL, .e", f"for (int i = 0; i < {LINES}; i++) printf(\"%d\\n\", i);"),
    "python": ("1 + 1", "x{n} = {n}\nfor i in range(30): x{n} += i\nprint(x{n})", LONG_PYTHON, "imp",
               f"for i in range({LINES}): print(i)"),
}  # fmt: skip


def execute(client, code):
    """The seconds until the kernel is idle again, and the lines that it printed. An error in the cell is one here."""
    begin = time.monotonic()
    request, text = client.execute(code), []
    while True:
        message = client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            text.append(content["text"])
        if kind == "error":
            sys.exit(f"{content['ename']}: {content['evalue']}")
        if kind == "status" and content["execution_state"] == "idle":
            return time.monotonic() - begin, "".join(text).count("\n")


def complete(client, code):
    begin = time.monotonic()
    request = client.complete(code, len(code))
    while client.get_shell_msg(timeout=60)["parent_header"].get("msg_id") != request:
        continue
    return time.monotonic() - begin


def each(client, cell):
    """The seconds of many cells, with a moment between them as a reader leaves."""
    seconds = []
    for n in range(CELLS):
        seconds.append(execute(client, cell.replace("{n}", str(n)))[0])
        time.sleep(0.05)
    return seconds


def measure(client, language, begin):
    first, short, long, unfinished, lines = CODE[language]
    client.wait_for_ready(timeout=60)
    execute(client, first)
    start = time.monotonic() - begin
    if language == "c":
        execute(client, "#include <stdio.h>\n#include <kolo.h>")
    cells, long_cells = each(client, short), each(client, long)
    completions = [complete(client, unfinished) for _ in range(20)]
    seconds, printed = execute(client, lines)
    if printed != LINES:
        sys.exit(f"wanted {LINES} lines, got {printed}")
    return {"start": start, "cell": statistics.median(cells), "long_cell": statistics.median(long_cells),
            "long_cell_p95": statistics.quantiles(long_cells, n=20)[-1], "complete": statistics.median(completions),
            "lines": seconds}  # fmt: skip


def main():
    begin = time.monotonic()
    manager = KernelManager(kernel_name=sys.argv[1])
    manager.start_kernel()
    client = manager.client()
    try:
        client.start_channels()
        print(json.dumps(measure(client, sys.argv[2], begin)))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


main()
