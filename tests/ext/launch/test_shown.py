"""What kolorun shows of the ranks' output: which ranks, when, and in which order. See launched.py first."""
import datetime
import re

from ext.launch.launched import by_rank, run, sentences
from ext.launch.other_host import HERE, THERE


def test_only_some_ranks_are_shown(programs, tmp_path):
    job = run("-np", 4, "--local-ranks-filter", "3,1", "--output-filename", tmp_path, programs / "speak", "both")
    assert sorted(by_rank(job.out)) == sorted(by_rank(job.err, "stderr")) == [1, 3]
    assert [(tmp_path / f"rank.{rank}" / "stdout").read_text() for rank in range(4)] == [f"out of {rank}\n" for rank in range(4)]


def test_a_hidden_rank_that_fails_is_reported():
    job = run("-np", 2, "--local-ranks-filter", "0", "sh", "-c", "test $OMPI_COMM_WORLD_RANK = 0 && exec sleep 600; echo oh no >&2; exit 3")
    assert job.code == 3 and re.fullmatch(r"rank 1 \(.*\): exited with code 3; its last words: oh no", job.err.decode()[len("kolorun: "):-1])


def test_bars_of_hidden_ranks_are_not_shown(programs):
    job = run("-np", 2, "--local-ranks-filter", "1", programs / "speak", "bars", env={"KOLO_DISPLAY": "/nowhere"})
    assert b"[1,1]<stdout>:bar" in job.out and b"[1,0]" not in job.out


def test_the_filter_counts_on_each_host(other_host):
    _, _, agent = other_host
    job = run("-np", 4, "-H", f"{HERE}:2,{THERE}:2", "--mpi-args", f"--mca plm_rsh_agent {agent}", "--local-ranks-filter", "1",
              "echo", "x")
    assert by_rank(job.out) == {1: [b"x"], 3: [b"x"]}, job.err


def test_timestamps(programs):
    before = datetime.datetime.now() - datetime.timedelta(seconds=1)
    job = run("-np", 2, "--prefix-output-with-timestamp", programs / "speak", "both")
    lines = (job.out + job.err).decode().splitlines()
    assert len(lines) == 4
    for line in lines:
        time, rest = line.split(" [1,", 1)
        assert before < datetime.datetime.strptime(time, "%Y-%m-%d %H:%M:%S.%f") <= datetime.datetime.now()
        assert re.fullmatch(r"\d\]<std(out|err)>:(out|err) of \d", rest)
    assert run("-np", 1, "--prefix-timestamp", "echo", "x").out.endswith(b" [1,0]<stdout>:x\n")


ALTERNATE = "import sys\nfor i in range(2000):\n    print('out', i, flush=True)\n    print('err', i, file=sys.stderr, flush=True)\n"


def test_merged_streams_keep_their_order():
    job = run("-np", 2, "--merge-stderr-to-stdout", "python3", "-c", ALTERNATE)
    wanted = [f"{name} {i}".encode() for i in range(2000) for name in ("out", "err")]
    assert by_rank(job.out) == {0: wanted, 1: wanted} and not job.err


def test_merged_streams_have_last_words():
    job = run("-np", 1, "--merge-stderr-to-stdout", "sh", "-c", "echo why >&2; exit 4")
    assert job.code == 4 and sentences(job.err)[0].endswith("exited with code 4; its last words: why")
    job = run("-np", 1, "--merge-stderr-to-stdout", "sh", "-c", "echo > /dev/stderr; env | grep ^KOLORUN_MERGE=")
    assert by_rank(job.out) == {0: [b""]} and job.code == 1  # a kolorun that a rank starts does not merge
