"""What torch_gpu.py and jax_gpu.py have in common: a network on a device, item by item.

    PEER.py NET fp32|tf32|bf16 SAMPLES SECONDS BATCH:VARIANT ...         SAMPLES an epoch

An item is training with whole epochs, then scoring. For each of both a line of JSON is printed as it comes: its batch,
variant and purpose, the images of an epoch, the seconds of each epoch but the first ones, which prepare. Or one line
that says why the item failed, as all do that would begin after SECONDS. The first line says that there is a device.
After a failure, which may have left the device in any state, the exit code is AGAIN: another process is to go on behind
that item. ../gpu/bench.py does so.
"""
import json
import sys
import time

AGAIN = 75
LEAST, MOST = 1.0, 200  # seconds and epochs of one measurement
STARTED = time.monotonic()
NET, PRECISION, SAMPLES, SECONDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])


def timed(epoch):
    """Seconds of each epoch; `epoch` returns when the device has done it."""
    epoch()
    seconds = []
    while len(seconds) < 3 or (sum(seconds) < LEAST and len(seconds) < MOST):
        begin = time.monotonic()
        epoch()
        seconds.append(time.monotonic() - begin)
    return seconds


def tell(batch, variant, **about):
    print(json.dumps({"batch": batch, "variant": variant, **about}), flush=True)


def serve(measure, about):
    """measure(batch, variant) yields each purpose and the function that computes an epoch of it."""
    print(json.dumps({"ready": True, **about()}), flush=True)
    for item in sys.argv[5:]:
        batch, variant = item.split(":")
        batch, begin = int(batch), time.monotonic()
        if begin - STARTED > SECONDS:
            tell(batch, variant, failed="no time left")
            continue
        try:
            for purpose, epoch in measure(batch, variant):
                seconds = timed(epoch)
                tell(batch, variant, purpose=purpose, images=SAMPLES // batch * batch, seconds=seconds,
                     prepared=time.monotonic() - begin - sum(seconds), **about())  # fmt: skip
                begin = time.monotonic()
        except Exception as why:  # whatever a compiler or a driver says
            tell(batch, variant, failed=f"{type(why).__name__}: {' '.join(str(why).split())[:300]}")
            sys.exit(AGAIN)
