#!/usr/bin/env python3
"""What TensorFlow writes and reads, for tfrecord_test.c.

    tensorflow_records.py >tensorflow_records.h     files of tf.train.Example as arrays of bytes
    tensorflow_records.py --check FILE ...          prints the examples of files that Kolo wrote, with checksums verified

Needs TensorFlow (2.21 wrote what is there).
"""
import os
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf


def integers(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def string(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def pictures(i):
    """As many of TensorFlow's own examples write MNIST."""
    raw = bytes(range(6 * i, 6 * i + 6))
    return {"height": integers(2), "width": integers(3), "depth": integers(1), "label": integers(i % 2),
            "image_raw": string(raw)}  # fmt: skip


def rows(i):
    return {"b": floats(i + 0.5, -i), "a": integers(10 * i), "target/label": floats(i / 4)}


def sequences(i):
    return {"ids": integers(i, i + 1, i + 2), "label": integers(i + 1, i + 2, i + 3)}


def jpeg(i):
    return {"image_raw": string(tf.io.encode_jpeg(np.zeros((8, 8, 3), np.uint8)).numpy()), "label": integers(i)}


def written(make, count, compression=""):
    with tempfile.NamedTemporaryFile() as file:
        with tf.io.TFRecordWriter(file.name, compression) as writer:
            for i in range(count):
                features = tf.train.Features(feature=make(i))
                writer.write(tf.train.Example(features=features).SerializeToString())
        return open(file.name, "rb").read()


def print_array(name, data):
    print(f"static const unsigned char {name}[{len(data)}] = {{")
    for at in range(0, len(data), 20):
        print("    " + ", ".join(str(byte) for byte in data[at : at + 20]) + ",")
    print("};")


def check(path):
    compression = "GZIP" if open(path, "rb").read(2) == b"\x1f\x8b" else ""
    for record in tf.data.TFRecordDataset(path, compression):
        example = tf.train.Example.FromString(record.numpy())
        for name, feature in sorted(example.features.feature.items()):
            values = getattr(feature, feature.WhichOneof("kind")).value
            print(name, [list(v) if isinstance(v, bytes) else v for v in values])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        for path in sys.argv[2:]:
            check(path)
        sys.exit()
    print(f"/* Written by tensorflow_records.py with TensorFlow {tf.__version__}: do not edit. */")
    print("/* clang-format off */")
    print_array("tf_pictures", written(pictures, 3))
    print_array("tf_pictures_gzip", written(pictures, 3, "GZIP"))
    print_array("tf_rows", written(rows, 4))
    print_array("tf_sequences", written(sequences, 2))
    print_array("tf_jpeg", written(jpeg, 1))
