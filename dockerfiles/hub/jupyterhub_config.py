"""JupyterHub for a class: .hub/bin/jupyterhub -f dockerfiles/hub/jupyterhub_config.py, as root.

The environment says how; CLASS.md has an example of each:
  KOLO_HUB=systemd           learners are accounts of this machine (PAM), a systemd unit each
  KOLO_HUB=docker            a container of IMAGE=kolo-class each; KOLO_HUB_PASSWORD is the class's password
  KOLO_HUB=local             processes without limits, for a trial; KOLO_HUB_PASSWORD likewise
  CPUS=2 MEMORY=4G           cores and memory of a learner
  DATA=/srv/kolo/data        the data, read-only for all
  PORT=8000                  where the hub listens; the next two are its own and its proxy's, on this machine alone
"""
import os
import re
import shutil
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HUB = TOP / ".hub/bin"
how = os.environ.get("KOLO_HUB", "systemd")
data = os.environ.get("DATA")
password = os.environ.get("KOLO_HUB_PASSWORD", "")
LESSONS = ("Start_Here.ipynb", "labs", "source_code")


def refuse(sentence):
    sys.exit(f"kolo: {sentence}")


if how not in ("systemd", "docker", "local"):
    refuse(f"KOLO_HUB is systemd, docker or local, got '{how}'.")
if how != "systemd" and len(password) < 8:
    refuse(f"KOLO_HUB={how} wants the class's password in KOLO_HUB_PASSWORD, of eight characters at least.")
port, cpus, memory = (os.environ.get(name, default) for name, default in (("PORT", "8000"), ("CPUS", "2"), ("MEMORY", "4G")))
if not re.fullmatch(r"\d{1,5}", port) or not 1 <= int(port) <= 65533:
    refuse(f"PORT is a number from 1 to 65533, since the next two are taken, too; got '{port}'.")
if not re.fullmatch(r"\d+(\.\d+)?", cpus) or float(cpus) == 0:
    refuse(f"CPUS is how many cores a learner may use, got '{cpus}'.")
if not re.fullmatch(r"[1-9]\d*[MGmg]", memory):
    refuse(f"MEMORY is a number with M or G, for megabytes or gigabytes, got '{memory}'.")
if data and not Path(data).is_dir():
    refuse(f"DATA is a folder that holds mnist, cifar-10 and higgs, got '{data}'.")

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.bind_url = f"http://:{port}"
c.JupyterHub.hub_port = int(port) + 1
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{int(port) + 2}"
c.ConfigurableHTTPProxy.command = [str(HUB / "configurable-http-proxy")]
c.Authenticator.allow_all = True
c.Spawner.default_url = "/lab/tree/Start_Here.ipynb"
c.Spawner.cpu_limit = float(cpus)
c.Spawner.mem_limit = memory.upper()
# Thirty that start at once on one machine are slow.
c.Spawner.start_timeout = c.Spawner.http_timeout = 180
c.Spawner.args = ["--MultiKernelManager.default_kernel_name=kolo"]
c.Spawner.environment = {
    "KOLO_GPU_DEVICES": os.environ.get("KOLO_GPU_DEVICES", "8"),
    "JUPYTER_CONFIG_PATH": "/kolo/dockerfiles/jupyter" if how == "docker" else str(TOP / "dockerfiles/jupyter"),
}

if how == "docker":
    c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
    c.DockerSpawner.image = os.environ.get("IMAGE", "kolo-class")
    c.DockerSpawner.cmd = ["/kolo/.hub/bin/jupyterhub-singleuser"]
    c.DockerSpawner.notebook_dir = "/kolo"
    c.DockerSpawner.remove = True
    # What the learner changes stays in a volume of the learner's; the data are shared and cannot be written.
    c.DockerSpawner.volumes = {"kolo-{username}": "/kolo/labs"}
    if data:
        c.DockerSpawner.read_only_volumes = {str(Path(data).resolve()): "/data"}
    c.DockerSpawner.extra_host_config = {"shm_size": "1g", "init": True, "pids_limit": 2000}
    c.JupyterHub.hub_ip = "0.0.0.0"
else:
    c.Spawner.cmd = [str(HUB / "jupyterhub-singleuser")]
    c.Spawner.notebook_dir = "~/kolo" if how == "systemd" else ""
    c.Spawner.environment["JUPYTER_PATH"] = str(TOP / ".venv/share/jupyter")
    if data:
        c.Spawner.environment["KOLO_DATA"] = str(Path(data).resolve())

if how == "systemd":
    c.JupyterHub.spawner_class = "systemdspawner.SystemdSpawner"
    c.SystemdSpawner.isolate_tmp = True
    c.SystemdSpawner.unit_name_template = "kolo-{USERNAME}"
elif how == "local":
    c.JupyterHub.spawner_class = "jupyterhub.spawner.SimpleLocalProcessSpawner"
    if os.geteuid() == 0:
        c.Spawner.args += ["--allow-root"]
    c.SimpleLocalProcessSpawner.home_dir_template = os.environ.get("KOLO_HUB_HOMES", "/tmp/kolo-hub") + "/{username}"

if how != "systemd":
    c.JupyterHub.authenticator_class = "shared-password"
    c.SharedPasswordAuthenticator.user_password = password


def copy_lessons(home, uid=-1, gid=-1):
    """The learner's own copy, made at the first start; what is there already is the learner's work."""
    target, part = home / "kolo", home / ".kolo.part"
    if target.exists():
        return
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name in LESSONS:
        source = TOP / name
        shutil.copytree(source, part / name) if source.is_dir() else shutil.copy(source, part / name)
    for path in (part, *part.rglob("*")):
        os.chown(path, uid, gid, follow_symlinks=False)
    part.rename(target)


def prepare(spawner):
    if how == "systemd":
        import pwd
        account = pwd.getpwnam(spawner.user.name)
        copy_lessons(Path(account.pw_dir), account.pw_uid, account.pw_gid)
    elif how == "local":
        home = Path(spawner.home_dir)
        copy_lessons(home)
        spawner.notebook_dir = str(home / "kolo")


c.Spawner.pre_spawn_hook = prepare
