"""How fast a Jupyter kernel answers: kernel_bench.py KERNEL c|python, for any Python that has jupyter_client.

Prints one line of JSON, seconds: from the start of the kernel to its first result, a short cell (the median of many),
and a cell that prints 100,000 lines, until the last of them is here. run.py reads it.
"""
import json
import statistics
import sys
import time

from jupyter_client.manager import KernelManager

CELLS = 50
LINES = 100000
CODE = {
    "c": ("1 + 1", "int x{n} = {n}; for (int i = 0; i < 30; i++) x{n} += i; printf(\"%d\\n\", x{n});",
          f"for (int i = 0; i < {LINES}; i++) printf(\"%d\\n\", i);"),
    "python": ("1 + 1", "x{n} = {n}\nfor i in range(30): x{n} += i\nprint(x{n})", f"for i in range({LINES}): print(i)"),
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


def measure(client, language, begin):
    first, cell, lines = CODE[language]
    client.wait_for_ready(timeout=60)
    execute(client, first)
    start = time.monotonic() - begin
    if language == "c":
        execute(client, "#include <stdio.h>")
    cells = [execute(client, cell.replace("{n}", str(n)))[0] for n in range(CELLS)]
    seconds, printed = execute(client, lines)
    if printed != LINES:
        sys.exit(f"wanted {LINES} lines, got {printed}")
    return {"start": start, "cell": statistics.median(cells), "lines": seconds}


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
