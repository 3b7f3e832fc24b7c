"""cnn_bench.c's training in Keras 3 on TensorFlow: keras_cnn.py BATCH fp32|bf16 STEPS EPOCHS. Prints the same JSON."""
import json
import os
import resource
import sys
import time

os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

BATCH, PRECISION, STEPS, EPOCHS = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
SAMPLES = BATCH * STEPS


def cpu_seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


class Watch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epochs, self.first_step_at = [], None

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.monotonic(), cpu_seconds()

    def on_train_batch_end(self, batch, logs=None):
        self.first_step_at = self.first_step_at or time.time()

    def on_epoch_end(self, epoch, logs=None):
        seconds, cpu = time.monotonic() - self.begin[0], cpu_seconds() - self.begin[1]
        self.epochs.append({"seconds": seconds, "images": SAMPLES, "cpu_seconds": cpu})


def lesson_cnn():
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


if PRECISION == "bf16":
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
generator = np.random.default_rng(1)
pictures = generator.random((SAMPLES, 28, 28, 1), dtype=np.float32)
labels = generator.integers(0, 10, SAMPLES)
# Its fastest way to feed a training from memory, and without XLA, which is slower for this network on a CPU.
feed = tf.data.Dataset.from_tensor_slices((pictures, labels)).shuffle(10000).batch(BATCH).prefetch(2)
model, watch = lesson_cnn(), Watch()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3), metrics=["accuracy"], jit_compile=False,
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)  # fmt: skip
model.fit(feed, epochs=EPOCHS, verbose=0, callbacks=[watch])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"first_step_at": watch.first_step_at, "peak_bytes": peak, "epochs": watch.epochs,
                  "version": f"Keras {keras.__version__}, TensorFlow {tf.__version__}"}))  # fmt: skip
