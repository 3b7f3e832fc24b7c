"""How clients reach the kernel: transports, encryption, and what else arrives on its sockets."""
import json
import os
import shutil
import signal

import patience
import pytest
import zmq
from kernel.driver import EXECUTABLE, Kernel


@pytest.mark.parametrize("options", [
    {"transport": "ipc"},
    {"transport": "tcp", "transport_encryption": "required"},
    {"transport": "ipc", "transport_encryption": "required"},
    {"transport": "tcp", "transport_encryption": "auto"},
], ids=lambda options: "-".join(options.values()))
def test_every_transport_serves_cells_input_and_heartbeat(options):
    k = Kernel(options=options)
    encrypted = "transport_encryption" in options
    with open(k.manager.connection_file) as file:
        assert ("curve_secretkey" in json.load(file)) == encrypted
    outcome = k.run('#include <stdio.h>\nint n; scanf("%d", &n); printf("%d\\n", n + 1);', answers=["41"])
    assert outcome.stdout == "42\n"
    assert k.ask("complete", "unsign", 6)["matches"] == ["unsigned"]
    k.client.hb_channel.unpause()
    assert patience.until(k.client.hb_channel.is_beating)
    k.close()


def test_a_client_without_the_key_is_not_heard():
    k = Kernel(options={"transport_encryption": "required"})
    stranger = k.client.context.socket(zmq.DEALER)
    stranger.linger = 0
    stranger.connect(k.client._make_url("shell"))
    message = k.client.session.msg("kernel_info_request", {})
    stranger.send_multipart(k.client.session.serialize(message))
    assert k.run("6 * 7").value == "42"  # by then an answer would have come
    assert not stranger.poll(0)
    stranger.close()
    k.close()


# ---- what is refused at the start, in a sentence ----

def start_with(tmp_path, environment=None, executable=EXECUTABLE, **changes):
    """What a kernel says that is started with such a connection file, and ends."""
    public, secret = (key.decode() for key in zmq.curve_keypair())
    content = {"transport": "ipc", "ip": str(tmp_path / "k"), "key": "x", "signature_scheme": "hmac-sha256",
               "shell_port": 1, "control_port": 2, "stdin_port": 3, "iopub_port": 4, "hb_port": 5}
    content |= {name: {"PUBLIC": public, "SECRET": secret}.get(value, value) for name, value in changes.items()}
    file = tmp_path / "connection.json"
    file.write_text(json.dumps(content))
    ended = patience.run([executable, "-f", file], capture_output=True, text=True, timeout=30,
                         env={**os.environ, **(environment or {})})
    assert ended.returncode == 1 and ended.stderr.startswith("kolo-kernel: ") and ended.stderr.count("\n") == 1, ended
    return ended.stderr


def test_a_kernel_without_its_worker_says_so(tmp_path):
    """The session closes half-open."""
    alone = tmp_path / "kolo-kernel"
    shutil.copy(EXECUTABLE, alone)
    assert f"kolo-worker cannot be started beside {alone}" in start_with(tmp_path, executable=alone)


def test_encryption_that_is_required_and_cannot_be_had_is_refused(tmp_path):
    said = start_with(tmp_path, {"KOLO_TRANSPORT_ENCRYPTION": "required"})
    assert "encryption is required" in said and "transport_encryption='required'" in said
    assert "must be auto or required, got yes" in start_with(tmp_path, {"KOLO_TRANSPORT_ENCRYPTION": "yes"})


@pytest.mark.parametrize("changes, said", [
    ({"curve_publickey": "PUBLIC"}, '"curve_publickey" without "curve_secretkey"'),
    ({"curve_secretkey": "SECRET"}, '"curve_secretkey" without "curve_publickey"'),
    ({"curve_publickey": "PUBLIC", "curve_secretkey": "x" * 40}, "must be a pair"),
    ({"curve_publickey": "short", "curve_secretkey": "short"}, "must be a pair"),
    ({"transport": "udp"}, "must be tcp or ipc, got udp"),
    ({"shell_port": 0}, '"shell_port" must be a number from 1 to 65535, got 0'),
    ({"hb_port": "x"}, '"hb_port" must be a number from 1 to 65535, got "x"'),
    ({"ip": 7}, '"ip" must be text, got 7'),
    ({"ip": "/no/such/folder/k"}, "socket cannot be bound to ipc:///no/such/folder/k-"),
])
def test_a_wrong_connection_file_is_refused(tmp_path, changes, said):
    message = start_with(tmp_path, **changes)
    assert said in message and "xxxx" not in message


def test_a_connection_file_that_is_none_is_refused(tmp_path):
    for name, text in (("none", None), ("list", "[]"), ("cut", '{"ip": ')):
        file = tmp_path / name
        if text:
            file.write_text(text)
        ended = patience.run([EXECUTABLE, "-f", file], capture_output=True, text=True, timeout=30)
        assert ended.returncode == 1 and str(file) in ended.stderr and ended.stderr.count("\n") == 1


# ---- what arrives and is no request ----

@pytest.fixture(scope="module")
def kernel():
    k = Kernel(options={"transport": "ipc"})
    yield k
    k.close()


@pytest.mark.parametrize("channel", ["shell", "control", "stdin"])
def test_what_is_no_message_is_ignored(kernel, channel):
    session = kernel.client.session
    good = session.serialize(session.msg("kernel_info_request", {}))
    delimiter, signature, header, *rest = good
    parts = json.loads(header)
    signed = lambda *four: [delimiter, session.sign(four), *four]  # noqa: E731
    socket = getattr(kernel.client, f"connect_{channel}")()
    for frames in ([b""], [b"x"] * 300, good[:3], [delimiter, b"0" * 64, header, *rest], [delimiter, b"", header, *rest],
                   [signature, *good[2:]], signed(b"[1]", *rest), signed(b"{", *rest), signed(b"{}", *rest),
                   signed(json.dumps({**parts, "msg_type": 5}).encode(), *rest), signed(b"\xff\xfe", b"", b"", b""),
                   signed(b"[" * 100000, *rest)):
        socket.send_multipart(frames)
    assert kernel.run("6 * 7").value == "42"
    socket.close()


@pytest.mark.parametrize("kind, content", [
    ("execute_request", {}), ("execute_request", {"code": 5}), ("execute_request", {"code": "1", "silent": "no"}),
    ("execute_request", {"code": "1", "user_expressions": [1]}),
    ("complete_request", {"code": "int"}), ("complete_request", {"code": [], "cursor_pos": 0}),
    ("inspect_request", {"code": "int", "cursor_pos": "x"}), ("is_complete_request", {}), ("no_such_request", {}),
])
def test_a_request_of_another_form_is_answered_by_an_error(kernel, kind, content):
    message = kernel.client.session.msg(kind, content)
    kernel.client.shell_channel.send(message)
    reply = kernel._reply(message["header"]["msg_id"])
    assert reply["status"] == "error" and kind in reply["evalue"] or "expressions" in str(content)


@pytest.mark.parametrize("position", [-5, 3, 10**6])
def test_a_cursor_outside_of_the_code_costs_nothing(kernel, position):
    assert kernel.ask("complete", "unsign é", position)["status"] == "ok"
    assert kernel.ask("inspect", "unsign é", position)["status"] == "ok"


def test_a_kernel_that_was_stopped_goes_on(kernel):
    kernel.manager.signal_kernel(signal.SIGSTOP)
    kernel.manager.signal_kernel(signal.SIGCONT)
    assert kernel.run("6 * 7").value == "42"
