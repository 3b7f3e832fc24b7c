"""What the handler of a fault or an interrupt finds in the worker: locks that the cell or another thread wants, and as
much to tell of the stack as there may be."""
import shutil
import subprocess
import tempfile

import pytest
from kernel.driver import Kernel, check

START = ("#include <pthread.h>\n#include <stdatomic.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
            "int keep = 5;\nvoid *volatile one;")
LOCKED = "glibc.malloc.tcache_count=0"  # each malloc() takes a lock where there are two threads


@pytest.fixture(scope="module")
def kernel():
    k = Kernel(GLIBC_TUNABLES=LOCKED)
    k.run(START)
    yield k
    k.close()


def test_an_interrupt_within_malloc_keeps_the_variables(kernel):
    kernel.run("void *rest(void *p) { for (;;) pause(); return p; }\npthread_t t; pthread_create(&t, NULL, rest, NULL);")
    for moment in range(4):
        outcome = kernel.run("for (;;) { one = malloc(3000); free(one); }", interrupt_after=0.2 + 0.013 * moment)
        assert outcome.errors[0]["ename"] == "KeyboardInterrupt" and "gone" not in outcome.error
    assert kernel.run("keep").value == "5"


def test_a_thread_that_waits_for_a_stream_gets_it_when_a_fault_has_left_it(kernel):
    kernel.run("atomic_int printed;\nvoid *print(void *p) { usleep(200000); puts(\"printed\"); printed = 1; return p; }")
    outcome = kernel.run("pthread_t printer; pthread_create(&printer, NULL, print, NULL);\n"
                         "flockfile(stdout); usleep(400000);\n*(int *)0 = 1;")
    assert outcome.status == "error" and "gone" not in outcome.error
    assert kernel.run("for (int i = 0; i < 1000 && !printed; i++) usleep(10000);\nprinted").value == "1"


@pytest.fixture()
def deep():
    """A folder whose path has nearly the 400 bytes that are told of one."""
    with tempfile.TemporaryDirectory(prefix="deep-") as top:
        folder = f"{top}/{'d' * 180}/{'e' * 170}"
        subprocess.run(["mkdir", "-p", folder], check=True)
        yield folder


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_deep_stack_of_long_names_is_told(kernel, deep):
    name = "f" * 150
    with open(f"{deep}/deep.c", "w") as file:
        file.write(f"int {name}(int n) {{ return n ? {name}(n - 1) + 1 : *(volatile int *)0; }}\n")
    subprocess.run(["cc", "-O0", "-shared", "-fPIC", "-o", f"{deep}/libdeep.so", f"{deep}/deep.c"], check=True)
    assert kernel.run(f'#include <dlfcn.h>\nvoid *deep = dlopen("{deep}/libdeep.so", RTLD_NOW); deep != NULL').value == "1"
    outcome = kernel.run(f'int (*recurse)(int) = dlsym(deep, "{name}");\nrecurse(44)')
    check(outcome, {"error": ["Segmentation fault", "at In[k]:2"], "lost": True})
