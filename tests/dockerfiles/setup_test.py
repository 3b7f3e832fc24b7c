"""Set-up where something is missing: one sentence that says what to do, and nothing half-made."""
import os
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
