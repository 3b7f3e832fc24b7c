#!/bin/bash
# Everything that is to be known of Kolo on a GPU, on a machine to which only this tree and build/carry were brought
# (`make carry`, where Kolo can be built); it needs a driver, CUDA's libraries, python3, and for the peers PyTorch and
# JAX. Ten minutes are enough.
#   tests/gpu/session.sh [look] [test] [mnist] [sanitize [TEST ...] | bench [NAME ...]]      default: look test mnist bench
# TEST: dense_test.c, say; under a memory checker all of them take longer than there is time. Logs and bench-gpu.json go
# to OUT (default: build/gpu). LIMIT: seconds for all (default: 580). What fails does not keep the rest from being done;
# the exit code is 1 then.
cd "$(dirname "$0")/../.." || exit 2
carry=${CARRY:-build/carry} out=${OUT:-build/gpu} limit=${LIMIT:-580}
with=$carry/with
mkdir -p "$out"
export PYTHONUNBUFFERED=1
failed=()

[[ -x $with ]] || { echo "session.sh: there is no $carry: run 'make carry' where Kolo can be built, and bring it" >&2; exit 2; }

# run NAME SECONDS COMMAND …: says how it went; its output goes to the log NAME, too.
run() {
    local name=$1 seconds=$2 status left=$((limit - SECONDS - 5))
    shift 2
    ((seconds <= left)) || seconds=$left
    ((seconds > 5)) || { echo "== $name: no time left"; failed+=("$name"); return; }
    echo "== $name"
    timeout -k 5 "$seconds" "$@" </dev/null 2>&1 | tee "$out/$name.log"
    status=${PIPESTATUS[0]}
    ((status != 124)) || echo "== $name: ran longer than $seconds s"
    ((status == 0)) || { echo "== $name: exit code $status"; failed+=("$name"); }
}

look() {
    nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm --format=csv,noheader 2>&1
    python3 -c 'import sys; print("Python", sys.version.split()[0])
for name in "torch", "jax":
    try: print(name, __import__("importlib.metadata").metadata.version(name))
    except Exception as why: print(name, why)'
    ldd --version | head -n 1
    "$with" ldd "$carry/lib/libkolo_cuda.so" | grep -E 'not found|libcu|nccl|cudnn'
    "$with" env KOLO_BACKEND=cuda "$carry/bin/cnn_mnist" --help | head -n 2
    nvidia-smi topo -m
    "$with" env KOLO_DEVICES=gpu "$carry/bin/p2p_bandwidth_latency"
    ! "$with" ldd "$carry/lib/libkolo_cuda.so" | grep 'not found'
}

# The C tests that came along, as `make test` runs them.
tests() { KOLO_BUILD=$carry python3 tests/run --gpu --under "$@"; }

# MNIST from the lesson's program: what it learns in each precision.
mnist() {
    for precision in fp32 tf32 bf16 fp16; do
        echo "-- $precision"
        "$with" env KOLO_BACKEND=cuda "$carry/bin/cnn_mnist" --epochs 4 --batch-size 128 --seed 1 --precision $precision || return 1
    done
}

bench() {
    local seconds=$1
    shift
    python3 tests/bench/gpu/bench.py --kolo "$with $carry/bench/net_bench" --output "$out/bench-gpu.json" \
        --limit "$seconds" "$@"
}
export -f look tests mnist bench
export carry out limit with

(($#)) || set -- look test mnist bench
while (($#)); do
    part=$1
    shift
    case $part in
    look) run look 60 bash -c look ;;
    test) run test 300 bash -c 'tests "$0"' "$with" ;;
    sanitize)
        run sanitize "$limit" bash -c 'tests "$@"' tests "$with compute-sanitizer --error-exitcode 9 --report-api-errors no" \
            "${@/#/ext/backend/cuda/}"
        break ;;
    mnist) run mnist 120 bash -c mnist ;;
    bench)
        run bench "$limit" bash -c 'bench "$@"' bench $((limit - SECONDS - 15)) "$@"
        break ;;
    *) echo "session.sh takes look, test, sanitize, mnist, bench, got $part" >&2; exit 2 ;;
    esac
done
((${#failed[@]} == 0)) || { echo "FAILED: ${failed[*]}"; exit 1; }
