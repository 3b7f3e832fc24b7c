"""What there is to run. A unit is a process of its own: a C program, or pytest on one file or some of its tests.

What is long, and what nothing else may run beside, says so with the reason where it is: a C source in a comment
`/* test: long: ... */` or `/* test: alone: ... */`, a test of pytest by its mark, `long` or `alone`.
"""
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()


@dataclass
class Unit:
    name: str
    command: list
    alone: bool
    in_c: bool
    environment: dict
    guess: float                 # seconds, until it was measured: long files take long
    missing: Path | None = None  # the program that should have been built


# libclang gives its threads signal stacks of its own, which the address sanitizer would unmap as if they were its.
# GCC 12's runtimes note the thread-local memory of libraries that dlopen() has opened, and both notes may be wrong. ASan's
# leak checker crashes on a stale entry after nan_test.c. TSan reads a size from the bytes before the memory, if its address
# is 16 bytes behind the beginning of a page; it could not map a shadow of that size in faults_test.c, and ended the test.
SANITIZERS = {"ASAN_OPTIONS": "use_sigaltstack=0:intercept_tls_get_addr=0", "TSAN_OPTIONS": "intercept_tls_get_addr=0"}


def environment(source):
    """Tests count the CPU's devices, on a machine with GPUs, too; but for those of the backend for GPUs, which find the
    shim by their RUNPATH, in which a sanitizer's dlopen() does not look."""
    if "backend/cuda" not in str(source):
        return SANITIZERS | os.environ | {"KOLO_DEVICES": "cpu"}
    return SANITIZERS | {"LD_LIBRARY_PATH": str(BUILD / "shim/lib")} | os.environ


def c_unit(source, part, under):
    text = source.read_text(errors="replace")
    tags = re.findall(r"/\* test: (long|alone): \w", text)
    if part != "all" and ("long" in tags) != (part == "long"):
        return []
    program = BUILD / source.relative_to(ROOT).with_suffix("")
    return [Unit(str(source.relative_to(TESTS)), [*under, str(program)], "alone" in tags, True, environment(source),
                 len(text) / 10000, None if program.exists() else program)]


def pytest_units(source, part):
    """Up to two of a file: what may have company, and what may not."""
    text, name, units = source.read_text(errors="replace"), str(source.relative_to(TESTS)), []
    long, alone = (bool(re.search(rf"\bmark\.{mark}\(", text)) for mark in ("long", "alone"))
    if part == "long" and not long:
        return []
    if part == "short" and re.search(r"^pytestmark\b.*\bmark\.long\(", text, re.MULTILINE):
        return []  # all of it is long
    for by_itself in (False, True) if alone else (False,):
        wanted = ["alone" if by_itself else "not alone"] if alone else []
        wanted += {"all": [], "short": ["not long"] if long else [], "long": ["long"]}[part]
        label = f"{name} ({', '.join(wanted)})" if wanted else name
        chosen = ["-m", " and ".join(wanted)] if wanted else []
        command = [sys.executable, "-m", "pytest", "-c", str(TESTS / "pytest.ini"), *chosen, str(source)]
        units.append(Unit(label, command, by_itself, False, os.environ | {"KOLO_DEVICES": "cpu"}, len(text) / 1000))
    return units


def chosen(paths):
    """The C sources and pytest files at or under the given paths."""
    places = [TESTS / path for path in paths] or [TESTS]
    for place in places:
        if not place.exists():
            sys.exit(f"tests/run: there is nothing at {place.relative_to(ROOT)}")
    files = {file for place in places for file in ([place] if place.is_file() else place.rglob("*"))}
    return (sorted(f for f in files if f.name.endswith("_test.c")),
            sorted(f for f in files if re.fullmatch(r"test_.*\.py|.*_test\.py", f.name)))


def units(paths, part, under=(), only_c=False):
    """Part is short, long or all."""
    c_sources, py_sources = chosen(paths)
    found = [unit for source in c_sources for unit in c_unit(source, part, under)]
    return found + ([] if only_c else [unit for source in py_sources for unit in pytest_units(source, part)])
