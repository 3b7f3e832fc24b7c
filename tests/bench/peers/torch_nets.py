"""net_bench.c's runs in PyTorch: torch_nets.py NET BATCH fp32|bf16 STEPS EPOCHS. Prints the same JSON."""
import json
import resource
import sys
import time

import torch

from torch_models import NETS, OPTIMIZERS, features_of, noise, score

NET, BATCH, PRECISION, STEPS, EPOCHS = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])


def compute(features, wanted):
    with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
        loss, right = score(model(features_of(features)), wanted)
        return loss, int(right)


def train_once():
    for chosen in torch.randperm(len(labels)).split(BATCH):
        optimizer.zero_grad(set_to_none=True)
        loss, _ = compute(samples[chosen], labels[chosen])
        loss.backward()
        optimizer.step()


@torch.inference_mode()
def score_once():
    for first in range(0, len(labels), BATCH):
        compute(samples[first : first + BATCH], labels[first : first + BATCH])


def timed(work):
    begin, cpu_begin = time.monotonic(), time.process_time()
    work()
    return {"seconds": time.monotonic() - begin, "images": len(labels), "cpu_seconds": time.process_time() - cpu_begin}


torch.manual_seed(1)
samples, labels = noise(NET, BATCH * STEPS)
model = NETS[NET]()
optimizer = OPTIMIZERS[NET](model.parameters())
epochs = [timed(train_once) for _ in range(EPOCHS)]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
model.eval()
scored = [timed(score_once) for _ in range(EPOCHS + 1)][1:]
print(json.dumps({"peak_bytes": peak, "epochs": epochs, "scored": scored, "version": f"PyTorch {torch.__version__}"}))
