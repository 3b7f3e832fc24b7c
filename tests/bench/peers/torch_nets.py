"""net_bench.c's runs in PyTorch: torch_nets.py NET BATCH fp32|bf16 STEPS EPOCHS. Prints the same JSON."""
import json
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional

NET, BATCH, PRECISION, STEPS, EPOCHS = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
WORDS, LENGTH, SIZE, HEADS = 20000, 80, 256, 2
LAST = torch.channels_last

# ---- Networks ----


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
        self.attention = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
        self.inner = nn.Sequential(nn.Linear(SIZE, 256), nn.ReLU(), nn.Linear(256, SIZE))
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE), nn.Dropout(0.1)
        self.last = nn.Linear(SIZE, WORDS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight
        mask = self.mask.to(x.dtype)
        attended = self.attention(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]
        x = self.norm1(x + self.dropout(attended))
        return self.last(self.norm2(x + self.dropout(self.inner(x)))).transpose(1, 2)


def higgs():
    return nn.Sequential(nn.Linear(28, 600), nn.ReLU(), nn.Dropout(0.2), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 2))


OPTIMIZERS = {
    "cnn": lambda weights: torch.optim.Adam(weights, 1e-3, fused=True),
    "resnet20": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9, fused=True),
    "gpt": lambda weights: torch.optim.Adam(weights, 1e-3, fused=True),
    "higgs": lambda weights: torch.optim.Adagrad(weights, 0.01, fused=True),
}

# ---- Runs ----


def noise(samples):
    if NET == "gpt":
        words = torch.randint(0, WORDS, (samples * LENGTH + 1,))
        return words[:-1].view(samples, LENGTH), words[1:].view(samples, LENGTH)
    shape, classes = {"cnn": ((1, 28, 28), 10), "resnet20": ((3, 32, 32), 10), "higgs": ((28,), 2)}[NET]
    pictures = torch.rand(samples, *shape)
    return pictures.contiguous(memory_format=LAST) if NET != "higgs" else pictures, torch.randint(0, classes, (samples,))


def compute(features, wanted):
    with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
        outputs = model(features)
        return functional.cross_entropy(outputs, wanted), int((outputs.argmax(1) == wanted).sum())


def train_once():
    global first_step_at
    for chosen in torch.randperm(len(labels)).split(BATCH):
        optimizer.zero_grad(set_to_none=True)
        loss, _ = compute(samples[chosen], labels[chosen])
        loss.backward()
        optimizer.step()
        first_step_at = first_step_at or time.time()


@torch.inference_mode()
def score_once():
    for first in range(0, len(labels), BATCH):
        compute(samples[first : first + BATCH], labels[first : first + BATCH])


def timed(work):
    begin, cpu_begin = time.monotonic(), time.process_time()
    work()
    return {"seconds": time.monotonic() - begin, "images": len(labels), "cpu_seconds": time.process_time() - cpu_begin}


torch.manual_seed(1)
first_step_at = None
samples, labels = noise(BATCH * STEPS)
model = globals()[{"gpt": "Gpt"}.get(NET, NET)]()
optimizer = OPTIMIZERS[NET](model.parameters())
epochs = [timed(train_once) for _ in range(EPOCHS)]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
model.eval()
scored = [timed(score_once) for _ in range(EPOCHS + 1)][1:]
print(json.dumps({"first_step_at": first_step_at, "peak_bytes": peak, "epochs": epochs, "scored": scored,
                  "version": f"PyTorch {torch.__version__}"}))  # fmt: skip
