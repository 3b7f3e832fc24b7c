"""What is brought to a machine with a GPU is weighed with the tracked files, which travel with it."""
import subprocess
from pathlib import Path

import pytest

WEIGH = Path(__file__).with_name("weigh.sh")


def weigh(folder, mib):
    with open(folder / "file", "wb") as file:
        file.truncate(mib << 20)
    return subprocess.run([WEIGH, folder], capture_output=True, text=True)


@pytest.mark.skipif(subprocess.run(["git", "-C", WEIGH.parent, "ls-files", "--error-unmatch", "carry.sh"],
                                   capture_output=True).returncode != 0, reason="this is no git work tree")
def test_tracked_files_count(tmp_path):
    done = weigh(tmp_path, 10)
    assert done.returncode == 0 and "MiB with the tracked files" in done.stdout, done.stderr
    done = weigh(tmp_path, 54)  # it fits alone
    assert done.returncode == 1 and "more than the 55 that may travel" in done.stderr, done.stdout
    assert weigh(tmp_path, 59).returncode == 1
