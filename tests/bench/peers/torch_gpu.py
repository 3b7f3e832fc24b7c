"""net_bench.c's networks in PyTorch on a GPU; read gpu_items.py first.

Data lie on the device, channels last; autocast; fused optimizers; loss and accuracy are added up on the device. The
variants: eager; graph (a CUDA graph of the whole step, gathering and update included); compile and autotune (the same,
with forward and backward compiled); reduce (torch.compile's own graphs). KOLO_PEER_DEVICE=cpu tries it without a GPU.
"""
import gc
import math
import os

import torch

from gpu_items import NET, PRECISION, SAMPLES, serve
from torch_models import NETS, OPTIMIZERS, features_of, noise, score

DEVICE = torch.device(os.environ.get("KOLO_PEER_DEVICE", "cuda"))
VARIANTS = {  # torch.compile's mode (None: not compiled), and whether the step becomes a graph
    "eager": (None, False),
    "graph": (None, True),
    "compile": ("default", True),
    "autotune": ("max-autotune-no-cudagraphs", True),
    "reduce": ("reduce-overhead", False),
}


def captured(work):
    """What replays `work` as one CUDA graph."""
    if DEVICE.type != "cuda":
        return work
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class Run:
    """Training and scoring in batches of one size; where the epoch has come to is known on the device alone."""

    def __init__(self, batch, variant):
        mode, self.graph = VARIANTS[variant]
        self.batch, self.steps = batch, SAMPLES // batch
        self.model = NETS[NET]().to(DEVICE)
        self.optimizer = OPTIMIZERS[NET](self.model.parameters())
        for group in self.optimizer.param_groups:
            if "capturable" in group and DEVICE.type == "cuda":
                group["capturable"] = True
        self.compute = torch.compile(self.forward, mode=mode, dynamic=False) if mode else self.forward
        self.order = torch.arange(self.steps * batch, device=DEVICE)
        self.offsets = torch.arange(batch, device=DEVICE)
        self.at = torch.zeros((), dtype=torch.int64, device=DEVICE)
        self.totals = torch.zeros(2, dtype=torch.float64, device=DEVICE)  # of losses, of right answers

    def forward(self, features, wanted):
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=PRECISION == "bf16"):
            return score(self.model(features_of(features)), wanted)

    def next_batch(self):
        chosen = self.order.index_select(0, self.at + self.offsets)
        self.at.add_(self.batch).remainder_(len(self.order))
        return samples.index_select(0, chosen), labels.index_select(0, chosen)

    def count(self, loss, right):
        self.totals.add_(torch.stack((loss.detach().double(), right.double())))

    def train_step(self):
        torch.compiler.cudagraph_mark_step_begin()
        loss, right = self.compute(*self.next_batch())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.count(loss, right)

    @torch.no_grad()
    def score_step(self):
        torch.compiler.cudagraph_mark_step_begin()
        self.count(*self.compute(*self.next_batch()))

    def epoch_of(self, work, shuffled):
        step = captured(work) if self.graph else work

        def epoch():
            if shuffled:
                self.order.copy_(torch.randperm(len(self.order), device=DEVICE))
            self.at.zero_()
            self.totals.zero_()
            for _ in range(self.steps):
                step()
            loss = self.totals.tolist()[0] / self.steps  # waits for the device
            if not math.isfinite(loss):
                raise ArithmeticError(f"the loss is {loss}")

        return epoch


def measure(batch, variant):
    torch.manual_seed(1)
    run = Run(batch, variant)
    yield "training", run.epoch_of(run.train_step, True)
    run.optimizer.zero_grad(set_to_none=True)
    run.model.eval()
    run.order.copy_(torch.arange(len(run.order)))
    yield "inference", run.epoch_of(run.score_step, False)
    del run
    torch.compiler.reset()
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()


def about():
    told = {"version": f"PyTorch {torch.__version__}"}
    if DEVICE.type == "cuda":
        told["peak_bytes"] = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    return told


# Not the newer settings per backend: PyTorch's compiler still reads these.
torch.set_float32_matmul_precision("highest" if PRECISION == "fp32" else "high")
torch.backends.cudnn.allow_tf32 = PRECISION != "fp32"
torch.backends.cudnn.benchmark = True
torch.manual_seed(1)
samples, labels = (part.to(DEVICE) for part in noise(NET, SAMPLES))
serve(measure, about)
