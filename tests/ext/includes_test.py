"""Folders of ext/ include each other in one direction only: from what stands higher to what stands lower."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

# From the bottom up; CONTRIBUTING.md repeats it. A folder includes itself and the folders before it, nothing else.
ORDER = ["core", "show", "losses", "optimizers", "link", "comm", "plan", "layers", "backend", "runtime", "whatif", "data", "model", "fetch",
         "topology", "engine", "strategy", "replica", "training", "saving", "callbacks"]
# kolorun and kolo-board are programs of their own: kolorun includes core/, and nothing includes either.
PROGRAMS = {"launch": {"core"}, "board": set()}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(\w+)/([^"]+)"', re.MULTILINE)


def folder(name):
    """The folder that a file of ext/ is part of, by its path there."""
    return name.split("/")[0]


def edges(ext):
    """Which folder includes which, and by which lines: {(from, to): ["core/a.c includes model/b.h", ...]}."""
    found = {}
    for path in sorted(ext.rglob("*")):
        name = path.relative_to(ext).as_posix()
        if path.suffix not in (".c", ".h", ".cu", ".cuh") or name.startswith("include/"):
            continue
        for first, rest in INCLUDE.findall(path.read_text(encoding="utf-8")):
            ends = folder(name), folder(f"{first}/{rest}")
            if ends[0] != ends[1]:
                found.setdefault(ends, []).append(f"{name} includes {first}/{rest}")
    return found


def circle(found):
    """The files that make a circle of folders, folder by folder; [] where there is none."""
    after = {}
    for a, b in found:
        after.setdefault(a, []).append(b)
    done, way = set(), []

    def walk(at):
        if at in way:
            ring = way[way.index(at):] + [at]
            return [line for pair in zip(ring, ring[1:]) for line in found[pair]]
        if at in done:
            return []
        way.append(at)
        lines = next((lines for lines in map(walk, after.get(at, [])) if lines), [])
        way.pop()
        done.add(at)
        return lines

    return next((lines for lines in map(walk, sorted(after)) if lines), [])


def upwards(found):
    """The includes that the order does not allow."""
    allowed = {name: set(ORDER[:i]) for i, name in enumerate(ORDER)} | PROGRAMS
    return [line for (a, b), lines in sorted(found.items()) for line in lines if b not in allowed.get(a, set())]


def test_folders_make_no_circle():
    lines = circle(edges(ROOT / "ext"))
    assert not lines, "these includes make a circle of folders:\n" + "\n".join(lines)


def test_includes_go_downwards():
    lines = upwards(edges(ROOT / "ext"))
    assert not lines, "wanted includes of lower folders only (ORDER in this file), got:\n" + "\n".join(lines)


def test_every_folder_has_its_place():
    there = {path.name for path in (ROOT / "ext").iterdir() if path.is_dir()} - {"include"}
    assert there == set(ORDER) | set(PROGRAMS)


def test_contributing_repeats_the_order():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = "".join(line.split("|")[1] for line in text.splitlines() if re.match(r"\| `\w+/`", line))
    assert [name for name in re.findall(r"`(\w+)/`", rows) if name in ORDER] == ORDER


def test_a_circle_is_found(tmp_path):
    for name, text in {"core/error.h": '#include "model/model.h"', "model/model.h": '#include "plan/plan.h"',
                       "plan/plan.h": '#include "core/error.h"', "engine/engine.c": '#include "model/model.h"'}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
    found = edges(tmp_path)
    assert circle(found) == ["core/error.h includes model/model.h", "model/model.h includes plan/plan.h",
                             "plan/plan.h includes core/error.h"]
    assert upwards(found) == ["core/error.h includes model/model.h"]
    del found["plan", "core"]
    assert circle(found) == []
