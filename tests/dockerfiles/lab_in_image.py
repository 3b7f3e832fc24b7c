#!/usr/bin/env python3
"""Starts JupyterLab as the container does, asks it without and with its token, and prints the answers as JSON."""
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request


def status(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def main(command):
    lab = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           start_new_session=True)
    try:
        url = next(found[0] for found in (re.search(r"http://\S+", line) for line in lab.stdout) if found)
        site, token = re.match(r"(http://[^/]+)/.*token=(\w+)", url).groups()
        with urllib.request.urlopen(f"{site}/api/kernelspecs?token={token}") as answer:
            default = json.load(answer)["default"]
        print(json.dumps({"url": url.replace(token, ""), "page": status(url), "kernel": default, "health": status(f"{site}/api"),
                          "without": status(f"{site}/api/kernelspecs"), "wrong": status(f"{site}/api/kernelspecs?token={token[::-1]}")}))
    finally:
        os.killpg(lab.pid, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
