"""Limits of tests stretch with the load, and tests/run is told what begins, ends and is missing."""
import atexit
import faulthandler
import json
import os
import signal
import tempfile
import threading

import patience
import pytest
import pytest_timeout
from runner.processes import family

events = None

# What the course's checks pass in a test is no progress of the user's.
kept = tempfile.TemporaryDirectory(prefix="kolo-progress-")
atexit.register(kept.cleanup)
os.environ["KOLO_PROGRESS"] = kept.name + "/progress.json"


def pytest_addoption(parser):
    parser.addoption("--events", metavar="FILE", help="a line of JSON for whatever begins and ends")


def pytest_configure(config):
    global events
    if config.getoption("--events"):
        events = open(config.getoption("--events"), "a", buffering=1)


def tell(**event):
    if events:
        events.write(json.dumps(event) + "\n")


def pytest_sessionfinish():
    faulthandler.dump_traceback_later(60)  # shows where the process waits if it does not end


def pytest_deselected(items):
    tell(what="deselected", count=len(items))


def pytest_collectreport(report):
    if not report.passed:
        reason = report.longrepr[2] if report.skipped else str(report.longrepr)
        tell(what="end", test=report.nodeid, outcome=report.outcome, why=str(reason)[-2000:])


def pytest_runtest_logstart(nodeid):
    tell(what="begin", test=nodeid)


outcomes = {}


def pytest_runtest_logreport(report):
    """A test is skipped or failed if one of its three parts is; the last part is its end."""
    crash = getattr(report.longrepr, "reprcrash", None)
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else crash.message if crash else report.longreprtext
    if not report.passed and outcomes.get(report.nodeid, ("passed", ""))[0] != "failed":
        outcomes[report.nodeid] = report.outcome, (why.strip().splitlines() or [""])[0]
    if report.when == "teardown":
        outcome, why = outcomes.pop(report.nodeid, ("passed", ""))
        tell(what="end", test=report.nodeid, outcome=outcome, why=why)


def pytest_timeout_set_timer(item, settings):
    """Instead of pytest-timeout's timer, which goes by the wall clock. The failure shows where the test was."""

    def expired(number, frame):
        __tracebackhide__ = True
        item.add_report_section("call", "processes that ran then", family())
        pytest_timeout.timeout_sigalrm(item, settings)

    signal.signal(signal.SIGALRM, expired)
    item.cancel_timeout = patience.call_after(
        settings.timeout, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM))
    tell(what="limit", seconds=settings.timeout)
    return True
