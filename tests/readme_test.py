"""The README's program, compiled by its two commands against the build and against an installed Kolo."""
import json
import os
import re

import pytest

from workshop import BUILD, ROOT, compile_program, make, run


@pytest.fixture
def source(tmp_path):
    program = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    (tmp_path / "my.c").write_text(program)
    return tmp_path / "my.c"


def train(program):
    environment = {**os.environ, "KOLO_CPU_DEVICES": "2"}
    environment.pop("KOLO_DATA", None)
    done = run([program], cwd=program.parent, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Epoch 3/3" in done.stdout
    assert float(re.findall(r"accuracy: ([0-9.]+)", done.stdout)[-1]) > 0.8  # digits it draws itself; 0.93 was seen


def test_build_tree(source):
    compiled = compile_program(source, source.with_suffix(""), BUILD)
    assert compiled.returncode == 0 and not compiled.stderr, compiled.stderr
    train(source.with_suffix(""))


def test_installed(source, tmp_path):
    prefix = tmp_path / "prefix"
    done = make("install", f"PREFIX={prefix}")
    assert done.returncode == 0, done.stderr
    compiled = compile_program(source, source.with_suffix(""), prefix)
    assert compiled.returncode == 0, compiled.stderr
    train(source.with_suffix(""))
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
    for target in offered:
        assert make("-n", target, "Q=").returncode == 0, target


def test_compile_commands():
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    assert len(commands) > 20
    for command in commands:
        assert (ROOT / command["file"]).exists() and " -c " in command["command"]
