"""The README's program, compiled by its two commands against the build and against an installed Kolo."""
import json
import os
import re

import pytest

from source_code.cnn import write_data
from workshop import BUILD, ROOT, compile_program, make, run


@pytest.fixture
def source(tmp_path):
    program = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    (tmp_path / "my.c").write_text(program)
    return tmp_path / "my.c"


def train(program, data=None):
    """On the 60,000 digits that it draws itself, if no folder is given; then it prints the last accuracy."""
    environment = {name: value for name, value in os.environ.items() if name != "KOLO_DATA"} | {"KOLO_CPU_DEVICES": "2"}
    done = run([program], cwd=program.parent, env=environment | ({"KOLO_DATA": str(data)} if data else {}))
    assert done.returncode == 0, done.stderr
    assert "Epoch 3/3" in done.stdout
    return float(re.findall(r"accuracy: ([0-9.]+)", done.stdout)[-1])


def test_build_tree(source):
    compiled = compile_program(source, source.with_suffix(""), BUILD)
    assert compiled.returncode == 0 and not compiled.stderr, compiled.stderr
    assert train(source.with_suffix("")) > 0.8  # 0.93 was seen


def test_installed(source, tmp_path):
    prefix = tmp_path / "prefix"
    done = make("install", f"PREFIX={prefix}")
    assert done.returncode == 0, done.stderr
    compiled = compile_program(source, source.with_suffix(""), prefix)
    assert compiled.returncode == 0, compiled.stderr
    train(source.with_suffix(""), write_data(tmp_path / "data/mnist").parent)
    spec = json.loads((prefix / "share/jupyter/kernels/kolo/kernel.json").read_text())
    assert spec["argv"][0] == f"{prefix}/bin/kolo-kernel" and spec["display_name"] == "C (Kolo)"
    assert os.access(spec["argv"][0], os.X_OK)


def test_destdir_is_not_in_what_is_installed(tmp_path):
    done = make("install", "PREFIX=/opt/kolo", f"DESTDIR={tmp_path}")
    assert done.returncode == 0, done.stderr
    for file in ("lib/pkgconfig/kolo.pc", "share/jupyter/kernels/kolo/kernel.json"):
        text = (tmp_path / "opt/kolo" / file).read_text()
        assert "/opt/kolo" in text and str(tmp_path) not in text


@pytest.mark.parametrize("mistake", [".activatoin = KOLO_RELU", "KOLO_RELU"])
def test_a_misspelt_or_unnamed_option_does_not_compile(source, mistake):
    text = source.read_text()
    wrong = text.replace(".activation = KOLO_RELU", mistake)
    assert wrong != text
    source.write_text(wrong)
    assert compile_program(source, source.with_suffix(""), BUILD).returncode != 0


def test_help_offers_what_exists():
    offered = re.findall(r"^  make (\S+)", make("help").stdout, re.MULTILINE)
    assert {"lab", "test", "setup", "build", "install", "format", "lint", "asan", "tsan", "clean", "help"} <= set(offered)
    known = make("-n", *offered, "Q=")
    assert known.returncode == 0, known.stderr


def test_compile_commands():
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    assert len(commands) > 20
    for command in commands:
        assert (ROOT / command["file"]).exists() and " -c " in command["command"]
