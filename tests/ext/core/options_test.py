"""Every option of a layer, an optimizer or a schedule is in the table of its kind: one that is missing there would not be
saved with a model, or would have no default."""

import pathlib
import re

import pytest

# No kinds of layers, optimizers or schedules, and a kind of a learner's own.
WITHOUT_TABLE = ("custom", "distributed", "warmup")
# Two structs of the same members, and an option that kolo_schedule_complete() knows of all schedules.
SAME_TABLE = {"average_pool2d": "max_pool2d"}
OF_ALL = ("KOLO_OPTIMIZER_OPTIONS", "initial_learning_rate")

EXT = pathlib.Path(__file__).parents[3] / "ext"


def structs(header):
    """The members of each struct kolo_NAME_args of a header, without what every kind has."""
    text = re.sub(r"/\*.*?\*/", "", (EXT / "include" / header).read_text(), flags=re.S)
    for body, name in re.findall(r"typedef struct kolo_\w+_args \{(.*?)\} kolo_(\w+)_args;", text, flags=re.S):
        members = []
        for declaration in body.split(";"):
            if not declaration.strip() or "guard" in declaration or "const char *_" in declaration:
                continue
            for part in declaration.split(","):
                members.append(re.search(r"(\w+)(\[[^\]]*\])*$", part.strip()).group(1))
        yield name, members


def tables(folder):
    """The pairs of a kind and a member that the tables of a folder name."""
    text = "".join(path.read_text() for path in sorted((EXT / folder).glob("*.c")))
    found = set(re.findall(r"KOLO_(?:FIELD|POSITIONAL)\(\w+,\s*(\w+),\s*(\w+)\)", text))
    found |= set(re.findall(r"KOLO_(?:PAIR|NUMBER|COUNT|SWITCH)\((\w+),\s*(\w+)", text))
    found |= set(re.findall(r"offsetof\(kolo_(\w+)_args,\s*(\w+)\)", text))
    for kind in re.findall(r"KOLO_FIELDS_END\((\w+)\)", text):
        found |= {(kind, "name"), (kind, "device")}
    return found


def missing(header, folder):
    known = tables(folder)
    return [f"{kind}.{member}" for kind, members in structs(header) if kind not in WITHOUT_TABLE for member in members
            if member not in OF_ALL and (SAME_TABLE.get(kind, kind), member) not in known]


def test_structs_are_read():
    layers = dict(structs("kolo_layers.h"))
    assert layers["dense"] == ["units", "activation", "no_bias", "l2", "name", "device"]
    assert "kernel" in layers["conv2d"] and len(layers) > 15
    assert "beta_1" in dict(structs("kolo_optimizers.h"))["adam"]


@pytest.mark.parametrize("header, folder", [("kolo_layers.h", "layers"), ("kolo_optimizers.h", "optimizers"),
                                            ("kolo_schedules.h", "optimizers")])
def test_every_option_is_in_a_table(header, folder):
    assert missing(header, folder) == []
