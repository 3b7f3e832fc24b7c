"""What the tests of lessons 2.1 and 2.2 share: a kernel beside the course's headers, and the notebook's cells."""
import os

from kernel.driver import Kernel
from labs.notebooks import LESSONS, ROOT, SOLUTIONS, number, read


def notebook(lesson, solution=False):
    return read(next(name for name in (SOLUTIONS if solution else LESSONS) if number(name) == lesson))


def cell_with(lesson, text, solution=False):
    """The code of the one cell that has this text."""
    (found,) = [cell.source for cell in notebook(lesson, solution).code if text in cell.source]
    return found


def kernel_for(lesson, folder):
    """A kernel in which the lesson's first cell has run, in a folder beside the headers, as the notebook is."""
    (folder / "course").symlink_to(ROOT / "labs" / "course")
    before = os.getcwd()
    os.chdir(folder)
    kernel = Kernel(KOLO_PROGRESS=str(folder / "progress.json"), KOLO_LAB_QUICK="1", KOLO_DEVICES="cpu")
    os.chdir(before)
    first = kernel.run(notebook(lesson).code[0].source)
    assert first.error == first.stderr == "" and "Quick form" in first.stdout
    return kernel


def shown(outcome):
    return outcome.stdout + outcome.stderr + outcome.error
