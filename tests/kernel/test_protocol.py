"""Jupyter's own tests of a kernel, every part that they define and that a protocol 5.3 kernel has."""
import unittest

import jupyter_kernel_test
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


if __name__ == "__main__":
    unittest.main()
