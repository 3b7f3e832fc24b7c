"""Makes keras_losses.h and keras_metrics.h, what Keras's losses and metrics give, beside itself. usage: python keras_losses.py

Needs Keras 3 on TensorFlow, whose tape gives the gradients. Outputs, targets, labels and weights are formulas that the
test repeats. A gradient is told by two of its sums: that of its elements times cos(k), and that of their squares.
"""
import contextlib
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
import keras
from keras import losses as kl, metrics as km

SAMPLES = 6


def outputs(samples, rows, n):
    k = np.arange(samples * rows * n, dtype="float64")
    return (3 * np.sin(1.7 * k + 0.3)).astype("float32").reshape(samples, rows, n)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def targets(kind, samples, rows, n):
    k = np.arange(samples * rows * n, dtype="float64")
    if kind == "label":
        return ((np.arange(samples * rows) * 7 + 3) % n).reshape(samples, rows)
    if kind == "soft":
        return softmax(np.cos(0.9 * k).reshape(samples, rows, n)).astype("float32")
    if kind == "half":
        return (0.5 + 0.5 * np.cos(0.9 * k)).astype("float32").reshape(samples, rows, n)
    return (2 * np.cos(0.9 * k)).astype("float32").reshape(samples, rows, n)


LOSSES = [
    ("KOLO_SPARSE_CROSSENTROPY", "label", [2, 5], kl.SparseCategoricalCrossentropy(from_logits=True), None),
    ("KOLO_CATEGORICAL_CROSSENTROPY", "soft", [2, 5], kl.CategoricalCrossentropy(from_logits=True), None),
    ("KOLO_LABEL_SMOOTHING(KOLO_CATEGORICAL_CROSSENTROPY, 0.1)", "soft", [2, 5],
     kl.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), None),
    ("KOLO_BINARY_CROSSENTROPY", "half", [1, 5], kl.BinaryCrossentropy(from_logits=True), None),
    ("KOLO_LABEL_SMOOTHING(KOLO_BINARY_CROSSENTROPY, 0.2)", "half", [1, 5],
     kl.BinaryCrossentropy(from_logits=True, label_smoothing=0.2), None),
    ("KOLO_KL_DIVERGENCE", "soft", [2, 5], kl.KLDivergence(), tf.nn.softmax),
    ("KOLO_MSE", "real", [1, 5], kl.MeanSquaredError(), None),
    ("KOLO_MAE", "real", [1, 5], kl.MeanAbsoluteError(), None),
    ("KOLO_HUBER(0)", "real", [1, 5], kl.Huber(), None),
    ("KOLO_HUBER(0.3)", "real", [1, 5], kl.Huber(delta=0.3), None),
    ("KOLO_LOG_COSH", "real", [1, 5], kl.LogCosh(), None),
]


def tell_loss(name, kind, n, rows, loss, activation, weighted):
    z, t = tf.constant(outputs(SAMPLES, rows, n)), targets(kind, SAMPLES, rows, n)
    weights = (0.25 * (np.arange(SAMPLES) % 5)).astype("float32").reshape(SAMPLES, 1) if weighted else None
    with tf.GradientTape() as tape:
        tape.watch(z)
        value = loss(t, activation(z) if activation else z, sample_weight=weights)
    g = tape.gradient(value, z).numpy().astype("float64").ravel()
    sums = (g * np.cos(np.arange(g.size))).sum(), (g * g).sum()
    print(f"{{{name}, {kind.upper()}, {n}, {rows}, {str(weighted).lower()}, {float(value):.9g}, {sums[0]:.9g}, {sums[1]:.9g}}},")


MANY = 300


def spread(n):
    """Logits whose classes can be told, some of them wrongly."""
    k = np.arange(MANY * n, dtype="float64").reshape(MANY, n)
    labels = (np.arange(MANY) * 7 + np.arange(MANY) // 11) % max(n, 2)
    z = 2.5 * np.sin(1.3 * k + 0.1 * k % 3)
    z += 1.2 * (labels[:, None] - 0.5 if n == 1 else np.eye(n)[labels])
    return z.astype("float32"), labels


def each_truth(n):
    k = np.arange(MANY * n, dtype="float64")
    return (np.sin(2.1 * k) > 0.2).astype("float32").reshape(MANY, n)


def told(metric, truth, prediction):
    metric.update_state(truth, prediction)
    value = metric.result().numpy()
    return float(value if value.ndim == 0 else value[0])


def tell(loss, n, metric, value):
    print(f"{{{loss}, {n}, {metric}, {value:.9g}}},")


def of_classes(claimed, truth, classes):
    """Precision and recall as scikit-learn averages them, from their definitions."""
    tp = np.array([((claimed == c) & (truth == c)).sum() for c in range(classes)], "float64")
    c, t = np.array([(claimed == c).sum() for c in range(classes)]), np.array([(truth == c).sum() for c in range(classes)])
    p, r = tp / np.maximum(c, 1), tp / np.maximum(t, 1)
    for name, per, whole in (("PRECISION", p, c), ("RECALL", r, t)):
        yield f"KOLO_{name}(KOLO_MACRO)", per.mean()
        yield f"KOLO_{name}(KOLO_MICRO)", tp.sum() / whole.sum()
        yield f"KOLO_{name}(KOLO_WEIGHTED)", (per * t).sum() / t.sum()


def tell_binary(loss, p, labels):
    truth = labels.reshape(-1, 1).astype("float32")
    tell(loss, 1, "KOLO_ACCURACY", told(km.BinaryAccuracy(), truth, p))
    tell(loss, 1, "KOLO_PRECISION(KOLO_BINARY)", told(km.Precision(), truth, p))
    tell(loss, 1, "KOLO_RECALL(KOLO_BINARY)", told(km.Recall(), truth, p))
    tell(loss, 1, "KOLO_F1(KOLO_BINARY)", told(km.F1Score(threshold=0.5, average="micro"), truth, p))
    tell(loss, 1, "KOLO_AUC", told(km.AUC(), truth, p))
    tell(loss, 1, "KOLO_METRIC_MSE", told(km.MeanSquaredError(), truth, p))
    tell(loss, 1, "KOLO_METRIC_MAE", told(km.MeanAbsoluteError(), truth, p))
    tell(loss, 1, "KOLO_MEAN", float(p.mean()))
    for metric, value in of_classes((p[:, 0] > 0.5).astype(int), labels, 2):
        tell(loss, 1, metric, value)


def tell_classes(loss, n, p, labels):
    truth = np.eye(n, dtype="float32")[labels]
    tell(loss, n, "KOLO_ACCURACY", told(km.CategoricalAccuracy(), truth, p))
    tell(loss, n, "KOLO_CATEGORICAL_ACCURACY", told(km.SparseCategoricalAccuracy(), labels, p))
    for k in (1, 2, 3):
        tell(loss, n, f"KOLO_TOP_K({k})", told(km.TopKCategoricalAccuracy(k=k), truth, p))
    for average in ("macro", "micro", "weighted"):
        tell(loss, n, f"KOLO_F1(KOLO_{average.upper()})", told(km.F1Score(average=average), truth, p))
    tell(loss, n, "KOLO_AUC", told(km.AUC(), truth, p))
    tell(loss, n, "KOLO_METRIC_MSE", told(km.MeanSquaredError(), truth, p))
    tell(loss, n, "KOLO_BINARY_ACCURACY", told(km.BinaryAccuracy(), truth, p))
    for metric, value in of_classes(p.argmax(1), labels, n):
        tell(loss, n, metric, value)


HERE = os.path.dirname(os.path.abspath(__file__))
MADE = f"/* Made by keras_losses.py with Keras {keras.__version__}. */"


def tell_losses():
    for name, kind, widths, loss, activation in LOSSES:
        for n in widths:
            for rows in (1, 3):
                for weighted in (False, True):
                    tell_loss(name, kind, n, rows, loss, activation, weighted)


def tell_metrics():
    z, labels = spread(1)
    p = (1 / (1 + np.exp(-z.astype("float64")))).astype("float32")
    tell_binary("KOLO_BINARY_CROSSENTROPY", p, labels)
    tell_binary("KOLO_MSE", np.clip(z, 0, 1), labels)  # from what it is given, without a sigmoid
    z, labels = spread(4)
    tell_classes("KOLO_SPARSE_CROSSENTROPY", 4, softmax(z.astype("float64")).astype("float32"), labels)
    tell_classes("KOLO_CATEGORICAL_CROSSENTROPY", 4, softmax(z.astype("float64")).astype("float32"), labels)
    p, truth = (1 / (1 + np.exp(-z.astype("float64")))).astype("float32"), each_truth(4)
    for average in ("macro", "micro", "weighted"):
        tell("KOLO_BINARY_CROSSENTROPY", 4, f"KOLO_F1(KOLO_{average.upper()})", told(km.F1Score(average=average, threshold=0.5), truth, p))
    tell("KOLO_BINARY_CROSSENTROPY", 4, "KOLO_PRECISION(KOLO_MICRO)", told(km.Precision(), truth, p))
    tell("KOLO_BINARY_CROSSENTROPY", 4, "KOLO_RECALL(KOLO_MICRO)", told(km.Recall(), truth, p))
    tell("KOLO_BINARY_CROSSENTROPY", 4, "KOLO_BINARY_ACCURACY", told(km.BinaryAccuracy(), truth, p))
    tell("KOLO_BINARY_CROSSENTROPY", 4, "KOLO_AUC", told(km.AUC(), truth, p))


for name, write in (("keras_losses.h", tell_losses), ("keras_metrics.h", tell_metrics)):
    with open(os.path.join(HERE, name), "w") as file, contextlib.redirect_stdout(file):
        print(MADE)
        write()
