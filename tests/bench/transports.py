#!/usr/bin/env python3
"""What MPI_Allreduce between two ranks of one host takes over shared memory, over TCP's loopback, and over UCX in software
(allreduce.c). The host needs no RDMA device.

transports.py [--rounds 3]    the least of so many rounds, in which the transports take turns, in microseconds of a call
"""
import argparse
import json
import subprocess

import run as bench

SOFTWARE = ["--rdma", "--mpi-args", "--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any"]
TRANSPORTS = {
    "shared memory": [],
    "TCP (`--tcp`)": ["--tcp"],
    "UCX over shared memory": [*SOFTWARE, "-x", "UCX_TLS=self,sm"],
    "UCX over TCP": [*SOFTWARE, "-x", "UCX_TLS=self,tcp", "-x", "UCX_NET_DEVICES=lo"],
}


def seconds(program, options):
    """The least time of a call, by the bytes."""
    command = [bench.BUILD / "bin/kolorun", "-np", "2", *options, program]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {int(size): least for size, (_, least) in json.loads(out.split("<stdout>:", 1)[1])["mpi"].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    program = bench.build("allreduce", "allreduce.c", libraries=[f"-I{bench.ROOT}/ext", "-pthread"], compiler="mpicc")
    found = {name: [] for name in TRANSPORTS}
    for _ in range(rounds):
        for name, options in TRANSPORTS.items():
            found[name].append(seconds(program, options))
    sizes = sorted(next(iter(found.values()))[0])
    print("|", " | ".join(["transport", *(f"{size // 1024} KB" for size in sizes)]), "|")
    print("|---" * (1 + len(sizes)) + "|")
    for name, rows in found.items():
        print("|", " | ".join([name, *(f"{float(f'{1e6 * min(row[size] for row in rows):.3g}'):,g}" for size in sizes)]), "|")


if __name__ == "__main__":
    main()
