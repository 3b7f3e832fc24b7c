"""source_code/N1/gpt.c in PyTorch, on the same text: torch_gpt.py TEXT BATCH EPOCHS SEED. Prints each epoch's loss.

TEXT holds words between spaces, LENGTH + 1 of them a line. Weights begin as Kolo's do, and Keras's.
"""
import json
import math
import sys
import time
from collections import Counter

import torch
from torch import nn
from torch.nn import functional

LENGTH, SIZE, HEADS, HIDDEN = 80, 256, 2, 256
PATH, BATCH, EPOCHS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])


def uniform(bound, *shape):
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def dense(inputs, outputs):
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Gpt(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words, self.places = uniform(0.05, words, SIZE), uniform(0.05, LENGTH, SIZE)
        self.query, self.key, self.value, self.output = (dense(SIZE, SIZE) for _ in range(4))
        self.inner = nn.Sequential(dense(SIZE, HIDDEN), nn.ReLU(), dense(HIDDEN, SIZE))
        self.norm1, self.norm2 = nn.LayerNorm(SIZE, eps=1e-3), nn.LayerNorm(SIZE, eps=1e-3)
        self.dropout, self.last = nn.Dropout(0.1), dense(SIZE, words)

    def attend(self, x):
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        return self.output(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))

    def forward(self, tokens):
        x = self.words[tokens] + self.places
        x = self.norm1(x + self.dropout(self.attend(x)))
        return self.last(self.norm2(x + self.dropout(self.inner(x))))


def epoch_loss():
    total = 0
    for chosen in torch.randperm(len(lines)).split(BATCH):
        outputs = model(lines[chosen, :-1])
        loss = functional.cross_entropy(outputs.flatten(0, 1), lines[chosen, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chosen)
    return total / len(lines)


torch.manual_seed(SEED)
with open(PATH, encoding="utf-8") as file:
    rows = [line.split() for line in file]
number = {word: place + 2 for place, word in enumerate(Counter(word for row in rows for word in row))}
lines = torch.tensor([[number[word] for word in row] for row in rows])
model = Gpt(len(number) + 2)  # 0 and 1: padding and unknown words, of which there are none
optimizer = torch.optim.Adam(model.parameters(), 1e-3, eps=1e-7)
started = time.monotonic()
losses = [epoch_loss() for _ in range(EPOCHS)]
assert all(map(math.isfinite, losses))
print(json.dumps({"losses": losses, "seconds": time.monotonic() - started, "version": f"PyTorch {torch.__version__}"}))
