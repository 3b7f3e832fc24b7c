#!/usr/bin/env python3
"""The fuzzer's first inputs: seeds.py FOLDER. Machines, and some that are nearly so."""
import hashlib
import json
import sys
from pathlib import Path


def machine(devices, links, **more):
    nodes = [{"name": f"d{i}", "kind": "device"} for i in range(devices)]
    nodes += [{"name": "s", "kind": "switch"}, {"name": "h", "kind": "host"}, {"name": "n", "kind": "nic"}]
    speed = {"kind": "PIX", "gigabytes_per_second": 12.5, "microseconds": 1}
    return json.dumps({"nodes": nodes, "links": [{"from": a, "to": b} | speed for a, b in links]} | more).encode()


def machines():
    star = [(f"d{i}", "s") for i in range(3)] + [("s", "h"), ("s", "n")]
    yield machine(3, star)
    yield machine(3, star, hosts=2, network={"kind": "Ethernet", "gigabytes_per_second": 1.25, "microseconds": 10})
    yield machine(3, star, hosts=70000)
    yield machine(3, star[1:])
    yield machine(1, [("d0", "d0")])
    yield machine(4, [("d0", "d1"), ("d1", "d2"), ("d2", "d3"), ("d3", "d0")])
    yield machine(70, [])
    yield b"[]"
    yield b""


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for one in machines():
    (folder / hashlib.sha1(one).hexdigest()[:12]).write_bytes(one)
