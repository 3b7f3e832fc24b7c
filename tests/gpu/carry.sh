#!/bin/bash
# `make carry`: what a machine with a GPU needs of Kolo where nothing can be installed, in one folder, build/carry: the
# library, the plugin for GPUs, the lessons' programs, the tests, the bench, MNIST where KOLO_DATA has it, and the
# libraries of Debian's that these need. There, CUDA's own libraries and a driver are enough: read session.sh.
#   carry.sh FOLDER BUILD PLUGIN TEST ...        TEST: a built program under BUILD/tests
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1 build=$2 plugin=$3
shift 3

# Libraries of a program or library that are to travel: not the C library, nor what comes with a compiler or with CUDA.
needed() {
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*|libstdc\+\+|libgcc_s)\.so|/libkolo|/libcu|/libnv|/libnccl'
}

new=$folder.new
rm -rf "$new"
mkdir -p "$new"/{lib,bin,bench}
install -m 755 "$build"/lib/libkolo.so "$new/lib"
install -m 755 "$plugin" "$new/lib/libkolo_cuda.so"
for program in source_code/*/*.c; do install -m 755 "$build/bin/$(basename "$program" .c)" "$new/bin"; done
gcc -std=gnu17 -O2 -I"$build/include" tests/bench/net_bench.c tests/bench/nets.c -o "$new/bench/net_bench" \
    -L"$build/lib" -lkolo -Wl,-rpath,'$ORIGIN/../lib'
for test; do install -D -m 755 "$test" "$new/${test#"$build"/}"; done
install -m 644 $(needed "$new"/lib/*.so "$new"/bin/* "$@") "$new/lib"
strip --strip-debug "$new"/lib/*.so* "$new"/bin/* "$new"/bench/* $(find "$new/tests" -type f)
data=${KOLO_DATA:-$HOME/.cache/kolo}
if [[ -d $data/mnist ]]; then
    mkdir -p "$new/data/mnist"
    cp "$data"/mnist/*-ubyte* "$new/data/mnist"
fi
install -m 755 tests/gpu/with "$new"
rm -rf "$folder"
mv "$new" "$folder"
size=$(tests/gpu/weigh.sh "$folder")
echo "$folder: $size; there: tests/gpu/session.sh"
