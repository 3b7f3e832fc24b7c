"""A cluster of two nodes, dgx01 and dgx02, that SLURM manages: network namespaces with slurmd, a slurmctld, and munged.

Each node has a bridge of the same address, as Docker's, that leads to no other node.
"""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import patience
import pytest

from ext.launch.launched import processes_with
from ext.launch.other_host import BRIDGE, NETWORK, as_root

NODES = {"dgx01": f"{NETWORK}.11", "dgx02": f"{NETWORK}.12"}
CONTROLLER = f"{NETWORK}.1"
CPUS = 4  # that SLURM believes each node to have
CONFIGURATION = """
ClusterName=kolo
SlurmctldHost={host}({controller})
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
SlurmUser=root
SlurmctldPort=6837
SlurmdPort=6838
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=30
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=10
"""


class Cluster:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kolo-slurm"))
        self.folder.chmod(0o711)
        self.bridge = f"ks{os.getpid()}"
        self.names = {node: f"{node}-{os.getpid()}" for node in NODES}
        self.daemons = []
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def must(self, *words):
        done = as_root(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"

    def build(self):
        self.must("ip", "link", "add", self.bridge, "type", "bridge")
        self.must("ip", "addr", "add", f"{CONTROLLER}/24", "dev", self.bridge)
        self.must("ip", "link", "set", self.bridge, "up")
        for node, address in NODES.items():
            name, near, inside = self.names[node], f"{node[-2:]}k{os.getpid()}", ("ip", "-n", self.names[node])
            self.must("ip", "netns", "add", name)
            self.must("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", name)
            self.must("ip", "link", "set", near, "master", self.bridge, "up")
            self.must(*inside, "addr", "add", f"{address}/24", "dev", "eth0")
            self.must(*inside, "link", "add", "br-lan", "type", "bridge")
            self.must(*inside, "addr", "add", f"{BRIDGE}/24", "dev", "br-lan")
            for link in "lo", "eth0", "br-lan":
                self.must(*inside, "link", "set", link, "up")
        self.configure()
        self.start()

    def configure(self):
        nodes = "\n".join(f"NodeName={node} NodeAddr={address} CPUs={CPUS} State=UNKNOWN" for node, address in NODES.items())
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(host=socket.gethostname(), controller=CONTROLLER, folder=self.folder, nodes=nodes))
        (self.folder / "cgroup.conf").write_text("IgnoreSystemd=yes\n")
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + f"{CONTROLLER} {socket.gethostname()}\n" +
                                           "".join(f"{address} {node}\n" for node, address in NODES.items()))
        (self.folder / "key").write_bytes(os.urandom(1024))
        (self.folder / "key").chmod(0o400)
        (self.folder / "state").mkdir()
        for node in NODES:
            (self.folder / f"spool.{node}").mkdir()
            (self.folder / f"tmp.{node}").mkdir()

    def daemon(self, *words):
        log = open(self.folder / f"daemon.{len(self.daemons)}.log", "w")
        self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env=os.environ | self.environment, start_new_session=True))

    def on(self, node, *words):
        """The command that runs another on a node: with its network, its name, and its file of hosts."""
        script = f'hostname {node}; mount --bind {self.folder}/hosts /etc/hosts; exec "$@"'
        return ["nsenter", f"--net=/run/netns/{self.names[node]}", "unshare", "-um", "bash", "-c", script, "x", *words]

    def start(self):
        self.daemon("munged", "--foreground", "--force", f"--key-file={self.folder}/key", f"--socket={self.folder}/munge",
                    f"--pid-file={self.folder}/munge.pid", f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/seed")
        assert patience.until((self.folder / "munge").exists, 10), self.logs()
        self.daemon("slurmctld", "-D")
        for node in NODES:
            self.daemon(*self.on(node, "slurmd", "-D", "-N", node))
        ready = patience.until(lambda: self.ask("sinfo", "-h", "-o", "%D %t") == "2 idle", 60, pause=0.2)
        assert ready, self.ask("sinfo") + self.logs()

    def logs(self):
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))

    def run(self, *words, node=None, timeout=120, **environment):
        """Runs a command of SLURM's to its end, here or on a node."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")} | self.environment | environment
        return patience.run([*self.on(node), *words] if node else [*words], env=env, timeout=timeout, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, cwd=self.folder)

    def ask(self, *words):
        return self.run(*words).stdout.strip()

    def submit(self, script, *options):
        """Gives a script to sbatch. Returns the job's number."""
        script_file, code = self.folder / "script", self.folder / "code"
        script_file.write_text("#!/bin/bash\n" + script)
        (self.folder / "out").write_text("")
        code.unlink(missing_ok=True)
        done = self.run("sbatch", "--parsable", "-o", self.folder / "out", "-t", "5", *options, "--wrap",
                        f"bash {script_file}; echo $? >{code}.new; mv {code}.new {code}")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def batch(self, script, *options, timeout=120):
        """Runs a script by sbatch to its end. Returns its exit code and what it and its steps printed."""
        self.submit(script, *options)
        code, out = self.folder / "code", self.folder / "out"
        assert patience.until(code.exists, timeout), out.read_text() + self.logs()
        return int(code.read_text()), out.read_text()

    def close(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            patience.wait(daemon, 20)
        for pid in processes_with(str(self.folder)):  # of a job that a test has left
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for node in NODES:
            as_root("ip", "netns", "delete", self.names[node])
        as_root("ip", "link", "delete", self.bridge)
        shutil.rmtree(self.folder, ignore_errors=True)


def cluster():
    missing = [program for program in ("slurmctld", "slurmd", "munged", "sbatch")
               if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")]
    if os.geteuid() or missing or not shutil.which("ip"):
        pytest.skip(f"NOT TESTED: SLURM; it needs root, ip and {' '.join(missing) or 'nothing else'}: "
                    "apt install slurmctld slurmd slurm-client munge")
    os.environ["PATH"] += ":/usr/sbin"
    made = Cluster()
    try:
        made.build()
        yield made
    finally:
        made.close()
