"""The kernel's files call each other in one direction, but for small circles: each can be read with what is below it."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
OBJECTS = BUILD / "obj/kernel"
# The largest circle: the hints for learners, which share the diagnostic that they are about (diagnostics/, cells/analyser.c).
MOST = 9
# Of worker/ and ranks/, which have programs of their own, the kernel is linked with these.
SHARED = {"worker/protocol", "worker/family", "worker/segments"}
ELSEWHERE = {"ranks/rank", "ranks/join"}


def files():
    """The kernel's files, as "magics/table", that have an object in the build."""
    sources = (path.relative_to(ROOT / "kernel") for path in (ROOT / "kernel").rglob("*.c*"))
    names = {path.with_suffix("").as_posix() for path in sources if path.suffix in (".c", ".cpp")}
    own = {name for name in names if not name.startswith(("worker/", "crash_runtime/"))} - ELSEWHERE | SHARED
    return sorted(name for name in own if (OBJECTS / f"{name}.o").exists())


def symbols(names):
    """Which names each file defines for others, and which it takes from others, as nm tells."""
    defines, takes = {}, {}
    paths = [OBJECTS / f"{name}.o" for name in names]
    listed = subprocess.run(["nm", "-A", *paths], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        path, _, rest = line.partition(":")
        name, (*_, kind, symbol) = str(Path(path).relative_to(OBJECTS).with_suffix("")), rest.split()
        if kind in "TDBRC":
            defines[symbol] = name
        elif kind == "U":
            takes.setdefault(name, set()).add(symbol)
    return defines, takes


def links(defines, takes):
    """Which file takes what from which: {"run": {"stages": ["run_in_stages"]}}."""
    found = {}
    for name, wanted in takes.items():
        for symbol in sorted(wanted & defines.keys()):
            if defines[symbol] != name:
                found.setdefault(name, {}).setdefault(defines[symbol], []).append(symbol)
    return found


def below(found, name):
    """All that can be reached from a file."""
    reached, todo = set(), [name]
    while todo:
        new = found.get(todo.pop(), {}).keys() - reached
        reached |= new
        todo += new
    return reached


def circles(found):
    """The sets of files of which each reaches each, the largest first."""
    reached = {name: below(found, name) for name in found}
    rings = {frozenset(other for other in reached[name] if name in reached.get(other, ())) for name in found}
    return sorted(filter(None, rings), key=lambda ring: (-len(ring), sorted(ring)))


def told(ring, found):
    """A circle's links, a line each."""
    return "\n".join(f"{a} -> {b}: {', '.join(symbols)}" for a in sorted(ring) for b, symbols in sorted(found[a].items()) if b in ring)


@pytest.fixture(scope="module")
def found():
    names = files()
    assert len(names) > 100, f"wanted the kernel's objects in {OBJECTS}, got {len(names)}"
    return links(*symbols(names))


def test_circles_are_small(found):
    largest = circles(found)[0]
    assert len(largest) <= MOST, f"these {len(largest)} files call each other in a circle, wanted {MOST} at most:\n" + told(largest, found)


def test_links_are_seen(found):
    assert "run_in_stages" in found["run"]["stages"] and "run_part" in found["stages"]["run"]
    assert any({"run", "stages"} <= ring for ring in circles(found))


def test_nothing_of_the_kernel_calls_its_top(found):
    callers = {name for name, targets in found.items() if "session" in targets and not name.startswith("jupyter/")}
    assert not callers, f"session.c opens and closes all others: wanted no call of it, got some of {sorted(callers)}"


def test_a_circle_is_found():
    found = links({"a": "one", "b": "two", "c": "three", "d": "four"},
                  {"one": {"b", "printf"}, "two": {"c", "b"}, "three": {"a", "d"}, "four": set()})
    assert circles(found) == [frozenset({"one", "two", "three"})]
    assert told(circles(found)[0], found) == "one -> two: b\nthree -> one: a\ntwo -> three: c"
