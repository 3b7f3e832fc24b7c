"""%ranks and %%ranks: cells on the ranks of an MPI job: state, selection, output, values, and every way to end badly."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import patience
import pytest
from kernel.driver import Kernel

INCLUDES = ("#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <signal.h>\n"
            "int square(int x) { return x * x; }\n"
            "int deep(int n) { volatile char much[10000]; much[n % 9] = 1; return deep(n + 1) + much[0]; }\n"
            "int rank, size, here = 5;")


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    k.run(INCLUDES)
    yield k
    k.close()


def start(kernel, count, words=""):
    outcome = kernel.run(f"%ranks {count} {words}")
    assert outcome.status == "ok", outcome.error
    assert kernel.run("%%ranks\nMPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);").status == "ok"
    return outcome


@pytest.fixture
def four(kernel):
    """Four ranks that are alive, and know who they are."""
    if "4 ranks" not in kernel.run("%ranks").stdout:
        start(kernel, 4)
    return kernel


def ended(kernel, outcome, *words):
    """The cell failed with these words; the ranks are gone, the kernel and its variables are not."""
    assert outcome.status == "error" and len(outcome.errors) == 1
    for word in words:
        assert word in outcome.error, outcome.error
    assert "%ranks 4 starts them again" in outcome.error
    again = kernel.run("%%ranks\nrank")
    assert again.errors[0]["evalue"] == "no ranks: %ranks 4 starts them"
    assert kernel.run("here").value == "5"


def lives_on(kernel, outcome, *words):
    """The cell failed with these words; the ranks and their variables are there."""
    assert outcome.status == "error" and len(outcome.errors) == 1
    for word in (*words, "The ranks live on"):
        assert word in outcome.error, outcome.error
    sums = kernel.run("%%ranks\nint sum; MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\nsum * 10 + rank")
    assert sums.value == "[0] 60\n[1] 61\n[2] 62\n[3] 63", sums.error


def lines_of(text, rank):
    return [line for line in text.splitlines() if line.startswith(f"[{rank}] ")]


def descendants(root, name):
    """Processes below `root` whose program has this name."""
    parents, programs = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            programs[int(folder.name)] = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
        except (OSError, IndexError):
            continue
    def below(process):
        while process > 1 and process != root:
            process = parents.get(process, 0)
        return process == root
    return sorted(p for p in parents if p != root and programs.get(p, "").endswith(name) and below(p))


def workers(kernel):
    """The processes in which the ranks' cells run: children of a supervisor that is a child of a kolo-rank."""
    supervisors = {child for rank in descendants(kernel.process, "kolo-rank") for child in descendants(rank, "kolo-worker")}
    return sorted(w for w in supervisors if not any(c in supervisors for c in descendants(w, "kolo-worker")))


# ---- state, selection, values ----

def test_world_is_the_ranks(four):
    outcome = four.run("%%ranks\nint sum;\nMPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\nsum")
    assert outcome.value == "[0-3] 6"
    assert four.run("%%ranks\nsize").value == "[0-3] 4"


def test_mpi_is_initialised_and_can_be_again(four):
    for _ in range(2):
        assert four.run("%%ranks\nMPI_Init(NULL, NULL);").status == "ok"
        assert four.run("%%ranks\nint up;\nMPI_Initialized(&up);\nup").value == "[0-3] 1"
        assert four.run("%%ranks\nMPI_Finalize();").status == "ok"
    assert four.run("%%ranks\nMPI_Init(NULL, NULL); MPI_Comm_size(MPI_COMM_WORLD, &size);\nsize").value == "[0-3] 4"


def test_what_was_defined_before_is_there(four):
    assert four.run("%%ranks\nsquare(rank + 1)").value == "[0] 1\n[1] 4\n[2] 9\n[3] 16"
    four.run("typedef struct { int a, b; } pair;\nint cube(int x) { return x * square(x); }")
    assert four.run("%%ranks\n(pair){cube(2), 3}").value == "[0-3] {.a = 8, .b = 3}"


def test_a_function_of_a_ranks_cell_is_defined_here_too(four):
    four.run("%%ranks\nint twice(int x) { return 2 * x; }\nint only_there = 3;")
    assert four.run("twice(4)").value == "8"
    assert four.run("only_there").value == "0"
    four.run("int twice(int x) { return 3 * x; }")
    assert four.run("%%ranks\ntwice(4)").value == "[0-3] 12"


def test_variables_live_on_at_each_rank(four):
    four.run("%%ranks\nint n = rank;")
    four.run("%%ranks\nn += 10;")
    four.run("%%ranks 1,3\nn += 100;")
    assert four.run("%%ranks\nn").value == "[0] 10\n[1] 111\n[2] 12\n[3] 113"
    assert four.run("%%ranks 2-3\nn").value == four.run("%%ranks [2, 3] n").value == "[2] 12\n[3] 113"
    assert "'[2' is not a list of ranks" in four.run("%%ranks [2\nn").error
    assert four.run("n").value == "0"


@pytest.mark.parametrize("words, sentence", [
    ("4", "there is no rank 4: the ranks are 0 to 3"),
    ("0,9", "there is no rank 9"),
    ("2-1", "write the lower number first"),
    ("1-", "write one like 0,3 or 0-3"),
    ("1;2", "write one like 0,3 or 0-3"),
])
def test_a_rank_that_is_not_there(four, words, sentence):
    outcome = four.run(f"%%ranks {words}\nrank")
    assert outcome.errors[0]["ename"] == "UsageError" and sentence in outcome.errors[0]["evalue"]


@pytest.mark.parametrize("words, sentence", [
    ("x", "wanted a number of ranks"), ("-1", "wanted a number of ranks"), ("2.5", "wanted a number of ranks"),
    ("2 --nonsense", "'--nonsense' is not an option of kolorun"),
    ("4 -H localhost:2", "wanted 4 ranks, hosts offer 2 slots"),
])
def test_what_cannot_be_started_is_one_sentence(kernel, words, sentence):
    outcome = kernel.run(f"%ranks {words}")
    assert outcome.status == "error" and sentence in outcome.errors[0]["evalue"]
    assert "\n" not in outcome.errors[0]["evalue"]


def test_a_mistake_is_one_error(four):
    outcome = four.run("%%ranks\nint x = 1;\nint y = nowhere;")
    assert len(outcome.errors) == 1 and outcome.stdout == ""
    assert re.search(r"In\[\d+\]:3", outcome.error) and outcome.errors[0]["ename"] == "CompileError"
    assert four.run("%%ranks\nsize").value == "[0-3] 4"


def test_other_magics_within(four):
    outcome = four.run("%%ranks 1 %time rank\nrank + 1")
    assert "Wall time" in outcome.stdout and outcome.results[0]["text/plain"] == "[1] 1"
    assert sorted(four.run("%%ranks\n!echo rank $OMPI_COMM_WORLD_RANK").stdout.split("\n")) == \
        ["", "[0] rank 0", "[1] rank 1", "[2] rank 2", "[3] rank 3"]


def test_the_folder_and_the_environment_go_along(four, tmp_path):
    for value in "121":
        four.run(f"%env KOLO_TEST_VALUE={value}")
        assert four.run('%%ranks\ngetenv("KOLO_TEST_VALUE")').value == f'[0-3] "{value}"'
    before = four.run("%cd").stdout.strip()
    four.run(f"%cd {tmp_path}")
    assert four.run("%%ranks\nchar folder[4096]; getcwd(folder, sizeof folder)").value == f'[0-3] "{tmp_path}"'
    four.run(f"%cd {before}")


def test_help_of_both_forms(kernel):
    for form in ("%ranks?", "%%ranks?"):
        reply = kernel.run(form).reply
        assert "kolorun" in reply["payload"][0]["data"]["text/plain"]


# ---- output ----

def test_lines_are_whole_tagged_and_in_order(four):
    outcome = four.run('%%ranks\nfor (int i = 0; i < 2000; i++) printf("line %d of %d\\n", i, rank);')
    for rank in range(4):
        assert lines_of(outcome.stdout, rank) == [f"[{rank}] line {i} of {rank}" for i in range(2000)]


def test_streams_are_live(four):
    outcome = four.run('%%ranks 0\nprintf("one\\n"); fprintf(stderr, "two\\n"); usleep(300000); printf("three\\n");')
    assert outcome.stdout == "[0] one\n[0] three\n" and outcome.stderr == "[0] two\n"
    assert len([name for name, _ in outcome.order]) == 3


def test_many_lines_fold_by_rank(four):
    outcome = four.run('%%ranks\nfor (int i = 0; i < 5; i++) printf("a <b> \\033[31mred\\033[0m %d \\033[1;38;5;34m256\\033[0m\\n", i);')
    kinds = [kind for kind, _ in outcome.messages]
    assert kinds.index("clear_output") + 1 == kinds.index("display_data")
    data = outcome.displays[0][1]["data"]
    assert data["text/html"].count("<details") == 4 and data["text/html"].count("</details>") == 4
    assert "a &lt;b&gt; <span style=\"color:#e75c58\">red</span> 4 <span style=\"font-weight:bold\">256</span>" in data["text/html"]
    assert len(lines_of(data["text/plain"], 3)) == 5


def test_few_lines_stay_as_they_are(four):
    outcome = four.run('%%ranks\nprintf("hello\\n");')
    assert not outcome.displays and sorted(outcome.stdout.split()) == sorted("[0] hello [1] hello [2] hello [3] hello".split())


def test_a_line_redrawn_is_redrawn_in_its_place(four):
    outcome = four.run('%%ranks 2\nfor (int i = 0; i < 3; i++) { printf("\\r%d", i); usleep(60000); } printf("\\rend\\n");')
    assert "\r" in outcome.stdout and outcome.stdout.endswith("[2] end\n")


@pytest.mark.long("four ranks print until they are interrupted")
def test_a_cap_on_what_is_printed(four):
    outcome = four.run('%%ranks\nfor (long i = 0; i < 20000000; i++) printf("0123456789 0123456789 0123456789\\n");',
                       interrupt_after=4, timeout=60)
    assert len(outcome.stdout) < 64 << 20 and outcome.seconds <= 3
    assert four.run("%%ranks\nsize").value == "[0-3] 4"


def test_input_is_asked_for_by_rank(four):
    outcome = four.run('%%ranks 1\nint given; printf("how many? "); scanf("%d", &given);\ngiven + rank', answers=["41"])
    assert outcome.value == "[1] 42" and outcome.questions == ["rank 1: how many? "]
    outcome = four.run('%%ranks\nint got = scanf("%d", &rank);\ngot')
    assert outcome.value == "[0-3] -1" and outcome.seconds < 2


# ---- interrupts ----

MORE = pytest.mark.long("the same once more with another cell")


@pytest.mark.parametrize("code", [
    pytest.param("for (;;) rank = rank;", marks=MORE),
    "sleep(300000);",
    pytest.param("for (;;) free(malloc(10));", marks=MORE),
    pytest.param('for (;;) printf("x");', marks=MORE),
    pytest.param('for (long i = 0;; i++) printf("%ld\\n", i);', marks=MORE),
    pytest.param("if (rank) sleep(300000); else for (;;) rank = rank;", marks=MORE),
    pytest.param("if (rank == 2) sleep(300000);", marks=MORE),
    pytest.param("!sleep 300000", marks=MORE),
    pytest.param("signal(SIGINT, SIG_IGN); for (;;) rank = rank;", marks=MORE),
])
def test_interrupt_keeps_the_variables(four, code):
    four.run("%%ranks\nint kept = 7 + rank;")
    outcome = four.run("%%ranks\n" + code, interrupt_after=1)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 3
    assert four.run("%%ranks\nkept").value == "[0] 7\n[1] 8\n[2] 9\n[3] 10"


def test_interrupt_of_a_deadlock_names_who_hung_and_where(four):
    outcome = four.run("%%ranks\nif (rank != 1)\n    MPI_Barrier(MPI_COMM_WORLD);", interrupt_after=1)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 3
    ended(four, outcome, "ranks 0,2,3 in MPI_Barrier at In[", "]:3")


@pytest.mark.long("the machine is made busy")
def test_interrupt_of_a_hang_does_not_wait_for_a_machine_that_is_busy(four):
    """The limits of an interrupt stretch with the load, and so does this test's clock; ranks that sit in MPI need no such limit."""
    busy = [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", "while True: pass"]) for _ in range(16)]
    try:
        outcome = four.run("%%ranks\nif (rank == 1)\n    MPI_Recv(&here, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);",
                           interrupt_after=0.2)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 0.3
    ended(four, outcome, "rank 1 in MPI_Recv at In[", "]:3")


def test_interrupt_of_collective_calls_without_end(four):
    outcome = four.run("%%ranks\nfor (;;) {\n    int s;\n    MPI_Allreduce(&rank, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n}",
                       interrupt_after=0.5)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 3
    if "starts them again" in outcome.error:  # else all were between two calls, and recovered
        ended(four, outcome, "in MPI_Allreduce at In[", "]:4")


@pytest.mark.long("a hang is remarked on after some seconds")
def test_a_hang_is_remarked_on_once(four):
    outcome = four.run("%%ranks\nif (rank == 3) MPI_Recv(&here, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);",
                       interrupt_after=8)
    assert outcome.stderr.count("still running: rank 3 in MPI_Recv at In[") == 1
    assert "ranks 0-2 finished" in outcome.stderr and outcome.seconds <= 3


@pytest.mark.long("sleeps longer than the time until the remark")
@pytest.mark.parametrize("calls", [
    ["sleep(7)", "poll(NULL, 0, 7000)", "select(0, NULL, NULL, NULL, &(struct timeval){7, 0})"],
    ["usleep(7000000)", "nanosleep(&(struct timespec){7, 0}, NULL)", "clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){7, 0}, NULL)"],
])
def test_a_remark_does_not_end_a_sleep(four, calls):
    outcome = four.run("%%ranks\n#include <poll.h>\n#include <sys/select.h>\n#include <time.h>\nlong began = time(NULL);\n"
                       f"long rest = rank == 1 ? {calls[0]} : rank == 2 ? {calls[1]} : rank == 3 ? {calls[2]} : 0;\n"
                       "printf(\"%ld left, %s\\n\", rest, rank == 0 || time(NULL) - began >= 6 ? \"slept\" : \"woken\");")
    assert outcome.stderr.count("still running: ") == 1 and outcome.stderr.count("ranks 1-3 at In[") == 1
    assert outcome.stdout.count("] 0 left, slept") == 4


@pytest.mark.long("waits for the stall limit")
def test_after_a_stall_the_next_collective_fails_at_once():
    k = Kernel()
    k.run("#include <kolo.h>\n%env KOLO_STALL_LIMIT=4")
    assert k.run("%ranks 3").status == "ok"
    k.run("%%ranks\nfloat sum = 1;\nkolo_status status;\nkolo_init(NULL, NULL);")
    stalled = k.run("%%ranks\nstatus = kolo_rank() == 1 ? KOLO_OK : kolo_allreduce(&sum, 1);\nstatus")
    assert stalled.value == "[0,2] KOLO_COMM\n[1] KOLO_OK" and "rank 1 has not come for 4 s" in stalled.stdout + stalled.stderr
    after = k.run("%%ranks\nstatus = kolo_allreduce(&sum, 1);\nstatus")
    assert after.value == "[0-2] KOLO_COMM" and "an earlier call of the ranks was ended in the middle" in after.stdout + after.stderr
    k.close()


# ---- failures ----

def switches(process):
    """How often it has waited for something."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\t(\d+)", status, re.M)[1])


def test_ranks_at_rest_are_few_processes_and_wait_for_events(four):
    """At each rank a kolo-rank, its supervisor and the process of its cells; the supervisor looks at nothing while no cell runs."""
    ranks = descendants(four.process, "kolo-rank")
    below = {rank: descendants(rank, "kolo-worker") for rank in ranks}
    assert len(ranks) == 4 and all(len(all_below) == 2 for all_below in below.values()), below
    supervisors = [next(one for one in pair if set(pair) - {one} <= set(descendants(one, "kolo-worker"))) for pair in below.values()]
    before = [switches(supervisor) for supervisor in supervisors]
    time.sleep(2)  # long enough for a supervisor that polls to have done so
    assert [switches(supervisor) for supervisor in supervisors] == before


@pytest.mark.parametrize("code, words", [
    ("int *p = NULL;\n*p = 1;", ["rank 2: Segmentation fault at In[", "]:4", "*p = 1;"]),
    pytest.param("abort();", ["rank 2: Aborted at In[", "]:3"], marks=MORE),
    ("exit(3);", ["rank 2: exit(3) was called at In[", "]:3"]),
    pytest.param("_exit(4);", ["rank 2: exit(4) was called at In["], marks=MORE),
    pytest.param("MPI_Abort(MPI_COMM_WORLD, 5);", ["rank 2: exit(5) was called at In[", "]:3"], marks=MORE),
    pytest.param("MPI_Send(&rank, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);", ["rank 2: MPI_Send: MPI_ERR_RANK: invalid rank, at In[", "]:3"], marks=MORE),
    pytest.param("raise(SIGKILL);", ["rank 2: Killed"], marks=MORE),
    ("raise(SIGSTOP);", ["rank 2", "stopped"]),
    pytest.param("deep(0);", ["rank 2: Stack overflow", "deep() called itself"], marks=MORE),
])
def test_a_rank_that_fails_is_named(four, code, words):
    outcome = four.run("%%ranks\nif (rank == 2) {\n" + code + "\n}\nMPI_Barrier(MPI_COMM_WORLD);")
    assert outcome.seconds <= 5
    ended(four, outcome, *words)


@pytest.mark.parametrize("code, words", [
    ("*(volatile int *)0 = 1;", ["rank 2: Segmentation fault at In["]),
    ("int many[4], past = rank + 7; many[past] = 1;", ["rank 2: "]),
    ("exit(3);", ["rank 2: exit(3) was called at In["]),
    pytest.param("abort();", ["rank 2: Aborted at In["], marks=MORE),
    pytest.param("deep(0);", ["rank 2: Stack overflow"], marks=MORE),
])
@pytest.mark.parametrize("others", ["", "else for (;;) usleep(1000);"], ids=["others end", "others run"])
def test_a_fault_of_one_rank_leaves_all_their_variables(four, code, words, others):
    lives_on(four, four.run("%%ranks\nif (rank == 2) { " + code + " } " + others), *words)


@MORE
def test_an_error_in_a_window_of_mpi_is_the_cells(four):
    outcome = four.run("%%ranks\nMPI_Win window;\nMPI_Win_create(&rank, sizeof rank, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);\n"
                       "MPI_Win_fence(0, window); MPI_Put(&rank, 1, MPI_INT, 77, 0, 1, MPI_INT, window);")
    ended(four, outcome, "ranks 0-3: MPI_Put: MPI_ERR_RANK: invalid rank, at In[", "]:4")


def test_ranks_that_fail_alike_are_named_together(four):
    lives_on(four, four.run("%%ranks\nint zero = 0;\nrank / zero;"), "ranks 0-3: Division by zero at In[", "]:3")


def test_what_was_printed_before_the_fault_is_shown(four):
    outcome = four.run('%%ranks 1\nprintf("before\\n"); printf("unfinished"); abort();')
    assert outcome.stdout == "[1] before\n[1] unfinished\n"
    lives_on(four, outcome, "rank 1: Aborted")


@pytest.mark.parametrize("program, number", [
    ("kolo-rank", signal.SIGSTOP), ("mpirun", signal.SIGKILL),
    pytest.param("kolo-rank", signal.SIGKILL, marks=MORE), pytest.param("kolo-worker", signal.SIGKILL, marks=MORE)])
def test_a_rank_that_somebody_else_ends_is_noticed(four, program, number):
    victim = workers(four)[1] if program == "kolo-worker" else descendants(four.process, program)[-1]
    timer = threading.Timer(0.5, os.kill, (victim, number))
    timer.start()
    outcome = four.run("%%ranks\nsleep(200000);")
    timer.join()
    assert outcome.seconds <= 6.5
    ended(four, outcome, "rank" if program != "mpirun" else "mpirun")


def test_a_death_between_cells_is_said(four):
    os.kill(descendants(four.process, "kolo-rank")[-1], signal.SIGKILL)
    said, end = "", patience.now() + 5
    while "%ranks 4 starts them again" not in said and patience.now() < end:
        try:
            message = patience.message(four.client.get_iopub_msg, 0.5)
        except Exception:
            continue
        said += message["content"].get("text", "")
    assert "killed by signal 9" in said and "%ranks 4 starts them again" in said
    assert four.run("%%ranks\nrank").errors[0]["evalue"] == "no ranks: %ranks 4 starts them"


# ---- the end ----

def test_a_new_job_is_new(kernel):
    start(kernel, 2)
    kernel.run("%%ranks\nint mark = 9;")
    start(kernel, 3)
    assert kernel.run("%%ranks\nmark + size").value == "[0-2] 3"
    assert kernel.run("%ranks 0").stdout == "the ranks have ended\n"
    assert descendants(kernel.process, "kolo-rank") == [] and descendants(kernel.process, "mpirun") == []
    assert kernel.run("%ranks").stdout.startswith("no ranks")


@pytest.mark.parametrize("magic", ["%restart", pytest.param("%reset", marks=MORE)])
def test_restart_and_reset_end_the_ranks(magic):
    k = Kernel()
    try:
        k.run("%ranks 2")
        assert k.run(magic).status == "ok"
        assert descendants(k.process, "kolo-rank") == []
        assert "no ranks" in k.run("%%ranks\n1").errors[0]["evalue"]
    finally:
        k.close()


def test_a_crash_here_spares_the_ranks(kernel):
    start(kernel, 2)
    kernel.run("%%ranks\nint there = rank + 1;")
    assert kernel.run("raise(SIGKILL);").status == "error"
    assert kernel.run("kill(getppid(), SIGKILL); sleep(1);").status == "error"
    assert kernel.run("%%ranks\nthere").value == "[0] 1\n[1] 2"
    kernel.run("here = 5;")
    kernel.run("%ranks 0")


@MORE
def test_eight_ranks(kernel):
    outcome = start(kernel, 8)
    assert re.match(r"8 ranks started in [\d.]+ s: 0-7 on ", outcome.stdout)
    assert kernel.run("%%ranks\nint all;\nMPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\nall").value \
        == "[0-7] 28"
    kernel.run("%ranks 0")


def left_behind(mark, seconds):
    """Processes that carry this mark in their environment and still live after so many seconds."""
    end = patience.now() + seconds
    while True:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark.encode() in (folder / "environ").read_bytes() and ") Z " not in (folder / "stat").read_text():
                    found.append((folder / "cmdline").read_bytes())
            except OSError:
                continue
        if not found or patience.now() > end:
            return found
        time.sleep(0.05)


@pytest.mark.parametrize("code, brutally", [(None, False), ("if (!fork()) { setsid(); for (;;) pause(); }", True),
                                            pytest.param(None, True, marks=MORE),
                                            pytest.param("if (!fork()) { setsid(); for (;;) pause(); }", False, marks=MORE)])
def test_no_process_is_left_behind(brutally, code):
    mark = f"ranks-{os.getpid()}-{brutally}-{bool(code)}"
    k = Kernel(KOLO_TEST_MARK=mark)
    try:
        k.run(INCLUDES)
        start(k, 3)
        if code:
            assert k.run("%%ranks\n" + code).status == "ok"
        else:
            k.client.execute("%%ranks\nif (rank) MPI_Barrier(MPI_COMM_WORLD); else for (;;) rank = rank;")
            time.sleep(0.5)
    finally:
        if brutally:
            os.kill(k.process, signal.SIGKILL)
        else:
            k.manager.shutdown_kernel(now=False)
        k.client.stop_channels()
    assert left_behind(f"KOLO_TEST_MARK={mark}", 3) == []


# ---- libkolo, hosts ----

def test_training_over_two_ranks():
    k = Kernel()
    try:
        k.run("#include <kolo.h>")
        start_line = k.run("%ranks 2").stdout
        assert "2 ranks" in start_line
        outcome = k.run("%%ranks\nkolo_init(NULL, NULL);\n"
                        "kolo_data *digits = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 1024);\n"
                        "kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));\n"
                        "kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(.learning_rate = 1e-3)),\n"
                        "             .loss = KOLO_SPARSE_CROSSENTROPY);\n"
                        "const kolo_history *h = kolo_fit(model, digits, .epochs = 2, .batch_size = 128,\n"
                        "                                 .callbacks = {kolo_broadcast_variables(0)});\nh->ranks")
        assert outcome.value == "[0,1] 2" and "[0] Epoch 2/2" in outcome.stdout, outcome.error
        assert lines_of(outcome.stdout, 1) == []
        outcome = k.run("%%ranks\nkolo_fit(model, digits, .epochs = 100000, .batch_size = 128);", interrupt_after=0.7)
        assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 3
        assert k.run("%%ranks\nkolo_rank() + 10 * kolo_size()").value == "[0] 20\n[1] 21"
    finally:
        k.close()


def test_over_tcp_and_curve(kernel):
    start(kernel, 2, "-H localhost:2")
    assert kernel.run("%%ranks\nsquare(rank + 2)").value == "[0] 4\n[1] 9"
    ports = subprocess.run(["ss", "-Htlnp"], capture_output=True, text=True).stdout if not subprocess.call(
        ["which", "ss"], stdout=subprocess.DEVNULL) else ""
    assert not ports or f"pid={kernel.process}," in ports
    kernel.run("%ranks 0")


def run_as_root(*command):
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def other_host(tmp_path):
    """A second host: a network and a name of its own, one cable away, reached by a stand-in for ssh."""
    name = f"kolo{os.getpid()}"
    if os.geteuid() or not shutil.which("ip") or run_as_root("ip", "netns", "add", name).returncode:
        pytest.skip("network namespaces need root, and ip")
    if run_as_root("ip", "netns", "exec", name, "true").returncode:  # as in a chroot
        run_as_root("ip", "netns", "delete", name)
        pytest.skip("NOT TESTED: two hosts; a network namespace cannot be entered here")
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nshift\n"
                     f"exec ip netns exec {name} unshare -u bash -c 'hostname elsewhere; eval \"$*\"' x \"$@\"\n")
    agent.chmod(0o755)
    near, far = f"n{os.getpid()}", f"f{os.getpid()}"
    inside = ("ip", "netns", "exec", name)
    for command in (("ip", "link", "add", near, "type", "veth", "peer", "name", far),
                    ("ip", "link", "set", far, "netns", name),
                    ("ip", "addr", "add", "10.99.7.1/24", "dev", near), ("ip", "link", "set", near, "up"),
                    (*inside, "ip", "addr", "add", "10.99.7.2/24", "dev", far), (*inside, "ip", "link", "set", far, "up"),
                    (*inside, "ip", "link", "set", "lo", "up")):
        done = run_as_root(*command)
        assert done.returncode == 0, done.stderr
    yield name, near, str(agent)
    run_as_root("ip", "link", "delete", near)
    run_as_root("ip", "netns", "delete", name)


class Wire(threading.Thread):
    """Everything that crosses the cable."""

    def __init__(self, interface):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((interface, 0))
        self.socket.settimeout(0.2)
        self.bytes, self.over = bytearray(), False
        self.start()

    def run(self):
        while not self.over:
            try:
                self.bytes += self.socket.recv(70000)
            except TimeoutError:
                continue

    def end(self):
        time.sleep(0.3)
        self.over = True
        self.join()
        return bytes(self.bytes)


def test_two_hosts_and_nothing_readable_between(other_host):
    name, near, agent = other_host
    wire = Wire(near)
    k = Kernel(OMPI_MCA_plm_rsh_agent=agent)
    try:
        k.run(INCLUDES)
        outcome = start(k, 4, "-H 10.99.7.1:2,10.99.7.2:2")
        assert "2,3 on elsewhere" in outcome.stdout
        outcome = k.run('%%ranks\nchar name[64]; gethostname(name, 64);\nprintf("a very secret word on %s\\n", name);')
        assert "[3] a very secret word on elsewhere" in outcome.stdout
        assert k.run("%%ranks\nint sum;\nMPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\nsum").value \
            == "[0-3] 6"
        assert k.run("%%ranks 3\nint *p = 0;\n*p = 1;").errors[0]["evalue"].startswith("rank 3: Segmentation fault at In[")
        captured = wire.end()
        assert b"CURVE" in captured and b"a very secret word" not in captured
        start(k, 4, "-H 10.99.7.1:2,10.99.7.2:2")
    finally:
        os.kill(k.process, signal.SIGKILL)
        k.client.stop_channels()
    end = patience.now() + 3
    while (left := run_as_root("ip", "netns", "pids", name).stdout.split()) and patience.now() < end:
        time.sleep(0.05)
    assert left == []
