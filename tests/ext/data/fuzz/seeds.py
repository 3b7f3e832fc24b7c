#!/usr/bin/env python3
"""Small files of each format as a fuzzer's first inputs: seeds.py FOLDER, whose name is the fuzzer's."""
import gzip
import hashlib
import lzma
import re
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def arrays(header):
    """The arrays of bytes in a header of the tests beside."""
    text = (HERE.parent / header).read_text()
    for body in re.findall(r"unsigned char \w+\[\d+\] = \{([^}]*)\}", text):
        yield bytes(int(number) for number in body.split(",") if number.strip())


def idx():
    images = struct.pack(">IIII", 0x803, 3, 2, 2) + bytes(range(12))
    labels = struct.pack(">II", 0x801, 3) + bytes([0, 1, 2])
    for first, second in ((images, labels), (gzip.compress(images), labels), (lzma.compress(images), gzip.compress(labels))):
        yield struct.pack("<H", len(first)) + first + second


def cifar():
    ten, hundred = bytes([7]) + bytes(3072), bytes([3, 99]) + bytes(3072)
    for how, records in ((0, ten * 2), (2, ten), (1, hundred), (2, b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n")):
        yield bytes([how]) + records
        yield bytes([how]) + gzip.compress(records)
        yield bytes([how]) + lzma.compress(records)


def tfrecord():
    for file in arrays("tensorflow_records.h"):
        yield b"\1" + file
        if file[:2] == b"\x1f\x8b":
            continue
        examples, at = [], 0
        while at < len(file):
            size = struct.unpack_from("<Q", file, at)[0]
            examples.append(file[at + 12 : at + 12 + size])
            at += size + 16
        for how in (0, 2, 4, 8, 16):
            yield bytes([how]) + b"\xfe".join(examples)


def csv():
    for text in (b"a,b,label\n1,2,0\n3,4,1\n", b"1;2;s\n3;4;b\n", b'"x, ""y""",?,\n1,-999,s\nNA,2,"b\nc"\n', b"\xef\xbb\xbf1\t2\r\n3\t4.5e1"):
        for how in (0, 2, 3, 4, 5, 9 * 8, 128):
            for more in (0, 1, 2, 4, 16, 32, 64, 128):
                yield bytes([how, more]) + text


def higgs():
    uci = b"".join(b"%d.0" % (i % 2) + b",%d.5e-1" % i * 28 + b"\n" for i in range(5))
    values = ",".join(f"DER_{i}" for i in range(30))
    atlas = f"EventId,{values},Weight,Label,KaggleSet,KaggleWeight\n".encode()
    kaggle = f"EventId,{values},Weight,Label\n".encode()
    for i in range(5):
        row = b"%d" % i + b",-999.0,%d.25" % i * 15 + b",0.1," + b"sb"[i % 2 : i % 2 + 1]
        atlas, kaggle = atlas + row + b",t,0.2\n", kaggle + row + b"\n"
    for table in (uci, atlas, kaggle):
        for how in (b"\0", b"\1"):
            yield from (how + table, how + gzip.compress(table), how + lzma.compress(table))


def npy():
    for file in arrays("numpy_arrays.h"):
        archive = file[:2] == b"PK"
        yield bytes([9 if archive else 0]) + file
        if not archive:
            yield bytes([2]) + file + file
            yield bytes([4]) + file


def text():
    for words in (b"The cat sat.\nA dog's bone!\n\n[UNK] cat\n", "é € 😀 naïve\r\nx".encode(), b"x\xff\xc3"):
        for how in range(0, 256, 7):
            yield bytes([how]) + words


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for one in globals()[folder.name.removesuffix("_fuzz")]():
        (folder / hashlib.sha1(one).hexdigest()[:12]).write_bytes(one)


main()
