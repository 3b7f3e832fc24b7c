"""The board as an instructor sees it in Chromium, with ten learners."""
import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

import patience
import pytest

from labs.browser import CHROMIUM, needs_chromium, playwright
from workshop import ROOT

BOARD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")) / "bin/kolo-board"
PATIENCE = 120_000
NAMES = ["ada", "alan", "barbara", "dennis", "edsger", "frances", "grace", "<b>ken</b>", "margaret", "niklaus"]


def send(url, learner, exercise, event, number=0):
    body = [{"learner": learner, "exercise": exercise, "event": event, "number": number}]
    urllib.request.urlopen(url + "/events", json.dumps(body).encode()).read()


def fill(url):
    for i, name in enumerate(NAMES):
        for exercise in ["1.a", "1.b", "2.1.a", "2.2.a", "3.a"][:1 + i % 5]:
            send(url, name, exercise, "tried")
            send(url, name, exercise, "passed")
        if i % 3 == 0:
            send(url, name, "10.a", "hint", 1 + i % 4)
    send(url, "grace", "", "waiting")


@needs_chromium
@pytest.mark.long("a browser starts")
def test_ten_learners(tmp_path):
    server = subprocess.Popen([BOARD, "serve", "--file", tmp_path / "class.json", "--port", "0"], stdout=subprocess.PIPE, text=True)
    instructor, learner = (re.search(r"http://\S+", server.stdout.readline())[0] for _ in range(2))
    try:
        fill(learner)
        with playwright.sync_playwright() as p:
            browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(instructor)
            page.get_by_text("10 learners, 1 waiting for help").wait_for(timeout=PATIENCE)
            rows = page.locator("#board tr")
            assert rows.count() == 11
            assert rows.first.inner_text().split("\t") == ["learner", "1.a", "1.b", "2.1.a", "2.2.a", "3.a", "10.a", "passed", "now at"]
            assert page.locator("tr.waiting td").first.inner_text() == "grace waits"
            assert page.locator("#board b").count() == 0, "a name is text, never HTML"
            page.fill("#text", "Look at the ring's order.")
            page.get_by_role("button", name="Push").click()
            page.get_by_text("Pushed.").wait_for(timeout=PATIENCE)
            said = json.loads(urllib.request.urlopen(learner + "/messages?after=0").read())
            assert [message["text"] for message in said] == ["Look at the ring's order."]
            assert page.locator("#ring").inner_text() == ""
            urllib.request.urlopen(instructor + "/ring", b'{"size": 2, "command": "cnn_mnist --epochs 2"}').read()
            waiting = {"learner": "ada", "ticket": "0" * 32, "port": 2222, "command": "cnn_mnist --epochs 2"}
            urllib.request.urlopen(learner + "/ring", json.dumps(waiting).encode()).read()
            page.get_by_text("Ring of 2: ada waiting, 0 started. Learners run !kolo-board ring cnn_mnist --epochs 2").wait_for(timeout=PATIENCE)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=tmp_path / f"{scheme}.png")
            browser.close()
    finally:
        server.terminate()
        patience.wait(server, 20)
        server.stdout.close()
