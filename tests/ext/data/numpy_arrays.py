#!/usr/bin/env python3
"""What NumPy writes, for npy_test.c:   numpy_arrays.py >numpy_arrays.h

Each array holds 0, 1, 2, … in its own order, so that element {i, j, k} of shape (2, 3, 4) is 12i + 4j + k.
"""
import io
import sys

import numpy as np

TYPES = ["|u1", "|i1", "|b1"] + [order + kind for kind in ("u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
                                 for order in "<>"]  # fmt: skip


def saved(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def zipped(save, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def print_array(name, data):
    print(f"static const unsigned char {name}[{len(data)}] = {{")
    for at in range(0, len(data), 20):
        print("    " + ", ".join(str(byte) for byte in data[at : at + 20]) + ",")
    print("};")


def main():
    cases = []
    cube = np.arange(24).reshape(2, 3, 4)
    for kind in TYPES:
        cases.append((kind, saved(cube.astype(kind))))
    cases.append(("<f4 in Fortran order", saved(np.asfortranarray(cube.astype("<f4")))))
    cases.append((">i2 in Fortran order", saved(np.asfortranarray(cube.astype(">i2")))))
    for version in ((2, 0), (3, 0)):
        cases.append((f"version {version[0]}", saved(cube.astype("<f4"), version)))
    print(f"/* Written by numpy_arrays.py with NumPy {np.__version__}: do not edit. */")
    print("/* clang-format off */")
    for i, (_, data) in enumerate(cases):
        print_array(f"numpy_case_{i}", data)
    print("static const struct {\n    const char *what;\n    const unsigned char *bytes;\n    size_t size;\n} numpy_cases[] = {")
    for i, (what, data) in enumerate(cases):
        print(f'    {{"{what}", numpy_case_{i}, {len(data)}}},')
    print("};")
    images = np.arange(4 * 28 * 28, dtype=np.uint32).reshape(4, 28, 28).astype(np.uint8)
    labels = np.array([[3], [1], [4], [1]], np.int64)
    print_array("numpy_plain_zip", zipped(np.savez, x_train=images[:, :4, :5], y_train=labels.astype(np.uint8)[:, 0]))
    print_array("numpy_packed_zip", zipped(np.savez_compressed, x_train=images, y_train=labels))


if __name__ == "__main__":
    sys.exit(main())
