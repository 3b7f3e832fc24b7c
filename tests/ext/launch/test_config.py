"""kolorun's --config-file. See launched.py first."""
import json

import pytest

from ext.launch.launched import by_rank, run, sentences


@pytest.fixture
def config(tmp_path):
    def write(options):
        path = tmp_path / "run.json"
        path.write_text(options if isinstance(options, str) else json.dumps(options))
        return path
    return write


def test_every_kind_of_option(config):
    file = config({"num-proc": 2, "env": ["A=1", "B=2 3"], "verbose": True, "keep-going": False, "local-ranks-filter": "1"})
    job = run("--config-file", file, "sh", "-c", "echo $A $B")
    assert by_rank(job.out) == {1: [b"1 2 3"]} and "-np 2 " in sentences(job.err)[0]


def test_the_command_line_wins(config):
    file = config({"np": 3, "hostfile": "/no/such/file", "network-interface": ["eth7", "eth8"], "env": "A=1", "start-timeout": 7})
    job = run("-np", 1, "--config-file", file, "-H", "localhost:1", "-x", "A=2", "sh", "-c", "echo $A")
    assert by_rank(job.out) == {0: [b"2"]}
    job = run("-np", 1, "--config-file", file, "-H", "no-such-host.invalid:1", "--network-interface", "eth9", "--verbose", "true")
    assert "if_include eth9 " in sentences(job.err)[0]
    job = run("-np", 1, "--config-file", file, "-H", "no-such-host.invalid:1", "--verbose", "true")
    assert "if_include eth7,eth8 " in sentences(job.err)[0]


def test_programs_arguments_are_theirs(config):
    job = run("--config-file", config({"np": 1}), "echo", "--config-file", "x")
    assert by_rank(job.out) == {0: [b"--config-file x"]}


@pytest.mark.parametrize("text, wanted", [
    ("{", "line 1: "),
    ("[]", "wanted a JSON object"),
    ('{"np": 1, "np": 2}', "duplicate"),
    ({"nproc": 1}, '"nproc" is not an option that a file can set'),
    ({"n": 1}, '"n" is not an option that a file can set'),
    ({"config-file": "x"}, '"config-file" is not an option that a file can set'),
    ({"np": 0}, "-np: wanted a whole number of at least 1, got '0'"),
    ({"np": 1.5}, '"np": wanted a text or a whole number'),
    ({"np": [1]}, '"np": wanted a text or a whole number'),
    ({"verbose": 1}, '"verbose": wanted true or false'),
    ({"env": True}, '"env": wanted a text or a whole number, or a list of them'),
    ({"env": [["A=1"]]}, '"env": wanted a list of texts'),
    ({"env": ["=1"]}, "-x: wanted NAME=VALUE, got '=1'"),
    ({"bind-to": "cpu"}, "--bind-to: wanted core"),
    ({"hosts": "a:1", "hostfile": "b"}, "-H and --hostfile both name the hosts"),
])
def test_wrong_files(config, text, wanted):
    job = run("--config-file", config(text), "-x", "A=1", "true")
    assert job.code == 2 and job.err.count(b"\n") == 1 and wanted in job.err.decode()


def test_a_file_that_cannot_be_read(tmp_path):
    assert "--config-file /no/such/file: " in sentences(run("--config-file", "/no/such/file", "true").err)[0]
    job = run("--config-file", tmp_path, "true")
    assert job.code == 2 and job.err.count(b"\n") == 1
