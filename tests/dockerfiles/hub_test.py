"""JupyterHub for a class: a learner logs in, gets a copy of the lessons and a kernel; wrong settings are one sentence."""
import http.cookiejar
import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
import uuid

import patience
import pytest

from dockerfiles.remote_kernel import transport_of
from workshop import ROOT, run

HUB = ROOT / ".hub/bin/jupyterhub"
CONFIG = ROOT / "dockerfiles/hub/jupyterhub_config.py"


@pytest.mark.parametrize("environment, sentence", [
    ({"KOLO_HUB": "kubernetes"}, "KOLO_HUB is systemd, docker or local, got 'kubernetes'."),
    ({"KOLO_HUB": "docker"}, "KOLO_HUB=docker wants the class's password in KOLO_HUB_PASSWORD, of eight characters at least."),
    ({"KOLO_HUB": "local", "KOLO_HUB_PASSWORD": "short"}, "KOLO_HUB=local wants the class's password"),
    ({"KOLO_HUB": "systemd", "PORT": "http"}, "PORT is a number from 1 to 65533, since the next two are taken, too; got 'http'."),
    ({"KOLO_HUB": "systemd", "PORT": "65534"}, "PORT is a number from 1 to 65533"),
    ({"KOLO_HUB": "systemd", "CPUS": "two"}, "CPUS is how many cores a learner may use, got 'two'."),
    ({"KOLO_HUB": "systemd", "CPUS": "0"}, "CPUS is how many cores a learner may use, got '0'."),
    ({"KOLO_HUB": "systemd", "MEMORY": "lots"}, "MEMORY is a number with M or G, for megabytes or gigabytes, got 'lots'."),
    ({"KOLO_HUB": "systemd", "DATA": "/no/such"}, "DATA is a folder that holds mnist, cifar-10 and higgs, got '/no/such'."),
])  # fmt: skip
def test_wrong_settings(environment, sentence):
    done = run(["/usr/bin/python3", CONFIG], env={"PATH": "/usr/bin:/bin", **environment})
    assert done.returncode == 1 and done.stderr.startswith(f"kolo: {sentence}") and done.stderr.count("\n") == 1


class Browser:
    """What a browser does: cookies, and the header that proves that a request is not forged."""

    def __init__(self, base):
        self.base, self.jar = base, http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    def ask(self, path, body=None, kind="application/json"):
        headers = {"X-XSRFToken": cookie.value for cookie in self.jar if cookie.name == "_xsrf" and path.startswith(cookie.path)}
        if body is not None:
            headers["Content-Type"] = kind
        request = urllib.request.Request(self.base + path, data=body, headers=headers)
        with self.opener.open(request, timeout=60 * patience.slowness()) as answer:
            return answer.read().decode()

    def reachable(self, path):
        try:
            return self.ask(path) or True
        except (urllib.error.URLError, ConnectionError):
            return False

    def cookies(self):
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.jar)


def log_in(browser, name, password):
    browser.ask("/hub/login")
    token = next(cookie.value for cookie in browser.jar if cookie.name == "_xsrf")
    form = {"username": name, "password": password, "_xsrf": token}
    return browser.ask("/hub/login?next=", urllib.parse.urlencode(form).encode(), "application/x-www-form-urlencoded")


def result_of(browser, site, kernel, code):
    websocket = pytest.importorskip("websocket")
    channel = websocket.create_connection(f"ws://{site}/user/ada/api/kernels/{kernel}/channels", cookie=browser.cookies(),
                                          timeout=120 * patience.slowness())
    number = uuid.uuid4().hex
    channel.send(json.dumps({
        "header": {"msg_id": number, "msg_type": "execute_request", "username": "", "session": "t", "version": "5.4", "date": ""},
        "parent_header": {}, "metadata": {}, "channel": "shell",
        "content": {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}}))
    while True:
        message = json.loads(channel.recv())
        if message["parent_header"].get("msg_id") == number and message["msg_type"] in ("execute_result", "error"):
            channel.close()
            return message["content"].get("data", message["content"])


@pytest.mark.long("JupyterHub and a learner's JupyterLab start")
@pytest.mark.skipif(not HUB.exists(), reason="there is no .hub: make hub")
def test_a_learner_logs_in(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "KOLO_HUB": "local", "KOLO_HUB_PASSWORD": "of the class", "PORT": str(port),
                   "KOLO_HUB_HOMES": str(tmp_path / "homes")}
    hub = subprocess.Popen([HUB, "-f", CONFIG], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
                           stdout=(tmp_path / "log").open("w"), stderr=subprocess.STDOUT, start_new_session=True)
    try:
        browser = Browser(f"http://127.0.0.1:{port}")
        assert patience.until(lambda: browser.reachable("/hub/login"), 120)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            log_in(Browser(browser.base), "ada", "wrong")
        log_in(browser, "ada", "of the class")
        # A page first: it is sent through the login of the server, which the interface of programs is not.
        assert patience.until(lambda: browser.reachable("/user/ada/lab") and browser.reachable("/user/ada/api/kernelspecs"), 240, pause=1), (
            tmp_path / "log").read_text()[-2000:]
        assert '"kolo"' in browser.ask("/user/ada/api/kernelspecs")
        assert (tmp_path / "homes/ada/kolo/Start_Here.ipynb").exists()
        browser.ask("/user/ada/lab")
        kernel = json.loads(browser.ask("/user/ada/api/kernels", b'{"name": "kolo"}'))["id"]
        assert result_of(browser, f"127.0.0.1:{port}", kernel, "6 * 7")["text/plain"] == "42"
        assert transport_of(kernel) == "ipc", "kernels of many learners that start together must not find the same free port"
    finally:
        hub.send_signal(signal.SIGTERM)
        patience.wait(hub, 60)
        run(["pkill", "-KILL", "-f", tmp_path])
