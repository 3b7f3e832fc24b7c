"""KOLO_BACKEND_VERSION, by which a plugin that was compiled with other headers is refused."""
import re

import pytest

from workshop import ROOT, run

PROGRAM = """
#include <stdio.h>
#include "backend/backend.h"
int main(void) { printf("%u", KOLO_BACKEND_VERSION); }
"""


def version(folder):
    """That of ext/, but for headers that stand in the folder."""
    (folder / "version.c").write_text(PROGRAM)
    built = run(["gcc", "-std=c17", "-D_GNU_SOURCE", f"-I{folder}", f"-I{ROOT}/ext/include", f"-I{ROOT}/ext",
                 folder / "version.c", "-o", folder / "version"])
    assert built.returncode == 0, built.stderr
    return int(run([folder / "version"]).stdout)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return version(tmp_path_factory.mktemp("own"))


@pytest.mark.parametrize("header, before, after", [
    ("backend/step_parameters.h", r"typedef struct kolo_step_parameters {", r"\g<0> double more;"),
    ("backend/stream.h", r"int steps_ahead;", r"\g<0> void (*more)(void);"),
    ("backend/update.h", r"bool packs;", r"\g<0> void (*more)(void);"),
    ("backend/update.h", r"int span_count;", r"\g<0> double more;"),
    ("backend/backend.h", r"double loss_scale;", r"\g<0> double more;"),
    ("backend/backend.h", r"const char \*name;", r"\g<0> void (*more)(void);"),
    ("backend/device_information.h", r"typedef struct kolo_device_information {", r"\g<0> void (*more)(void);"),
    ("plan/plan.h", r"typedef struct kolo_value {", r"\g<0> double more;"),
    ("plan/plan.h", r"typedef struct kolo_op {", r"\g<0> double more;"),
    ("plan/plan.h", r"typedef struct kolo_plan {", r"\g<0> double more;"),
    ("plan/plan.h", r"X\(MULTIPLY,", r"X(MULTIPLIED,"),
])
def test_plugins_of_other_headers_are_of_another_version(tmp_path, own, header, before, after):
    text, changes = re.subn(before, after, (ROOT / "ext" / header).read_text(), count=1)
    assert changes == 1
    (tmp_path / header).parent.mkdir()
    (tmp_path / header).write_text(text)
    assert version(tmp_path) != own
