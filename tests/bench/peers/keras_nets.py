"""net_bench.c's runs in Keras 3 on TensorFlow: keras_nets.py NET BATCH fp32|bf16 STEPS EPOCHS [MNIST UNTIL].

Prints the same JSON. MNIST, a folder, takes the place of noise, until its test images are known as well as UNTIL says.
"""
import gzip
import json
import os
import resource
import sys
import time
from pathlib import Path

os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

NET, BATCH, PRECISION, STEPS, EPOCHS = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
MNIST, UNTIL = (Path(sys.argv[6]), float(sys.argv[7])) if len(sys.argv) > 6 else (None, 2)
WORDS, LENGTH, SIZE, HEADS = 20000, 80, 256, 2
generator = np.random.default_rng(1)


def spent():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return np.array((time.monotonic(), use.ru_utime + use.ru_stime))


def entry(since):
    seconds, cpu = spent() - since
    return {"seconds": seconds, "images": len(labels), "cpu_seconds": cpu}


class Watch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epochs, self.first_step_at, self.reached = [], None, None

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = spent()
        if epoch == 0:
            self.first_begin = self.begin

    def on_train_batch_end(self, batch, logs=None):
        self.first_step_at = self.first_step_at or time.time()

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(entry(self.begin))
        if logs.get("val_accuracy", 0) >= UNTIL:
            self.reached = (spent() - self.first_begin)[0]
            self.model.stop_training = True


# ---- Networks ----


def cnn():
    return keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(10, dtype="float32"),
    ])  # fmt: skip


def convolve(x, filters, side, stride):
    x = layers.Conv2D(filters, side, strides=stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def resnet20():
    inputs = keras.Input((32, 32, 3))
    x = layers.ReLU()(convolve(inputs, 16, 3, 1))
    for stage in range(3):
        for block in range(3):
            filters, stride = 16 << stage, 2 if stage > 0 and block == 0 else 1
            y = convolve(layers.ReLU()(convolve(x, filters, 3, stride)), filters, 3, 1)
            x = layers.ReLU()(layers.Add()([convolve(x, filters, 1, stride) if stride > 1 else x, y]))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling2D()(x)))


def gpt():
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, SIZE)(inputs) + layers.Embedding(LENGTH, SIZE)(np.arange(LENGTH))
    attended = layers.MultiHeadAttention(HEADS, SIZE // HEADS)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + layers.Dropout(0.1)(attended))
    inner = layers.Dense(SIZE)(layers.Dense(256, activation="relu")(x))
    x = layers.LayerNormalization()(x + layers.Dropout(0.1)(inner))
    return keras.Model(inputs, layers.Dense(WORDS, dtype="float32")(x))


def higgs():
    return keras.Sequential([
        keras.Input((28,)),
        layers.Dense(600, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(600, activation="relu"),
        layers.Dense(2, dtype="float32"),
    ])  # fmt: skip


OPTIMIZERS = {
    "cnn": lambda: keras.optimizers.Adam(1e-3),
    "resnet20": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "gpt": lambda: keras.optimizers.Adam(1e-3),
    "higgs": lambda: keras.optimizers.Adagrad(0.01),
}

# ---- Data ----


def noise(samples):
    if NET == "gpt":
        words = generator.integers(0, WORDS, samples * LENGTH + 1, dtype=np.int32)
        return words[:-1].reshape(samples, LENGTH), words[1:].reshape(samples, LENGTH)
    shape, classes = {"cnn": ((28, 28, 1), 10), "resnet20": ((32, 32, 3), 10), "higgs": ((28,), 2)}[NET]
    return generator.random((samples, *shape), dtype=np.float32), generator.integers(0, classes, samples)


def idx(name, head):
    plain = MNIST / name
    return np.frombuffer(plain.read_bytes() if plain.exists() else gzip.decompress(Path(f"{plain}.gz").read_bytes()),
                         np.uint8, offset=head)  # fmt: skip


def mnist(part):
    images = idx(f"{part}-images-idx3-ubyte", 16).reshape(-1, 28, 28, 1).astype(np.float32) / 255
    return images, idx(f"{part}-labels-idx1-ubyte", 8).astype(np.int64)


if PRECISION == "bf16":
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
features, labels = mnist("train") if MNIST else noise(BATCH * STEPS)
# Its fastest way to feed a training from memory, and without XLA, which is slower for the CNN on a CPU.
whole = tf.data.Dataset.from_tensor_slices((features, labels))
test = tf.data.Dataset.from_tensor_slices(mnist("t10k")).batch(BATCH) if MNIST else None
model, watch = globals()[NET](), Watch()
model.compile(
    optimizer=OPTIMIZERS[NET](), metrics=["accuracy"], jit_compile=False,
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)  # fmt: skip
feed = whole.shuffle(len(labels) if MNIST else 10000).batch(BATCH).prefetch(2)
model.fit(feed, epochs=EPOCHS, verbose=0, callbacks=[watch], validation_data=test)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
scored = []
for turn in range(0 if MNIST else EPOCHS + 1):  # the first prepares
    begin = spent()
    model.evaluate(whole.batch(BATCH).prefetch(2), verbose=0)
    if turn > 0:
        scored.append(entry(begin))
print(json.dumps({"first_step_at": watch.first_step_at, "peak_bytes": peak, "epochs": watch.epochs, "scored": scored,
                  "version": f"Keras {keras.__version__}, TensorFlow {tf.__version__}"}
                 | ({"reached": watch.reached} if watch.reached else {})))  # fmt: skip
