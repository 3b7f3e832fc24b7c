"""What the device can do at most, by PyTorch: a large copy in bytes moved a second (read and written), large products of
random matrices in operations a second. One line of JSON. KOLO_PEER_DEVICE=cpu tries it without a GPU, smaller."""
import json
import os
import statistics
import time

import torch

DEVICE = torch.device(os.environ.get("KOLO_PEER_DEVICE", "cuda"))
REAL = DEVICE.type == "cuda"
BYTES, SIDE = (4 << 30, 8192) if REAL else (1 << 22, 128)


def wait():
    if REAL:
        torch.cuda.synchronize()


def seconds(work, times):
    """Of one, in the median; a few go ahead."""
    taken = []
    for turn in range(times + 3):
        wait()
        begin = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[3:])


def copied():
    here = torch.randint(0, 100, (BYTES // 4,), dtype=torch.int32, device=DEVICE)
    there = torch.empty_like(here)
    return 2 * BYTES / seconds(lambda: there.copy_(here), 20)


def multiplied(element, precision):
    torch.set_float32_matmul_precision(precision)
    a, b = (torch.randn(SIDE, SIDE, device=DEVICE, dtype=element) for _ in range(2))
    return 2 * SIDE**3 / seconds(lambda: a @ b, 20)


name = torch.cuda.get_device_name() if REAL else "the CPU"
told = {"device": name, "version": f"PyTorch {torch.__version__}", "copy": copied(),
        "bf16": multiplied(torch.bfloat16, "high"), "tf32": multiplied(torch.float32, "high"),
        "fp32": multiplied(torch.float32, "highest")}  # fmt: skip
print(json.dumps(told))
