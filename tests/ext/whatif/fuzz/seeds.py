#!/usr/bin/env python3
"""The fuzzer's first inputs: seeds.py FOLDER. Timelines, and some that are nearly so."""
import hashlib
import json
import sys
from pathlib import Path


def span(begin, dur, category, name, **arguments):
    return {"ph": "X", "pid": 1, "tid": 1001, "ts": begin, "dur": dur, "cat": category, "name": name, "args": arguments}


def names(ranks, row="device 0"):
    process = [{"ph": "M", "pid": 1 + r, "tid": 1000 * (1 + r), "name": "process_name",
                "args": {"name": f"rank {r} (a)", "cores": 2, "threads": 1}} for r in range(ranks)]
    return process + [{"ph": "M", "pid": 1, "tid": 1001, "name": "thread_name", "args": {"name": row}}]


def steps(count, samples=10, microbatches=1, waits=False):
    for i in range(count):
        at = 1000 * i
        yield span(at, 900, "step", "step", step=i, samples=samples)
        for m in range(microbatches):
            each = 600 / microbatches
            yield span(at + m * each, each / 2, "backward", "b backward", microbatch=m, bytes=4000000)
            yield span(at + m * each + each / 2, each / 2, "backward", "a backward", microbatch=m, bytes=1000)
        if waits:
            yield span(at + 600, 200, "reduce", "allreduce", bytes=4001000)
            yield span(at + 610, 100, "wait", "wait for ranks")


def trace(*events):
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for part in events for event in part)
    return ('{"displayTimeUnit":"ms","traceEvents":[\n' + lines + '\n],"otherData":{}}\n').encode()


GOOD = [trace(names(1), steps(12)), trace(names(1), steps(1)), trace(names(1), steps(3, microbatches=3)),
        trace(names(2), steps(4, waits=True)), trace(names(1), steps(3), [span(1e300, 5, "step", "step", step=5, samples=1)])]  # fmt: skip
NEARLY = [b"", b"[]", trace(names(1)), trace(names(1, "worker 0"), steps(3)), trace(names(1), steps(3, samples=0)),
          trace(names(1), [span(0, 10, "step", "step", step=1, samples=3)]), GOOD[0][: len(GOOD[0]) // 2],
          trace(names(1), [span(0, -1, "step", "step", step=1, samples=3)]), GOOD[0].replace(b'"device 0"', b'"device 0, thread 1"')]  # fmt: skip

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in GOOD + NEARLY:
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
