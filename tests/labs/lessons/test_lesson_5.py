"""Lesson 5's exercises: right answers pass, and wrong ones get the sentence that names the mistake."""
import json
import os

import pytest
from kernel.driver import Kernel

from labs.notebooks import ROOT, read

LESSON, SOLUTION = "labs/5.Feeding-the-Devices.ipynb", "labs/solutions/5.Feeding-the-Devices.ipynb"
PUT = "bool put(lesson_5_queue *q, int batch) {{ {} }}\n"
GET = "bool get(lesson_5_queue *q, int *batch) {{ {} }}\n"
FULL, EMPTY = "if (q->count == QUEUE_CAPACITY) return false;", "if (q->count == 0) return false;"
ADD = "q->batch[(q->first + q->count++) % QUEUE_CAPACITY] = batch; return true;"
TAKE = "*batch = q->batch[q->first]; q->first = (q->first + 1) % QUEUE_CAPACITY; q->count--; return true;"

QUEUES = {
    "a stack": (FULL + "q->batch[q->count++] = batch; return true;",
                EMPTY + "*batch = q->batch[--q->count]; return true;", "this is a stack"),
    "a full queue": (ADD, EMPTY + TAKE, "Expected false from put() on a full queue, got true. It overwrites"),
    "no wrap": (FULL + "q->batch[q->first + q->count++] = batch; return true;", EMPTY + TAKE,
                "written behind the end of batch[]"),
    "one too few": ("if (q->count == QUEUE_CAPACITY - 1) return false;" + ADD, EMPTY + TAKE, "one batch too few"),
    "an empty queue": (FULL + ADD, TAKE, "Expected false from get() on an empty queue"),
    "nothing removed": (FULL + ADD, EMPTY + "*batch = q->batch[q->first]; return true;", "It came before: get() must remove"),
    "count forgotten": (FULL + ADD, EMPTY + "*batch = q->batch[q->first]; q->first = (q->first + 1) % QUEUE_CAPACITY; "
                        "return true;", "look at `count` first, and lower it"),
    "two places": (FULL + "q->batch[q->count++] = batch; return true;", EMPTY + TAKE, "Expected batch"),
}

SERVE = """%%ranks
void serve(float *weights, int count, int pushes, float rate)
{{
    float *gradient = calloc(count, sizeof *gradient);
    kolo_message sender;
    for (int i = 0; i < pushes; i++) {{ {} }}
    free(gradient);
}}
"""
WORK = """%%ranks
void work(float *weights, int count, int pushes)
{{
    float *gradient = calloc(count, sizeof *gradient);
    for (int i = 0; i < pushes; i++) {{ {} }}
    free(gradient);
}}
"""
RECEIVE = "kolo_receive(gradient, count, .from = KOLO_ANY_RANK, .message = &sender);"
UPDATE = "for (int k = 0; k < count; k++) weights[k] -= rate * gradient[k];"
ANSWER = "kolo_send(weights, count, .to = sender.from);"
SERVER = RECEIVE + UPDATE + ANSWER
WORKER = "compute_gradient(weights, gradient, count); kolo_send(gradient, count, .to = 0); kolo_receive(weights, count, .from = 0);"
IN_TURN = RECEIVE.replace("KOLO_ANY_RANK", "1 + i % (kolo_size() - 1)")

SERVERS = {
    "the skeleton": ("", "", "work() is the skeleton"),
    "upwards": (RECEIVE + UPDATE.replace("-=", "+=") + ANSWER, WORKER, "moved along the gradient"),
    "answers first": (RECEIVE + ANSWER + UPDATE, WORKER, "second gradient at old weights"),
    "divides by the workers": (RECEIVE + UPDATE.replace("rate", "rate / (kolo_size() - 1)") + ANSWER, WORKER,
                               "multiplied or divided besides"),
    "in turn": (IN_TURN + UPDATE + ANSWER, WORKER, "waits for one certain rank while another one sends"),
    "never updates": (RECEIVE + ANSWER, WORKER, "second gradient at old weights"),
    "never receives": (SERVER, WORKER.split("kolo_receive")[0], "second gradient at old weights"),
    "one gradient": (SERVER, WORKER.replace("compute", "if (i == 0) compute"), "must compute `pushes` gradients"),
    "skips the rate": (RECEIVE + UPDATE.replace("rate * ", "") + ANSWER, WORKER, "not rate times the gradient"),
    "the first element": (RECEIVE + UPDATE.replace("k < count", "k < count - 1") + ANSWER, WORKER, "lack updates of some"),
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """In a folder beside the headers, as the notebook is."""
    folder, before = tmp_path_factory.mktemp("lesson_5"), os.getcwd()
    (folder / "course").symlink_to(ROOT / "labs/course")
    os.chdir(folder)
    kernel = Kernel(KOLO_PROGRESS=str(folder / "progress.json"), KOLO_STALL_LIMIT="20", KOLO_THREADS="1")
    os.chdir(before)
    header = '#include "course/course.h"\n#include "course/lesson_5.h"\n'
    for code in header + 'printf("here");', "%ranks 3", "%%ranks\n" + header + "kolo_init(NULL, NULL);":
        assert kernel.run(code).error == ""
    yield kernel
    kernel.close()


def check_queue(kernel, put, get):
    outcome = kernel.run(PUT.format(put) + GET.format(get) + "lesson_5_check_queue(put, get);")
    assert outcome.error == "", outcome.error
    return outcome.stdout


@pytest.mark.parametrize("name", QUEUES)
def test_a_wrong_queue(kernel, name):
    put, get, said = QUEUES[name]
    out = check_queue(kernel, put, get)
    assert out.startswith("Exercise 5.a: not yet.") and said in out, out


def test_a_right_queue(kernel):
    assert check_queue(kernel, FULL + ADD, EMPTY + TAKE) == "Exercise 5.a: passed.\n"
    last = "q->batch[(q->first + QUEUE_CAPACITY - q->count++) % QUEUE_CAPACITY] = batch; return true;"
    take = "*batch = q->batch[q->first]; q->first = (q->first + QUEUE_CAPACITY - 1) % QUEUE_CAPACITY; return q->count-- > 0;"
    assert check_queue(kernel, FULL + last, EMPTY + take) == "Exercise 5.a: passed.\n", "the other way round the array"
    shift = "*batch = q->batch[0]; memmove(q->batch, q->batch + 1, --q->count * sizeof(int)); return true;"
    assert check_queue(kernel, FULL + "q->batch[q->count++] = batch; return true;",
                       EMPTY + shift) == "Exercise 5.a: passed.\n", "the batches move up"
    take = "*batch = q->batch[q->first++ % QUEUE_CAPACITY]; q->count--; return true;"
    assert check_queue(kernel, FULL + ADD, EMPTY + take) == "Exercise 5.a: passed.\n", "`first` counts on"


def check_server(kernel, serve, work):
    for code in SERVE.format(serve), WORK.format(work):
        assert kernel.run(code).error == ""
    outcome = kernel.run("%%ranks\nlesson_5_check_server(serve, work);")
    assert outcome.error == "", outcome.error
    return outcome.stdout


@pytest.mark.parametrize("name", SERVERS)
def test_a_wrong_server(kernel, name):
    serve, work, said = SERVERS[name]
    out = check_server(kernel, serve, work)
    assert out.startswith("[0] Exercise 5.b: not yet.") and said in out, out


def test_a_right_server(kernel):
    """Also after wrong ones, whose messages are gone."""
    assert check_server(kernel, SERVER, WORKER) == "[0] Exercise 5.b: passed.\n"
    poll = ("int from = 1; while (!kolo_probe(from)) from = from % (kolo_size() - 1) + 1;"
            "kolo_receive(gradient, count, .from = from);")
    assert check_server(kernel, poll + UPDATE + ANSWER.replace("sender.from", "from"), WORKER) == "[0] Exercise 5.b: passed.\n"


def test_a_training_that_was_stopped_has_no_curve(kernel):
    """The seconds until the stop would look like those of a fast one."""
    outcome = kernel.run("kolo_epoch epoch = {.steps = 5, .loss = 2, .seconds = 3};\n"
                         "kolo_history h = {.epochs = 1, .epoch = &epoch}; lesson_5_curve whole = lesson_5_curve_of(&h);\n"
                         "h.stopped = true; lesson_5_curve part = lesson_5_curve_of(&h); recorded_order none = {.workers = 4};\n"
                         'lesson_5_curve_row("a", &whole); lesson_5_curve_row("b", &part);\n'
                         'printf("%g %g %g\\n", lesson_5_total(&whole), lesson_5_total(&part), order_shares(&none));')
    rows = outcome.stdout.splitlines()
    assert "3.00 s      5 updates" in rows[0] and "was stopped: run this cell again" in rows[1], outcome.error
    assert rows[2:] == ["3 nan nan"]


EVENTS = [(1005, "forward", 1), (1005, "step", 4), (1005, "input", 1), (1001, "input", 3), (1006, "input", 4), (1006, "step", 9)]


def test_the_input_of_other_threads_is_no_bubble(kernel, tmp_path):
    """A timeline numbers its rows from 1001."""
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [{"tid": t, "cat": c, "dur": d} for t, c, d in EVENTS]}))
    assert kernel.run(f'lesson_5_bubbles("queue", "{trace}");').stdout.endswith(" 25 % of the devices' time is input\n")


def test_the_fastest_way_is_read(kernel, tmp_path):
    table = tmp_path / "ways.txt"
    table.write_text("batches of 32 images on 4 devices, 2 threads; waiting in milliseconds a step\n"
                     + "".join(f"{name:28}{rate:8} {speed_up:8}\n" for name, rate, speed_up in
                               (("one device", 246, 9), ("kuza55 make_parallel", 227, 0.93), ("kolo_mirrored()", 397, 1.62))))
    assert kernel.run(f'printf("%g", lesson_5_fastest("{table}"));').stdout == "1.62"
    assert "Run the cell that writes it first" in kernel.run('printf("%g", lesson_5_fastest("none.txt"));').stdout


def test_the_notebook_has_the_answers_blank_and_the_solution_has_them():
    lesson, solution = ("\n".join(cell.source for cell in read(name).code) for name in (LESSON, SOLUTION))
    assert lesson.count("/* your lines") == 4 and "your lines" not in solution


def test_no_hint_prints_the_solution(kernel):
    kernel.run("lesson_5_begin();")
    said = "".join(kernel.run(f'course_hint("5.{letter}");').stdout for letter in "ab" for _ in range(3))
    assert said.count("Hint") == 6
    for line in "kolo_receive(gradient", "kolo_send(weights", "% QUEUE_CAPACITY]", "-= rate":
        assert line not in said


def test_the_quiz_takes_its_answers(kernel):
    said = kernel.run('course_quiz("5", lesson_5_questions); course_answers("5", "bccbb");').stdout
    assert said.endswith("5 of 5 right: the quiz is passed.\n")
