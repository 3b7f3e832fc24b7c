"""kolo-class with a docker that is made up: who gets what, and that wrong use is one sentence."""
import json
import os
import re
import shutil
import socket
import sys

import pytest

from workshop import ROOT, run

CLASS = ROOT / "dockerfiles/kolo-class"
# Keeps {container: its options} in containers.json, as far as kolo-class asks for it.
DOCKER = """#!{python}
import json, os, sys
here, words = os.path.dirname(sys.argv[0]), sys.argv[1:]
file = os.path.join(here, "containers.json")
there = json.load(open(file)) if os.path.exists(file) else {{}}
def option(name): return words[words.index(name) + 1]
def label(name): return [w.split("=")[1] for w in there[name]["words"] if w.startswith("kolo-class.port=")][0]
if words[:2] == ["image", "inspect"]:
    sys.exit(words[2] != "kolo-class")
elif words[0] == "ps":
    shown = [n for n in there if "^" + n + "$" in " ".join(words)] or list(there)
    kind = option("--format")
    for name in shown: print(name if "Names" in kind else label(name) if "Label" in kind else "Up 5 minutes (healthy)")
elif words[0] == "inspect":
    print(label(words[-1]) if "Labels" in words[2] else "PATH=/bin\\nJUPYTER_TOKEN=" + there[words[-1]]["token"])
elif words[0] == "run":
    there[option("--name")] = {{"words": words, "token": os.environ["JUPYTER_TOKEN"]}}
elif words[:2] == ["rm", "--force"]:
    for name in words[2:]: del there[name]
elif words[:2] == ["volume", "rm"]: there["removed"] = words[2:]
elif words[0] in ("start", "stop"): there[words[1]][words[0]] = True
json.dump(there, open(file, "w"))
"""


@pytest.fixture
def school(tmp_path):
    """kolo-class's answer to words, and the containers there are then."""
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER.format(python=sys.executable))
    docker.chmod(0o755)

    def ask(*words, **environment):
        done = run([CLASS, *words], cwd=tmp_path,
                   env={"PATH": f"{docker.parent}:{os.environ['PATH']}", "WITH": "docker", **environment})
        file = docker.parent / "containers.json"
        return done, json.loads(file.read_text()) if file.exists() else {}

    return ask


def given(container, option):
    words = container["words"]
    return words[words.index(option) + 1]


def test_a_learner_each(school):
    done, there = school("start", "3", GPUS="2", MEMORY="6g", HOST="school.example")
    assert done.returncode == 0, done.stderr
    assert list(there) == ["kolo-learner1", "kolo-learner2", "kolo-learner3"]
    assert [given(one, "--gpus") for one in there.values()] == ["device=0", "device=1", "device=0"]
    assert [given(one, "--publish") for one in there.values()] == [f"127.0.0.1:{port}:8888" for port in (9001, 9002, 9003)]
    assert {given(one, "--memory") for one in there.values()} == {"6g"}
    assert len({one["token"] for one in there.values()}) == 3
    for one in there.values():
        assert len(one["token"]) == 32 and one["token"] not in " ".join(one["words"])
        assert given(one, "--volume") == given(one, "--name") + ":/kolo/labs"
    urls = re.findall(r"^(\S+) +Up 5 minutes \(healthy\) +http://school\.example:(\d+)/\S+token=(\w+)$", done.stdout, re.MULTILINE)
    assert urls == [(name.removeprefix("kolo-"), str(9001 + i), there[name]["token"]) for i, name in enumerate(there)]


def test_what_a_container_may(school):
    """Ranks share memory; only GPUs pin it, and only the debugger traces."""
    plain = school("start", "1")[1]["kolo-learner1"]["words"]
    more = school("start", "2", GPUS="1", DEBUGGER="1")[1]["kolo-learner2"]["words"]
    assert given({"words": plain}, "--shm-size") == "1g" and "--init" in plain and "--ulimit" not in plain and "--cap-add" not in plain
    assert given({"words": more}, "--ulimit") == "memlock=-1" and given({"words": more}, "--cap-add") == "SYS_PTRACE"
    assert not [word for word in plain + more if word in ("--privileged", "--user", "--security-opt")]


def test_those_that_are_there_go_on(school, tmp_path):
    school("start", "1")
    names = tmp_path / "names"
    names.write_text("learner1\nada\n")
    done, there = school("start", str(names))
    assert done.returncode == 0, done.stderr
    assert there["kolo-learner1"]["start"] and given(there["kolo-ada"], "--publish") == "127.0.0.1:9002:8888"
    assert "--gpus" not in there["kolo-ada"]["words"]


def test_stop_and_forget(school):
    school("start", "2")
    done, there = school("stop", "learner2")
    assert done.returncode == 0 and there["kolo-learner2"]["stop"] and "stop" not in there["kolo-learner1"]
    done, there = school("forget")
    assert done.returncode == 0 and there == {"removed": ["kolo-learner1", "kolo-learner2"]}


@pytest.mark.parametrize("words, environment, sentence", [
    ([], {}, "kolo-class takes start, list, stop, forget, preflight, board, invite, push, ring or results"),
    (["start"], {}, "start wants a number up to 999 or a file of names, got ''"),
    (["start", "0"], {}, "start wants at least one learner, got '0'"),
    (["start", "2"], {"GPUS": "all"}, "GPUS is how many GPUs this machine has, got 'all'"),
    (["start", "2"], {"DEBUGGER": "yes"}, "DEBUGGER is 0 or 1, got 'yes'"),
    (["start", "2"], {"PORT": "0"}, "PORT is a number from 1 to 65535, got '0'"),
    (["start", "2"], {"ADDRESS": "0.0.0"}, "ADDRESS is 127.0.0.1, 0.0.0.0 or another IPv4 address of this machine, got '0.0.0'."),
    (["start", "2"], {"DATA": "/no/such"}, "DATA is a folder that holds mnist, cifar-10 and higgs, got '/no/such'."),
    (["start", "2"], {"IMAGE": "other"}, "there is no image other: build it with 'docker build -t other"),
])  # fmt: skip
def test_wrong_use(school, words, environment, sentence):
    done, there = school(*words, **environment)
    assert done.returncode == 1 and there == {}
    assert done.stderr.startswith(f"kolo: {sentence}") and done.stderr.count("\n") == 1


def test_names_that_are_none(school, tmp_path):
    (tmp_path / "names").write_text("ada\nno name\n")
    done, there = school("start", "names")
    assert done.returncode == 1 and there == {} and "2:no name" in done.stderr
    for name in ("Jürgen", "x" * 28):
        (tmp_path / "names").write_text(f"ada\n{name}\n")
        done, there = school("start", "names")
        assert done.returncode == 1 and there == {} and done.stderr.startswith(f"2:{name}\nkolo: names: a name ")
    (tmp_path / "names").write_text("ada\nada\n")
    assert "ada stands there twice" in school("start", "names")[0].stderr


def test_a_port_of_another_class_is_left_alone(school):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done, there = school("start", "1", PORT=str(port))
    assert done.returncode == 0, done.stderr
    assert int(given(there["kolo-learner1"], "--publish").split(":")[1]) > port


def test_no_port_is_left(school):
    done, there = school("start", "2", PORT="65535")
    assert done.returncode == 1 and list(there) == ["kolo-learner1"]
    assert done.stderr == "kolo: no port is left from 65535 on.\nkolo: learner2 could not be started.\n"


def preflight(limit, learners, **settings):
    return run([CLASS, "preflight"], env={**os.environ, "FAST": "1", "LEARNERS": str(learners), "MEMORY": limit, **settings}).stdout


built = pytest.mark.skipif(not all((ROOT / path).exists() for path in (".venv/bin/jupyter", "build/bin/kolo-kernel")),
                    reason="preflight looks at the checkout's own build")


@built
@pytest.mark.skipif(bool(shutil.which("podman")), reason="there is a podman here")
def test_preflight_looks_at_the_way_that_was_chosen():
    assert "  PROBLEM  WITH=podman cannot be used on this machine\n" in preflight("2g", 1, WITH="podman")
    closed = next((folder for folder in [ROOT, *ROOT.parents] if not folder.stat().st_mode & 0o001), None)
    wanted = f"  PROBLEM  accounts of learners cannot read {ROOT}, since {closed} is closed" if closed else f"  ok       accounts of learners can read {ROOT}\n"
    assert wanted in preflight("2g", 1, WITH="users")


@built
@pytest.mark.parametrize("code, answers", [(0, True), (1, False)])
def test_preflight_asks_docker_whether_it_works(tmp_path, code, answers):
    (tmp_path / "docker").write_text(f"#!/bin/sh\nexit {code}\n")
    (tmp_path / "docker").chmod(0o755)
    said = preflight("2g", 1, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert ("can be kept by WITH=docker" in said) == answers and ("docker does not answer: does its daemon run" in said) != answers


@built
def test_preflight_reckons_with_what_kernels_and_ranks_take():
    """160 MB a learner, and 1100 MB for each who runs eight ranks at the same time."""
    megabytes = int(re.search(r"MemTotal: +(\d+)", open("/proc/meminfo").read())[1]) // 1024
    if 2400 < megabytes < 590_000:
        some = megabytes // 600
        at_once = (megabytes - some * 160) // 1100
        assert f"  ok       {megabytes // 1024} GB of memory: enough for all 1 learners" in preflight("2g", 1)
        assert f"  note     {megabytes // 1024} GB of memory: enough for {some} kernels, and for {at_once} learners" in preflight("2g", some)
    if megabytes < 400_000:
        assert f"  PROBLEM  {megabytes // 1024} GB of memory are too little for 999 learners" in preflight("2g", 999)
    assert "  PROBLEM  MEMORY=1g is too little for a learner: lessons with eight ranks take 1260 MB" in preflight("1g", 1)
    assert "MEMORY" not in preflight("1300m", 1)


def test_a_file_from_windows_and_empty_lines(school, tmp_path):
    (tmp_path / "names").write_bytes(b"ada\r\n\r\ngrace\r\n\r\n")
    done, there = school("start", "names")
    assert done.returncode == 0, done.stderr
    assert list(there) == ["kolo-ada", "kolo-grace"]


@pytest.mark.parametrize("words", [["invite"], ["push", "text"], ["results"], ["ring", "2", "true"]])
def test_without_a_board_nothing_is_printed(school, words):
    done, _ = school(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kolo: there is no board at kolo-board.json: start it with 'kolo-class board'.\n"
