"""The noise of nets.c is drawn so that it costs a rank's start little; it must still be noise."""
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve() / "lib"
PROGRAM = """
#include "nets.c"
#include <stdio.h>
enum { COUNT = 1 << 16, PARTS = 10 };
int main(void)
{
    static float values[COUNT];
    static int32_t labels[COUNT];
    int of_value[PARTS] = {0}, of_label[PARTS] = {0}, of_both[PARTS] = {0};
    draw(values, COUNT);
    draw_below(PARTS, labels, COUNT);
    for (int i = 0; i < COUNT; i++) {
        if (!(values[i] >= 0 && values[i] < 1)) return 1;
        int part = (int)(values[i] * PARTS), next = (int)(values[(i + 1) % COUNT] * PARTS);
        of_value[part]++;
        of_label[labels[i]]++;
        of_both[(part + next) % PARTS]++; /* neighbours know nothing of each other */
    }
    for (int i = 0; i < PARTS; i++) printf("%d %d %d\\n", of_value[i], of_label[i], of_both[i]);
    return 0;
}
"""


def test_noise_is_spread_evenly(tmp_path):
    (tmp_path / "noise.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-std=gnu17", "-O2", f"-I{HERE}", f"-I{ROOT}/ext/include", tmp_path / "noise.c", "-o", tmp_path / "noise",
                    f"-L{LIBRARY}", "-lkolo", f"-Wl,-rpath,{LIBRARY}"], check=True)  # fmt: skip
    result = subprocess.run([tmp_path / "noise"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    counts = [int(word) for word in result.stdout.split()]
    assert len(counts) == 30 and all(6200 < count < 6900 for count in counts), counts  # of 65,536 in ten parts
