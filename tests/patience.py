"""Limits that stretch with the load: time as it would have passed on a machine that does nothing else.

A thread sleeps a tick at a time. Each tick that it wakes from counts in full while there are cores to spare, and for
less the more processes wait for a core. A tick from which it wakes late counts once. So a limit never ends a test only
because the machine is busy, and tests need not compare wall clocks.
"""
import os
import queue
import subprocess
import threading
import time

TICK = 0.05
CORES = len(os.sched_getaffinity(0))


def slowness():
    """How many processes share one core just now, at least 1."""
    try:
        with open("/proc/loadavg") as numbers:
            ready = int(numbers.read().split()[3].split("/")[0])
    except (OSError, IndexError, ValueError):
        ready = os.getloadavg()[0]
    return max(1.0, ready / CORES)


class Clock:
    """The seconds that passed, and what is to be called after some of them."""

    def __init__(self, slowness=slowness):
        self.seconds, self.alarms, self.lock, self.slowness = 0.0, {}, threading.Lock(), slowness
        threading.Thread(target=self.run, daemon=True, name="patience").start()

    def run(self):
        while True:
            time.sleep(TICK)
            self.seconds += TICK / self.slowness()
            with self.lock:
                due = [key for key, (moment, _) in self.alarms.items() if moment <= self.seconds]
                calls = [self.alarms.pop(key)[1] for key in due]
            for call in calls:
                threading.Thread(target=call, daemon=True).start()

    def call_after(self, seconds, call):
        """Calls from a thread of its own, unless the function that this returns is called before."""
        key = object()
        with self.lock:
            self.alarms[key] = self.seconds + seconds, call
        return lambda: self.alarms.pop(key, None)


clock = Clock()
call_after = clock.call_after


def now():
    """Seconds since the start of this process, for differences only."""
    return clock.seconds


def until(condition, seconds=30, pause=0.02):
    """Waits for an event: what the condition gives as soon as that is true, or at the end."""
    end = now() + seconds
    while not (value := condition()) and now() < end:
        time.sleep(pause)
    return value


def insist(attempt, seconds, missed):
    """What the attempt gives. It is made again while it raises `missed`, for so many seconds."""
    end = now() + seconds
    while True:
        try:
            return attempt()
        except missed:
            if now() >= end:
                raise


def feed(stdin, text):
    """Writes to a process that may be gone."""
    try:
        with stdin:
            stdin.write(text)
    except BrokenPipeError:
        pass


def communicate(process, timeout, input=None):
    """Popen.communicate(), which made again after a time-out does not write the rest of an input."""
    if input is not None:
        threading.Thread(target=feed, args=(process.stdin, input), daemon=True).start()
        process.stdin = None
    try:
        return insist(lambda: process.communicate(timeout=0.2), timeout, subprocess.TimeoutExpired)
    except subprocess.TimeoutExpired as expired:
        expired.timeout = timeout
        raise


def wait(process, timeout):
    """Popen.wait()."""
    return insist(lambda: process.wait(timeout=0.2), timeout, subprocess.TimeoutExpired)


def run(command, timeout=120, input=None, capture_output=False, check=False, **options):
    """subprocess.run()."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with subprocess.Popen(command, **options) as process:
        try:
            out, err = communicate(process, timeout, input)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def message(get, timeout):
    """The next message of a Jupyter channel, by get_iopub_msg() or one of its sisters; queue.Empty after the limit."""
    return insist(lambda: get(timeout=min(0.2, timeout)), timeout, queue.Empty)
