"""The lab as a job of a real SLURM, reached through ssh; Apptainer and Enroot by stand-ins, since Debian 12 has neither."""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import urllib.error

import patience
import pytest

from dockerfiles.remote_kernel import RemoteKernel, transport_of
from ext.launch.cluster import NODES, cluster
from ext.launch.launched import processes_with
from ext.launch.other_host import with_sshd
from workshop import ROOT, run

SITES = ROOT / "dockerfiles/sites"
APPTAINER = """#!/bin/bash
# apptainer exec --bind FOLDER IMAGE COMMAND …, in which /opt/kolo is this checkout
echo "$@" >>{log}
[[ $1 == exec && $2 == --bind && -d $3 && -r $4 ]] || exit 9
shift 4
exec "${{@//\\/opt\\/kolo/{root}}}"
"""


@pytest.fixture(scope="module")
def slurm():
    with contextlib.contextmanager(cluster)() as made:
        yield made


@pytest.fixture(scope="module")
def tunnel(slurm):
    """Opens ssh -L to a port of the compute node, as a learner's own computer does. Gives the near port."""
    processes = []
    with contextlib.contextmanager(with_sshd)(slurm.names["dgx01"]) as (key, ssh):

        def opened(port):
            with socket.socket() as near:
                near.bind(("127.0.0.1", 0))
                here = near.getsockname()[1]
            processes.append(subprocess.Popen([*ssh.split(), "-i", key, "-p", "2222", "-N", "-L", f"{here}:127.0.0.1:{port}",
                                               f"learner@{NODES['dgx01']}"], stdin=subprocess.DEVNULL))
            return here

        yield opened
        for process in processes:
            process.terminate()
            patience.wait(process, 20)


def submit(slurm, home, *words, path=os.environ["PATH"], folder=ROOT):
    """Submits lab.sbatch as a learner whose home is `home`, with room for a small cluster. Gives the job and its output file."""
    home.mkdir()
    out = home / "lab.out"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "KOLO_LAB"))}
    done = run(["sbatch", "--parsable", "-o", out, "-t", "5", "-n", "4", "-w", "dgx01", SITES / "lab.sbatch", *words], cwd=folder,
               env=kept | slurm.environment | {"HOME": str(home), "PATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), out


def said(out, pattern):
    found = patience.until(lambda: out.exists() and re.search(pattern, out.read_text()), 120)
    assert found, out.read_text() if out.exists() else "no output file"
    return found


def use_the_lab(slurm, tunnel, job, out):
    """A cell runs on the compute node through the tunnel that the output file describes; scancel leaves nothing."""
    port, node = said(out, r"ssh -N -L (\d+):127\.0\.0\.1:\1 -J \S+ (\S+)").groups()
    assert node == "dgx01"
    token = said(out, r"token=(\w+)")[1]
    assert out.stat().st_mode & 0o077 == 0, "the token is the learner's only"
    url = f"http://127.0.0.1:{tunnel(port)}/lab/tree/Start_Here.ipynb?token={token}"
    kernel = patience.insist(lambda: RemoteKernel(url), 120, (urllib.error.URLError, ConnectionError))
    assert kernel.run("6 * 7") == ("ok", "42")
    assert kernel.run("!hostname; echo $SLURM_JOB_ID") == ("ok", f"dgx01\n{job}\n")
    assert transport_of(kernel.id) == "ipc", "labs of several learners may be jobs on one node"
    kernel.close()
    slurm.must("env", *(f"{name}={value}" for name, value in slurm.environment.items()), "scancel", job)
    assert patience.until(lambda: not slurm.ask("squeue", "-h", "-j", job), 60), slurm.ask("squeue")
    assert patience.until(lambda: not processes_with(str(out.parent)), 60), processes_with(str(out.parent))


@pytest.mark.long("a SLURM and two JupyterLabs start")
def test_the_lab_on_a_compute_node(slurm, tunnel, tmp_path):
    job, out = submit(slurm, tmp_path / "home")
    use_the_lab(slurm, tunnel, job, out)
    mine = tmp_path / "home/kolo/labs/mine.ipynb"
    mine.write_text("{}")
    assert (tmp_path / "home/kolo/Start_Here.ipynb").exists()
    log = tmp_path / "apptainer.log"
    stand_in = tmp_path / "bin/apptainer"
    stand_in.parent.mkdir()
    stand_in.write_text(APPTAINER.format(log=log, root=str(ROOT).replace("/", "\\/")))
    stand_in.chmod(0o755)
    image = tmp_path / "kolo.sif"
    image.write_text("")
    job, out = submit(slurm, tmp_path / "other", image, path=f"{stand_in.parent}:{os.environ['PATH']}", folder=tmp_path)
    use_the_lab(slurm, tunnel, job, out)
    bound = f"exec --bind {tmp_path}/other/kolo {image}"
    assert log.read_text().splitlines() == [f"{bound} cp -r /opt/kolo/Start_Here.ipynb /opt/kolo/labs /opt/kolo/source_code {tmp_path}/other/kolo/",
                                            f"{bound} /opt/kolo/dockerfiles/lab.sh"]
    assert mine.exists()


@pytest.mark.long("a SLURM starts")
@pytest.mark.parametrize("words, sentence", [
    (["/nosuch.sif"], "wanted an image of Apptainer, and /nosuch.sif cannot be read."),
    ([SITES / "kolo.def"], "there is no apptainer on dgx01: load its module before sbatch."),
    ([], "is no checkout of Kolo: submit the job from its folder, or name an image."),
])  # fmt: skip
def test_a_job_that_cannot_start_says_why(slurm, tmp_path, words, sentence):
    if shutil.which("apptainer") and "no apptainer" in sentence:
        pytest.skip("there is an apptainer here")
    _, out = submit(slurm, tmp_path / "home", *words, folder=tmp_path)
    said(out, re.escape(sentence))
    assert out.read_text().startswith("kolo: ") and out.read_text().count("\n") == 1
    assert not (tmp_path / "home/kolo").exists()


def sections():
    """kolo.def's header, and its sections by their names."""
    header, *parts = re.split(r"^%(\w+)\n", re.sub(r"^#.*\n", "", (SITES / "kolo.def").read_text(), flags=re.MULTILINE), flags=re.MULTILINE)
    return header, dict(zip(parts[::2], parts[1::2]))


def test_the_definition_for_apptainer():
    header, parts = sections()
    assert re.findall(r"^(\w+): (\S+)$", header, re.MULTILINE) == [("Bootstrap", "docker"), ("From", "debian:12")]
    assert set(parts) == {"files", "post", "environment", "runscript", "test"}
    for name in set(parts) - {"files"}:
        checked = run(["sh", "-n", "-c", parts[name]])
        assert checked.returncode == 0, f"%{name}: {checked.stderr}"
    post = parts["post"]
    assert 0 < post.find("dockerfiles/setup.sh packages") < post.find("make setup"), "debian:12 has no make"
    assert (ROOT / re.search(r"/opt/kolo/(\S+)", parts["runscript"])[1]).exists()
    paths = run(["sh", "-c", parts["environment"] + "\necho $PATH"]).stdout
    assert paths.startswith("/opt/kolo/build/bin:/opt/kolo/.venv/bin:")


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="NOT TESTED: scripts of sites; it needs shellcheck: apt install shellcheck")
def test_shellcheck_finds_nothing(tmp_path):
    (tmp_path / "post.sh").write_text("#!/bin/sh -ex\n" + sections()[1]["post"])  # Apptainer runs it so
    done = run(["shellcheck", "--severity", "warning", SITES / "enroot.sh", SITES / "lab.sbatch", ROOT / "dockerfiles/lab.sh", tmp_path / "post.sh"])
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("engine, scheme", [("docker", "dockerd"), ("podman", "podman")])
def test_the_script_for_enroot(tmp_path, engine, scheme):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in {"enroot": f'echo "$@" >{tmp_path}/words', engine: 'test "$*" = "image inspect kolo"'}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    (tmp_path / "bash").symlink_to("/bin/bash")
    environment = {"PATH": f"{folder}:{tmp_path}"}
    done = run(["/bin/bash", SITES / "enroot.sh", "kolo", "here.sqsh"], env=environment, cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "words").read_text() == f"import --output here.sqsh {scheme}://kolo\n", done.stderr
    (tmp_path / "kolo.sqsh").write_text("mine")
    done = run(["/bin/bash", SITES / "enroot.sh"], env=environment, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr == "kolo: kolo.sqsh exists already: choose another name, or remove it.\n"
    done = run(["/bin/bash", SITES / "enroot.sh", "other", "other.sqsh"], env=environment, cwd=tmp_path)
    assert done.returncode == 1 and "neither docker nor podman has an image other" in done.stderr
