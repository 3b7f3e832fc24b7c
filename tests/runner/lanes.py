"""Runs units side by side: one more than there are cores, and one more again while cores are idle, since many of them wait.
If cores are idle even then, up to two units join that mostly waited the last time. Those that want to be alone run one by one
after the rest.

Each has a session of its own, its output in a file, and a limit that stretches with the load.
"""
import json
import os
import signal
import subprocess
import time

import patience
from runner.processes import MARK, family, kill, stacks
from runner.units import ROOT
from runner.verdicts import Verdicts


def heed_signals():
    """What nohup or a shell's `&` made deaf hears again: tests send these signals to what they start."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Running:
    def __init__(self, unit, limit, folder, number):
        self.unit, self.mark = unit, f"{os.environ.get(MARK, '')}/{folder.name}-{number}"
        self.log, events = folder / f"{number}.log", folder / f"{number}.events"
        own = [] if unit.in_c else ["--events", str(events), "--timeout", str(limit)]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen([*unit.command, *own], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                            env=unit.environment | {MARK: self.mark}, cwd=ROOT,
                                            start_new_session=True, preexec_fn=heed_signals)  # fmt: skip
        self.verdicts = Verdicts(unit, limit, self.log, events)
        self.begun, self.news, self.remains, self.processor = time.monotonic(), patience.now(), "", 0
        self.begun_when_idle = self.news

    def has_ended(self):
        """Looks what is new. A test that runs longer than its limit is ended with all of its unit."""
        if not self.reap(os.WNOHANG):
            if self.verdicts.look():
                self.news = patience.now()
            if patience.now() - self.news > self.verdicts.limit:
                where = stacks(self.process.pid) if self.unit.in_c else ""
                self.end(f"ran longer than {self.verdicts.limit:.0f} s of an idle machine", where)
                return True
            return False
        kill(self.process, self.mark)
        self.verdicts.close(self.process.returncode)
        return True

    def reap(self, flags):
        """Whether it has ended; then also the processor's time that it and what it waited for took."""
        pid, status, usage = os.wait4(self.process.pid, flags)
        if pid:
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.processor = usage.ru_utime + usage.ru_stime
        return pid != 0

    def end(self, why, where=""):
        """Ends it before its time, and notes what it was doing."""
        self.verdicts.look()
        self.remains = f"Processes of {self.unit.name} when it was ended (number, state, waits in: command):\n"
        self.remains += family(self.mark) + "\n" + where
        kill(self.process, self.mark)
        self.reap(0)
        self.verdicts.close(self.process.returncode, why)

    @property
    def seconds(self):
        return time.monotonic() - self.begun

    @property
    def share(self):
        """Of a core, that it would have used on an idle machine."""
        return self.processor / max(patience.now() - self.begun_when_idle, patience.TICK)

    @property
    def output(self):
        return self.log.read_text(errors="replace") + self.remains


def read_times(file):
    """By the name of a unit its seconds, and which share of a core it used. Nothing where no run wrote them, or one that was
    killed while it did."""
    try:
        return {name: times for name, times in json.loads(file.read_text()).items() if isinstance(times, list)}
    except (OSError, ValueError):
        return {}


def idle_seconds():
    """Seconds that all cores together have been idle since the machine was started; 0 where that is not told."""
    try:
        with open("/proc/stat") as numbers:
            return int(numbers.readline().split()[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


class IdleCores:
    """Tells every two seconds whether half a core or more was idle since it was last asked."""

    SECONDS = 2

    def __init__(self, idle_seconds=idle_seconds):
        self.idle_seconds = idle_seconds
        self.begin()

    def begin(self):
        self.begun, self.idle = time.monotonic(), self.idle_seconds()

    def are_there(self):
        seconds = time.monotonic() - self.begun
        if seconds < self.SECONDS:
            return False
        idle = self.idle_seconds() - self.idle
        self.begin()
        return idle > seconds / 2


class Lanes:
    """At most `jobs` units run side by side; 0: as the top of this file says."""

    WAITS = 1 / 3  # of a core, at most, is the share of a unit that mostly waits

    def __init__(self, units, jobs, limit, folder):
        self.waiting, self.running, self.known = units, [], {}
        self.limit, self.folder, self.stopped = limit, folder, None
        self.usual = jobs or len(os.sched_getaffinity(0)) + 1
        self.of_any_kind = jobs or self.usual + 1  # with more, the kernel may be too slow for its own limits
        self.most = jobs or self.of_any_kind + 2
        self.idle_cores = IdleCores()

    def stop(self, why):
        """For a handler of signals: the loop below ends what runs, and returns."""
        self.stopped = self.stopped or why

    def mostly_waits(self, unit):
        _, share = self.known.get(unit.name, (0, 1))
        return not unit.alone and share < self.WAITS

    def next_unit(self):
        """The one that may start now, or None."""
        first, number = self.waiting[0], len(self.running)
        if first.alone or (self.running and self.running[0].unit.alone):
            return None if self.running else first
        if number >= self.usual and not (number < self.most and self.idle_cores.are_there()):
            return None
        return first if number < self.of_any_kind else next(filter(self.mostly_waits, self.waiting), None)

    def start_what_fits(self):
        while self.waiting and (unit := self.next_unit()):
            self.waiting.remove(unit)
            self.running.append(Running(unit, self.limit, self.folder, len(self.waiting)))

    def run(self, report, times):
        """Reports each unit as it ends. What was not reached is left in `waiting`. The longest come first, by what they
        took the last time."""
        self.known = read_times(times)
        self.waiting.sort(key=lambda unit: (unit.alone, -self.known.get(unit.name, [unit.guess])[0]))
        while not self.stopped and (self.waiting or self.running):
            self.start_what_fits()
            time.sleep(0.02)
            for one in [one for one in self.running if one.has_ended()]:
                self.running.remove(one)
                self.known[one.unit.name] = [round(one.seconds, 1), round(one.share, 2)]
                report(one)
        for one in self.running:
            one.end(f"{self.stopped} while it ran")
            report(one)
        times.write_text(json.dumps(self.known, sort_keys=True).replace("], ", "],\n"))
