"""Processes that TF_CONFIG makes a job, each started by itself, as in terminals of their own."""
import json
import os
import socket
import subprocess

import patience


def free_addresses(count):
    """Ports that were free a moment ago. All are held until the last is found, so no two are the same."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    addresses = [f"localhost:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return addresses


def environment(config, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMPI_", "PMIX_", "TF_"))}
    text = config if isinstance(config, str) else json.dumps(config)
    return kept | {"KOLO_CPU_DEVICES": "4", "KOLO_THREADS": "1", "TF_CONFIG": text} | variables


def start(command, cluster, kind, index, **variables):
    config = {"cluster": cluster, "task": {"type": kind, "index": index}}
    return subprocess.Popen([str(word) for word in command], env=environment(config, **variables), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)  # fmt: skip


def finish(processes, seconds=60):
    """What each has printed on stdout and stderr, and its exit code. One that does not end in time is killed."""
    cancel = [patience.call_after(seconds, process.kill) for process in processes]
    try:
        return [(*process.communicate(), process.returncode) for process in processes]
    finally:
        for call in cancel:
            call()


def run(command, workers, seconds=60, **variables):
    cluster = {"worker": free_addresses(workers)}
    return finish([start(command, cluster, "worker", i, **variables) for i in range(workers)], seconds)
