"""What PyTorch computes for layers of sequences and for a one-block GPT, written to pytorch_sequence.h.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.15.0 numpy
    /tmp/torch/bin/python tests/ext/layers/pytorch_sequence.py > tests/ext/layers/pytorch_sequence.h

Tokens and weights come from formulas that both sides compute exactly (pytorch_sequence_test.c has the same ones), so
that nothing but results has to be kept. PyTorch computes in float64: its numbers are right to more digits than are
written. Models are in the order of the test's build().
"""
import numpy as np
import torch
import torch.nn.functional as F

SAMPLES, LENGTH, VOCABULARY, SIZE, HEADS, HIDDEN = 6, 5, 11, 8, 2, 6
ENTRIES, STEPS, RATE = 16, 20, 0.2
TABLE, POSITIONS = ("embeddings", (VOCABULARY, SIZE)), ("positions", (LENGTH, SIZE))
NORM = [("gamma", (SIZE,)), ("beta", (SIZE,))]


def attention(key):
    return [("qkv_kernel", (SIZE, 3 * HEADS * key)), ("qkv_bias", (3 * HEADS * key,)),
            ("output_kernel", (HEADS * key, SIZE)), ("output_bias", (SIZE,))]


def dense(inputs, units):
    return [("kernel", (inputs, units)), ("bias", (units,))]


HEAD = dense(SIZE, VOCABULARY)
MODELS = {
    "embedding": [TABLE] + HEAD,
    "position": [TABLE, POSITIONS] + HEAD,
    "layer_norm": [TABLE] + NORM + HEAD,
    "attention": [TABLE] + attention(3) + HEAD,
    "causal": [TABLE] + attention(SIZE // HEADS) + HEAD,
    "gpt": [TABLE, POSITIONS] + attention(SIZE // HEADS) + NORM + dense(SIZE, HIDDEN) + dense(HIDDEN, SIZE) + NORM + HEAD,
}


def numbers(count, stream):
    """In [0, 1), multiples of 2**-16: the mixing of MurmurHash3 over the element's number."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(stream * 0x9E3779B1 & 0xFFFFFFFF)
    x ^= x >> 16
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> 13
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> 16
    return (x >> 16).astype(np.float64) / 65536


def attend(x, w, causal):
    def heads(y):
        return y.reshape(SAMPLES, LENGTH, HEADS, -1).transpose(1, 2)

    q, k, v = (x @ w[0] + w[1]).chunk(3, -1)
    y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=causal)
    return y.transpose(1, 2).reshape(SAMPLES, LENGTH, -1) @ w[2] + w[3]


def norm(x, w):
    return F.layer_norm(x, (SIZE,), w[0], w[1], eps=1e-3)


def forward(model, tokens, w):
    x = F.embedding(tokens, w[0])
    if model == "position":
        x = x + w[1]
    if model == "layer_norm":
        x = norm(x, w[1:])
    if model in ("attention", "causal"):
        x = attend(x, w[1:], model == "causal")
    if model == "gpt":
        x = x + w[1]
        x = norm(x + attend(x, w[2:], True), w[6:])
        x = norm(x + F.relu(x @ w[8] + w[9]) @ w[10] + w[11], w[12:])
    return x @ w[-2] + w[-1]


def loss_of(model, tokens, labels, weights):
    outputs = forward(model, tokens, weights)
    return outputs, F.cross_entropy(outputs.reshape(-1, VOCABULARY), labels.reshape(-1))


def draw(model):
    weights = []
    for stream, (_, shape) in enumerate(MODELS[model], start=1):
        values = numbers(int(np.prod(shape)), stream) - 0.5
        weights.append(torch.tensor(values.reshape(shape), requires_grad=True))
    return weights


def text(values):
    return ", ".join(f"{v:.12e}" for v in values)


def row(array):
    flat = array.detach().numpy().reshape(-1)
    entries = flat[[i * flat.size // ENTRIES for i in range(ENTRIES)]]
    return f"{{{flat.size}, {abs(flat).max():.12e}, {np.linalg.norm(flat):.12e}, {{{text(entries)}}}}}"


def train(tokens, labels):
    """Plain SGD on one batch: the loss before each step."""
    weights = draw("gpt")
    losses = []
    for _ in range(STEPS):
        _, loss = loss_of("gpt", tokens, labels, weights)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for w in weights:
                w -= RATE * w.grad
                w.grad = None
    return losses


def main():
    words = (numbers(SAMPLES * (LENGTH + 1), 0) * VOCABULARY).astype(np.int64).reshape(SAMPLES, LENGTH + 1)
    tokens, labels = torch.tensor(words[:, :-1]), torch.tensor(words[:, 1:])
    print(f"/* Written by pytorch_sequence.py with PyTorch {torch.__version__.split('+')[0]}, float64. */")
    sizes = dict(samples=SAMPLES, length=LENGTH, vocabulary=VOCABULARY, size=SIZE, heads=HEADS, hidden=HIDDEN,
                 entries=ENTRIES, models=len(MODELS), steps=STEPS)
    print(f"enum {{ {', '.join(f'pytorch_{k} = {v}' for k, v in sizes.items())} }};")
    print("typedef struct pytorch_array { /* outputs or a gradient: elements, the largest size, the norm, entries */\n"
          "int count; double largest, norm, entry[pytorch_entries]; } pytorch_array;")
    print("static const struct { double loss; pytorch_array array[17]; /* outputs, then gradients */ } pytorch_model[] = {")
    for model in MODELS:
        weights = draw(model)
        outputs, loss = loss_of(model, tokens, labels, weights)
        loss.backward()
        arrays = [row(outputs)] + [row(w.grad) for w in weights]
        print(f"/* {model} */ {{{loss.item():.12e}, {{{', '.join(arrays)}}}}},")
    print("};")
    print(f"static const double pytorch_rate = {RATE};")
    print(f"static const double pytorch_losses[] = {{{text(train(tokens, labels))}}};")


if __name__ == "__main__":
    main()
