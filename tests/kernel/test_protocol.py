"""Jupyter's own tests of a kernel, every part that they define."""
import unittest

import jupyter_kernel_test
import patience
import pytest
from kernel import driver
from kernel.driver import ROOT, Kernel

driver.use_kernelspec()


class KoloKernelTests(jupyter_kernel_test.KernelTests):
    kernel_name = "kolo"
    language_name = "c"
    file_extension = ".c"
    code_hello_world = '#include <stdio.h>\nprintf("hello, world\\n");'
    code_stderr = '#include <stdio.h>\nfprintf(stderr, "to stderr\\n");'
    completion_samples = [{"text": "unsign", "matches": ["unsigned"]}, {"text": "%lsm", "matches": ["%lsmagic"]}]
    complete_code_samples = ["1", "int x = 1;", "int f(void) {\n  return 1;\n}", "f(1)", "!ls"]
    incomplete_code_samples = ["int f(void) {", "for (int i = 0;", "int x = 1", "/* open", "if (x)", "1 +"]
    invalid_code_samples = ["}", ") x;"]
    code_page_something = "?%time"
    code_generate_error = "int x = nothing_has_this_name;"
    code_execute_result = [{"code": "98765", "result": "98765"}, {"code": '"text"', "result": '"text"'}]
    code_display_data = [{"code": '#include <kolo.h>\nkolo_display("text/html", "<b>shown</b>");', "mime": "text/html"}]
    code_history_pattern = "*98765*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "strlen"
    code_clear_output = "#include <kolo.h>\nkolo_clear_output(false);"

    def test_inspect(self):
        self.flush_channels()
        self.execute_helper("#include <string.h>")
        super().test_inspect()


class KoloWelcomeTests(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "kolo"
    support_iopub_welcome = True


def test_the_kernel_says_its_version(kernel):
    version = kernel.ask("kernel_info")["implementation_version"]
    assert f'#define KOLO_VERSION "{version}"' in (ROOT / "ext/include/kolo.h").read_text()


@pytest.fixture(scope="module")
def kernel():
    k = driver.Kernel()
    k.run("#include <kolo.h>\n#include <stdio.h>")
    yield k
    k.close()


def page_at_end(kernel, code):
    """What Shift-Tab shows behind `code`."""
    return kernel.ask("inspect", code, len(code))["data"].get("text/plain", "")


def test_a_call_shows_its_arguments_and_options(kernel):
    page = page_at_end(kernel, "kolo_fit")
    assert page.splitlines()[0] == "kolo_fit(model, data, .option = …)"
    assert "\n\n\n" not in page and "int epochs; " in page and "/* default 1 */" in page
    assert "guard" not in page and "int _;" not in page and "*_;" not in page
    assert page_at_end(kernel, "kolo_dense").startswith("kolo_dense(units, .option = …)\n")
    assert page_at_end(kernel, "kolo_predict").startswith("kolo_predict(model, data, outputs)\n")


def test_a_type_and_a_constant_show_their_definition_with_comments(kernel):
    assert "bool stopped;            /* ended by" in page_at_end(kernel, "kolo_history")
    page = page_at_end(kernel, "kolo_epoch")
    assert page.startswith("typedef struct kolo_epoch {") and "\n\nThe results of an epoch." in page and "/* updates */" in page
    page = page_at_end(kernel, "KOLO_RELU")
    assert page.startswith("KOLO_RELU = ") and "\n\nmax(0, x)\n" in page and "enum kolo_activation {" in page


@pytest.mark.parametrize("code, first", [
    ("kolo_fit(model, train, ", "kolo_fit(model, data"),
    ("kolo_dense(10, .act", "kolo_dense(units"),
    ("kolo_sequential(kolo_input(3), kolo_dense(", "kolo_dense(units"),
    ('printf("(%d) ", ', "int printf("),
    ("kolo_fit(nobody_knows(1, ", "kolo_fit(model, data"),
])
def test_help_among_the_arguments_is_the_calls(kernel, code, first):
    assert page_at_end(kernel, code).startswith(first)


def test_completion_offers_options_but_not_the_macros_own_members(kernel):
    matches = kernel.ask("complete", "kolo_fit(model, train, .")["matches"]
    assert "epochs" in matches and "guard" not in matches and "_" not in matches


# ---- user_expressions, silent, store_history, stop_on_error ----

def test_user_expressions_are_evaluated_after_the_cell(kernel):
    asked = {"sum": "seen + 1", "text": '"t"', "list": "(int[]){1, 2}", "wrong": "nope", "fault": "*(int *)0", "void": "(void)0",
             "many": "1; 2"}
    outcome = kernel.run("int seen = 41;", user_expressions=asked)
    answers = outcome.reply["user_expressions"]
    assert answers["sum"] == {"status": "ok", "data": {"text/plain": "42"}, "metadata": {}}
    assert answers["text"]["data"] == {"text/plain": '"t"'} and answers["list"]["data"] == {"text/plain": "{1, 2}"}
    assert answers["wrong"]["status"] == "error" and "nope" in answers["wrong"]["evalue"] and answers["wrong"]["traceback"]
    assert answers["fault"]["status"] == "error" and answers["fault"]["ename"] == "Segmentation fault"
    assert answers["void"]["data"] == {"text/plain": ""} and answers["many"]["status"] == "error"
    assert not outcome.results and not outcome.errors and not outcome.stderr
    assert "user_expressions" not in kernel.run("seen;\nnope", user_expressions={"a": "seen"}).reply
    assert kernel.run("seen", silent=True, user_expressions={"a": "seen"}).reply["user_expressions"]["a"]["status"] == "ok"


def test_silent_and_unstored_cells_do_not_count(kernel):
    count = kernel.run("seen;").reply["execution_count"]
    silent = kernel.run('printf("nobody hears\\n"); seen', silent=True)
    assert silent.status == "ok" and silent.stdout == "" and not silent.results
    assert {kind for kind, _ in silent.messages} <= {"status"}
    unstored = kernel.run("seen", store_history=False)
    assert unstored.value == "41" and unstored.reply["execution_count"] == count
    outcome = kernel.run("seen")
    numbers = [content["execution_count"] for kind, content in outcome.messages if kind in ("execute_input", "execute_result")]
    assert numbers == [count + 1, count + 1] and outcome.reply["execution_count"] == count + 1
    assert kernel.run("nope").reply["execution_count"] == count + 2
    entries = kernel.ask("history", hist_access_type="tail", n=3)["history"]
    assert [line for _, line, _ in entries] == [count, count + 1, count + 2] and entries[-1][2] == "nope"


def replies(kernel, *requests):
    """Sends them all at once; their replies in order."""
    sent = [kernel.client.execute(code, **options) for code, options in requests]
    return [kernel._reply(request) for request in sent]


FAILS_WHEN_TOLD = "getchar(); *(volatile int *)0 = 1;"


def queue_behind_a_failing_cell(kernel, *codes, **options):
    """What was sent, the failing cell first, which runs until the others are there."""
    sent = [kernel.client.execute(FAILS_WHEN_TOLD, allow_stdin=True, **options)]
    patience.message(kernel.client.get_stdin_msg, 30)
    sent += [kernel.client.execute(code) for code in codes]
    kernel.client.input("now")
    return sent


def test_stop_on_error_aborts_what_is_queued_and_false_does_not(kernel):
    kernel.run("int ran = 0;")
    sent = queue_behind_a_failing_cell(kernel, "ran++;", "ran++;", stop_on_error=True)
    assert [kernel._reply(request)["status"] for request in sent] == ["error", "aborted", "aborted"]
    assert kernel.run("ran").value == "0"
    got = replies(kernel, ("nope", {"stop_on_error": False}), ("ran++;", {}), ("ran++;", {}))
    assert [one["status"] for one in got] == ["error", "ok", "ok"]
    assert kernel.run("ran").value == "2"


# ---- history ----

def history(kernel, **request):
    reply = kernel.ask("history", **request)
    assert reply["status"] == "ok"
    return reply["history"]


def test_history_has_inputs_outputs_and_sessions(tmp_path):
    data = str(tmp_path)
    first, second = Kernel(XDG_DATA_HOME=data), Kernel(XDG_DATA_HOME=data)
    first.run("int a = 1;"), first.run("a + 1"), first.run("a + 1")
    second.run('printf("no value");'), second.run("7 * 6")
    one, two = history(first, hist_access_type="range", session=0)[0][0], history(second, hist_access_type="range", session=0)[0][0]
    assert one != two
    assert history(first, hist_access_type="range", session=0, start=1, stop=3, output=True) == [
        [one, 1, ["int a = 1;", None]], [one, 2, ["a + 1", "2"]]]
    assert history(first, hist_access_type="range", session=two, start=2) == [[two, 2, "7 * 6"]]
    first.close(), second.close()
    third = Kernel(XDG_DATA_HOME=data)
    third.run("a * 0;")
    assert [entry[2] for entry in history(third, hist_access_type="range", session=-1)] == ['printf("no value");', "7 * 6"]
    assert history(third, hist_access_type="tail", n=2)[0] == [two, 2, "7 * 6"]
    assert [entry[1] for entry in history(third, hist_access_type="search", pattern="a + ?")] == [2, 3]
    assert [entry[1] for entry in history(third, hist_access_type="search", pattern="a*", unique=True)] == [3, 1]
    assert [entry[2] for entry in history(third, hist_access_type="search", pattern="*", n=1)] == ["a * 0;"]
    third.close()


@pytest.mark.parametrize("content", [b'[1, 1, "kept"]\nrubbish\n[2]\n\xff\xfe\n{"a": 1}\n[99999999999999999999, 1, "x"]\n[3, 1, "cut of', b"", b"\0" * 5000])
def test_a_corrupt_history_costs_nothing(tmp_path, content):
    (tmp_path / "kolo").mkdir()
    (tmp_path / "kolo" / "history.jsonl").write_bytes(content)
    k = Kernel(XDG_DATA_HOME=str(tmp_path))
    assert k.run("6 * 7").value == "42"
    entries = history(k, hist_access_type="tail", n=10)
    assert entries[-1][2] == "6 * 7" and (b"kept" not in content or entries[0] == [1, 1, "kept"])
    k.close()


def test_an_unwritable_history_costs_nothing(tmp_path):
    (tmp_path / "kolo").mkdir()
    (tmp_path / "kolo" / "history.jsonl").mkdir()
    k = Kernel(XDG_DATA_HOME=str(tmp_path))
    assert k.run("6 * 7").value == "42"
    assert [entry[2] for entry in history(k, hist_access_type="tail", n=10)] == ["6 * 7"]
    k.close()


if __name__ == "__main__":
    unittest.main()


def test_an_aborted_cell_is_busy_and_idle_as_any_other(kernel):
    sent = queue_behind_a_failing_cell(kernel, "1;", "2;")
    states = {request: [] for request in sent}
    while any(said[-1:] != ["idle"] for said in states.values()):
        message = patience.message(kernel.client.get_iopub_msg, 10)
        if message["msg_type"] == "status" and message["parent_header"].get("msg_id") in states:
            states[message["parent_header"]["msg_id"]].append(message["content"]["execution_state"])
    assert list(states.values()) == [["busy", "idle"]] * 3
    assert [kernel._reply(request)["status"] for request in sent] == ["error", "aborted", "aborted"]
    assert kernel.run("1").value == "1"
