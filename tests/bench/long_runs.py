"""The programs of source_code/, run for as long as the figures take that are wanted of them: `make bench LONG=1`.

Each is started as a reader would start it, in a folder of its own, and its figure is what it writes or prints. Weights in
bfloat16 where the processor computes with them, else in float32.
"""
import json
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT = 3600  # seconds for one program
LICENCES = Path("/usr/share/common-licenses")  # a text that every Debian has
SEEDS = (1, 2)
GPT_BATCH, GPT_EPOCHS = 32, 4


def last_epoch(key):
    return lambda history, printed: history["epochs"][-1][key]


def first_thousand(history, printed):
    return float(re.search(r"([\d.]+) on the first 1000 test images", printed)[1])


@dataclass
class Run:
    name: str
    command: list
    data: str  # a folder of KOLO_DATA
    unit: str
    figure: callable
    at_least: float = None
    within: float = None  # seconds from the program's start to its end
    has_bf16: bool = True  # is faster by it

    def wanted(self):
        at_least = f"≥ {self.at_least:g}" if self.at_least else ""
        return at_least + (f" in {self.within / 60:g} minutes" if self.within else "")

    def met(self, value, seconds):
        return value >= self.at_least and seconds <= (self.within or LIMIT) if self.at_least else None


RUNS = [
    Run("long/mnist", ["cnn_mnist", "--epochs", "12", "--batch-size", "128"], "mnist", "accuracy",
        last_epoch("val_accuracy"), at_least=0.99),
    Run("long/cifar", ["cifar", "--network", "resnet20"], "cifar-10", "accuracy", first_thousand, at_least=0.85,
        within=1200),
    Run("long/higgs", ["higgs", "--epochs", "10"], "higgs", "weighted F1", last_epoch("val_f1_score_weighted"),
        has_bf16=False),
    Run("long/vae", ["vae"], "mnist", "val_loss", last_epoch("val_loss")),
]  # fmt: skip


class Failed(Exception):
    pass


def start(command, environment):
    """What a program printed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment,
                              stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{Path(command[0]).name} ran longer than {LIMIT} s") from None
    if done.returncode:
        raise Failed(f"{Path(command[0]).name}: exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    return done.stdout


def train(build, data, words):
    """The history that a program writes, what it prints, and the seconds from its start to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KOLO_", "OMP_"))}
    with tempfile.TemporaryDirectory() as folder:
        file, began = Path(folder) / "history.json", time.monotonic()
        printed = start([build / "bin" / words[0], *words[1:], "--history", file], environment | {"KOLO_DATA": str(data)})
        return json.loads(file.read_text()), printed, time.monotonic() - began


def entry(name, unit, value, seconds, words, **more):
    return {"name": name, "unit": unit, "value": value, "best": value, "seconds": seconds, "command": " ".join(words),
            "peer": {}, "peers": {}, "not_measured": {}} | more  # fmt: skip


def run_program(run, build, data, isa):
    if not (data / run.data).is_dir():
        print(f"{run.name}: no {run.data} in {data}: make data")
        return []
    bf16 = run.has_bf16 and {"avx512_bf16", "amx_bf16"} & set(isa)
    words = run.command + (["--precision", "bf16"] if bf16 else [])
    history, printed, seconds = train(build, data, words)
    value = run.figure(history, printed)
    return [entry(run.name, run.unit, value, seconds, words, wanted=run.wanted(), met=run.met(value, seconds))]


# ---- The transformer beside PyTorch's ----


def write_text(path, length=81):
    """Debian's licences in small letters, cut into lines of as many words as a sample and its labels are: what words
    are, and where a sample ends, is then nobody's choice."""
    texts = [file for file in sorted(LICENCES.glob("*")) if not file.is_symlink()]
    words = [word for file in texts for word in re.findall("[a-z]+", file.read_text(errors="replace").lower())]
    whole = len(words) // length * length
    path.write_text("".join(" ".join(words[i : i + length]) + "\n" for i in range(0, whole, length)))


def mean_curve(curves):
    return [sum(losses) / len(losses) for losses in zip(*curves)]


def kolo_losses(build, text):
    for seed in SEEDS:
        words = ["gpt", "--data", text, "--batch-size", GPT_BATCH, "--epochs", GPT_EPOCHS, "--seed", seed, "--no-validation"]
        history, _, _ = train(build, text.parent, [str(word) for word in words])
        yield [epoch["loss"] for epoch in history["epochs"]]


def torch_losses(python, text):
    script = Path(__file__).parent / "peers/torch_gpt.py"
    for seed in SEEDS:
        words = [python, script, text, GPT_BATCH, GPT_EPOCHS, seed]
        yield json.loads(start([str(word) for word in words], os.environ).splitlines()[-1])["losses"]


def run_gpt(build, torch):
    """The mean of the last epoch's loss over seeds, and how far any epoch's is from PyTorch's."""
    with tempfile.TemporaryDirectory() as folder:
        text, began = Path(folder) / "text.txt", time.monotonic()
        write_text(text)
        ours = mean_curve(kolo_losses(build, text))
        made = entry("long/gpt", "loss", ours[-1], time.monotonic() - began,
                     ["gpt", "--batch-size", str(GPT_BATCH), "--epochs", str(GPT_EPOCHS)],
                     wanted="every epoch's within 3 % of PyTorch's", met=None)  # fmt: skip
        if not torch:
            return [made | {"losses": {"kolo": ours}, "not_measured": {"torch": "not found"}}]
        theirs = mean_curve(torch_losses(torch, text))
    apart = max(abs(a / b - 1) for a, b in zip(ours, theirs))
    about = {"value": theirs[-1], "best": theirs[-1]}
    return [made | {"losses": {"kolo": ours, "torch": theirs}, "peer": {"torch": theirs[-1]}, "peers": {"torch": about},
                    "met": apart <= 0.03, "apart": apart}]  # fmt: skip
