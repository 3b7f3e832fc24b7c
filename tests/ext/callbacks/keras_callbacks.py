#!/usr/bin/env python3
"""What Keras's callbacks decide, as keras_callbacks.h: run it with a Python that has Keras 3, and redirect its output.

Each case is a recipe and the numbers that it sees at the ends of the epochs; Keras says when it stops, which epoch is the
best, what the learning rate of each epoch is, which files are written. Where a number is missing, it is NaN.
"""
import keras

FALL = [0.9, 0.7, 0.6, 0.55, 0.54, 0.56, 0.53, 0.6, 0.61, 0.62, 0.63, 0.64]
BUMPS = [0.5, 0.625, 0.375, 0.5, 0.375, 0.25, 0.5, 0.5, 0.5, 0.125, 0.5, 0.5]
RISE = [0.125, 0.25, 0.25, 0.5, 0.375, 0.5, 0.625, 0.5, 0.5, 0.5, 0.5, 0.5]
FLAT = [0.5] * 12
SEQUENCES = {"fall": FALL, "bumps": BUMPS, "rise": RISE, "flat": FLAT}


class Optimizer:
    learning_rate = 0.1


class Model:
    metrics = ()

    def __init__(self):
        self.stop_training, self.epoch, self.saved, self.restored = False, 0, [], -1
        self.optimizer = Optimizer()

    def get_weights(self):
        return self.epoch

    def set_weights(self, weights):
        self.restored = weights

    def save(self, path, overwrite):
        self.saved.append(path)

    save_weights = save


def run(callback, numbers, monitor, batches=0):
    model, rates = Model(), []
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, number in enumerate(numbers):
        model.epoch = epoch
        callback.on_epoch_begin(epoch)
        for batch in range(batches):
            callback.on_train_batch_end(batch, {monitor: number})
        callback.on_epoch_end(epoch, {monitor: number})
        rates.append(float(model.optimizer.learning_rate))
        if model.stop_training:
            break
    callback.on_train_end()
    return model, rates


def c_value(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return {"min": "KOLO_MIN", "max": "KOLO_MAX"}[value]
    return "KOLO_NONE" if value == 0 else repr(value)


def c_options(options):
    return ", ".join(f".{name} = {c_value(value)}" for name, value in options.items())


def numbers(name):
    print(f"static const double {name}_numbers[] = {{{', '.join(map(str, SEQUENCES[name]))}}};")


STOPPING = [
    ("fall", {}), ("fall", {"patience": 1}), ("fall", {"patience": 2}), ("fall", {"patience": 3, "min_delta": 0.0625}),
    ("fall", {"patience": 2, "start_from_epoch": 6}), ("fall", {"patience": 3, "restore_best_weights": True}),
    ("fall", {"patience": 3, "baseline": 0.545}), ("fall", {"patience": 4, "baseline": 0.3, "restore_best_weights": True}),
    ("bumps", {"patience": 2}), ("bumps", {"patience": 3, "restore_best_weights": True}),
    ("bumps", {"patience": 2, "mode": "max"}), ("bumps", {"patience": 3, "min_delta": 0.125}),
    ("bumps", {"patience": 4, "min_delta": -0.0625}), ("rise", {"patience": 2, "mode": "max"}),
    ("rise", {"patience": 3, "mode": "max", "restore_best_weights": True, "start_from_epoch": 2}),
    ("flat", {}), ("flat", {"patience": 5}), ("flat", {"patience": 20, "restore_best_weights": True}),
]  # fmt: skip
PLATEAUS = [
    ("fall", {"patience": 2}), ("fall", {"patience": 1, "factor": 0.5}), ("fall", {"patience": 2, "cooldown": 2}),
    ("fall", {"patience": 1, "min_delta": 0.0625, "factor": 0.5}), ("fall", {}), ("flat", {"patience": 1, "min_lr": 0.005}),
    ("flat", {"patience": 2, "cooldown": 1, "factor": 0.25}), ("bumps", {"patience": 2, "factor": 0.5}),
    ("bumps", {"patience": 2, "factor": 0.5, "min_delta": 0}), ("rise", {"patience": 2, "mode": "max", "factor": 0.5}),
]  # fmt: skip
CHECKPOINTS = [
    ("fall", "e{epoch:02d}-{val_loss:.2f}.keras", {}, 0), ("fall", "{epoch}.keras", {"save_best_only": True}, 0),
    ("bumps", "{epoch:03d}_{val_loss:.3f}.keras", {"save_best_only": True}, 0),
    ("rise", "{val_loss:5.1f}at{epoch}.keras", {"save_best_only": True, "mode": "max"}, 0),
    ("fall", "{epoch}.keras", {"save_best_only": True, "initial_value_threshold": 0.56}, 0),
    ("fall", "{epoch}-{batch:02d}.keras", {"save_freq": 4}, 3), ("flat", "{epoch}-{batch}.keras", {"save_freq": 5}, 7),
    ("bumps", "{epoch}-{batch}.keras", {"save_freq": 2, "save_best_only": True}, 3),
]  # fmt: skip


def main():
    print("/* What Keras's callbacks decide: made by keras_callbacks.py. */")
    print(f"/* Keras {keras.__version__} */")
    for name in SEQUENCES:
        numbers(name)
    print("\nstatic const struct stopping {\n    kolo_early_stopping_args recipe;\n    const double *numbers;")
    print("    int epochs, restored; /* that are trained; whose weights are put back, -1: none */\n} stoppings[] = {")
    for name, options in STOPPING:
        model, rates = run(keras.callbacks.EarlyStopping(**{"mode": "min"} | options), SEQUENCES[name], "val_loss")
        print(f"    {{{{._ = 0, {c_options({'mode': 'min'} | options)}}}, {name}_numbers, {len(rates)}, {model.restored}}},")
    print("};\n\nstatic const struct plateau {\n    kolo_reduce_lr_on_plateau_args recipe;\n    const double *numbers;")
    print("    double rates[12]; /* after each epoch, from 0.1 */\n} plateaus[] = {")
    for name, options in PLATEAUS:
        _, rates = run(keras.callbacks.ReduceLROnPlateau(**{"mode": "min"} | options), SEQUENCES[name], "val_loss")
        rates = ", ".join(f"{rate:.9g}" for rate in rates)
        print(f"    {{{{._ = 0, {c_options({'mode': 'min'} | options)}}}, {name}_numbers, {{{rates}}}}},")
    print("};\n\nstatic const struct saving {\n    kolo_model_checkpoint_args recipe;\n    const double *numbers;")
    print("    int batches; /* an epoch */\n    const char *files; /* in the order in which they are written */\n} savings[] = {")
    for name, path, options, batches in CHECKPOINTS:
        callback = keras.callbacks.ModelCheckpoint(path, **{"mode": "min"} | options)
        callback._set_monitor_op()
        model, _ = run(callback, SEQUENCES[name], "val_loss", batches)
        print(f'    {{{{._ = 0, "{path}", {c_options({"mode": "min"} | options)}}}, {name}_numbers, {batches},')
        print(f'     "{" ".join(model.saved)}"}},')
    print("};")


main()
