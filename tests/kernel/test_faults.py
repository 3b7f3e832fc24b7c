"""What a cell does to its process, and what the next one finds: descriptors, limits, signals, threads, memory, MPI."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import patience
import pytest
from kernel.driver import BUILD, Kernel, children

INCLUDES = "#define _GNU_SOURCE\n" + "".join(f"#include <{name}.h>\n" for name in (
    "stdio stdlib string unistd signal pthread setjmp fcntl errno fenv wchar time stdint sys/wait sys/time sys/resource "
    "sys/mman sys/prctl sys/ptrace sys/syscall").split()) + "int keep = 5;"

MORE = pytest.mark.long("more of the same")


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    assert k.run(INCLUDES).status == "ok"
    yield k
    k.close()


# What a cell does; what the next one must print and its value be. The variables stay.
HARMLESS = [
    "for (int i = 0; i < 1024; i++) close(i);",
    "close_range(0, ~0u, 0);",
    "closefrom(0);",
    "for (int i = 3; i < 20000; i++) dup2(1, i);\nfor (int i = 3; i < 20000; i++) close(i);",
    "for (int i = 3; i < 1024; i++) (void)!write(i, \"junk\", 4);",
    "while (open(\"/dev/null\", O_RDONLY) >= 0);",
    "stdout = NULL; stderr = NULL; stdin = NULL;",
    "fclose(stdout);",
    "fclose(stdout); fclose(stdin); fclose(stderr);",
    "close(1); close(2);",
    "wprintf(L\"\");",
    "freopen(\"/dev/null\", \"r\", stdout);",
    "static char room[64]; setvbuf(stdout, room, _IOFBF, sizeof room);",
    "dup2(open(\"/dev/null\", O_WRONLY), 1);",
    "void *hold(void *p) { flockfile(stdout); return p; }\npthread_t holder; pthread_create(&holder, NULL, hold, NULL); pthread_join(holder, NULL);",
    "struct rlimit few = {10, 10}; setrlimit(RLIMIT_NOFILE, &few);",
    "struct rlimit little = {1 << 20, 1 << 20}; setrlimit(RLIMIT_AS, &little); setrlimit(RLIMIT_STACK, &little); setrlimit(RLIMIT_FSIZE, &little);",
    "sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, NULL);",
    "for (int i = 1; i < 65; i++) signal(i, SIG_IGN);",
    "stack_t none = {.ss_flags = SS_DISABLE}; sigaltstack(&none, NULL);",
    "struct itimerval soon = {{0, 1000}, {0, 1000}};\nsetitimer(ITIMER_VIRTUAL, &soon, NULL); setitimer(ITIMER_PROF, &soon, NULL); ualarm(300000, 300000);",
    "timer_t timer; struct itimerspec then = {{0, 0}, {0, 100000000}};\ntimer_create(CLOCK_REALTIME, NULL, &timer); timer_settime(timer, 0, &then, NULL);",
    "fesetround(FE_UPWARD); feenableexcept(FE_ALL_EXCEPT);",
    "prctl(PR_SET_DUMPABLE, 0);",
    "char folder[] = \"/tmp/test-XXXXXX\"; chdir(mkdtemp(folder)); rmdir(folder);",
    "munmap((void *)((uintptr_t)&keep & ~4095ul), 4096);",
    "mprotect((void *)((uintptr_t)&keep & ~4095ul), 4096, PROT_READ);",
    "pthread_exit(NULL);",
    "pthread_cancel(pthread_self()); sleep(1);",
    "if (vfork() == 0) { }",
    "if (fork() == 0) abort();\nwait(NULL);",
    "if (fork() == 0) for (;;) sleep(1);",
    "kill(getppid(), SIGSTOP);",
    "seteuid(65534);",
]


@pytest.mark.parametrize("code", HARMLESS)
def test_the_next_cell_finds_everything_in_order(kernel, code):
    assert kernel.run(code).status == "ok"
    time.sleep(0.3 if "timer" in code or "alarm" in code else 0)
    outcome = kernel.run('double third = 1; third /= 3; keep = keep; printf("%.17g %d\\n", third, getchar());\n'
                         'fprintf(stderr, "error\\n"); keep', allow_stdin=False)
    assert outcome.stdout == "0.33333333333333331 -1\n" and outcome.value == "5"
    assert outcome.stderr.endswith("error\n")
    assert kernel.run('!echo shell').stdout == "shell\n"


# What a cell does, and parts of the one error; the variables stay, unless the message says that they are lost.
FAULTS = [
    ("sigset_t every; sigfillset(&every); sigprocmask(SIG_BLOCK, &every, NULL);\n*(int *)0 = 1;", ["Segmentation fault", "In[k]:2"]),
    ("raise(SIGHUP);", ["Hangup", "In[k]:1"]),
    ("raise(SIGFPE);", ["Division by zero", "In[k]:1"]),
    ("kill(getpid(), SIGTERM);", ["Terminated", "In[k]:1"]),
    ("struct rlimit second = {1, 2}; setrlimit(RLIMIT_CPU, &second);\nfor (;;);", ["CPU time limit", "In[k]:2"]),
    ("jmp_buf never;\nlongjmp(never, 1);", ["longjmp()", "In[k]:2"]),
    ("jmp_buf stale;\nvoid set(void) { volatile char room[500]; room[0] = 1; setjmp(stale); room[1] = room[0]; }\nset();\nlongjmp(stale, 1);",
     ["longjmp()", "In[k]:4"]),
    ("void *leave_all(void *p) {\n    exit(3);\n}\npthread_t leaver; pthread_create(&leaver, NULL, leave_all, NULL); pthread_join(leaver, NULL);",
     ["exit(3)", "In[k]:2", "lost"]),
    ("void *crash(void *p) {\n    return *(void **)0;\n}\npthread_t crasher; pthread_create(&crasher, NULL, crash, NULL); pthread_join(crasher, NULL);",
     ["Segmentation fault", "In[k]:2", "crash()", "lost"]),
    ("ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGUSR1);", ["User defined signal 1", "In[k]:1"]),
    ("syscall(SYS_close_range, 3, ~0u, 0);", ["ended", "lost"]),
    ("kill(0, SIGKILL);", ["Killed", "lost"]),
    ("raise(SIGSTOP);", ["Stopped", "lost"]),
    ("kill(-getppid(), SIGKILL); usleep(300000);", ["Killed", "lost"]),
    ("!kill -9 $PPID", ["Killed", "lost"]),
    ("#include <regex.h>\nregexec((regex_t *)8, \"x\", 0, NULL, 0);", ["Segmentation fault", "In[k]:2", "lost"]),
    ("prctl(22, 1); getpid();", ["Killed", "lost"]),  # strict seccomp
]


@pytest.mark.parametrize("code, parts", FAULTS)
def test_a_fault_is_one_error_that_names_its_line(kernel, code, parts):
    kernel.run("keep = 5;")
    outcome = kernel.run(code)
    assert outcome.status == "error" and len(outcome.errors) == 1, outcome.stderr
    lost = "lost" in parts
    for part in [part for part in parts if part != "lost"]:
        assert part.replace("In[k]", f"In[{outcome.reply['execution_count']}]") in outcome.error
    assert ("Lost" in outcome.error) == lost and (not lost or "keep" in outcome.error.split("Lost")[1])
    assert kernel.run("keep").value == ("0" if lost else "5")
    assert "/tmp/kolo-" not in outcome.error + outcome.stderr


def test_handlers_of_the_learners_work_and_are_gone_afterwards(kernel):
    outcome = kernel.run("sigjmp_buf out;\nvoid on_fault(int n) { siglongjmp(out, n); }\n"
                         "struct sigaction action = {.sa_handler = on_fault}; sigaction(SIGSEGV, &action, NULL);\n"
                         "if (sigsetjmp(out, 1) == 0) *(volatile int *)0 = 1; else printf(\"recovered\\n\");")
    assert outcome.status == "ok" and outcome.stdout == "recovered\n"
    assert "In[" in kernel.run("*(int *)0 = 1;").errors[0]["evalue"]
    outcome = kernel.run("volatile int rings = 0;\nvoid on_alarm(int n) { rings++; }\nsignal(SIGALRM, on_alarm); ualarm(50000, 0); pause(); rings")
    assert outcome.value == "1"
    assert kernel.run("SIGRTMAX > SIGRTMIN + 8 && signal(SIGRTMAX, SIG_IGN) != SIG_ERR").value in ("1", "true")


def test_an_idle_process_that_dies_is_reported_by_the_next_cell(kernel):
    kernel.run("keep = 5;\nvoid *later(void *p) {\n    usleep(200000);\n    return *(void **)0;\n}\n"
               "pthread_t late; pthread_create(&late, NULL, later, NULL);")
    time.sleep(0.8)
    outcome = kernel.run("6 * 7")
    assert outcome.status == "ok" and outcome.value == "42"
    assert "Segmentation fault" in outcome.stderr and ":4" in outcome.stderr and "keep" in outcome.stderr
    kernel.run("keep = 5;")


def test_damaged_memory_costs_the_variables_and_not_the_next_cell(kernel):
    kernel.run("keep = 5; volatile char *heap = malloc(10);\nfor (int i = 0; i < 3000; i++) heap[i] = 1;")
    outcome = kernel.run("6 * 7")
    assert outcome.value == "42" or outcome.status == "error"
    assert kernel.run("6 * 7").value == "42"
    kernel.run("keep = 5;")


def test_exit_handlers_run_at_the_end_and_are_heard(kernel):
    kernel.run('void bye(void) { printf("bye %d\\n", keep); }\natexit(bye);')
    outcome = kernel.run("keep = 5; exit(2);")
    assert outcome.stdout == "bye 5\n" and "exit(2)" in outcome.errors[0]["evalue"]
    kernel.run("void worse(void) { *(volatile int *)0 = 1; }\natexit(bye); atexit(worse);")
    assert "restarted" in kernel.run("%restart").stdout
    kernel.run("keep = 5; atexit(bye);")
    assert kernel.run("%restart").stdout.startswith("bye 5\n")
    kernel.run("keep = 5;")


def test_a_stopped_program_is_ended(kernel):
    outcome = kernel.run("!kill -STOP $$", timeout=10)
    assert "stopped" in outcome.stderr and kernel.run("keep").value == "5"


EAT = ("void eat(void) { for (;;) { volatile char *p = malloc(1 << 20); for (int i = 0; p && i < 1 << 20; i += 4096) p[i] = 1; } }\n")


@pytest.fixture(scope="module")
def small():
    k = Kernel(KOLO_CELLS_MEMORY="300M")
    k.run(INCLUDES + "\n" + EAT)
    yield k
    k.close()


@pytest.mark.parametrize("code, lost", [
    ("eat();", True),
    ("void *meal(void *p) { eat(); return p; }\npthread_t eaters[3]; for (int i = 0; i < 3; i++) pthread_create(&eaters[i], NULL, meal, NULL);\n"
     "pthread_join(eaters[0], NULL);", True),
    ("!python3 -c 'a = [bytearray(1000000) for i in range(3000)]'", False),
])
def test_running_out_of_memory_is_said_before_the_system_acts(small, code, lost):
    small.run("keep = 5;")
    outcome = small.run(code, timeout=30)
    assert outcome.errors[0]["ename"] == "ResourceError" and "ran out of memory" in outcome.error and "of 300 MiB" in outcome.error
    assert (f"In[{outcome.reply['execution_count']}]" in outcome.error) == lost
    assert small.run("keep").value == ("0" if lost else "5")


def test_a_child_that_eats_memory_costs_no_variables(small):
    small.run("keep = 5;")
    outcome = small.run("if (fork() == 0) eat();\nint status; wait(&status); WTERMSIG(status)", timeout=30)
    assert outcome.value == "9" and "ran out of memory" in outcome.stderr
    assert small.run("keep").value == "5"


@pytest.mark.parametrize("code", [pytest.param("for (;;) fork();", marks=MORE), "void *nap(void *p) { pause(); return p; }\npthread_t napper;\n"
                                  "for (;;) pthread_create(&napper, NULL, nap, NULL);"])
def test_too_many_processes_or_threads_are_ended(kernel, code):
    outcome = kernel.run(code, timeout=40)
    assert outcome.errors[0]["ename"] == "ResourceError" and "too many" in outcome.error
    assert kernel.run("6 * 7").value == "42"
    kernel.run("keep = 5;")


def test_mpi_starts_and_ends_again_and_again(kernel):
    kernel.run("#include <mpi.h>\nint size, flag;")
    for _ in range(2):
        assert kernel.run("MPI_Init(NULL, NULL); MPI_Comm_size(MPI_COMM_WORLD, &size); MPI_Finalize(); size").value == "1"
    assert kernel.run("MPI_Finalize(); MPI_Finalized(&flag); flag").value == "1"
    assert kernel.run("*(int *)0 = 1;").status == "error"
    assert kernel.run("MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &flag); MPI_Init(NULL, NULL); MPI_Finalized(&flag); flag").value == "0"
    assert kernel.run("#include <kolo.h>\nkolo_init(NULL, NULL); kolo_finish(); kolo_init(NULL, NULL); kolo_size()").value == "1"
    assert kernel.run("kolo_finish(); MPI_Finalize(); kolo_init(NULL, NULL); kolo_size()").value == "1"


@pytest.mark.skipif(not (BUILD / "bin" / "kolorun").exists(), reason="kolorun is not built")
def test_ranks_start_beside_a_process_that_has_started_mpi(kernel):
    kernel.run("#include <mpi.h>\nMPI_Init(NULL, NULL);")
    outcome = kernel.run("%%run -np 2\n#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v)\n{\n    int rank;\n    MPI_Init(&c, &v);\n"
                         '    MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n    printf("rank %d\\n", rank);\n    return MPI_Finalize();\n}')
    assert "rank 0" in outcome.stdout and "rank 1" in outcome.stdout
    assert kernel.run("!env | grep -c -e ^OMPI_ -e ^PMIX_").stdout == "0\n"


@pytest.mark.parametrize("delay", [0, 0.005, *(pytest.param(delay, marks=MORE) for delay in (0, 0.02, 0.05))])
def test_an_interrupt_at_the_moment_of_the_request_ends_the_cell(kernel, delay):
    request = kernel.client.execute("for (;;) keep = 5;")
    time.sleep(delay)
    start = patience.now()
    kernel.manager.interrupt_kernel()
    assert kernel._reply(request)["ename"] == "KeyboardInterrupt"
    assert patience.now() - start <= 1.5
    time.sleep(0.3)
    kernel.manager.interrupt_kernel()  # nothing runs: it is for nobody
    time.sleep(0.1)
    assert kernel.run("keep").value == "5"


@pytest.mark.parametrize("code, limit", [
    pytest.param('for (;;) { FILE *f = fopen("/dev/null", "w"); fprintf(f, "x"); fclose(f); }', 1.5, marks=MORE),
    ("pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&mutex); pthread_mutex_lock(&mutex);", 1.5),
    ("sigset_t full; sigfillset(&full); sigprocmask(SIG_BLOCK, &full, NULL); for (;;);", 1.5),
    pytest.param("void swallow(int n) { }\nsignal(SIGINT, swallow); for (;;) sleep(1);", 1.5, marks=MORE),
    pytest.param('system("sleep 300000");', 1.5, marks=MORE),
    ('FILE *pipe_end = popen("sleep 300000", "r"); getc(pipe_end);', 1.5),
    pytest.param("if (fork() == 0) sleep(300000);\nwait(NULL);", 1.5, marks=MORE),
    pytest.param("int compare(const void *a, const void *b) { usleep(100); return rand() - rand(); }\nint v[100000]; qsort(v, 100000, 4, compare);", 1.5, marks=MORE),
    pytest.param("int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\nfib(60)", 1.5, marks=MORE),
    ('int number; scanf("%d", &number);', 1.5),
    pytest.param("!cat", 1.5, marks=MORE),
])
def test_interrupts(kernel, code, limit):
    kernel.run("keep = 5;")
    outcome = kernel.run(code, interrupt_after=0.5, allow_stdin=True, timeout=20)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= limit
    assert kernel.run("keep").value == "5"


@MORE
def test_an_interrupt_ends_a_receive_by_mpi(kernel):
    """MPI cannot go on after it, so the worker is another one, without what the cells had."""
    kernel.run("#include <mpi.h>\nint keep = 5;\ndouble x;\nMPI_Init(NULL, NULL);")
    receive = "MPI_Recv(&x, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
    outcome = kernel.run(receive, interrupt_after=0.5, timeout=20)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds <= 1.5
    assert kernel.run("keep").value == "0"


def test_an_interrupt_ends_the_program_that_system_has_started(kernel):
    outcome = kernel.run('keep = 6;\nsystem("sleep 313131; true");', interrupt_after=0.5, timeout=20)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and kernel.run("keep").value == "6"

    def running():
        lines = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                lines.append(file.read_bytes())
        return lines.count(b"sleep\x00313131\x00")

    assert patience.until(lambda: running() == 0)
    assert kernel.run('system("exit 3") >> 8').value == "3" and kernel.run("system(NULL)").value == "1"


KERNEL_ALONE = """
import sys
sys.path.insert(0, {tests!r})
from kernel.driver import Kernel
k = Kernel()
k.run("!sleep 1000 &")
print(k.process, flush=True)
import time
time.sleep(1000)
"""


def test_a_kernel_ends_when_its_jupyter_is_killed():
    child = subprocess.Popen([sys.executable, "-c", KERNEL_ALONE.format(tests=str(Path(__file__).parents[1]))],
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "KOLO_TEST_MARK": f"orphan-{os.getpid()}"})
    process = int(child.stdout.readline())
    mark = f"KOLO_TEST_MARK=orphan-{os.getpid()}".encode()
    child.send_signal(signal.SIGKILL)
    child.wait()
    limit = patience.now() + 6

    def alive():
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes() and ") Z " not in (folder / "stat").read_text():
                    found.append(folder.name)
            except OSError:
                pass
        return found

    assert str(process) in alive()
    while alive() and patience.now() < limit:
        time.sleep(0.1)
    assert alive() == []


def state_of(process):
    """The letter of its state; None if there is no such process. A zombie's end is its parent's to see."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
    return None if state in "ZX" else state


def what_stays(folder, *processes):
    """Nothing soon, or what is still there after the limit."""
    def there():
        return [folder] * folder.exists() + [(Path(f"/proc/{p}/cmdline").read_bytes(), state_of(p)) for p in processes if state_of(p)]

    patience.until(lambda: not there())
    return there()


def test_the_folder_goes_with_a_killed_kernel():
    k = Kernel()
    folder = reaper_of(k)[1]
    assert folder.exists()
    os.kill(k.process, signal.SIGKILL)
    assert what_stays(folder) == []
    k.close(now=True)


def reaper_of(kernel):
    """The supervisor's parent, and the session's folder."""
    reaper = next(p for p in children(kernel.process) if b"kolo-worker" in Path(f"/proc/{p}/cmdline").read_bytes())
    return int(reaper), Path(Path(f"/proc/{reaper}/cmdline").read_bytes().split(b"\0")[2].decode())


def kill_all(*processes):
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):  # the reaper lets a stopped supervisor go on: it may have ended by itself
            os.kill(process, signal.SIGKILL)


def test_kernel_and_supervisor_killed_together():
    k = Kernel()
    k.run(INCLUDES)
    child = int(k.run('int born = fork();\nif (born == 0) { setsid(); if (fork()) _exit(0); setsid(); for (;;) pause(); }\nborn').value)
    reaper, folder = reaper_of(k)
    supervisor = int(children(reaper)[0])
    assert patience.until(lambda: len([p for p in children(supervisor) if int(p) != child]) == 2)
    orphans = [int(p) for p in children(supervisor) if int(p) != child]  # the worker, and the child's child
    kill_all(k.process, supervisor)
    assert what_stays(folder, reaper, *orphans) == []
    k.close(now=True)


def test_the_folder_goes_though_a_compiler_still_writes_there():
    """A clang that waits for a cell compiles nothing into the folder when its kernel is killed."""
    k = Kernel()
    reaper, folder = reaper_of(k)
    late = subprocess.Popen(["timeout", "0.5", "sh", "-c", f"while : > {folder}/late; do :; done 2>&-"])
    assert patience.until(lambda: (folder / "late").exists())
    kill_all(k.process, int(children(reaper)[0]))
    assert what_stays(folder, reaper) == []
    late.wait()
    k.close(now=True)


def test_the_next_kernel_sweeps_up_what_a_killed_kernel_and_its_supervisors_left():
    k = Kernel()
    reaper, folder = reaper_of(k)
    kill_all(k.process, reaper, int(children(reaper)[0]))
    time.sleep(0.5)
    k.close(now=True)
    k = Kernel()  # a kernel that another test has started meanwhile may have been the next one
    assert not folder.exists() and reaper_of(k)[1].exists()
    k.close()


def test_an_update_is_seen_where_it_is_made(kernel):
    kinds = [kind for kind, _ in kernel.run('#include <kolo.h>\nkolo_update_display("a", "text/plain", "1"); '
                                            'kolo_update_display("a", "text/plain", "2");').displays]
    assert kinds == ["display_data", "update_display_data"]
    outcome = kernel.run('kolo_update_display("a", "text/plain", "3"); kolo_clear_output(true); kolo_update_display("a", "text/plain", "4");')
    assert [kind for kind, _ in outcome.displays] == ["display_data", "display_data"]


def test_idle_display_clients_are_in_nobodys_way(kernel):
    outcome = kernel.run("#include <sys/socket.h>\n#include <sys/un.h>\nint idle[300];\nfor (int i = 0; i < 300; i++) {\n"
                         "    struct sockaddr_un to = {.sun_family = AF_UNIX};\n    strcpy(to.sun_path, getenv(\"KOLO_DISPLAY\"));\n"
                         "    idle[i] = socket(AF_UNIX, SOCK_STREAM, 0);\n    connect(idle[i], (struct sockaddr *)&to, sizeof to);\n}\n"
                         "write(idle[299], \"\\x40\\0\\0\\0{half\", 9);\n"
                         "#include <kolo.h>\nkolo_display(\"text/plain\", \"seen\");")
    assert outcome.seconds < 3 and outcome.displays[0][1]["data"] == {"text/plain": "seen"}


@pytest.mark.skipif(not (BUILD / "bin" / "kolorun").exists(), reason="kolorun is not built")
def test_a_rank_that_reads_asks_the_front_end(kernel):
    outcome = kernel.run("%%run -np 2\n#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v)\n{\n    int rank, a = 0, b = 0;\n"
                         "    MPI_Init(&c, &v);\n    MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n"
                         '    if (rank == 0) { scanf("%d", &a); scanf("%d", &b); printf("sum %d\\n", a + b); }\n    return MPI_Finalize();\n}',
                         answers=["40", "2"], timeout=30)
    assert outcome.status == "ok" and "sum 42" in outcome.stdout


def test_a_pipeline_that_waits_for_itself_asks_nobody(kernel):
    assert kernel.run("!sleep 1 | cat; echo done", allow_stdin=True).stdout == "done\n"


def segments_of(kernel):
    environment = Path(f"/proc/{kernel.run('getpid()', silent=False).value}/environ").read_bytes()
    return Path(kernel.run('getenv("KOLORUN_SEGMENTS")').value.strip('"')), environment


def test_a_killed_process_leaves_nothing_of_mpi():
    k = Kernel()
    k.run(INCLUDES + "\n#include <mpi.h>")
    folder, _ = segments_of(k)
    assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700
    assert k.run('MPI_Init(NULL, NULL); getenv("OMPI_MCA_btl_vader_backing_directory") == NULL').value == "1"
    k.run("raise(SIGKILL);")
    assert not list(folder.iterdir())
    k.run("MPI_Init(NULL, NULL);")
    os.kill(k.process, signal.SIGKILL)
    assert what_stays(folder) == []
    k.close(now=True)


def test_a_session_whose_supervisor_was_killed_last_leaves_nothing():
    k = Kernel()
    k.run(INCLUDES + "\n#include <mpi.h>")
    folder, _ = segments_of(k)
    assert k.run("MPI_Init(NULL, NULL); kill(getppid(), SIGKILL); sleep(1);").status == "error"
    reaper, session = reaper_of(k)
    os.kill(int(children(reaper)[0]), signal.SIGKILL)
    time.sleep(0.3)
    k.close()
    assert not folder.exists() and not session.exists()


def test_a_frame_in_a_header_has_no_empty_line(kernel, tmp_path):
    """Its name is short, and its text is not at hand."""
    (tmp_path / "deep.h").write_text("static __attribute__((noinline)) int deep(int *p)\n{\n    return *p + 1;\n}\n")
    kernel.run(f'#include "{tmp_path}/deep.h"\nint *nowhere = NULL;')
    outcome = kernel.run("int got = 2 + deep(nowhere);")
    said = re.sub(r"\x1b\[[0-9;]*m", "", outcome.error)
    assert "deep.h:3 in deep()" in said and "int got = 2 + deep(nowhere);" in said, said
    assert all(line.strip() for line in said.splitlines()), said
