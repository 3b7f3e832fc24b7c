"""What PyTorch computes for the lesson's CNN: loss, outputs and gradients, written to pytorch_cnn.h.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.15.0 numpy
    /tmp/torch/bin/python tests/ext/backend/pytorch_cnn.py > tests/ext/backend/pytorch_cnn.h

Inputs and weights come from formulas that both sides compute exactly (pytorch_cnn_test.c has the same ones), so that
nothing but results has to be kept. PyTorch computes in float64: its numbers are right to more digits than are written.
"""
import numpy as np
import torch
import torch.nn.functional as F

SAMPLES = 8
WEIGHTS = [  # name, shape as Kolo has it, the width of the range that its values are drawn from
    ("conv2d_kernel", (3, 3, 1, 32), 1.0),
    ("conv2d_bias", (32,), 0.25),
    ("conv2d_1_kernel", (3, 3, 32, 64), 0.25),
    ("conv2d_1_bias", (64,), 0.25),
    ("dense_kernel", (9216, 128), 0.0625),
    ("dense_bias", (128,), 0.25),
    ("dense_1_kernel", (128, 10), 0.5),
    ("dense_1_bias", (10,), 0.25),
]
ENTRIES = 24  # gradients written of each array, spread over it


def numbers(count, stream):
    """In [0, 1), multiples of 2**-16: the mixing of MurmurHash3 over the element's number."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(stream * 0x9E3779B1 & 0xFFFFFFFF)
    x ^= x >> 16
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> 13
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> 16
    return (x >> 16).astype(np.float64) / 65536


def forward(x, w):
    """Channels last outside, channels first within PyTorch; dropout off."""
    x = F.relu(F.conv2d(x.permute(0, 3, 1, 2), w[0].permute(3, 2, 0, 1), w[1]))
    x = F.max_pool2d(F.relu(F.conv2d(x, w[2].permute(3, 2, 0, 1), w[3])), 2)
    x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
    return F.relu(x @ w[4] + w[5]) @ w[6] + w[7]


def array(name, values):
    text = ", ".join(f"{v:.9e}" for v in values)
    print(f"static const double {name}[] = {{{text}}};")


def main():
    weights = []
    for stream, (_, shape, width) in enumerate(WEIGHTS, start=1):
        values = (numbers(int(np.prod(shape)), stream) - 0.5) * width
        weights.append(torch.tensor(values.reshape(shape), requires_grad=True))
    x = torch.tensor(numbers(SAMPLES * 784, 0).reshape(SAMPLES, 28, 28, 1))
    labels = torch.arange(SAMPLES) % 10
    outputs = forward(x, weights)
    loss = F.cross_entropy(outputs, labels)
    loss.backward()

    print(f"/* Written by pytorch_cnn.py with PyTorch {torch.__version__.split('+')[0]}, float64. */")
    print(f"enum {{ pytorch_samples = {SAMPLES}, pytorch_entries = {ENTRIES} }};")
    print(f"static const double pytorch_loss = {loss.item():.12e};")
    array("pytorch_outputs", outputs.detach().flatten().tolist())
    print("/* Of each array of weights: the gradient's largest size, its norm, and entries at i * count / entries. */")
    print("static const struct {\n    double width, largest, norm;\n    double entry[pytorch_entries];\n} "
          "pytorch_gradients[] = {")
    for (name, _, width), w in zip(WEIGHTS, weights):
        g = w.grad.flatten()
        at = [i * len(g) // ENTRIES for i in range(ENTRIES)]
        entries = ", ".join(f"{g[i].item():.9e}" for i in at)
        print(f"    {{{width}, {g.abs().max().item():.9e}, {g.norm().item():.9e}, /* {name} */\n     {{{entries}}}}},")
    print("};")


main()
