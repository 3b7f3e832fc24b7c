"""Magics: what they print, change and answer wrong words with."""
import json
import re

import pytest
from kernel.driver import Kernel


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    k.run("#include <stdio.h>\n#include <math.h>\n#include <unistd.h>\n"
          "int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\ndouble x = 2.5; int q = 1, called = 0;")
    yield k
    k.close()


LINE = re.compile(r"([\d.e+]+) (s|ms|µs|ns) ± ([\d.e+]+) (s|ms|µs|ns) per loop \(mean ± std\. dev\. of (\d+) runs?, ([\d,]+) loops? each\)\n$")
SCALE = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def timing(outcome):
    found = LINE.search(outcome.stdout)
    assert found, outcome.stdout + outcome.error
    return float(found[1]) * SCALE[found[2]], int(found[5]), int(found[6].replace(",", ""))


def test_timeit_measures_a_statement(kernel):
    mean, runs, loops = timing(kernel.run("%timeit -n 20 -r 3 usleep(1000)"))
    assert mean > 1e-3 and (runs, loops) == (3, 20)
    assert timing(kernel.run("%timeit -n 2 -r 1 called++"))[0] < mean and kernel.run("called").value == "2"
    assert timing(kernel.run("%timeit -n3 -r1 x += 1;"))[1:] == (1, 3)
    assert kernel.run("x").value == "5.5"
    assert kernel.run("%timeit -n 2 -r 2 -q x += 1;").stdout == ""


def test_timeit_finds_the_number_of_loops_and_computes_each_time(kernel):
    short, runs, loops = timing(kernel.run("%timeit fib(5)"))
    assert runs == 7 and loops >= 1000 and loops * short > 0.05
    long, _, _ = timing(kernel.run("%timeit -r 1 fib(20)"))
    assert long > 100 * short > 100e-9 * 0.05


def test_timeit_of_a_cell_has_a_setup_that_is_not_measured(kernel):
    """It would add a quarter of a second to each loop."""
    code = "%%timeit -n 2 -r 2 usleep(500000); int local = 3;\ncalled += local;\n// a comment"
    assert timing(kernel.run(code))[0] < 0.2 and kernel.run("called").value == "14"
    assert "undeclared" in kernel.run("local").error


@pytest.mark.parametrize("code, line", [("int u = 1;\n  %timeit nope + 1", "2:11"), ("%%timeit\n\n  nope + 1", "3:3"), ("q;\n%time nope", "2:7"),
                                        ("%timeit nope /*", "1:"), ("%timeit nope(", "1:"), ("%timeit nope }", "1:"), ("%%timeit\nif (nope) {", "2:")])
def test_mistakes_in_measured_code_have_their_place(kernel, code, line):
    error = kernel.run(code).error
    assert f"]:{line}" in error and "nope" in error and "kolo_" not in error


def test_timeit_is_interrupted_and_a_fault_in_it_is_said(kernel):
    outcome = kernel.run("%timeit -n 100000000 -r 1000 fib(25)", interrupt_after=0.5)
    assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and outcome.seconds < 1.5
    assert "Segmentation fault" in kernel.run("%timeit *(int *)0").error
    assert kernel.run("q").value == "1"


def test_time_says_processor_and_wall_time_without_compiling(kernel):
    lines = kernel.run("%time usleep(20000);").stdout.splitlines()
    assert lines[0].startswith("CPU times: user ") and ", total: " in lines[0]
    assert float(re.fullmatch(r"Wall time: ([\d.]+) ms", lines[1])[1]) >= 20
    outcome = kernel.run("%%time\nint timed_value = 3;\n%pwd\n!echo hi\ntimed_value")
    assert outcome.value == "3" and "hi\nCPU times" in outcome.stdout


WRONG = ["%time", "%timeit", "%timeit -n x 1", "%timeit -r 0 1", "%timeit -z 3", "%ranks 4 4", "%what_if", "%load", "%load -r", "%%writefile\nx", "%%writefile -b f\nx", "%who stuff",
         "%pwd there", "%lsmagic now", "%restart -x", "%reset -q", "%env 9=3", "%env -u", "%cflags --remove", "%%sh -x\nls", "%%sh", "%run", "%run -x", "%history x", "%history 3-2", "%history -l 3 2"]


@pytest.mark.parametrize("code", WRONG)
def test_wrong_words_are_answered_with_the_usage(kernel, code):
    outcome = kernel.run(code)
    name = re.match(r"%+\w+", code)[0]
    assert outcome.errors[0]["ename"] == "UsageError" and outcome.errors[0]["evalue"].startswith(f"wanted {name}")


@pytest.mark.parametrize("code, said", [
    ("%", "a magic's name"), ("%%", "a magic's name"), ("%%time", "the cell is empty"), ("%tim fib(1)", "nearest is %time "),
    ("%frobnicate", "there is no %frobnicate (%lsmagic lists"), ("%matplotlib inline", "there is no %matplotlib here: pictures need no setup"),
    ("%hist", "%history prints the cells of this session"), ("%ls -l", "as in !ls"), ("%%python\n1", "!python FILE"),
    ("%run x.c", "x.c cannot be read: No such file"), ("%histry?", "there is no %histry"), ("%who int", "variable, function, type or macro for KIND"),
    ("%%timeit\n%%run\nint main(void) {}", "%%time can stand above"),
    ("%%writefil f\nx", "nearest is %%writefile "), ("%sh ls", "write %%sh"), ("%%cd /", "one %"),
    ("%cflags -fnosuchflag", "%cflags: unknown argument: '-fnosuchflag'"), ("%cflags -Wnosuch", "unknown warning option '-Wnosuch'"),
    ("%cflags -std=c99999", "invalid value 'c99999'"), ("%cflags --remove -DNONE", "no -DNONE to remove"),
    ("%ldflags -lnosuch", "cannot find -lnosuch"), ("%env NOT_THERE", "no NOT_THERE"), ("%cd /not/there", "No such file or directory"),
    ("%load /not/there", "/not/there cannot be read: No such file"), ("%load https://a.b/c.c", "!curl -O https://a.b/c.c"),
    ("%load -r x /etc/passwd", "wanted lines as in -r 2-5,8"), ("%%writefile /not/there/x\n", "cannot be written: No such file"),
    ("%%sh\nexit 3", "status 3"), ("%what_if /not/there.json", "/not/there.json: wanted a file to read, got: No such file"),
    ("%what_if /etc/passwd", "/etc/passwd, line 1: wanted a timeline"), ("%what_if x.json devices=1,0", 'devices=: wanted 1,2,4,8'),
    ("%what_if x.json overlap=maybe", 'overlap=: wanted on|off'), ("%what_if x.json machin=dgx-1v", 'machine=, network=, hosts='),
    ("%what_if x.json batch=0", ".batch: wanted 1 to 1e15, got 0"), ("%%what_if x.json\n1", "one %"),
])
def test_mistakes_are_one_sentence(kernel, code, said):
    outcome = kernel.run(code)
    assert outcome.status == "error" and said in outcome.errors[0]["evalue"]
    assert kernel.run("q").value == "1"


def test_other_names_of_cell_magics(kernel, tmp_path):
    assert kernel.run("%%bash\necho bashed").stdout == "bashed\n"
    kernel.run(f"%%file {tmp_path}/made.txt\nmade")
    assert (tmp_path / "made.txt").read_text() == "made\n" and "shell script" in page_of(kernel.run("%%bash?"))


def page_of(outcome):
    return outcome.reply["payload"][0]["data"]["text/plain"]


def test_time_stands_above_other_cell_magics(kernel):
    outcome = kernel.run("%%time\n%%run\n#include <stdio.h>\nint main(void) { puts(\"timed\"); }")
    assert re.fullmatch(r"timed\nWall time: [\d.]+ m?s\n", outcome.stdout), outcome.stdout + outcome.error
    assert "nope" in kernel.run("%%time\n%%run\nint main(void) { return nope; }").error
    assert timing(kernel.run("int other = 3;\n%timeit -n 2 -r 2 -other - 3"))[1:] == (2, 2)


@pytest.mark.parametrize("words", ["-negated", "-reads", "-negated - 1", "-n[&negated]", "-reads * 2"])
def test_a_minus_before_a_name_is_no_option(kernel, words):
    kernel.run("int negated = 2, reads = 3, n = 0;")
    assert timing(kernel.run(f"%timeit -n 2 -r 3 {words}"))[1:] == (3, 2)


@pytest.mark.parametrize("code, place", [
    ("%%time\n%%time\n\nint b = nope;", "4:9"), ("\n \n%%time\nint b = nope;", "4:9"), ("%%time int b = nope;", "1:16"),
    ("%%time\n\n%%timeit\nint q;\nq = nope;", "5:5"), ("%%time\n%%timeit -n 3 q = nope;\nq++;", "2:19"),
    ("%%time\n%%timeit (q\nq++;", "2"), ("%%time\n%%timeit\nq++;\nq = 3;}", "4:7"),
    ("\n%%run\nint main(void) { return nope; }", "3:25"), ("%%time\n%%run\n\nint main(void) { return nope; }", "4:25"),
    ("%%time\n%time nope", "2:7"), ("%%time\n%%time\n%time nope", "3:7"), ("%%time\n%%time\nq;\n*(volatile int *)0 = 1;", "4"),
])
def test_lines_under_cell_magics_are_the_cells(kernel, code, place):
    assert re.search(rf"In\[\d+\]:{place}\b", kernel.run(code).errors[0]["evalue"])


def test_a_question_stands_below_c(kernel):
    outcome = kernel.run("int asked = 4;\n  asked?\n")
    assert outcome.status == "ok" and "asked" in page_of(outcome) and "4" in page_of(outcome)
    assert "undeclared" in kernel.run("nope;\nasked?").error and kernel.run("asked > 3 ?\n 5 : 6").value == "5"
    assert kernel.ask("is_complete", "int a;\nprintf?")["status"] == "complete"
    assert kernel.run("?").stdout.startswith("NAME? shows help") and kernel.run("?").status == "ok"


def test_the_environment_shows_no_channels_of_the_kernel(kernel):
    shown = kernel.run("%env KOLO_DISPLAY_MODE=mine\n%env").stdout
    assert "KOLO_DISPLAY_MODE=mine\n" in shown and "PATH=" in shown
    assert not re.search("^(KOLO_DISPLAY|KOLO_DISPLAY_TOKEN|KOLO_KERNEL_.*|KOLORUN_SEGMENTS)=", shown, re.M)
    kernel.run("%env -u KOLO_DISPLAY_MODE")


def test_own_flags_come_first(kernel):
    shown = kernel.run("%cflags -DFIRST=1 -isystem /tmp\n%cflags").stdout
    own, built_in = shown.split("\n\n")
    assert own.split() == ["-DFIRST=1", "-isystem", "/tmp"] and "-std=gnu17" in built_in
    assert kernel.run("%cflags --reset\n%cflags").stdout.startswith("-std=gnu17")


def test_odd_spacing_and_mixture(kernel):
    assert kernel.run("% pwd").stdout == kernel.run("  %pwd  ").stdout == kernel.run("!pwd").stdout
    outcome = kernel.run('int a = 1;\n%env MIXED=a b\nprintf("%d %%s\\n", a);\n!echo $MIXED\nif (a) {\n    !echo inside $((a + 1))\n}\n7 % 4')
    assert outcome.stdout == "env: MIXED=a b\n1 %s\na b\ninside 1\n" and outcome.value == "3"
    assert kernel.run("!exit 3").status == "ok"


def test_who_lists_by_kind(kernel):
    kernel.run("#define LIMIT 3\ntypedef struct {\n    int a, b;\n} couple;")
    rows = kernel.run("%who function").stdout.splitlines()
    assert rows == ["function  fib  int fib(int n)"]
    rows = kernel.run("%who").stdout.splitlines()
    assert "macro     LIMIT" in "\n".join(rows) and any(row.split()[:2] == ["type", "couple"] and "a, b;" in row for row in rows)
    assert [row.split()[0] for row in rows] == sorted((row.split()[0] for row in rows), key=["variable", "function", "type", "macro"].index)


def test_folders_and_environment(kernel, tmp_path):
    (tmp_path / "a folder").mkdir()
    start = kernel.run("%pwd").stdout
    assert kernel.run(f"%cd {tmp_path}/a folder").stdout == kernel.run("%pwd").stdout == f"{tmp_path}/a folder\n"
    assert kernel.run("%cd -").stdout == start and kernel.run("%cd -").stdout == f"{tmp_path}/a folder\n"
    assert kernel.run("%cd").stdout == kernel.run("!echo ~").stdout == kernel.run("%cd ~").stdout
    kernel.run(f"%cd {start}")
    assert kernel.run("%env ONE=two\n%env THREE=\"$ONE-${ONE}\"\n!echo $THREE").stdout.endswith("env: THREE=two-two\ntwo-two\n")
    assert kernel.run("%env THREE").stdout == "two-two\n"
    kernel.run("%env -u THREE\n%restart")
    assert kernel.run('!echo "<$ONE><${THREE-none}>"').stdout == "<two><none>\n"


def test_flags_are_added_removed_and_reset(kernel):
    assert kernel.run("%cflags -DFLAGGED=12 -O3\nFLAGGED").value == "12"
    assert "-DFLAGGED=12" in kernel.run("%cflags").stdout
    kernel.run("%cflags --remove -DFLAGGED=12")
    assert "undeclared" in kernel.run("FLAGGED").error
    kernel.run("%cflags -DFLAGGED=1 -Wextra\n%cflags --reset")
    assert not {"-DFLAGGED=1", "-Wextra", "-O3"} & set(kernel.run("%cflags").stdout.split())
    assert kernel.run("%ldflags -lm\n%ldflags").stdout == "-lm\n" and kernel.run("%ldflags --reset\n%ldflags").stdout == ""
    assert kernel.run("%cflags -std=c11\n__STDC_VERSION__").value == "201112"
    kernel.run("%cflags --reset")


def test_openmp_works_where_it_is_asked_for(kernel):
    kernel.run("%cflags -fopenmp\n#include <omp.h>")
    code = "double total(int n) {\n    double t = 0;\n    #pragma omp parallel for reduction(+:t)\n    for (int i = 0; i < n; i++) t += i;\n    return t;\n}\ntotal(1000)"
    assert kernel.run(code).value == "499500.0"
    assert kernel.run("int threads = 0;\n#pragma omp parallel num_threads(3) reduction(+:threads)\n{\n    threads += 1;\n}\nthreads * 10 + omp_in_parallel()").value == "30"
    kernel.run("%cflags --reset")


def test_files_become_cells_and_cells_files(kernel, tmp_path):
    path = tmp_path / "part.c"
    assert kernel.run(f"%%writefile {path}\nint one;\nint two;").stdout == f"Writing {path}\n"
    assert kernel.run(f"%%writefile -a {path}\nint three;\n").stdout == f"Appending to {path}\n"
    assert path.read_text() == "int one;\nint two;\nint three;\n"
    payload, = kernel.run(f"%load {path}").reply["payload"]
    assert payload == {"source": "set_next_input", "replace": True, "text": f"// %load {path}\nint one;\nint two;\nint three;\n"}
    assert kernel.run(f"%load -r 1,3- {path}").reply["payload"][0]["text"].endswith(f"{path}\nint one;\nint three;\n")


def test_every_magic_has_help(kernel):
    for row in kernel.run("%lsmagic").stdout.splitlines()[:-2]:
        name = re.match(r"%+\w+", row)[0]
        page = kernel.run(name + "?").reply["payload"][0]["data"]["text/plain"]
        assert name in page and len(page) > 20


def recorded_steps(steps):
    """A timeline of one rank: 80 ms until the end of the backward pass, 20 ms of the update, 10 samples."""
    spans = []
    for i in range(steps):
        for begin, dur, category, name, arguments in [
                (0, 100, "step", "step", {"step": i, "samples": 10}), (0, 50, "backward", "dense backward", {"microbatch": 0, "bytes": 4_000_000}),
                (50, 30, "backward", "conv2d backward", {"microbatch": 0, "bytes": 1_000_000}), (80, 20, "update", "update", {})]:
            spans.append({"ph": "X", "pid": 1, "tid": 1001, "ts": 1e5 * i + 1e3 * begin, "dur": 1e3 * dur, "cat": category, "name": name,
                          "args": arguments})
    names = [{"ph": "M", "pid": 1, "tid": 1000, "name": "process_name", "args": {"name": "rank 0 (here)", "cores": 2, "threads": 1}},
             {"ph": "M", "pid": 1, "tid": 1001, "name": "thread_name", "args": {"name": "device 0"}}]
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in names + spans)
    return '{"displayTimeUnit":"ms","traceEvents":[\n' + lines + '\n],"otherData":{}}\n'


def test_what_if_shows_modelled_answers(kernel, tmp_path):
    """Two ranks move 5 MB twice at 1 GB/s, 10 ms; steps go with 1 + 90 / batch."""
    (tmp_path / "a trace.json").write_text(recorded_steps(6))
    outcome = kernel.run(f'%cd {tmp_path}\n%what_if "a trace.json" memory=1 devices=1,2 noise_scale=90\n%cd -')
    assert outcome.status == "ok" and not outcome.errors, outcome.error
    table, chart = [content["data"] for _, content in outcome.displays]
    rows = [row.split() for row in table["text/plain"].splitlines()]
    assert all(row[0] == "modelled" for row in rows) and len(rows) == 4
    assert rows[2][1:4] == ["1", "100.000", "100.0"] and rows[3][1:4] == ["2", "110.000", "181.8"] and rows[3][-2:] == ["0.55", "0.605"]
    for title in "modelled samples/s", "modelled step, ms", "modelled to the same accuracy":
        assert title in chart["image/svg+xml"]
    kernel.run("q")


def test_reset_takes_f(kernel):
    assert kernel.run("%reset -f").status == "ok" and "undeclared" in kernel.run("q").error


LAYOUTS = [
    ("struct parcel", ["struct parcel: 24 bytes, aligned to 8\n", "       0        1  char kind\n", "       1        7  (padding)\n",
                       "       8        8  double weight\n", "      16   3 bits  unsigned int flag : 3\n",
                       "    16.3   5 bits  (padding)\n", "      17        2  char tail[2]\n", "      19        5  (padding)\n",
                       "padding: 12 bytes and 5 bits\n"]),
    ("parcels", ["parcels: 48 bytes, aligned to 8\neach element: 24 bytes\n"]),
    ("union either", ["       0        8  double d\n       0        4  struct { … } pair\n"]),
    ("struct holder", ["       4        4  union { … }\n"]),
    ("struct { char a; } *", ["struct { char a; } *: 8 bytes, aligned to 8\n"]),
]


def test_layout(kernel):
    kernel.run("struct parcel { char kind; double weight; unsigned flag : 3; char tail[2]; }; struct parcel parcels[2];\n"
               "union either { double d; struct { short a, b; } pair; }; struct holder { int n; union { int i; float f; }; };")
    for words, rows in LAYOUTS:
        outcome = kernel.run(f"%layout {words}")
        assert all(row in outcome.stdout for row in rows), outcome.stdout + outcome.error
    assert "padding" not in kernel.run("%layout union either").stdout
    for words, sentence in (("parsel", "'parsel' is neither a type nor a variable that is declared here"), ("1); int x = (1", "is neither"),
                            ("void", "the size of 'void' is not known"), ("", "wanted %layout TYPE")):
        assert sentence in kernel.run(f"%layout {words}").error
    kernel.run("\n".join(["#define B0 1 +"] + [f"#define B{i} {f'B{i - 1} ' * 10}" for i in range(1, 9)]))
    assert "expands to too much" in kernel.run("%layout int[B8 1]").error
    for code, match in (("%layout par", "parcels"), ("%layout struct par", "parcel")):
        assert match in kernel.ask("complete", code, len(code))["matches"]
