"""What nvcc's assembler makes of the CUDA kernels, which needs no device: registers and local memory, the instructions
of hot loops, and code for chips that came after the newest PTX. `make nvcc-path` says which toolkit is used."""
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.long("nvcc compiles each hot kernel"), pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[4]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
SOURCES = sorted(path.stem for path in (ROOT / "ext/backend/cuda").glob("*.cu"))
REGISTERS = 65536  # of a multiprocessor, and the most that a block may have
UNBOUNDED = 256    # threads of a block of a kernel without launch bounds (THREADS of device.cuh)
NEWER = ["sm_103", "sm_110", "sm_120"]  # chips that come with no code of their own, and run the newest PTX

# Instructions that a kernel must have in a loop (products of tensor cores; squares from shared memory), and anywhere
# (copies to shared memory beside the arithmetic).
PRODUCTS, SQUARES, COPIES = {"HMMA"}, {"HMMA", "LDSM"}, {"LDGSTS"}


class Hot(NamedTuple):
    source: str
    kernel: str     # pattern of its name, with what comes behind
    threads: int    # of a block, as its launch bounds say; 0: it has none, and blocks of UNBOUNDED
    registers: int  # the most on an H100 with which as many blocks fit a multiprocessor as it was written for
    in_loops: set = frozenset()
    anywhere: set = frozenset()


# The kernels in which training spends its time.
HOT = [
    Hot("attention", r"attend<.*OfNarrow<\w+>, (32|64), ", 128, 136, SQUARES),
    Hot("attention", r"attend<.*OfNarrow<\w+>, (128|256), ", 128, 248, SQUARES),
    Hot("attention", r"attend<.*(OfTf32|OfFloat), (32|64|128), ", 128, 128, PRODUCTS),
    Hot("attention_backward", r"go_back_all<.*OfNarrow<\w+>, (32|64), ", 128, 168, SQUARES),
    Hot("attention_backward", r"go_back_all<.*OfNarrow<\w+>, (128|256), ", 128, 248, SQUARES),
    Hot("attention_backward", r"go_back_all<.*(OfTf32|OfFloat), (32|64), ", 128, 192, PRODUCTS),
    Hot("batch_norm", r"apply<", 256, 128),
    Hot("batch_norm", r"sum_rows<", 256, 128),
    Hot("bias", r"bias_backward<", 0, 128),
    Hot("conv_filter", r"filter_gradient<", 384, 168, SQUARES, COPIES),
    Hot("conv_first", r"first_forward<.*, true>", 256, 128),
    Hot("conv_first", r"first_backward<", 256, 168),
    Hot("conv_pooled", r"convolve_and_pool<", 192, 168, SQUARES, COPIES),
    Hot("conv_pooled", r"convolve_back<", 192, 168, SQUARES, COPIES),
    Hot("embedding", r"sum_samples<", 512, 128),
    Hot("layer_norm", r"normalise<", 0, 72),
    Hot("loss", r"loss_by_blocks<.*, true>", 512, 64),
    Hot("loss", r"loss_by_lanes<true>", 128, 80),
    Hot("max_pool", r"maxima_to_windows_and_bias<", 256, 128),
    Hot("optimizers", r"update<", 256, 128),
]

# Instances that may have some local memory, so many bytes: they are rare, and what they keep there is little.
LOCAL = {r"attend<.*OfFloat, 256, ": 8, r"go_back_all<.*OfFloat, 256, ": 144, r"go_back_all<.*OfFloat, 128, ": 104,
         r"product<.*Forward<float>, 128, 32, 1>": 8}


def make(*targets):
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "-C", ROOT, *targets], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@cache
def nvcc():
    """The compiler; skips where there is none."""
    found = make("nvcc-path")
    if not found:
        pytest.skip("nvcc is not there: the kernels' machine code is NOT checked; set CUDA_HOME, or run make toolkit")
    return Path(found)


@cache
def disassembler():
    """nvdisasm, which is a Python package, too; skips where there is none."""
    packages = [path for start in (sys.prefix, ROOT / ".cuda") for path in Path(start).glob("**/nvidia/*/bin")]
    found = shutil.which("nvdisasm", path=os.pathsep.join(map(str, [nvcc().parent, *packages]))) or \
        shutil.which("nvdisasm")
    if not found:
        pytest.skip("nvdisasm is not there: the kernels' instructions are NOT checked; "
                    "pip install nvidia-cuda-nvdisasm")
    return found


@cache
def ptx_of(source, architecture):
    """The file of a source's PTX, made anew where it is older than what it is made of."""
    nvcc()
    path = f"obj/cuda/{source}.{architecture}.ptx"
    make(f"BUILD={BUILD}" if BUILD != ROOT / "build" else "BUILD=build",
         f"{BUILD}/{path}" if BUILD != ROOT / "build" else f"build/{path}")
    return BUILD / path


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.splitlines()))


class Usage(NamedTuple):
    name: str       # attend<…>
    threads: int    # of its launch bounds; 0: it has none
    registers: int
    stack: int      # bytes of local memory
    spilled: int    # bytes that are written there and read

    def __str__(self):
        return f"{self.name}: {self.registers} registers, {self.stack} bytes of local memory, {self.spilled} spilled, " \
               f"{self.threads or 'no'} threads of launch bounds"


def assemble(source, architecture, chip, *options, to="/dev/null"):
    done = subprocess.run([nvcc().with_name("ptxas"), f"-arch={chip}", *options, ptx_of(source, architecture), "-o", to],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


@cache
def usage_of(source):
    """What each kernel of a source takes on an H100, by its mangled name."""
    told = assemble(source, 90, "sm_90", "-v", "-warn-spills", "-warn-lmem-usage")
    bounds = dict(re.findall(r"\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)", ptx_of(source, 90).read_text()))
    found = re.findall(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                       r"(\d+) bytes spill loads.*?Used (\d+) registers", told, re.S)
    assert found, told
    names = demangled([kernel[0] for kernel in found])
    return {name: Usage(re.sub(r"^void |kolo::|\(.*", "", names[name]), int(bounds.get(name, 0)), int(registers),
                        int(stack), int(stores) + int(loads))
            for name, stack, stores, loads, registers in found}


def instances(hot):
    found = {name: usage for name, usage in usage_of(hot.source).items() if re.match(hot.kernel, usage.name)}
    assert found, f"{hot.source}.cu has no kernel like {hot.kernel}"
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_kernels_fit_a_multiprocessor_and_use_no_local_memory(source):
    def may_have(usage):
        return max((most for pattern, most in LOCAL.items() if re.match(pattern, usage.name)), default=0)

    wrong = [str(usage) for usage in usage_of(source).values()
             if usage.stack > may_have(usage) or usage.registers * (usage.threads or UNBOUNDED) > REGISTERS]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("hot", HOT, ids=lambda hot: re.sub(r"\W+", " ", hot.kernel).strip())
def test_hot_kernels_take_no_more_registers_than_before(hot):
    wrong = [str(usage) for usage in instances(hot).values()
             if usage.registers > hot.registers or usage.threads != hot.threads]
    assert not wrong, f"wanted at most {hot.registers} registers, bounds of {hot.threads} threads, got\n" + "\n".join(wrong)


@cache
def instructions_of(source, folder):
    """Of each kernel its instructions, and whether each is in a loop: between a label and a jump back there."""
    cubin = folder / f"{source}.cubin"
    assemble(source, 90, "sm_90", to=cubin)
    text = subprocess.run([disassembler(), "-c", cubin], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, body in re.findall(r"\.section\s+\.text\.(\w+),.*?\n(.*?)(?=\n\s*\.section|\Z)", text, re.S):
        lines = re.findall(r"^(\.L_x_\d+):|^\s+/\*\w+\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][\w.]*)([^;]*);", body, re.M)
        labels = {label: at for at, (label, _, _) in enumerate(lines) if label}
        looped = set()
        for at, (_, operation, operands) in enumerate(lines):
            target = re.search(r"`\((\.L_x_\d+)\)", operands)
            if operation.startswith("BRA") and target and labels[target[1]] < at - 2:
                looped |= set(range(labels[target[1]], at))
        found[name] = [(operation.split(".")[0], at in looped) for at, (_, operation, _) in enumerate(lines) if operation]
    assert found, text[:1000]
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cubins")


@pytest.mark.parametrize("hot", HOT, ids=lambda hot: re.sub(r"\W+", " ", hot.kernel).strip())
def test_hot_loops_have_the_instructions_that_make_them_fast(hot, folder):
    wrong = []
    for name, usage in instances(hot).items():
        code = instructions_of(hot.source, folder)[name]
        in_loops, anywhere = {op for op, looped in code if looped}, {op for op, _ in code}
        lacks = (hot.in_loops - in_loops) | (hot.anywhere - anywhere)
        if lacks or in_loops & {"LDL", "STL"}:
            wrong.append(f"{usage.name} lacks {sorted(lacks)}, has in loops {sorted(in_loops & {'LDL', 'STL'})}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("chip", NEWER)
@pytest.mark.parametrize("source", SOURCES)
def test_newer_chips_take_the_ptx(source, chip):
    known = subprocess.run([nvcc(), "--list-gpu-code"], capture_output=True, text=True, check=True).stdout.split()
    if chip not in known:
        pytest.skip(f"the installed ptxas does not know {chip}")
    architectures = subprocess.run([nvcc(), "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    newest = max(number for number in (70, 75, 80, 90, 100) if f"compute_{number}\n" in architectures)
    assemble(source, newest, chip)
