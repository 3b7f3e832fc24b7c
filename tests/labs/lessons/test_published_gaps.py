"""Lessons 3 and 4 as they are saved: what a batch of eight devices costs in accuracy, as in the published runs."""
import re

from labs.notebooks import LESSONS, number, read


def printed(lesson):
    return next(read(name).printed() for name in LESSONS if number(name) == lesson)


def test_lesson_3_reproduces_the_gap():
    """24 updates against 464, and what they cost: the bounds of the published run's reproduction, one seed."""
    table = printed("3")
    one = re.search(r"^one device +1024 +464 +([\d.]+) +([\d.]+)", table, flags=re.MULTILINE)
    eight = re.search(r"^eight ranks +16384 +24 +([\d.]+) +([\d.]+)", table, flags=re.MULTILINE)
    assert float(one[2]) >= 0.975
    assert 0.84 <= float(eight[2]) <= 0.93 and 0.26 <= float(eight[1]) <= 0.50


def test_lesson_4_is_of_cifar_10_and_shows_the_gap():
    """An eighth of the updates, and what they cost; what scaling and warm-up with batch norm get back."""
    text = printed("4")
    assert "data_batch_1.bin" in text
    found = re.findall(r"^(\S.*?) {2,}\d+ +[\d.]+ +([\d.]+) +([\d.]+)$", text, flags=re.MULTILINE)
    trained, tested = ({row[0]: float(row[i]) for row in found} for i in (1, 2))
    assert trained["one device"] > trained["eight devices"] + 0.05 and tested["one device"] > tested["eight devices"] + 0.05
    assert trained["batch norm, scaled, warm-up"] > trained["one device"]
