"""Downloads against servers that break off, ignore ranges, are slow or lie; against other processes; and kolo-data."""
import gzip
import hashlib
import http.server
import os
import signal
import socketserver
import struct
import subprocess
import threading
import time

import patience
import pytest
from mpi_workshop import BUILD, compile_program

BODY = b"".join(struct.pack("<I", i * 2654435761 % 2**32) for i in range(100_000))
SUM = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("data/download_program.c", tmp_path_factory.mktemp("download"))


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves BODY; what is wrong with it is in its members. `asked` are the ranges it was asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.asked = BODY, []
        self.breaks = []  # after so many bytes of an answer, one a request
        self.ranges, self.pause, self.status, self.length = True, 0, 200, True
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/file"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.ranges else 0
        if server.status != 200:
            return self.send_error(server.status)
        if first >= len(server.body) and first:
            return self.send_error(416)
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(server.body) - 1}/{len(server.body)}")
        if server.length:
            self.send_header("Content-Length", str(len(server.body) - first))
        self.end_headers()
        beyond = first + server.breaks.pop(0) if server.breaks else len(server.body)
        for at in range(first, min(beyond, len(server.body)), 50_000):
            self.wfile.write(server.body[at : min(at + 50_000, beyond)])
            self.wfile.flush()
            time.sleep(server.pause)
        self.close_connection = True


@pytest.fixture
def server():
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


def fetch(program, *words):
    return patience.run([program, *map(str, words)], capture_output=True, text=True, timeout=120)


def assert_alone(path, body=BODY):
    """The file is whole, and nothing lies beside it."""
    assert path.read_bytes() == body
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_a_file_is_fetched_once(program, server, tmp_path):
    path = tmp_path / "file"
    for _ in range(2):
        result = fetch(program, server.url, path, SUM)
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        assert_alone(path)
    assert server.asked == [None]
    assert fetch(program, server.url, path, SUM.upper()).returncode == 0
    assert fetch(program, server.url, tmp_path / "plain").returncode == 0


def test_what_breaks_off_goes_on(program, server, tmp_path):
    server.breaks = [60_000, 1, 100_000]
    result = fetch(program, server.url, tmp_path / "file", SUM)
    assert result.returncode == 0, result.stderr
    assert_alone(tmp_path / "file")
    assert server.asked == [None, "bytes=60000-", "bytes=60001-", "bytes=160001-"]


def test_without_a_length_the_end_is_the_end(program, server, tmp_path):
    server.length = False
    assert fetch(program, server.url, tmp_path / "file").returncode == 0
    assert_alone(tmp_path / "file")


def test_a_server_may_ignore_ranges(program, server, tmp_path):
    server.breaks, server.ranges = [60_000], False
    result = fetch(program, server.url, tmp_path / "file", SUM)
    assert result.returncode == 0, result.stderr
    assert_alone(tmp_path / "file")


def test_a_later_call_goes_on_and_checks(program, server, tmp_path):
    part = tmp_path / "file.part"
    part.write_bytes(BODY[:123_456])
    assert fetch(program, server.url, tmp_path / "file", SUM).returncode == 0
    assert server.asked == ["bytes=123456-"]
    assert_alone(tmp_path / "file")


@pytest.mark.parametrize("old", [b"x" * 1000, b"x" * len(BODY), b"x" * 500_000, BODY])
def test_a_part_of_something_else_is_fetched_again(program, server, tmp_path, old):
    (tmp_path / "file.part").write_bytes(old)
    result = fetch(program, server.url, tmp_path / "file", SUM)
    assert result.returncode == 0, result.stderr
    assert_alone(tmp_path / "file")


def test_a_part_is_not_believed_without_a_checksum(program, server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert fetch(program, server.url, tmp_path / "file").returncode == 0
    assert server.asked == [None]
    assert_alone(tmp_path / "file")


def test_a_wrong_checksum_is_one_sentence_and_no_file(program, server, tmp_path):
    server.body = BODY[:-1] + b"!"
    got = hashlib.sha256(server.body).hexdigest()
    result = fetch(program, server.url, tmp_path / "file", SUM)
    assert result.returncode == 1
    assert result.stderr == (f"download_program.c:16: kolo_download: {server.url}: wanted a file with the SHA-256 {SUM},"
                             f" got {got}: it was removed\n")  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_and_other_stays(program, server, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"mine")
    result = fetch(program, server.url, path, SUM)
    assert result.returncode == 1 and "there is a file already" in result.stderr and result.stderr.count("\n") == 1
    assert_alone(path, b"mine")
    assert server.asked == []


@pytest.mark.parametrize("status, words", [(404, "404"), (403, "403")])
def test_what_the_server_refuses_is_said(program, server, tmp_path, status, words):
    server.status = status
    result = fetch(program, server.url, tmp_path / "file", SUM)
    assert result.returncode == 1 and "wanted a file to fetch, got" in result.stderr and words in result.stderr
    assert not (tmp_path / "file").exists() and not (tmp_path / "file.lock").exists()


def test_a_server_that_always_breaks_off_is_given_up(program, server, tmp_path):
    server.breaks = [0] * 100
    result = fetch(program, server.url, tmp_path / "file")
    assert result.returncode == 1
    assert "wanted the whole file, got 0 bytes in 6 tries" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_is_left(program, server, tmp_path):
    server.breaks, server.pause = [50_000], 40  # seconds of nothing, the first time
    threading.Timer(1, lambda: setattr(server, "pause", 0)).start()
    begin = patience.now()
    result = fetch(program, server.url, tmp_path / "file", SUM, 2)
    assert result.returncode == 0, result.stderr
    assert patience.now() - begin < 30
    assert_alone(tmp_path / "file")
    assert server.asked == [None, "bytes=50000-"]


def test_no_network_is_one_sentence(program, tmp_path):
    result = fetch(program, "http://127.0.0.1:1/file", tmp_path / "file", SUM)
    assert result.returncode == 1 and result.stderr.count("\n") == 1 and "wanted a file to fetch, got" in result.stderr
    result = fetch(program, "http://no-such-host.invalid/file", tmp_path / "file")
    assert result.returncode == 1 and "resolve" in result.stderr.lower()
    assert not (tmp_path / "file").exists()


def test_wrong_use(program, server, tmp_path):
    assert "64 hexadecimal digits" in fetch(program, server.url, tmp_path / "file", "abc").stderr
    assert "wanted an address" in fetch(program, "", tmp_path / "file").stderr
    assert "No such file" in fetch(program, server.url, tmp_path / "none/file").stderr
    assert "got a folder" in fetch(program, server.url, tmp_path).stderr
    assert fetch(program, "gopher://127.0.0.1/", tmp_path / "file").returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_this_machine(program, tmp_path):
    (tmp_path / "from").write_bytes(BODY)
    (tmp_path / "to").mkdir()
    (tmp_path / "to/file.part").write_bytes(BODY[:1000])
    assert fetch(program, f"file://{tmp_path}/from", tmp_path / "to/file", SUM).returncode == 0
    assert_alone(tmp_path / "to/file")
    assert fetch(program, f"file://{tmp_path}/none", tmp_path / "to/other").returncode == 1


def test_six_processes_fetch_it_once(program, server, tmp_path):
    server.pause = 0.05
    running = [subprocess.Popen([program, server.url, tmp_path / "file", SUM], stderr=subprocess.PIPE, text=True)
               for _ in range(6)]  # fmt: skip
    words = [patience.communicate(process, 60)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 6, words
    assert server.asked == [None]
    assert_alone(tmp_path / "file")
    assert sum("another process fetches it: waiting" in said for said in words) >= 1


def test_killed_at_any_moment_there_is_no_half_file(program, server, tmp_path):
    server.pause = 0.02
    path = tmp_path / "file"
    for i in range(12):
        process = subprocess.Popen([program, server.url, path, SUM])
        time.sleep(0.02 * i)
        process.kill()
        process.wait()
        assert not path.exists() or path.read_bytes() == BODY
    assert fetch(program, server.url, path, SUM).returncode == 0  # a lock file that was left is no lock
    assert_alone(path)


def test_interrupted_it_ends_at_once_and_goes_on_later(program, server, tmp_path):
    server.pause = 0.5
    process = subprocess.Popen([program, server.url, tmp_path / "file", SUM], stderr=subprocess.PIPE, text=True)
    time.sleep(0.8)
    process.send_signal(signal.SIGINT)
    begin = patience.now()
    words = patience.communicate(process, 30)[1]
    assert patience.now() - begin < 3 and process.returncode == 1 and "stopped" in words
    server.pause = 0
    assert fetch(program, server.url, tmp_path / "file", SUM).returncode == 0
    assert server.asked[1] is not None and server.asked[1] != "bytes=0-"
    assert_alone(tmp_path / "file")


def test_a_full_disk_is_one_sentence(program, server, tmp_path):
    command = f"ulimit -f 100; trap '' XFSZ; exec {program} {server.url} {tmp_path}/file {SUM}"
    result = patience.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "file.part: writing it failed: File too large" in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1


# ------------------------------------------------------------------------------------------------ kolo-data


def kolo_data(*words, **environment):
    return patience.run([BUILD / "bin/kolo-data", *map(str, words)], capture_output=True, text=True, timeout=60,
                        env={**os.environ, **environment})  # fmt: skip


def test_kolo_data_says_what_is_wrong(tmp_path):
    assert "higgs-uci" in kolo_data("--help").stdout
    result = kolo_data("minst")
    assert result.returncode == 2 and 'got "minst"' in result.stderr
    result = kolo_data("mnist", "--mirror", f"file://{tmp_path}/none/", KOLO_DATA=str(tmp_path / "data"))
    assert result.returncode == 1 and "wanted a file to fetch" in result.stderr
    assert not (tmp_path / "data/mnist").exists()


def test_a_mirrors_wrong_files_are_refused(tmp_path):
    (tmp_path / "mirror/mnist").mkdir(parents=True)
    (tmp_path / "mirror/mnist/train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"no digits"))
    result = kolo_data("mnist", "--mirror", f"file://{tmp_path}/mirror/", "--data", tmp_path / "data")
    assert result.returncode == 1 and "wanted a file with the SHA-256 440fcabf" in result.stderr
    assert not (tmp_path / "data/mnist").exists()


def test_higgs_comes_without_a_checksum(tmp_path):
    (tmp_path / "mirror/higgs").mkdir(parents=True)
    name = "atlas-higgs-challenge-2014-v2.csv.gz"
    (tmp_path / "mirror/higgs" / name).write_bytes(gzip.compress(b"EventId,A,Label\n1,2,s\n"))
    result = kolo_data("higgs", "--mirror", f"file://{tmp_path}/mirror/", XDG_CACHE_HOME=str(tmp_path), KOLO_DATA="")
    assert result.returncode == 0, result.stderr
    assert "names no checksum" in result.stdout
    assert (tmp_path / "kolo/higgs" / name).exists()
