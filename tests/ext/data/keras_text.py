#!/usr/bin/env python3
"""What Keras's TextVectorization makes of a text, for text_test.c:   keras_text.py >keras_text.h

Needs Keras 3 on TensorFlow.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import json
import re
import string

import keras
import tensorflow as tf

LINES = ["The cat sat. The CAT ran!", "a dog's bone; Über naïve café", "tab\tsep b-c d_e [UNK] x",
         "zeta alpha zeta beta alpha 12 1.5", "non\u00a0breaking ÀÉ", "<br />foo", "one two three four five six seven eight",
         "!?", "don't stop"]  # fmt: skip
CASES = [("plain", 100, 6, "lower_and_strip_punctuation"), ("small", 8, 4, "lower_and_strip_punctuation"),
         ("separate", 100, 6, "separate"), ("kept", 100, 6, None)]  # fmt: skip


@keras.saving.register_keras_serializable()
def separate(text):
    """Of Keras's example "Text generation with a miniature GPT"."""
    return tf.strings.regex_replace(tf.strings.lower(text), f"([{re.escape(string.punctuation)}])", r" \1")


def c_string(text):
    return '"' + "".join(f"\\{byte:03o}" if byte < 32 or byte > 126 or chr(byte) in '"\\?' else chr(byte)
                         for byte in text.encode()) + '"'  # fmt: skip


def main():
    print(f"/* Made by keras_text.py with Keras {keras.__version__}: do not edit. */")
    print("/* clang-format off */")
    print("static const char keras_lines[] =")
    print("\n".join(f"    {c_string(line + chr(10))}" for line in LINES) + ";")
    for name, vocabulary, length, rule in CASES:
        layer = keras.layers.TextVectorization(max_tokens=vocabulary, output_sequence_length=length + 1,
                                               standardize=separate if rule == "separate" else rule)  # fmt: skip
        layer.adapt(LINES)
        words = layer.get_vocabulary()
        rows = [row for row in layer(LINES).numpy().tolist() if any(row)]  # Kolo leaves empty lines out
        print(f"static const char *const keras_{name}_words[{len(words)}] = {{{', '.join(c_string(str(w)) for w in words)}}};")
        print(f"static const int keras_{name}_rows[{len(rows)}][{length + 1}] = {json.dumps(rows).replace('[', '{').replace(']', '}')};")


main()
