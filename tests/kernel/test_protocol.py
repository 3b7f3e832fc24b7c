"""Jupyter's own tests of a kernel, every part that they define and that a protocol 5.3 kernel has."""
import unittest

import jupyter_kernel_test
import pytest
from kernel import driver

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
    assert "guard" not in page and "int _;" not in page
    assert page_at_end(kernel, "kolo_dense").startswith("kolo_dense(units, .option = …)\n")
    assert page_at_end(kernel, "kolo_predict").startswith("kolo_predict(model, data, outputs)\n")


def test_a_type_and_a_constant_show_their_definition_with_comments(kernel):
    assert "bool stopped;            /* ended by" in page_at_end(kernel, "kolo_history")
    page = page_at_end(kernel, "kolo_epoch")
    assert page.startswith("/* What an epoch gave.") and "/* updates */" in page
    page = page_at_end(kernel, "KOLO_RELU")
    assert page.startswith("enum kolo_activation {") and "/* max(0, x) */" in page


@pytest.mark.parametrize("code, first", [
    ("kolo_fit(model, train, ", "kolo_fit(model, data"),
    ("kolo_dense(10, .act", "kolo_dense(units"),
    ("kolo_sequential(kolo_input(3), kolo_dense(", "kolo_dense(units"),
    ('printf("(%d) ", ', "extern int printf("),
    ("kolo_fit(nobody_knows(1, ", "kolo_fit(model, data"),
])
def test_help_among_the_arguments_is_the_calls(kernel, code, first):
    assert page_at_end(kernel, code).startswith(first)


def test_completion_offers_options_but_not_the_macros_own_members(kernel):
    matches = kernel.ask("complete", "kolo_fit(model, train, .")["matches"]
    assert "epochs" in matches and "guard" not in matches and "_" not in matches


if __name__ == "__main__":
    unittest.main()
