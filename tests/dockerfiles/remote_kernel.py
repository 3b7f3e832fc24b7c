"""A kernel behind a JupyterLab's URL with a token, as a browser reaches it."""
import json
import re
import urllib.request
import uuid

from pathlib import Path

import patience
import websocket


def transport_of(kernel):
    """How a kernel of this machine, named by its id, speaks with its server: tcp or ipc, as its connection file says."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            file = re.search(rf"[^\0]*kernel-{kernel}\.json", process.read_text())
            if file:
                return json.loads(Path(file[0]).read_text())["transport"]
        except OSError:
            pass  # it has ended
    raise AssertionError(f"no process has the connection file of {kernel}")


class RemoteKernel:
    def __init__(self, url, notebook=None):
        """A kernel alone, or that of a notebook, which runs in the notebook's folder."""
        self.site, self.token = re.match(r"(http://[^/]+)/.*token=(\w+)", url).groups()
        if notebook:
            made = self.ask("/api/sessions", {"path": notebook, "name": "", "type": "notebook", "kernel": {"name": "kolo"}})
            self.id = made["kernel"]["id"]
        else:
            self.id = self.ask("/api/kernels", {"name": "kolo"})["id"]
        self.connect()

    def connect(self):
        """Also again, as a page does when the server has closed the connection."""
        self.socket = websocket.create_connection(
            f"{self.site.replace('http', 'ws')}/api/kernels/{self.id}/channels?token={self.token}", timeout=300 * patience.slowness())

    def ask(self, path, body=None):
        request = urllib.request.Request(self.site + path, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"token {self.token}"})
        with urllib.request.urlopen(request, timeout=120 * patience.slowness()) as answer:
            return json.loads(answer.read() or "null")

    def send(self, code):
        number = uuid.uuid4().hex
        self.socket.send(json.dumps({
            "header": {"msg_id": number, "msg_type": "execute_request", "username": "", "session": "test", "version": "5.4", "date": ""},
            "parent_header": {}, "metadata": {}, "channel": "shell",
            "content": {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}}))
        return number

    def run(self, code):
        """What the cell printed and showed, and its status."""
        number, shown, status, idle = self.send(code), "", None, False
        # The reply and the outputs come over two channels, in any order of one another.
        while not (status and idle):
            message = json.loads(self.socket.recv())
            if message["parent_header"].get("msg_id") != number:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown += content["text"]
            elif kind in ("execute_result", "display_data"):
                shown += content["data"]["text/plain"]
            elif kind == "error":
                shown += "\n".join(content["traceback"])
            elif kind == "execute_reply":
                status = content["status"]
            elif kind == "status":
                idle = content["execution_state"] == "idle"
        return status, shown

    def close(self):
        self.socket.close()
