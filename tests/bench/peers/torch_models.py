"""The networks of nets.c in PyTorch, and their optimizers, by nets.c's names; noise of their shapes."""
import torch
from torch import nn
from torch.nn import functional

WORDS, LENGTH, SIZE, HEADS = 20000, 80, 256, 2
LAST = torch.channels_last


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    ).to(memory_format=LAST)  # fmt: skip


def convolve(inputs, filters, side, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, filters, side, stride, side // 2, bias=False), nn.BatchNorm2d(filters, momentum=0.01)
    )


class Residual(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.first, self.second = convolve(inputs, filters, 3, stride), convolve(filters, filters, 3, 1)
        self.beside = convolve(inputs, filters, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return functional.relu(self.beside(x) + self.second(functional.relu(self.first(x))))


def resnet20():
    blocks, inputs = [convolve(3, 16, 3, 1), nn.ReLU()], 16
    for stage in range(3):
        for block in range(3):
            blocks.append(Residual(inputs, 16 << stage, 2 if stage > 0 and block == 0 else 1))
            inputs = 16 << stage
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(memory_format=LAST)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, SIZE), nn.Embedding(LENGTH, SIZE)
        self.queries_keys_values, self.attended = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.inner = nn.Sequential(nn.Linear(SIZE, 256), nn.ReLU(), nn.Linear(256, SIZE))
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE), nn.Dropout(0.1)
        self.last = nn.Linear(SIZE, WORDS)

    def attend(self, x):
        parts = self.queries_keys_values(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        return self.attended(heads.transpose(1, 2).flatten(-2))

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight
        x = self.norm1(x + self.dropout(self.attend(x)))
        return self.last(self.norm2(x + self.dropout(self.inner(x))))


def higgs():
    return nn.Sequential(nn.Linear(28, 600), nn.ReLU(), nn.Dropout(0.2), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 2))


NETS = {"cnn": cnn, "resnet20": resnet20, "gpt": Gpt, "higgs": higgs}
OPTIMIZERS = {
    "cnn": lambda weights: torch.optim.Adam(weights, 1e-3, fused=True),
    "resnet20": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9, fused=True),
    "gpt": lambda weights: torch.optim.Adam(weights, 1e-3, fused=True),
    "higgs": lambda weights: torch.optim.Adagrad(weights, 0.01, fused=True),
}


def noise(net, samples):
    """Features, their last axis the channels, and labels."""
    if net == "gpt":
        words = torch.randint(0, WORDS, (samples * LENGTH + 1,))
        return words[:-1].view(samples, LENGTH), words[1:].view(samples, LENGTH)
    shape, classes = {"cnn": ((28, 28, 1), 10), "resnet20": ((32, 32, 3), 10), "higgs": ((28,), 2)}[net]
    return torch.rand(samples, *shape), torch.randint(0, classes, (samples,))


def features_of(samples):
    """As the networks take them: PyTorch's order of axes over channels that lie last."""
    return samples.permute(0, 3, 1, 2) if samples.dim() == 4 else samples


def score(outputs, wanted):
    """The mean loss, and how many are right."""
    rows, wanted = outputs.flatten(0, -2), wanted.flatten()
    return functional.cross_entropy(rows, wanted), (rows.argmax(1) == wanted).sum()
