"""How long a step of nets.c's networks takes at least on a device: by the operations of its matrix products, and by the
bytes that it must move through the device's memory.

A network is a list of stages. A stage is what one kernel can do: a product (convolution, dense layer, attention) with
all that is pointwise before and behind it, pooling too. What one stage writes, the next one reads: once forward. On the
way back a stage reads its output's gradient and what it needs of its inputs once, and writes its inputs' gradients once;
where it normalises over the batch it also reads its own output again, since the gradient needs sums over the batch
first. Weights are read forward and backward, in the precision's element; their gradients, and the optimizer's arrays,
are float32, each read once and written once an update. Nothing that stays on the chip is counted: no version runs much
faster.
"""
from dataclasses import dataclass

WORDS, LENGTH, SIZE, HEADS = 20000, 80, 256, 2
ELEMENT = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}


@dataclass
class Stage:
    """Sizes of one sample in elements; `weights` of the whole stage, `multiplies` of one sample."""

    name: str
    reads: list  # of its inputs
    writes: int
    weights: int = 0
    multiplies: int = 0
    marks: int = 0  # bytes kept for the way back, such as which place of a window was the largest
    normalised: bool = False  # over the batch
    first: bool = False  # its input is a sample of the data: 4 bytes an element, and no gradient
    table: int = 0  # elements of the weights that a sample reads, where that is not all of them
    sums: bool = False  # of its inputs: they share its output's gradient, and scoring adds the last ones to the first
    backward: float = 2  # multiplications of the way back, in those of the way there


def convolution(name, side, inputs, filters, kernel, stride=1, bias=0, **more):
    """Of a square picture with padding that keeps its side; `side` is the input's."""
    places = (side // stride) ** 2
    weights = kernel * kernel * inputs * filters
    return Stage(name, [side * side * inputs], places * filters, weights + bias, places * weights, **more)


def dense(name, inputs, outputs, rows=1, **more):
    return Stage(name, [rows * inputs], rows * outputs, inputs * outputs + outputs, rows * inputs * outputs, **more)


def cnn():
    pooled = 12 * 12 * 64
    return [
        Stage("conv1", [28 * 28], 26 * 26 * 32, 9 * 32 + 32, 26 * 26 * 9 * 32, first=True),
        Stage("conv2, pooling, dropout", [26 * 26 * 32], pooled, 9 * 32 * 64 + 64, 24 * 24 * 9 * 32 * 64, marks=pooled),
        dense("dense1, dropout", pooled, 128, marks=128),
        dense("dense2, loss", 128, 10),
    ]


def resnet20():
    stages = [convolution("first", 32, 3, 16, 3, bias=32, normalised=True, first=True)]
    side, inputs = 32, 16
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if filters > 16 and block == 0 else 1
            last = side // stride
            stages.append(convolution(f"{filters}.{block}a", side, inputs, filters, 3, stride, 2 * filters, normalised=True))
            stages.append(convolution(f"{filters}.{block}b", last, filters, filters, 3, 1, 2 * filters, normalised=True))
            beside = inputs * side * side
            if stride > 1:
                stages.append(convolution(f"{filters}.{block}c", side, inputs, filters, 1, 2, 2 * filters, normalised=True))
                beside = filters * last * last
            stages.append(Stage(f"{filters}.{block} sum", [filters * last * last, beside], filters * last * last, sums=True))
            side, inputs = last, filters
    return stages + [dense("pooling, last, loss", 64, 10)]


def gpt():
    x, three, pairs = LENGTH * SIZE, 3 * LENGTH * SIZE, LENGTH * (LENGTH + 1) // 2
    return [
        Stage("embedding", [LENGTH], x, (WORDS + LENGTH) * SIZE, first=True, table=2 * x),
        dense("queries, keys, values", SIZE, 3 * SIZE, LENGTH),
        # Recomputes the scores on the way back: five products instead of two.
        Stage("attention", [three], x, multiplies=2 * pairs * SIZE, backward=2.5),
        Stage("projection, sum, norm", [x, x], x, SIZE * SIZE + 3 * SIZE, LENGTH * SIZE * SIZE),
        dense("inner", SIZE, 256, LENGTH),
        Stage("outer, sum, norm", [LENGTH * 256, x], x, 256 * SIZE + 3 * SIZE, LENGTH * 256 * SIZE),
        # Of 20,000 outputs a row none need be in memory: the way back can have them again.
        Stage("last, loss", [x], 0, SIZE * WORDS + WORDS, LENGTH * SIZE * WORDS),
    ]


NETS = {"cnn": (cnn, 2), "resnet20": (resnet20, 1), "gpt": (gpt, 2)}  # and arrays that the optimizer keeps


def operations(stages, training):
    """Additions and multiplications of one sample."""
    total = 0
    for stage in stages:
        backward = (stage.backward - (1 if stage.first else 0)) if training else 0
        total += 2 * stage.multiplies * (1 + backward)
    return total


def sample_bytes(stages, element, training):
    """What one sample moves."""
    total = 0
    for stage in stages:
        size = 4 if stage.first else element
        if stage.sums and not training:
            total += sum(stage.reads[1:]) * element
            continue
        total += sum(stage.reads) * size + stage.writes * element + stage.table * 4
        if not training:
            continue
        total += stage.writes * element + 2 * stage.marks
        if stage.weights or stage.multiplies:
            total += sum(stage.reads) * size
        if stage.normalised:
            total += stage.writes * element
        if stage.table:
            total += 2 * stage.table * 4  # the gradient of the rows that were read, which others may add to
        if not stage.first and not stage.sums:
            total += sum(stage.reads) * element
    return total


def step_bytes(stages, element, kept, training):
    """What a step moves whatever its batch is: weights, and the update."""
    total = 0
    for stage in stages:
        read = 0 if stage.table else stage.weights * element
        total += read
        if training:
            copied = stage.weights * element if element < 4 and not stage.table else 0
            total += read + stage.weights * 4 * (2 + 2 + 2 * kept) + copied  # gradient, weights, the optimizer's
    return total


def floor(net, batch, precision, training):
    """Operations and bytes of one step."""
    make, kept = NETS[net]
    stages, element = make(), ELEMENT[precision]
    moved = batch * sample_bytes(stages, element, training) + step_bytes(stages, element, kept, training)
    return {"operations": batch * operations(stages, training), "bytes": moved}


def fastest(net, batch, precision, training, ceilings):
    """Samples a second, by each of both; None where the ceiling is not known."""
    least = floor(net, batch, precision, training)
    rate, copy = ceilings.get("bf16" if precision == "fp16" else precision), ceilings.get("copy")
    return {"by_operations": rate and batch * rate / least["operations"], "by_bytes": copy and batch * copy / least["bytes"]}
