"""What the kernel, the cells' process and the ranks say to each other: too large, forged or lost."""
import glob
import os
import stat
import tempfile

import patience
import pytest
from kernel.driver import Kernel, children


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    yield k
    k.close()


def test_what_is_too_large_for_a_message_is_an_error_and_not_a_hang(kernel):
    outcome = kernel.run("!true " + "x" * 300_000)
    assert outcome.status == "error" and "too much at once" in outcome.error and "300" in outcome.error
    assert kernel.run("!echo well").stdout == "well\n"
    kernel.run("int kept = 42;")
    many = "\n".join(f"int {'f' * 300}{i}(void) {{ return {i}; }}" for i in range(300))
    outcome = kernel.run(many)
    assert outcome.status == "error" and "too much at once" in outcome.error
    assert kernel.run("kept").value == "42"


def test_an_environment_that_no_worker_could_be_told_is_refused(kernel):
    outcome = kernel.run("%env MUCH=" + "x" * 200_000)
    assert outcome.status == "error" and "bytes, and" in outcome.error and "are the most" in outcome.error
    assert kernel.run("%restart").status == "ok" and kernel.run("6 * 7").value == "42"


def descendants(process):
    below = children(process)
    return below + [one for child in below for one in descendants(child)]


def arguments_of(process):
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return file.read().split(b"\0")[:-1]


def test_no_secret_is_on_a_command_line(kernel):
    kernel.run("1")
    workers = [arguments for one in descendants(kernel.process) if (arguments := arguments_of(one))[0].endswith(b"kolo-worker")]
    assert workers
    for arguments in workers:  # the descriptor, the folder, the version, its place
        assert len(arguments) == 5 and arguments[2].startswith(b"/")


@pytest.fixture()
def runtime():
    """Sockets have short paths."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        yield folder


def test_a_folder_that_somebody_has_made_beforehand_is_not_used(runtime):
    k = Kernel(XDG_RUNTIME_DIR=runtime)
    session, = glob.glob(f"{runtime}/kolo-*")
    trap = session + "-ranks"
    os.mkdir(trap)
    os.chmod(trap, 0o777)
    assert k.run("%ranks 2").status == "ok"
    assert os.listdir(trap) == []
    own, = glob.glob(f"{session}/*-ranks")
    assert stat.S_IMODE(os.stat(own).st_mode) == 0o700
    k.close()
    assert patience.until(lambda: not os.path.exists(session))
