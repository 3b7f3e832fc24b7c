"""What PyTorch computes for the layers of networks of images, written to pytorch_images.h.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.15.0 numpy
    /tmp/torch/bin/python tests/ext/layers/pytorch_images.py > tests/ext/layers/pytorch_images.h

Each model is: a convolution of single pixels (whose gradients hold the layer's own by its input), the layer, a dense
layer, cross-entropy. Features and weights come from formulas that both sides compute exactly (pytorch_images_test.c has
the same ones, and the same models in the same order), so that nothing but results has to be kept. PyTorch computes in
float64: its numbers are right to more digits than are written. Where PyTorch knows no such padding, zeros are added or
cut off by hand, as TensorFlow's documentation of SAME says.
"""
import numpy as np
import torch
import torch.nn.functional as F

SAMPLES, HEIGHT, WIDTH, CHANNELS, CLASSES, ENTRIES = 3, 9, 8, 4, 3, 12


def numbers(count, stream):
    """In [0, 1), multiples of 2**-16: the mixing of MurmurHash3 over the element's number."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(stream * 0x9E3779B1 & 0xFFFFFFFF)
    x ^= x >> 16
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> 13
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> 16
    return (x >> 16).astype(np.float64) / 65536


# Kolo's kernels are {height, width, inputs / groups, filters}, PyTorch's {filters, inputs / groups, height, width}.
def conv(x, kernel, bias, **options):
    return F.conv2d(x, kernel.permute(3, 2, 0, 1), bias, **options)


def same(x, kernel, stride):
    """Zeros around, the odd one behind."""
    zeros = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(x.shape[2:], kernel, stride)]
    return F.pad(x, [zeros[1] // 2, zeros[1] - zeros[1] // 2, zeros[0] // 2, zeros[0] - zeros[0] // 2])


def depthwise(x, w):
    """{height, width, channels, multiplier}: a channel's outputs are neighbours."""
    kh, kw, c, m = w[0].shape
    x = same(x, (kh, kw), (2, 2))
    return F.conv2d(x, w[0].reshape(kh, kw, 1, c * m).permute(3, 2, 0, 1), w[1], stride=2, groups=c)


def transposed(x, w, stride, size=None):
    """{height, width, filters, channels}; size: cut to it, as much before as behind, the odd one behind."""
    y = F.conv_transpose2d(x, w[0].permute(3, 2, 0, 1), None, stride=stride)
    if size:
        top, left = (y.shape[2] - size[0]) // 2, (y.shape[3] - size[1]) // 2
        y = y[:, :, top:top + size[0], left:left + size[1]]
    return y + w[1][None, :, None, None]


def average_same(x):
    ones = same(torch.ones_like(x), (3, 2), (2, 2))
    return F.avg_pool2d(same(x, (3, 2), (2, 2)), (3, 2), 2) / F.avg_pool2d(ones, (3, 2), 2)


def excite(x, w):
    s = torch.sigmoid(x.mean((2, 3)) @ w[0] + w[1])[:, :, None, None]
    return torch.cat([x, x * s, x * x], 1)


def sample(x, w):
    """The mean, where there is no chance, and half the divergence for the loss."""
    x = x.permute(0, 2, 3, 1).flatten(1)
    mean, log_variance = x @ w[0] + w[1], x @ w[2] + w[3]
    return mean, 0.5 * torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, torch.exp(log_variance / 2)), torch.distributions.Normal(0., 1.)).sum(1).mean()


FLAT = HEIGHT * WIDTH * CHANNELS
MODELS = [  # name, shapes of the layer's weights, what it does
    ("grouped", [(3, 2, 2, 6), (6,)], lambda x, w: conv(x, w[0], w[1], groups=2, dilation=(2, 3))),
    ("depthwise", [(3, 3, 4, 2), (8,)], depthwise),
    ("transposed", [(3, 4, 5, 4), (5,)], lambda x, w: transposed(x, w, (2, 3))),
    ("transposed, same", [(3, 2, 5, 4), (5,)], lambda x, w: transposed(x, w, (2, 1), (18, 8))),
    ("average", [], lambda x, w: F.avg_pool2d(x, (2, 3), (2, 1))),
    ("average, same", [], lambda x, w: average_same(x)),
    ("global average", [], lambda x, w: x.mean((2, 3))),
    ("global max", [], lambda x, w: x.amax((2, 3))),
    ("zeros", [], lambda x, w: F.pad(x, [2, 3, 0, 1])),
    ("upsampling", [], lambda x, w: x.repeat_interleave(2, 2).repeat_interleave(3, 3)),
    ("excite", [(4, 4), (4,)], excite),
    ("relu", [], lambda x, w: F.relu(x)),
    ("sigmoid", [], lambda x, w: torch.sigmoid(x)),
    ("tanh", [], lambda x, w: torch.tanh(x)),
    ("gelu", [], lambda x, w: F.gelu(x)),
    ("gelu_tanh", [], lambda x, w: F.gelu(x, approximate="tanh")),
    ("silu", [], lambda x, w: F.silu(x)),
    ("leaky_relu", [], lambda x, w: F.leaky_relu(x, 0.2)),
    ("elu", [], lambda x, w: F.elu(x)),
    ("gaussian_sample", [(FLAT, 5), (5,), (FLAT, 5), (5,)], sample),
]


def compute(shapes, layer):
    def weights(shapes):
        return [torch.tensor(((numbers(int(np.prod(s)), i + 1) - 0.5) * 0.75).reshape(s), requires_grad=True)
                for i, s in shapes]

    stem = weights(enumerate([(1, 1, CHANNELS, CHANNELS), (CHANNELS,)]))
    own = weights(enumerate(shapes, 2))
    x = torch.tensor((numbers(SAMPLES * FLAT, 0) * 4 - 2).reshape(SAMPLES, HEIGHT, WIDTH, CHANNELS))
    y, extra = conv(x.permute(0, 3, 1, 2), *stem), 0
    y = layer(y, own)
    if isinstance(y, tuple):
        y, extra = y
    y = y.permute(0, 2, 3, 1).flatten(1) if y.dim() == 4 else y
    head = weights(enumerate([(y.shape[1], CLASSES), (CLASSES,)], 2 + len(own)))
    loss = F.cross_entropy(y @ head[0] + head[1], torch.arange(SAMPLES) % CLASSES) + extra
    loss.backward()
    return loss, [w.grad.flatten() for w in stem + own + head]


def main():
    print(f"/* Written by pytorch_images.py with PyTorch {torch.__version__.split('+')[0]}, float64. */")
    print(f"enum {{ pytorch_samples = {SAMPLES}, pytorch_entries = {ENTRIES}, pytorch_arrays = 8 }};")
    print("/* Of each array of weights: how many, the gradient's largest size, its norm, and entries at i * count / entries. */")
    print("static const struct {\n    const char *name;\n    double loss;\n    struct {\n        int count;\n        double largest, norm, entry[pytorch_entries];\n"
          "    } gradient[pytorch_arrays];\n} pytorch_models[] = {")
    for name, shapes, layer in MODELS:
        loss, gradients = compute(shapes, layer)
        print(f'    {{"{name}", {loss.item():.12e}, {{')
        for g in gradients:
            entries = ", ".join(f"{g[i * len(g) // ENTRIES].item():.9e}" for i in range(ENTRIES))
            print(f"        {{{len(g)}, {g.abs().max().item():.9e}, {g.norm().item():.9e}, {{{entries}}}}},")
        print("    }},")
    print("};")


main()
