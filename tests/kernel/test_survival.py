"""What needs a clock or a second process: interrupts, input, floods, displays, ranks, and processes left behind."""
import contextlib
import os
import signal
import subprocess
from pathlib import Path

import patience
import pytest
from kernel.driver import BUILD, Kernel

INCLUDES = ("#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <signal.h>\n#include <pthread.h>\n"
            "int keep = 5;")

MORE = pytest.mark.long("more of the same")


@pytest.fixture(scope="module")
def kernel():
    k = Kernel(KOLO_LIVES="yes")
    k.run(INCLUDES)
    yield k
    k.close()


@pytest.mark.parametrize("code", [
    "for (;;) keep = 6;",
    "sleep(300000);",
    "int ends[2]; pipe(ends); char byte; read(ends[0], &byte, 1);",
    pytest.param("for (;;) free(malloc(10));", marks=MORE),
    pytest.param('for (;;) printf("x");', marks=MORE),
    'for (long i = 0;; i++) printf("%ld\\n", i);',
    pytest.param('for (long i = 0;; i++) fprintf(stdout, "%ld\\n", i);', marks=MORE),
    pytest.param('for (;;) fwrite("abc", 1, 3, stdout);', marks=MORE),
    "!sleep 300000",
    pytest.param('!trap "" INT; sleep 300000', marks=MORE),
    "signal(SIGINT, SIG_IGN); for (;;) keep = 7;",
    "%%run\n#include <unistd.h>\nint main(void) { sleep(300000); return 0; }",
])
def test_interrupt_ends_the_cell_and_keeps_the_variables(kernel, code):
    outcome = kernel.run(code, interrupt_after=0.5)
    assert outcome.status == "error" and outcome.errors[0]["ename"] == "KeyboardInterrupt"
    assert outcome.seconds <= 1.5
    assert "gone" not in outcome.error
    assert kernel.run("keep >= 5").value == "1"


def test_interrupt_of_a_thread_join(kernel):
    outcome = kernel.run("void *forever(void *p) { for (;;) pause(); return p; }\npthread_t t;\n"
                         "pthread_create(&t, NULL, forever, NULL);\npthread_join(t, NULL);", interrupt_after=0.5)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 1.5
    assert kernel.run("keep >= 5").value == "1"


def test_interrupt_of_a_training_run_keeps_its_history(kernel):
    kernel.run("#include <kolo.h>\n#include <string.h>\n"
               "kolo_data *train = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 4096);\n"
               "kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));\n"
               "kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.1), .loss = KOLO_SPARSE_CROSSENTROPY);")
    for moment in (0.3, 0.5):  # wherever it is: in Kolo's code, in oneDNN's, or waiting
        outcome = kernel.run("const kolo_history *h = kolo_fit(model, train, .epochs = 100000, .batch_size = 512);",
                             interrupt_after=moment)
        assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 1.5
        assert "gone" not in outcome.error
    assert kernel.run("h->stopped").value == "true"


def test_reads_ask_the_front_end(kernel):
    outcome = kernel.run('int a, b;\nprintf("two: ");\nscanf("%d %d", &a, &b);\nprintf("%d\\n", a + b);', answers=["3", "4"])
    assert outcome.stdout == "7\n" and outcome.questions == ["two: ", ""]
    outcome = kernel.run('char line[40];\nfgets(line, sizeof line, stdin);\nprintf("got %s", line);\nputchar(getchar());',
                         answers=["hello there", "z"])
    assert outcome.stdout == "got hello there\nz"
    assert kernel.run('!read word; echo "shell $word"', answers=["abc"]).stdout == "shell abc\n"


def test_without_stdin_a_read_gets_end_of_file_and_a_later_one_can_ask(kernel):
    assert kernel.run('scanf("%d", &a)').value == "-1"
    assert kernel.run('scanf("%d", &a); a', answers=["77"]).value == "77"


def test_lines_arrive_in_order_and_whole(kernel):
    outcome = kernel.run('for (int i = 0; i < 19000; i++) printf("%d\\n", i);')
    assert outcome.stdout == "".join(f"{i}\n" for i in range(19000))


def test_of_very_many_lines_the_first_and_the_last_are_shown(kernel):
    """A page with hundreds of thousands of lines freezes the browser."""
    outcome = kernel.run('for (int i = 0; i < 400000; i++) printf("line %d\\n", i);', timeout=60)
    assert outcome.status == "ok"
    lines = outcome.stdout.splitlines()
    assert lines[:20000] == [f"line {i}" for i in range(20000)]
    assert 10 < len(lines) - 20000 < 300 and lines[-1] == "line 399999"
    assert "[380000 lines (4.5 MB) of this cell's output are left out here" in outcome.stderr
    assert "freopen" in outcome.stderr


def test_all_of_a_flood_goes_into_a_file(kernel, tmp_path):
    kernel.run(f'freopen("{tmp_path}/all.txt", "w", stdout);\nfor (int i = 0; i < 30000; i++) printf("line %d\\n", i);')
    assert len((tmp_path / "all.txt").read_text().splitlines()) == 30000
    assert kernel.run('puts("here again");').stdout == "here again\n"


def test_a_flood_without_lines_is_capped(kernel):
    outcome = kernel.run('for (int i = 0; i < 1500000; i++) printf("word %d ", i);', timeout=60)
    assert 4e6 <= len(outcome.stdout) <= 6e6 and outcome.stdout.endswith("word 1499999 ")
    assert "left out" in outcome.stderr


def test_a_line_of_control_d_is_the_end_of_the_input(kernel):
    counts = "int c, count = 0; while ((c = getchar()) != EOF) count++;\ncount"
    assert kernel.run(counts, answers=["hello", "^D"]).value == "6"
    assert kernel.run(counts, answers=["\x04"]).value == "0"
    assert kernel.run("!cat", answers=["abc", "^D"]).stdout == "abc\n"
    program = "%%run\n#include <stdio.h>\nint main(void) { int n = 0; printf(\"say: \"); while (getchar() != EOF) n++; printf(\"%d\\n\", n); }"
    outcome = kernel.run(program, answers=["ab", "^D"])
    assert outcome.stdout == "3\n" and outcome.questions == ["say: ", ""]


def test_input_can_be_given_beforehand(kernel, tmp_path):
    (tmp_path / "in.txt").write_text("abc def\n12\n")
    program = '#include <stdio.h>\nint main(int c, char **v) { char w[20]; int n; scanf("%s %*s %d", w, &n); printf("%s %d %d\\n", w, n, c); }'
    assert kernel.run(f"%%run < {tmp_path}/in.txt\n{program}").stdout == "abc 12 1\n"
    assert kernel.run(f"%%run one two <{tmp_path}/in.txt\n{program}").stdout == "abc 12 3\n"
    assert "cannot be read" in kernel.run(f"%%run < {tmp_path}/none.txt\n{program}").error
    assert "the file is missing" in kernel.run(f"%%run <\n{program}").error
    assert kernel.run("%%stdin\n5 6\n").status == "ok"
    assert kernel.run('scanf("%d %d", &a, &b); a * b').value == "30"
    assert kernel.run('scanf("%d", &a)').value == "-1"
    kernel.run("%%stdin\none\ntwo\n")
    assert kernel.run("!cat").stdout == "one\ntwo\n"


def test_output_is_live(kernel, tmp_path):
    """The cell ends only after its first word was seen."""
    request = kernel.client.execute(f'printf("now"); while (access("{tmp_path}/seen", F_OK)) usleep(1000);')
    while True:
        message = patience.message(kernel.client.get_iopub_msg, 10)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
            break
    (tmp_path / "seen").touch()
    kernel._reply(request)


def test_what_is_printed_between_cells_belongs_to_the_last_one(kernel):
    request = kernel.client.execute("!(sleep 0.5; echo late) &")
    kernel._reply(request)
    limit = patience.now() + 5
    while patience.now() < limit:
        message = patience.message(kernel.client.get_iopub_msg, 5)
        if message["msg_type"] == "stream":
            assert message["content"]["text"] == "late\n" and message["parent_header"]["msg_id"] == request
            return
    raise AssertionError("it was never shown")


def test_kolorun_is_on_the_path(kernel):
    assert kernel.run("!command -v kolo-kernel").stdout.endswith("kolo-kernel\n")


SHOW = r'''
#include <string.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
int show(const char *kind, const char *rest)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strcpy(to.sun_path, getenv("KOLO_DISPLAY"));
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(s, (struct sockaddr *)&to, sizeof to)) return -1;
    char text[1000], answer = 0;
    int32_t size = snprintf(text, sizeof text, "{\"token\": \"%s\", \"kind\": \"%s\", %s}", getenv("KOLO_DISPLAY_TOKEN"), kind, rest);
    write(s, &size, 4);
    write(s, text, size);
    read(s, &answer, 1);
    close(s);
    return answer;
}
'''


def test_display_update_and_clear_come_in_order(kernel):
    kernel.run(SHOW)
    outcome = kernel.run('printf("before\\n");\n'
                         'show("display", "\\"id\\": \\"d\\", \\"data\\": {\\"text/plain\\": \\"one\\"}");\n'
                         'printf("between\\n");\n'
                         'show("update", "\\"id\\": \\"d\\", \\"data\\": {\\"text/plain\\": \\"two\\"}");')
    kinds = [kind for kind, _ in outcome.order]
    assert kinds == ["stdout", "display_data", "stdout", "update_display_data"]
    assert outcome.displays[0][1]["transient"] == {"display_id": "d"}
    assert outcome.displays[1][1]["data"] == {"text/plain": "two"}
    assert any(kind == "clear_output" for kind, _ in kernel.run('show("clear", "\\"wait\\": true");').messages)


def test_display_refuses_what_is_not_ours(kernel):
    assert kernel.run('show("display", "\\"data\\": 5")').value == "21"
    assert kernel.run('show("nonsense", "\\"data\\": {}")').value == "21"
    assert kernel.run('setenv("KOLO_DISPLAY_TOKEN", "wrong", 1); show("clear", "\\"wait\\": true")').value == "21"


RANKS = pytest.mark.skipif(not (BUILD / "bin" / "kolorun").exists(), reason="kolorun is not built")


@RANKS
def test_run_launches_ranks(kernel):
    outcome = kernel.run("%%run -np 2\n#include <kolo.h>\n#include <stdio.h>\nint main(int argc, char **argv)\n{\n"
                         "    kolo_init(&argc, &argv);\n    printf(\"rank %d of %d\\n\", kolo_rank(), kolo_size());\n"
                         "    return kolo_finish();\n}")
    assert outcome.status == "ok" and "rank 0 of 2" in outcome.stdout and "rank 1 of 2" in outcome.stdout


@RANKS
def test_interrupt_ends_the_ranks(kernel):
    outcome = kernel.run("%%run -np 2\n#include <unistd.h>\nint main(void) { sleep(600000); return 0; }", interrupt_after=3)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 3
    assert kernel.run("keep >= 5").value == "1"


def test_counter_counts_stored_cells_only(kernel):
    first = kernel.run("1").reply["execution_count"]
    kernel.run("1", store_history=False)
    kernel.run("1", silent=True)
    assert kernel.run("1").reply["execution_count"] == first + 1


def test_silent_says_nothing(kernel):
    outcome = kernel.run('printf("nothing"); 1', silent=True)
    assert outcome.messages == [] or all(kind == "status" for kind, _ in outcome.messages)


def test_helper_names_are_never_offered(kernel):
    kernel.run("#include <kolo.h>")
    matches = kernel.ask("complete", "kolo_")["matches"]
    assert "kolo_fit" in matches
    assert not [name for name in matches if name.endswith(("_at", "_args"))]
    assert "epochs" in kernel.ask("complete", "kolo_fit(model, train, .ep")["matches"]


def test_kolo_h_is_known_before_it_is_included():
    fresh = Kernel()
    try:
        assert "kolo_fit" in fresh.ask("complete", "kolo_f")["matches"]
        page = fresh.ask("inspect", "kolo_fit", 8)
        assert page["found"] and "Trains" in page["data"]["text/plain"] and "batch_size" in page["data"]["text/plain"]
    finally:
        fresh.close()


def alive(mark, fits=lambda folder: True):
    """Processes, zombies aside, that carry this mark in their environment and fit."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and ") Z " not in (folder / "stat").read_text() and fits(folder):
                found.append(folder.name)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("brutally", [False, True])
def test_no_process_is_left_behind(brutally):
    mark = f"KOLO_TEST_MARK=mark-{os.getpid()}-{brutally}"
    k = Kernel(KOLO_TEST_MARK=mark.partition("=")[2])
    k.run("!sleep 1000 &\n!setsid sleep 1000 &\n")
    assert len(alive(mark)) >= 4
    if brutally:
        os.kill(k.process, signal.SIGKILL)
    else:
        k.close()
    patience.until(lambda: not alive(mark))
    left = alive(mark)
    if brutally:
        k.client.stop_channels()
        k.manager.shutdown_kernel(now=True)
    assert left == [], subprocess.run(["ps", "-ef"], capture_output=True, text=True).stdout


@pytest.mark.parametrize("ends", ["shutdown", "restart", "%restart"])
def test_a_background_command_of_system_outlives_an_interrupt_and_not_the_kernel(ends):
    """As a shell's Ctrl+C spares what runs in its background."""
    mark = f"KOLO_TEST_MARK=system-{os.getpid()}-{ends}"
    k = Kernel(KOLO_TEST_MARK=mark.partition("=")[2])

    def sleepers():
        return alive(mark, lambda folder: b"sleep\x001000" in (folder / "cmdline").read_bytes())

    try:
        k.run('#include <stdlib.h>\nsystem("sleep 1000 &");\nsystem("setsid sleep 1000 >/dev/null &");')
        outcome = k.run('system("sleep 1000 &");\nfor (;;) continue;', interrupt_after=0.5)
        assert outcome.reply["ename"] == "KeyboardInterrupt" and len(patience.until(lambda: len(sleepers()) == 3 and sleepers())) == 3
        if ends == "%restart":
            k.run(ends)
        elif ends == "restart":
            k.manager.restart_kernel()
            k.client.wait_for_ready()
        else:
            k.close()
        patience.until(lambda: not sleepers())
        assert sleepers() == []
    finally:
        k.close()


# What a cell leaves behind, which makes a file for each process that is ready to be left.
LEAVERS = {
    "a setsid child": "if (!fork()) { setsid(); creat(getenv(\"KOLO_TEST_READY\"), 0600); sleep(1000); }\nfor (;;) sleep(1);",
    "a deaf shell": '!trap "" TERM INT HUP; touch "$KOLO_TEST_READY"; while :; do sleep 7; done',
    "an idle session": "!setsid sh -c 'touch \"$KOLO_TEST_READY\"; exec sleep 1000' &\n",
}
if (BUILD / "bin" / "kolorun").exists():
    LEAVERS["deaf ranks"] = ("%%run -np 2\n#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
                             "#include <unistd.h>\nint main(void)\n{\n    char ready[4096];\n"
                             "    for (int i = 1; i < 30; i++) signal(i, SIG_IGN);\n"
                             "    snprintf(ready, sizeof ready, \"%s-%d\", getenv(\"KOLO_TEST_READY\"), getpid());\n"
                             "    creat(ready, 0600);\n    for (;;) sleep(1);\n}")


def test_a_shutdown_while_help_is_asked_for_ends_the_kernel():
    """Requests that wait meet no session any more: `make asan` sees one that does."""
    k = Kernel()
    process = k.manager.provisioner.process
    for _ in range(100):
        k.client.complete("unsign", 6)
    k.client.shutdown()
    assert patience.wait(process, 30) == 0
    k.close(now=True)


def session_of(process):
    """None: it has ended."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(int(process))


def is_reaper(process, kernel):
    with contextlib.suppress(OSError):  # it has ended
        files = Path(f"/proc/{process}")
        return f"PPid:\t{kernel.process}\n" in (files / "status").read_text() and b"kolo-worker" in (files / "cmdline").read_bytes()


def supervisor_and_those_below(kernel, mark):
    before = alive(mark)
    reaper = next(p for p in before if is_reaper(p, kernel))
    supervisor = Path(f"/proc/{reaper}/task/{reaper}/children").read_text().split()[0]
    return supervisor, [p for p in before if session_of(p) not in (None, os.getsid(kernel.process))]


@pytest.mark.parametrize("what", LEAVERS)
def test_what_a_killed_supervisor_leaves_is_ended(what, tmp_path):
    name = f"supervisor-{os.getpid()}-{len(what)}"
    mark = f"KOLO_TEST_MARK={name}"
    k = Kernel(KOLO_TEST_MARK=name, KOLO_TEST_READY=str(tmp_path / "ready"))
    try:
        k.run(INCLUDES + "\n#include <fcntl.h>")
        request = k.client.execute(LEAVERS[what])
        assert patience.until(lambda: len(list(tmp_path.glob("ready*"))) == (2 if "ranks" in what else 1))
        if "idle" in what:
            assert k._reply(request)["status"] == "ok"
        supervisor, below = supervisor_and_those_below(k, mark)
        assert supervisor in below and len(below) >= 3
        os.kill(int(supervisor), signal.SIGKILL)
        patience.until(lambda: not set(alive(mark)) & set(below))
        assert not set(alive(mark)) & set(below)
        if "idle" in what:  # the next cell runs, and what has gone is said
            outcome = k.run("keep")
            assert outcome.status == "ok" and "keep" in outcome.stderr
        else:
            reply = k._reply(request)
            assert reply["status"] == "error" and "keep" in "\n".join(reply["traceback"])
        assert k.run("keep").value == "0"
    finally:
        k.close()
    patience.until(lambda: not alive(mark))
    assert alive(mark) == []
