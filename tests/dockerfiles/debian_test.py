"""The Debian packages: what lintian says, and what each gives when apt installs it in a bare Debian 12."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from workshop import BUILD, ROOT, run

HERE = ROOT / "tests/dockerfiles"
PACKAGES = {"kolo-kernel", "kolo-lessons", "kolorun", "libkolo", "libkolo-dev"}
slow = [pytest.mark.long("packages are built, and a Debian is made"), pytest.mark.timeout(3600),
        pytest.mark.skipif(not os.environ.get("KOLO_SLOW"), reason="KOLO_SLOW=1 builds packages, and installs them in a bare Debian"),
        pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a Debian in a folder")]


def test_the_list_of_packages_serves_the_build():
    """What the packages are built from stands in packages.txt, which is the one list."""
    control = (ROOT / "dockerfiles/debian/control").read_text()
    wanted = control.split("Build-Depends:")[1].split("Standards-Version")[0].replace(",", "").split()
    listed = (ROOT / "dockerfiles/packages.txt").read_text().split()
    assert [name for name in wanted if name not in listed and name not in ("debhelper-compat", "(=", "13)", "python3")] == []


def test_versions_agree():
    version = run(["sed", "-n", r's/.define KOLO_VERSION "\(.*\)"/\1/p', ROOT / "ext/include/kolo.h"]).stdout.strip()
    assert (ROOT / "dockerfiles/debian/changelog").read_text().startswith(f"kolo ({version}) ")


@pytest.mark.parametrize("words, code, sentence", [
    (["-x"], 2, "there is no option '-x'"), (["a", "b"], 2, "wanted one folder, got 2"), (["/"], 1, "/ exists already")])
def test_lessons_that_cannot_be_copied(words, code, sentence):
    done = run([ROOT / "dockerfiles/debian/lessons.sh", *words])
    assert done.returncode == code and done.stderr.startswith(f"kolo-lessons: {sentence}") and done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def packages():
    """The folder of the packages. KOLO_DEBS names one in which they are already."""
    if given := os.environ.get("KOLO_DEBS"):
        return Path(given)
    done = run(["make", f"BUILD={BUILD}", "deb"], limit=1800, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return BUILD / "deb"


@pytest.fixture(scope="module")
def debian(packages, tmp_path_factory):
    """Runs a command in a Debian in which the packages lie in /debs; the answer's stdout."""
    if not shutil.which("debootstrap"):
        pytest.skip("there is no debootstrap: apt install debootstrap")
    folder = tmp_path_factory.mktemp("debian") / "root"

    def inside(command, limit=1200):
        done = run([HERE / "bare_debian.sh", folder, "bash", "-euc", command], limit=limit)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    inside("true")
    (folder / "debs").mkdir()
    for package in packages.glob("*.deb"):
        if "dbgsym" not in package.name:
            shutil.copy(package, folder / "debs")
    shutil.copy(HERE / "installed_cells.py", folder / "debs")
    inside("apt-get -qq update")
    yield inside
    shutil.rmtree(folder)


def install(names):
    files = " ".join(f"/debs/{name}_*.deb" for name in names)
    return f"apt-get install -y -qq --no-install-recommends {files} >/dev/null"


class TestPackages:
    pytestmark = slow

    def test_lintian(self, packages):
        assert {path.name.split("_")[0] for path in packages.glob("*.deb") if "dbgsym" not in path.name} == PACKAGES
        found = subprocess.run(["lintian", "--profile", "debian", "--fail-on", "error,warning", *packages.glob("*.changes")],
                               capture_output=True, text=True)
        assert found.returncode == 0, found.stdout

    def test_the_kernel_alone_gives_c_in_jupyter(self, debian):
        debian(install(["kolo-kernel"]) + "; apt-get install -y -qq python3-venv >/dev/null; python3 -m venv /opt/jupyter;"
               " /opt/jupyter/bin/pip install -q jupyterlab nbclient")
        assert "kolo" in debian("/opt/jupyter/bin/jupyter kernelspec list")
        shown = debian("/opt/jupyter/bin/python /debs/installed_cells.py 'int twice(int x) { return 2 * x; }\ntwice(21)'")
        assert shown.split() == ["42"]

    @pytest.mark.parametrize("package, command, wanted", [
        ("kolorun", "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 kolorun -np 3 echo here", "here"),
        ("libkolo", "kolo-data --help", "Fetches published data sets"),
    ])  # fmt: skip
    def test_each_alone(self, debian, package, command, wanted):
        debian("apt-get purge -y -qq 'kolo*' 'libkolo*' >/dev/null 2>&1 || true")
        debian(install([package]))
        assert wanted in debian(command)

    def test_the_headers_build_a_program(self, debian):
        debian(install(["libkolo", "libkolo-dev"]) + "; apt-get install -y -qq --no-install-recommends gcc libc6-dev pkg-config >/dev/null")
        program = '#include <kolo.h>\\n#include <stdio.h>\\nint main(void) { return puts(KOLO_VERSION) < 0; }\\n'
        assert debian(f"cd /tmp; printf '{program}' >a.c; gcc a.c $(pkg-config --cflags --libs kolo) -o a; ./a").strip()

    def test_the_lessons_programs_run_and_all_is_removed(self, debian):
        before = debian("find / -xdev -iname '*kolo*' -not -path '/debs*' -not -path '/proc/*' -not -path '/root/*'; true")
        debian("apt-get purge -y -qq 'kolo*' 'libkolo*' >/dev/null")
        debian(install(sorted(PACKAGES)))
        done = debian("kolo-lessons /root/mine; test -f /root/mine/Start_Here.ipynb; cd /root/mine;"
                      " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
                      " kolorun -np 2 /usr/lib/kolo/bin/cnn_mnist --epochs 1 --steps-per-epoch 2 --batch-size 16")
        assert "2/2" in done, (before, done)
        debian("rm -r /root/mine; apt-get purge -y -qq 'kolo*' 'libkolo*' >/dev/null")
        assert debian("find / -xdev -iname '*kolo*' -not -path '/debs*' -not -path '/proc/*' -not -path '/root/*'; true") == ""
