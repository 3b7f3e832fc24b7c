"""cnn_bench.c's training in PyTorch under torchrun, DistributedDataParallel over gloo: torch_ddp.py BATCH STEPS EPOCHS.

BATCH is a rank's. Rank 0 prints the same JSON. One thread a rank, as torchrun itself sets it.
"""
import json
import resource
import sys
import time

import torch
import torch.distributed as distributed
from torch import nn

BATCH, STEPS, EPOCHS = (int(word) for word in sys.argv[1:4])


def lesson_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    ).to(memory_format=torch.channels_last)  # fmt: skip


torch.set_num_threads(1)
distributed.init_process_group("gloo")
ranks = distributed.get_world_size()
torch.manual_seed(distributed.get_rank())
pictures = torch.rand(BATCH * STEPS, 1, 28, 28).contiguous(memory_format=torch.channels_last)
labels = torch.randint(0, 10, (BATCH * STEPS,))
model = nn.parallel.DistributedDataParallel(lesson_cnn())
optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
first_step_at, epochs = None, []
for _ in range(EPOCHS):
    distributed.barrier()
    begin, cpu_begin = time.monotonic(), time.process_time()
    correct = 0
    for chosen in torch.randperm(BATCH * STEPS).split(BATCH):
        optimizer.zero_grad(set_to_none=True)
        outputs = model(pictures[chosen])
        loss = nn.functional.cross_entropy(outputs, labels[chosen])
        loss.backward()
        optimizer.step()
        correct += int((outputs.argmax(1) == labels[chosen]).sum())
        first_step_at = first_step_at or time.time()
    distributed.barrier()
    epochs.append({"seconds": time.monotonic() - begin, "images": BATCH * STEPS * ranks,
                   "cpu_seconds": time.process_time() - cpu_begin})  # fmt: skip
if distributed.get_rank() == 0:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"first_step_at": first_step_at, "peak_bytes": peak, "epochs": epochs,
                      "version": f"PyTorch {torch.__version__}"}))  # fmt: skip
distributed.destroy_process_group()
