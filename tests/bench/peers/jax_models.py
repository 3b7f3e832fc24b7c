"""The networks of nets.c in JAX: what begins a training, a step's loss, and the optimizers.

A network is a pair of functions: weights(key), and outputs(weights, running, features, key, element), where `running`
are batch norm's means, key is None when scoring, and what comes back are the outputs in float32 and the new means.
"""
import math

import jax
import jax.numpy as jnp
from jax import lax

WORDS, LENGTH, SIZE, HEADS = 20000, 80, 256, 2
attention = None  # the implementation of jax.nn.dot_product_attention


def glorot(key, *shape):
    inputs, outputs = math.prod(shape[:-1]), math.prod(shape[:-2]) * shape[-1]
    bound = math.sqrt(6 / (inputs + outputs))
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def dense_weights(key, inputs, outputs):
    return {"w": glorot(key, inputs, outputs), "b": jnp.zeros(outputs)}


def dense(layer, x):
    return x @ layer["w"].astype(x.dtype) + layer["b"].astype(x.dtype)


def convolve(w, x, stride=1, padding="VALID"):
    return lax.conv_general_dilated(x, w.astype(x.dtype), (stride, stride), padding,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))  # fmt: skip


def drop(key, rate, x):
    if key is None:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0).astype(x.dtype)


def keys_of(key, count):
    return [None] * count if key is None else jax.random.split(key, count)


# ---- The lesson's CNN ----


def cnn_weights(key):
    keys = jax.random.split(key, 4)
    return {"c1": {"w": glorot(keys[0], 3, 3, 1, 32), "b": jnp.zeros(32)},
            "c2": {"w": glorot(keys[1], 3, 3, 32, 64), "b": jnp.zeros(64)},
            "d1": dense_weights(keys[2], 9216, 128), "d2": dense_weights(keys[3], 128, 10)}  # fmt: skip


def cnn(weights, running, features, key, element):
    x, keys = features.astype(element), keys_of(key, 2)
    for name in "c1", "c2":
        x = jax.nn.relu(convolve(weights[name]["w"], x) + weights[name]["b"].astype(element))
    x = x.reshape(-1, 12, 2, 12, 2, 64).max((2, 4))  # max pooling that XLA can fuse, and its gradient
    x = drop(keys[0], 0.25, x).reshape(len(x), -1)
    x = drop(keys[1], 0.5, jax.nn.relu(dense(weights["d1"], x)))
    return dense(weights["d2"], x).astype(jnp.float32), running


# ---- ResNet-20 ----


def blocks():
    """The name, inputs, filters and stride of each residual block."""
    inputs = 16
    for stage in range(3):
        for block in range(3):
            yield f"{stage}{block}", inputs, 16 << stage, 2 if stage > 0 and block == 0 else 1
            inputs = 16 << stage


def convolutions():
    """The name and shape of each."""
    yield "first", (3, 3, 3, 16)
    for name, inputs, filters, stride in blocks():
        yield f"{name}a", (3, 3, inputs, filters)
        yield f"{name}b", (3, 3, filters, filters)
        if stride > 1:
            yield f"{name}c", (1, 1, inputs, filters)


def resnet20_weights(key):
    weights = {"last": dense_weights(key, 64, 10)}
    for i, (name, shape) in enumerate(convolutions()):
        weights[name] = {"w": glorot(jax.random.fold_in(key, i), *shape), "scale": jnp.ones(shape[-1]),
                         "shift": jnp.zeros(shape[-1])}  # fmt: skip
    return weights


def resnet20_running():
    return {name: (jnp.zeros(shape[-1]), jnp.ones(shape[-1])) for name, shape in convolutions()}


def norm(layer, means, y, training):
    """Batch norm, and its new running means."""
    values = y.astype(jnp.float32)
    mean, variance = means
    if training:
        mean = values.mean((0, 1, 2))
        variance = jnp.square(values).mean((0, 1, 2)) - jnp.square(mean)
    scale = layer["scale"] * lax.rsqrt(variance + 1e-3)
    kept = tuple(0.99 * old + 0.01 * lax.stop_gradient(new) for old, new in zip(means, (mean, variance)))
    return ((values - mean) * scale + layer["shift"]).astype(y.dtype), kept


def resnet20(weights, running, features, key, element):
    kept = {}

    def convolved(name, x, stride=1):
        y, kept[name] = norm(weights[name], running[name], convolve(weights[name]["w"], x, stride, "SAME"), key is not None)
        return y

    x = jax.nn.relu(convolved("first", features.astype(element)))
    for name, _, _, stride in blocks():
        y = convolved(f"{name}b", jax.nn.relu(convolved(f"{name}a", x, stride)))
        x = jax.nn.relu(y + (convolved(f"{name}c", x, stride) if stride > 1 else x))
    return dense(weights["last"], x.mean((1, 2))).astype(jnp.float32), kept


# ---- One block of a transformer ----


def gpt_weights(key):
    keys = iter(jax.random.split(key, 8))
    table = {name: jax.random.uniform(next(keys), (rows, SIZE), minval=-0.05, maxval=0.05)
             for name, rows in (("words", WORDS), ("places", LENGTH))}  # fmt: skip
    ones = {name: {"scale": jnp.ones(SIZE), "shift": jnp.zeros(SIZE)} for name in ("norm1", "norm2")}
    shapes = {"three": (SIZE, 3 * SIZE), "attended": (SIZE, SIZE), "in": (SIZE, 256), "out": (256, SIZE), "last": (SIZE, WORDS)}
    return table | ones | {name: dense_weights(next(keys), *shape) for name, shape in shapes.items()}


def layer_norm(layer, x):
    values = x.astype(jnp.float32)
    centred = values - values.mean(-1, keepdims=True)
    scale = lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-3)
    return (centred * scale * layer["scale"] + layer["shift"]).astype(x.dtype)


def gpt(weights, running, tokens, key, element):
    keys = keys_of(key, 2)
    x = (weights["words"][tokens] + weights["places"]).astype(element)
    parts = dense(weights["three"], x).reshape(*x.shape[:-1], 3, HEADS, SIZE // HEADS)
    heads = jax.nn.dot_product_attention(*(parts[..., i, :, :] for i in range(3)), is_causal=True, implementation=attention)
    y = dense(weights["attended"], heads.reshape(x.shape))
    x = layer_norm(weights["norm1"], x + drop(keys[0], 0.1, y))
    y = dense(weights["out"], jax.nn.relu(dense(weights["in"], x)))
    x = layer_norm(weights["norm2"], x + drop(keys[1], 0.1, y))
    return dense(weights["last"], x).astype(jnp.float32), running


# ---- Optimizers: what is kept beside the weights, and a step ----


def adam_begin(weights):
    zeros = jax.tree.map(jnp.zeros_like, weights)
    return {"step": jnp.zeros(()), "mean": zeros, "square": jax.tree.map(jnp.zeros_like, weights)}


def adam(weights, kept, gradients, rate=1e-3):
    step = kept["step"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, kept["mean"], gradients)
    square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, kept["square"], gradients)
    rate = rate * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    moved = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-7), weights, mean, square)
    return moved, {"step": step, "mean": mean, "square": square}


def momentum_begin(weights):
    return jax.tree.map(jnp.zeros_like, weights)


def momentum(weights, kept, gradients, rate=0.1):
    kept = jax.tree.map(lambda v, g: 0.9 * v + g, kept, gradients)
    return jax.tree.map(lambda w, v: w - rate * v, weights, kept), kept


NETS = {  # weights, outputs, running means, optimizer
    "cnn": (cnn_weights, cnn, dict, (adam_begin, adam)),
    "resnet20": (resnet20_weights, resnet20, resnet20_running, (momentum_begin, momentum)),
    "gpt": (gpt_weights, gpt, dict, (adam_begin, adam)),
}


def score(outputs, wanted):
    """The mean loss, and how many are right."""
    chosen = jnp.take_along_axis(outputs, wanted[..., None], -1)[..., 0]
    loss = (jax.nn.logsumexp(outputs, -1) - chosen).mean()
    return loss, (outputs.argmax(-1) == wanted).sum()


def noise(net, samples, key):
    """Features and labels."""
    if net == "gpt":
        words = jax.random.randint(key, (samples * LENGTH + 1,), 0, WORDS)
        return words[:-1].reshape(samples, LENGTH), words[1:].reshape(samples, LENGTH)
    shape = {"cnn": (28, 28, 1), "resnet20": (32, 32, 3)}[net]
    return jax.random.uniform(key, (samples, *shape)), jax.random.randint(key, (samples,), 0, 10)
