"""net_bench.c's networks in JAX on a GPU; read gpu_items.py first.

Data lie on the device; weights and all else that a step changes are donated. The variants: scan (an epoch is one
program), steps (a program a step), cudnn (scan, with cuDNN's attention), each with the fast generator of random numbers.
JAX_PLATFORMS=cpu tries it without a GPU.
"""
import math
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import jax_models as models  # noqa: E402
from gpu_items import NET, PRECISION, SAMPLES, serve  # noqa: E402

ELEMENT = jnp.bfloat16 if PRECISION == "bf16" else jnp.float32
make, outputs_of, running_of, (begin, update) = models.NETS[NET]


def train_step(state, chosen, samples, labels):
    weights, kept, running, key = state
    key, now = jax.random.split(key)

    def loss_of(w):
        outputs, new = outputs_of(w, running, samples[chosen], now, ELEMENT)
        loss, right = models.score(outputs, labels[chosen])
        return loss, (right, new)

    (loss, (right, running)), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
    weights, kept = update(weights, kept, gradients)
    return (weights, kept, running, key), (loss, right)


def score_step(state, chosen, samples, labels):
    weights, _, running, _ = state
    outputs, _ = outputs_of(weights, running, samples[chosen], None, ELEMENT)
    return state, models.score(outputs, labels[chosen])


def whole_epoch(step, steps, batch, shuffled):
    """An epoch that is one program."""

    def epoch(state, samples, labels):
        order = jnp.arange(steps * batch)
        if shuffled:
            weights, kept, running, key = state
            key, now = jax.random.split(key)
            order, state = jax.random.permutation(now, order), (weights, kept, running, key)
        state, (losses, rights) = jax.lax.scan(lambda s, chosen: step(s, chosen, samples, labels), state,
                                               order.reshape(steps, batch))  # fmt: skip
        return state, losses.mean(), rights.sum()

    return jax.jit(epoch, donate_argnums=0)


def epoch_by_steps(step, steps, batch, shuffled):
    """An epoch of a program a step; its numbers are added up on the device."""

    def one(state, totals, order, at, samples, labels):
        chosen = jax.lax.dynamic_slice(order, (at,), (batch,))
        state, (loss, right) = step(state, chosen, samples, labels)
        return state, (totals[0] + loss, totals[1] + right), at + batch

    compiled = jax.jit(one, donate_argnums=(0, 1, 3))
    shuffle = jax.jit(lambda key: jax.random.permutation(key, steps * batch))

    def epoch(state, samples, labels):
        order = jnp.arange(steps * batch)
        if shuffled:
            weights, kept, running, key = state
            key, now = jax.random.split(key)
            order, state = shuffle(now), (weights, kept, running, key)
        totals, at = (jnp.zeros(()), jnp.zeros((), jnp.int32)), jnp.zeros((), jnp.int32)
        for _ in range(steps):
            state, totals, at = compiled(state, totals, order, at, samples, labels)
        return state, totals[0] / steps, totals[1]

    return epoch


class Run:
    def __init__(self, batch, variant):
        self.batch, self.steps = batch, SAMPLES // batch
        self.make_epoch = epoch_by_steps if variant == "steps" else whole_epoch
        models.attention = "cudnn" if variant == "cudnn" else "xla"
        key = jax.random.key(1, impl="rbg")
        weights = jax.jit(make)(key)
        self.state = (weights, begin(weights), running_of(), jax.random.clone(key))

    def epoch_of(self, step, shuffled):
        compute = self.make_epoch(step, self.steps, self.batch, shuffled)

        def epoch():
            self.state, loss, right = compute(self.state, *data)
            loss, _ = float(loss), int(right)  # waits for the device
            jax.block_until_ready(self.state)
            if not math.isfinite(loss):
                raise ArithmeticError(f"the loss is {loss}")

        return epoch


def measure(batch, variant):
    if variant not in ("scan", "steps", "cudnn"):
        raise ValueError(f"no variant {variant}")
    run = Run(batch, variant)
    yield "training", run.epoch_of(train_step, True)
    yield "inference", run.epoch_of(score_step, False)
    del run
    jax.clear_caches()


def about():
    used = jax.devices()[0].memory_stats() or {}
    told = {"version": f"JAX {jax.__version__}"}
    return told | ({"peak_bytes": used["peak_bytes_in_use"]} if "peak_bytes_in_use" in used else {})


jax.config.update("jax_default_matmul_precision", {"tf32": "tensorfloat32", "fp32": "highest"}.get(PRECISION, "default"))
data = models.noise(NET, SAMPLES, jax.random.key(2, impl="rbg"))
serve(measure, about)
