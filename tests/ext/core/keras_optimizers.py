"""Makes keras_optimizers.h: where Keras's optimizers take four weights in 100 steps. usage: python keras_optimizers.py > keras_optimizers.h

Needs Keras 3 on any backend. The gradients are a formula that the test repeats: g(step, i) = sin(0.7·step + i) + 0.3·i.
"""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import keras

WEIGHTS, STEPS = 4, 100
RECIPES = [
    ("sgd", "kolo_sgd(.learning_rate = 0.05)", lambda: keras.optimizers.SGD(0.05)),
    ("momentum", "kolo_sgd(.learning_rate = 0.05, .momentum = 0.9)", lambda: keras.optimizers.SGD(0.05, momentum=0.9)),
    ("nesterov", "kolo_sgd(.learning_rate = 0.05, .momentum = 0.9, .nesterov = true)",
     lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True)),
    ("adam", "kolo_adam(.learning_rate = 0.02)", lambda: keras.optimizers.Adam(0.02)),
    ("adam_options", "kolo_adam(.learning_rate = 0.02, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3)",
     lambda: keras.optimizers.Adam(0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-3)),
]


def run(optimizer):
    weights = keras.Variable(np.array([0.5, -1.0, 2.0, 0.0], "float32"))
    optimizer.build([weights])
    for step in range(STEPS):
        index = np.arange(WEIGHTS, dtype="float64")
        gradient = (np.sin(0.7 * step + index) + 0.3 * index).astype("float32")
        optimizer.apply([keras.ops.convert_to_tensor(gradient)])
    return keras.ops.convert_to_numpy(weights.value)


print(f"/* Made by keras_optimizers.py with Keras {keras.__version__}. */")
for name, recipe, make in RECIPES:
    numbers = ", ".join(f"{value:.9g}f" if "." in f"{value:.9g}" else f"{value:.9g}.0f" for value in run(make()))
    print(f'{{"{name}", {recipe}, {{{numbers}}}}},')
