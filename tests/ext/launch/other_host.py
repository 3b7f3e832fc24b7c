"""Another host for the tests: a network namespace with a name of its own, one cable away, and sshd in it."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import patience
import pytest


# Test files run side by side, each in a process of its own, and so have networks of their own.
NETWORK = f"10.{100 + os.getpid() // 120 % 100}.{2 * (os.getpid() % 120)}"
BRIDGE = NETWORK.rsplit(".", 1)[0] + f".{2 * (os.getpid() % 120) + 1}.1"
HERE, THERE = f"{NETWORK}.1", f"{NETWORK}.2"


def as_root(*words):
    return subprocess.run(words, capture_output=True, text=True)


def other_host(folder):
    """Makes the host. Yields its name, the near end of the cable, and a stand-in for ssh."""
    name, near, far = f"kolorun{os.getpid()}", f"kn{os.getpid()}", f"kf{os.getpid()}"
    if os.geteuid() or not shutil.which("ip") or as_root("ip", "netns", "add", name).returncode:
        pytest.skip("network namespaces need root, and ip")
    inside = ("ip", "netns", "exec", name)
    if as_root(*inside, "true").returncode:  # as in a chroot
        as_root("ip", "netns", "delete", name)
        pytest.skip("NOT TESTED: two hosts; a network namespace cannot be entered here")
    agent = folder / "agent"
    agent.write_text("#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nshift\n"
                     f"exec ip netns exec {name} unshare -u bash -c 'hostname elsewhere; eval \"$*\"' x \"$@\"\n")
    agent.chmod(0o755)
    for command in (("ip", "link", "add", near, "type", "veth", "peer", "name", far),
                    ("ip", "link", "set", far, "netns", name),
                    ("ip", "addr", "add", f"{HERE}/24", "dev", near), ("ip", "link", "set", near, "up"),
                    (*inside, "ip", "addr", "add", f"{THERE}/24", "dev", far), (*inside, "ip", "link", "set", far, "up"),
                    (*inside, "ip", "link", "set", "lo", "up"), *bridge_of_equal_address(near), *bridge_of_equal_address(far, inside)):
        done = as_root(*command)
        assert done.returncode == 0, done.stderr
    yield name, near, str(agent)
    for interface in near, f"{near}b":
        as_root("ip", "link", "delete", interface)
    as_root("ip", "netns", "delete", name)


def bridge_of_equal_address(name, inside=()):
    """Each host has one, as it has Docker's, and it leads to no other host."""
    bridge = f"{name}b"
    return ((*inside, "ip", "link", "add", bridge, "type", "bridge"), (*inside, "ip", "addr", "add", f"{BRIDGE}/24", "dev", bridge),
            (*inside, "ip", "link", "set", bridge, "up"))


# The other host has an account that this one lacks.
ACCOUNTS = ["root:x:0:0:root:/root:/bin/bash", "sshd:x:101:65534::/run/sshd:/usr/sbin/nologin",
            "learner:x:4321:4321::{home}:/bin/bash"]
SSHD = """
Port 2222
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
PidFile none
PermitRootLogin no
UsePAM no
"""
SSH = """
Host *
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    BatchMode yes
"""


def with_sshd(name):
    """Runs sshd on the other host, on port 2222. Yields the key for its user learner, and mpirun's agent: ssh, which
    knows neither the port nor the key nor the user."""
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if not sshd:
        pytest.skip("NOT TESTED: ssh between hosts; it needs sshd: apt install openssh-server")
    folder = Path(tempfile.mkdtemp(prefix="kolo-sshd"))  # pytest closes its own folders to other accounts
    folder.chmod(0o711)
    home = folder / "home"
    home.mkdir()
    os.chown(home, 4321, 4321)
    for key in "key", "host_key":
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    (folder / "key.pub").chmod(0o644)
    (folder / "passwd").write_text("\n".join(ACCOUNTS).format(home=home) + "\n")
    (folder / "shadow").write_text("root:*:1::::::\nsshd:!:1::::::\nlearner:*:1::::::\n")
    (folder / "sshd").write_text(SSHD.format(folder=folder))
    (folder / "ssh").write_text(SSH)
    script = (f"mkdir -p /run/sshd; hostname elsewhere; mount --bind {folder}/passwd /etc/passwd; "
              f"mount --bind {folder}/shadow /etc/shadow; exec {sshd} -D -e -f {folder}/sshd")
    daemon = subprocess.Popen(["ip", "netns", "exec", name, "unshare", "-um", "bash", "-c", script], stderr=subprocess.PIPE)
    assert b"listening" in daemon.stderr.readline()
    yield folder / "key", f"ssh -F {folder}/ssh"
    daemon.terminate()
    patience.wait(daemon, 10)
    shutil.rmtree(folder)
