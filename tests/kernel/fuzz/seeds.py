#!/usr/bin/env python3
"""The kernel tests' own cells as a fuzzer's first inputs: seeds.py FOLDER. A file each, named by its contents."""
import ast
import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def strings(path):
    """What a test says that may be a cell."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip():
            yield node.value


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    cells = [cell.encode() for path in sorted(HERE.parent.glob("*.py")) for cell in strings(path)]
    sessions = [b"\1".join(cells[i : i + 5]) for i in range(0, len(cells), 5)]  # cells_fuzz.c: what follows uses it
    for one in cells + sessions:
        (folder / hashlib.sha1(one).hexdigest()[:12]).write_bytes(one)


main()
