"""How the servers of a lab start kernels: lab.sh and JupyterHub name this folder in JUPYTER_CONFIG_PATH.

A kernel and its server speak through sockets in Jupyter's runtime folder. Over TCP each kernel needs five ports, which its
server looks for before the kernel takes them: of thirty kernels that start together two may find the same.
"""
import atexit
import os
import shutil
import socket
import tempfile
import uuid

from jupyter_core.paths import jupyter_runtime_dir
from jupyter_core.utils import ensure_dir_exists


def holds_sockets(folder):
    """Whether a kernel's socket can be made there: a path has 107 bytes at most, and some file systems have no sockets."""
    path = os.path.join(folder, f"kernel-{uuid.uuid4()}-ipc-5")
    try:
        ensure_dir_exists(folder, mode=0o700)
        with socket.socket(socket.AF_UNIX) as trial:
            trial.bind(path)
        os.unlink(path)
        return True
    except OSError:
        return False


def private_folder():
    """In /tmp, closed to others, and removed when the server ends."""
    folder = tempfile.mkdtemp(prefix="kolo-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


if not holds_sockets(jupyter_runtime_dir()):
    os.environ["JUPYTER_RUNTIME_DIR"] = private_folder()  # Jupyter has not looked for it yet
if holds_sockets(jupyter_runtime_dir()):
    c.KernelManager.transport = "ipc"  # noqa: F821 - Jupyter defines it
