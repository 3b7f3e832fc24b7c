"""Makes keras_optimizers.h: where optimizers take two arrays of weights in 100 steps. usage: python keras_optimizers.py > keras_optimizers.h

Needs Keras 3 on any backend; LARS and NovoGrad, which it lacks, are the papers' formulas in float64, below. Weights and
gradients are formulas that the test repeats: w(i) = cos(i), g(step, i) = sin(0.7·step + i) + 0.3·(i mod 4).
"""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import keras
from keras import optimizers as k

SHAPES, STEPS = [(3, 4), (4,)], 100
COUNTS = [int(np.prod(shape)) for shape in SHAPES]


def split(flat):
    return [part.reshape(shape) for part, shape in zip(np.split(flat, np.cumsum(COUNTS)[:-1]), SHAPES)]


def weights():
    return split(np.cos(np.arange(sum(COUNTS), dtype="float64")))


def gradients(step):
    index = np.arange(sum(COUNTS), dtype="float64")
    return split((np.sin(0.7 * step + index) + 0.3 * (index % 4)).astype("float32"))


def run(optimizer):
    variables = [keras.Variable(w.astype("float32")) for w in weights()]
    optimizer.build(variables)
    for step in range(STEPS):
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients(step)])
    return np.concatenate([keras.ops.convert_to_numpy(v.value).ravel() for v in variables])


def lars(rate=0.1, momentum=0.9, trust=0.001, epsilon=1e-8, decay=0.0, vectors=False):
    """You, Gitman and Ginsburg 2017, algorithm 1."""
    w, v = weights(), [np.zeros(shape) for shape in SHAPES]
    for step in range(STEPS):
        for a, g in enumerate(gradients(step)):
            g, own, beta = g.astype("float64"), rate, decay
            if len(SHAPES[a]) > 1 or vectors:
                own *= trust * np.linalg.norm(w[a]) / (np.linalg.norm(g) + decay * np.linalg.norm(w[a]) + epsilon)
            else:
                beta = 0
            v[a] = momentum * v[a] + own * (g + beta * w[a])
            w[a] = w[a] - v[a]
    return np.concatenate([x.ravel() for x in w])


def novograd(rate=0.01, beta_1=0.95, beta_2=0.98, epsilon=1e-8, decay=0.0):
    """Ginsburg et al. 2019, algorithm 1."""
    w, m, v = weights(), [np.zeros(shape) for shape in SHAPES], [0.0] * len(SHAPES)
    for step in range(STEPS):
        for a, g in enumerate(gradients(step)):
            g = g.astype("float64")
            v[a] = np.sum(g * g) if step == 0 else beta_2 * v[a] + (1 - beta_2) * np.sum(g * g)
            m[a] = beta_1 * m[a] + (g / (np.sqrt(v[a]) + epsilon) + decay * w[a])
            w[a] = w[a] - rate * m[a]
    return np.concatenate([x.ravel() for x in w])


COMMON = {"decay": (".weight_decay = 0.05", dict(weight_decay=0.05)),
          "clip_value": (".clip_value = 0.4", dict(clipvalue=0.4)),
          "clip_norm": (".clip_norm = 0.7, .weight_decay = 0.01", dict(clipnorm=0.7, weight_decay=0.01)),
          "global_clip_norm": (".global_clip_norm = 0.9", dict(global_clipnorm=0.9))}
KERAS = [("sgd", k.SGD, [("", {}), (".momentum = 0.9", dict(momentum=0.9)),
                         (".momentum = 0.9, .nesterov = true", dict(momentum=0.9, nesterov=True))]),
         ("adagrad", k.Adagrad, [("", {}), (".initial_accumulator_value = 0.5, .epsilon = 1e-3",
                                            dict(initial_accumulator_value=0.5, epsilon=1e-3))]),
         ("adadelta", k.Adadelta, [("", {}), (".rho = 0.8, .epsilon = 1e-4", dict(rho=0.8, epsilon=1e-4))]),
         ("rmsprop", k.RMSprop, [("", {}), (".momentum = 0.5", dict(momentum=0.5)), (".centered = true", dict(centered=True)),
                                 (".rho = 0.8, .momentum = 0.5, .centered = true, .epsilon = 1e-3",
                                  dict(rho=0.8, momentum=0.5, centered=True, epsilon=1e-3))]),
         ("adam", k.Adam, [("", {}), (".beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3",
                                      dict(beta_1=0.8, beta_2=0.95, epsilon=1e-3)),
                           (".amsgrad = true, .beta_2 = 0.9", dict(amsgrad=True, beta_2=0.9))]),
         ("adamw", k.AdamW, [("", {})]),
         ("adamax", k.Adamax, [("", {}), (".beta_1 = 0.8, .beta_2 = 0.95", dict(beta_1=0.8, beta_2=0.95))]),
         ("nadam", k.Nadam, [("", {}), (".beta_1 = 0.8, .beta_2 = 0.95", dict(beta_1=0.8, beta_2=0.95))]),
         ("lamb", k.Lamb, [("", {}), (".beta_1 = 0.8, .beta_2 = 0.95", dict(beta_1=0.8, beta_2=0.95))])]
PAPERS = [("lars", lars, [("", {}), (".learning_rate = 2, .weight_decay = 0.05", dict(rate=2, decay=0.05)),
                          (".scale_vectors = true, .momentum = 0.5, .trust_coefficient = 0.1, .weight_decay = 0.01",
                           dict(vectors=True, momentum=0.5, trust=0.1, decay=0.01))]),
          ("novograd", novograd, [("", {}), (".weight_decay = 0.05", dict(decay=0.05)),
                                  (".beta_1 = 0.8, .beta_2 = 0.25", dict(beta_1=0.8, beta_2=0.25))])]


def show(name, options, arrived):
    numbers = ", ".join(f"{value:.9g}" for value in arrived)
    print(f"{{kolo_{name}({options}), {{{numbers}}}}},")


print(f"/* Made by keras_optimizers.py with Keras {keras.__version__}; lars and novograd by its formulas in float64. */")
for name, make, cases in KERAS:
    rate = {} if name == "sgd" else dict(learning_rate=0.02)
    given = "" if name == "sgd" else ".learning_rate = 0.02"
    for options, arguments in cases:
        show(name, options, run(make(**arguments)))
    for options, arguments in COMMON.values():
        both = [part for part in (given, options, cases[-1][0]) if part]
        show(name, ", ".join(both), run(make(**rate, **arguments, **cases[-1][1])))
for name, formula, cases in PAPERS:
    for options, arguments in cases:
        show(name, options, formula(**arguments))
