"""What a unit's tests came to, as far as it is known while it runs: read from what a C program prints, and from the
events that tests/conftest.py writes for pytest."""
import json
import re
import signal

CMOCKA = re.compile(r"\[ +(RUN|OK|FAILED|ERROR|SKIPPED) +\] (?!\d+ test)(\w+)")
GRACE = 30  # seconds that pytest has after a test's limit to end the test itself


class Verdicts:
    def __init__(self, unit, limit, log, events):
        self.usual = limit if unit.in_c else limit + GRACE
        self.unit, self.log, self.events, self.read = unit, log, events, 0
        self.ended = {}  # test: (outcome, why)
        self.running, self.limit, self.deselected, self.news = None, self.usual, 0, 0

    def look(self):
        """True if something began or ended since the last look."""
        before = self.news
        self.read_cmocka() if self.unit.in_c else self.read_events()
        return self.news != before

    def new_text(self, path):
        """The whole lines that came since the last look."""
        try:
            with open(path, "rb") as file:
                file.seek(self.read)
                text = file.read()
        except OSError:
            return ""
        text = text[: text.rfind(b"\n") + 1]
        self.read += len(text)
        return text.decode(errors="replace")

    def read_cmocka(self):
        words = {"OK": "passed", "SKIPPED": "skipped", "FAILED": "failed", "ERROR": "failed"}
        for word, test in CMOCKA.findall(self.new_text(self.log)):
            if word == "RUN":
                self.begin(test)
            elif test == self.running:
                self.end(test, words[word], "")

    def read_events(self):
        for line in self.new_text(self.events).splitlines():
            event = json.loads(line)
            if event["what"] == "begin":
                self.begin(event["test"])
            elif event["what"] == "limit":
                self.limit = event["seconds"] + GRACE
            elif event["what"] == "end":
                self.end(event["test"], event["outcome"], event["why"])
            else:
                self.deselected += event["count"]

    def begin(self, test):
        if self.running:
            self.end(self.running, "failed", "it did not end")
        self.running, self.news = test, self.news + 1

    def end(self, test, outcome, why):
        self.ended[test] = outcome, why
        self.running, self.limit, self.news = None, self.usual, self.news + 1

    def close(self, status, cut=None):
        """Once the process has ended, with this status, or was ended, for this reason."""
        self.look()
        ending = cut or (f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit code {status}")
        if self.running:
            self.end(self.running, "failed", ending)
        nothing_chosen = not self.unit.in_c and status == 5 and self.deselected
        failed = any(outcome == "failed" for outcome, _ in self.ended.values())
        if cut and not failed or not failed and not nothing_chosen and (status != 0 or not self.ended):
            self.ended[""] = "failed", ending if self.ended or status or cut else "it holds no test"
