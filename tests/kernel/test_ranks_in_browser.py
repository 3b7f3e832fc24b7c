"""%%ranks in JupyterLab: lines as they come, then folded by rank. Each test leaves a picture in the build's screenshots/."""
import pytest
from labs.browser import needs_chromium, notebook_of

pytestmark = [needs_chromium, pytest.mark.long("eight ranks, JupyterLab and a browser")]

CELLS = [
    "#include <mpi.h>\n#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\nint rank;\n%ranks 8",
    '%%ranks\nMPI_Comm_rank(MPI_COMM_WORLD, &rank);\nprintf("hello from rank %d\\n", rank);\nrank * rank',
    '%%ranks\nfor (int step = 0; step < 5; step++) {\n    printf("step %d: \\033[32mloss\\033[0m %.3f\\n", step, 1.0 / (step + rank + 1));\n'
    '    usleep(200000);\n}\nif (rank == 3) fprintf(stderr, "rank 3 is <slow>\\n");',
    '%%ranks\nfor (int step = 0; step < 40; step++) printf("step %d\\n", step);',
    '%%ranks 3\nint *nowhere = NULL;\n*nowhere = rank;',
    '%%ranks\nrank',
    '%%ranks 3\nkill(getpid(), SIGKILL);',
    '%%ranks\nrank',
    '%ranks 4',
    '%%ranks\nMPI_Comm_rank(MPI_COMM_WORLD, &rank);\nif (rank) MPI_Barrier(MPI_COMM_WORLD);',
]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with notebook_of(CELLS, tmp_path_factory.mktemp("lab")) as opened:
        opened.run(0)
        yield opened


def test_a_line_or_two_and_a_value(notebook):
    shown = notebook.run(1)
    assert "[7] hello from rank 7" in shown and "[7] 49" in shown
    notebook.picture("ranks-hello")


def test_many_lines_are_live_and_then_folded(notebook):
    notebook.start(2)
    notebook.output(2).filter(has_text="[0] step 0").wait_for()
    notebook.picture("ranks-live")
    parts = notebook.cells.nth(2).locator(".jp-OutputArea-output details")
    parts.nth(7).wait_for()
    assert parts.count() == 8 and "[0] step" not in notebook.text(2)
    assert parts.nth(3).locator("pre").inner_text().count("step") == 5
    parts.nth(0).locator("summary").click()
    assert parts.nth(0).get_attribute("open") is None
    notebook.picture("ranks-folded")
    notebook.run(3)
    parts = notebook.cells.nth(3).locator(".jp-OutputArea-output details")
    parts.nth(7).wait_for()
    assert parts.nth(0).get_attribute("open") is None
    parts.nth(2).locator("summary").click()
    assert parts.nth(2).locator("pre").inner_text().splitlines()[-1] == "step 39"
    notebook.picture("ranks-many")


def test_a_crash_names_its_rank_and_the_ranks_live_on(notebook):
    shown = notebook.run(4)
    assert "rank 3: Segmentation fault at In[" in shown and "The ranks live on, and so do their variables." in shown
    assert notebook.run(5) == "\n".join(f"[{rank}] {rank}" for rank in range(8))
    notebook.picture("ranks-crash")


def test_a_killed_rank_is_named_and_the_ranks_end(notebook):
    shown = notebook.run(6)
    assert "rank 3: " in shown and "%ranks 8 starts them again" in shown
    assert "no ranks: %ranks 8 starts them" in notebook.run(7)
    notebook.picture("ranks-killed")


def test_a_deadlock_is_interrupted(notebook):
    assert "4 ranks" in notebook.run(8)
    notebook.start(9)
    notebook.page.wait_for_timeout(1000)
    notebook.page.locator("jp-button[data-command='notebook:interrupt-kernel'], [data-jp-item-name='interrupt'] jp-button").first.click()
    notebook.output(9).filter(has_text="in MPI_Barrier at In[").first.wait_for()
    notebook.picture("ranks-deadlock")
