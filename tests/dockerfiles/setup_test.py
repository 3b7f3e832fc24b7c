"""Set-up where something is missing: one sentence that says what to do, and nothing half-made."""
import os
import re
import shutil

import pytest

from workshop import ROOT, run

NOBODY = 65534


@pytest.fixture
def checkout(tmp_path):
    """A folder with nothing but the set-up's own files."""
    shutil.copytree(ROOT / "dockerfiles", tmp_path / "dockerfiles")
    return tmp_path


def setup(checkout, *arguments, **options):
    return run([checkout / "dockerfiles/setup.sh", *arguments], **options)


def sentence_of(done):
    assert done.returncode == 1
    assert done.stderr.startswith("kolo: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_what_this_machine_has_is_not_installed_again(checkout):
    done = setup(checkout, "packages", env={"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:9"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root may")
def test_no_right_to_install(checkout):
    # pytest's own folders are closed to other users.
    for folder in (checkout, *checkout.parents[:2]):
        folder.chmod(0o755)
    with (checkout / "dockerfiles/packages.txt").open("a") as packages:
        packages.write("kolo-no-such-package\n")
    done = setup(checkout, "packages", user=NOBODY, group=NOBODY, extra_groups=[])
    assert "apt-get install --no-install-recommends kolo-no-such-package" in sentence_of(done)


def test_a_build_names_the_missing_package(checkout):
    packages = checkout / "dockerfiles/packages.txt"
    packages.write_text(packages.read_text().replace("libdnnl-dev", "kolo-no-such-package"))
    assert "needs kolo-no-such-package: run 'make setup'" in sentence_of(setup(checkout, "check"))


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root may")
def test_a_folder_that_cannot_be_written(checkout):
    for folder in (checkout, *checkout.parents[:2]):
        folder.chmod(0o755)
    for command in ("check", "venv"):
        done = setup(checkout, command, user=NOBODY, group=NOBODY, extra_groups=[], cwd=checkout)
        assert f"{checkout} cannot be written" in sentence_of(done)


def break_requirements(checkout):
    (checkout / "dockerfiles/requirements.txt").write_text("./kolo-no-such-wheel.whl\n")


def test_no_half_made_environment(checkout):
    break_requirements(checkout)
    assert "pip could not fill .venv" in sentence_of(setup(checkout, "venv"))
    assert [path.name for path in checkout.iterdir()] == ["dockerfiles"]


@pytest.mark.long("another environment with pip in it is made")
def test_the_old_environment_survives_a_failed_renewal(checkout):
    break_requirements(checkout)
    (checkout / ".venv").mkdir()
    (checkout / ".venv/made-from").write_text("an older list")
    sentence_of(setup(checkout, "venv"))
    assert (checkout / ".venv/made-from").read_text() == "an older list"
    assert not (checkout / ".venv.old").exists()


def test_kernelspec_with_an_awkward_path(checkout):
    shutil.copytree(ROOT / "kernel/kernelspec", checkout / "kernel/kernelspec")
    done = setup(checkout, "kernelspec", '/opt/a "b" & c|d', checkout / "kernels")
    assert done.returncode == 0, done.stderr
    assert r'/opt/a \"b\" & c|d/kolo-kernel' in (checkout / "kernels/kolo/kernel.json").read_text()


def test_a_part_of_the_list_that_is_not_there(checkout):
    done = setup(checkout, "packages", env={**os.environ, "KOLO_PACKAGES": "to run,to fly"})
    assert "got 'to fly'" in sentence_of(done)


@pytest.fixture
def toolkit(checkout):
    """setup.sh cuda with a pip that only notes what it is to install, and an nvcc that is CUDA 12."""
    pip, nvcc = checkout / ".venv/bin/pip", checkout / "toolkit/bin/nvcc"
    for program, text in (pip, f'printf "%s\\n" "$@" >{checkout}/asked; mkdir -p .cuda/nvidia/cudnn/lib; : >.cuda/nvidia/cudnn/lib/libcudnn.so.9'), \
                         (nvcc, "echo 'Cuda compilation tools, release 12.9, V12.9.86'"):
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    def ask(**environment):
        done = setup(checkout, "cuda", env={"PATH": os.environ["PATH"], **environment})
        asked = checkout / "asked"
        return done, asked.read_text().split() if asked.exists() else []

    return ask


def cuda_list():
    return re.findall(r"^nvidia-.*==.*$", (ROOT / "dockerfiles/cuda.txt").read_text(), re.MULTILINE)


def test_volta_gets_a_toolkit_of_its_own(checkout, toolkit):
    done, asked = toolkit(CUDA="12", KOLO_TOOLKIT=str(checkout / "toolkit"), CUDNN="9.9.0.52", NCCL="2.26.5")
    assert done.returncode == 0, done.stderr
    assert [one for one in asked if one.startswith("nvidia-")] == ["nvidia-cudnn-cu12==9.9.0.52", "nvidia-nccl-cu12==2.26.5"]
    assert (checkout / ".cuda/toolkit/bin/nvcc").exists() and (checkout / ".cuda/nvidia/cudnn/lib/libcudnn.so").exists()
    (checkout / "asked").unlink()
    assert toolkit(CUDA="12", KOLO_TOOLKIT=str(checkout / "toolkit"), CUDNN="9.9.0.52", NCCL="2.26.5")[1] == [], "nothing is fetched again"


def test_the_list_without_arguments(toolkit):
    done, asked = toolkit(KOLO_TOOLKIT="/no/such")
    assert done.returncode == 0, done.stderr
    assert [one for one in asked if one.startswith("nvidia-")] == [one for one in cuda_list() if "-cu12" not in one]


@pytest.mark.parametrize("environment, sentence", [
    ({"CUDA": "11"}, "CUDA is 12 or 13, got '11'"),
    ({"CUDA": "12"}, "PyPI has no nvcc of CUDA 12: KOLO_TOOLKIT names a folder"),
    ({"CUDA": "13", "KOLO_TOOLKIT": "toolkit"}, "toolkit is not CUDA 13: release 12.9"),
])  # fmt: skip
def test_a_toolkit_that_does_not_serve(toolkit, environment, sentence):
    done, asked = toolkit(**environment)
    assert sentence in sentence_of(done) and asked == []


@pytest.mark.parametrize("name", ["cpu", "gpu", "class"])
def test_dockerfiles_copy_what_is_there(name):
    """Each file that a Dockerfile copies by name is in the tree, and each argument of a build has a default or may be empty."""
    text = (ROOT / f"dockerfiles/{name}.Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert all((ROOT / word).exists() for word in copied), copied
    assert re.findall(r"^ARG \w+$", text, re.MULTILINE) == [] and text.rindex("USER 1000") > text.rindex("\nRUN ")
