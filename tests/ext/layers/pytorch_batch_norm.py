"""What PyTorch makes of three training steps of a small network with batch normalisation, written to
pytorch_batch_norm.h.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.15.0 numpy
    /tmp/torch/bin/python tests/ext/layers/pytorch_batch_norm.py > tests/ext/layers/pytorch_batch_norm.h

A convolution, batch norm and relu, a dense layer, batch norm without gamma, a dense layer; plain gradient descent on
3 × 8 samples. Inputs and weights come from a formula that batch_norm_test.c has too. PyTorch's running statistics
follow another convention: its momentum m is our 1 − m, and its running variance takes in the unbiased one, n / (n − 1)
times ours, which is taken back here step by step. In float64 throughout.
"""
import numpy as np
import torch
import torch.nn.functional as F

SAMPLES, STEPS, SIDE, CHANNELS, FILTERS, UNITS, CLASSES = 8, 3, 6, 2, 5, 7, 4
RATE, MOMENTUM, EPSILON = 0.25, 0.9, 1e-3
WEIGHTS = [  # name, shape as Kolo has it, the width of the range that its values are drawn from, its middle
    ("conv2d.kernel", (3, 3, CHANNELS, FILTERS), 1.0, 0.0),
    ("batch_norm.gamma", (FILTERS,), 1.0, 1.0),
    ("batch_norm.beta", (FILTERS,), 0.5, 0.0),
    ("dense.kernel", (16 * FILTERS, UNITS), 0.5, 0.0),
    ("batch_norm_1.beta", (UNITS,), 0.5, 0.0),
    ("dense_1.kernel", (UNITS, CLASSES), 1.0, 0.0),
    ("dense_1.bias", (CLASSES,), 0.5, 0.0),
]


def numbers(count, stream):
    """In [0, 1), multiples of 2**-16: the mixing of MurmurHash3 over the element's number."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(stream * 0x9E3779B1 & 0xFFFFFFFF)
    x ^= x >> 16
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> 13
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> 16
    return (x >> 16).astype(np.float64) / 65536


class Running:
    """Keras's convention, kept through PyTorch's own arithmetic: batch_norm with momentum 1 leaves the batch's."""

    def __init__(self, channels):
        self.mean, self.variance = torch.zeros(channels).double(), torch.ones(channels).double()

    def normalise(self, x, gamma, beta, training):
        if not training:
            return F.batch_norm(x, self.mean, self.variance, gamma, beta, False, 0, EPSILON)
        mean, variance = torch.zeros_like(self.mean), torch.ones_like(self.variance)
        y = F.batch_norm(x, mean, variance, gamma, beta, True, 1.0, EPSILON)
        n = x.numel() // x.shape[1]
        self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * mean
        self.variance = MOMENTUM * self.variance + (1 - MOMENTUM) * variance * (n - 1) / n
        return y


def forward(x, w, running, training):
    x = F.conv2d(x.permute(0, 3, 1, 2), w[0].permute(3, 2, 0, 1))
    x = F.relu(running[0].normalise(x, w[1], w[2], training))
    x = x.permute(0, 2, 3, 1).reshape(len(x), -1) @ w[3]
    return running[1].normalise(x, None, w[4], training) @ w[5] + w[6]


def array(name, values):
    text = ", ".join(f"{v:.9e}" for v in np.asarray(values).reshape(-1))
    print(f"static const double {name}[] = {{{text}}};")


def main():
    weights = []
    for stream, (_, shape, width, middle) in enumerate(WEIGHTS, start=1):
        values = (numbers(int(np.prod(shape)), stream) - 0.5) * width + middle
        weights.append(torch.tensor(values.reshape(shape), requires_grad=True))
    x = torch.tensor(numbers(SAMPLES * STEPS * SIDE * SIDE * CHANNELS, 0).reshape(-1, SIDE, SIDE, CHANNELS) * 4 + 1)
    labels = torch.arange(SAMPLES * STEPS) % CLASSES
    running, losses = [Running(FILTERS), Running(UNITS)], []
    for step in range(STEPS):
        part = slice(step * SAMPLES, (step + 1) * SAMPLES)
        loss = F.cross_entropy(forward(x[part], weights, running, True), labels[part])
        gradients = torch.autograd.grad(loss, weights)
        losses.append(loss.item())
        with torch.no_grad():
            for w, g in zip(weights, gradients):
                w -= RATE * g
    print(f"/* Written by pytorch_batch_norm.py with PyTorch {torch.__version__.split('+')[0]}, float64. */")
    array("pytorch_losses", losses)
    for (name, *_), w in zip(WEIGHTS, weights):
        array("pytorch_" + name.replace(".", "_"), w.detach())
    for name, r in zip(("batch_norm", "batch_norm_1"), running):
        array(f"pytorch_{name}_moving_mean", r.mean.detach())
        array(f"pytorch_{name}_moving_variance", r.variance.detach())
    with torch.no_grad():
        outputs = forward(x, weights, running, False)
    array("pytorch_outputs", outputs)
    print(f"static const double pytorch_score = {F.cross_entropy(outputs, labels).item():.12e};")


main()
