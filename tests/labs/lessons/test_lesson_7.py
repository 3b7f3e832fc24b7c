"""Lesson 7's checks: what typical wrong answers are told, and that right ones pass."""
import json
import re
import subprocess

import pytest

from kernel.driver import BUILD, ROOT, Kernel

HOSTS = [  # (the file, a part of the message)
    ("", "not yet. The file has no host yet"),
    ("ada:4,learner@bob:2,eva:2", "A comma separates hosts behind -H"),
    ("ada slot=4\nlearner@bob slot=2\neva slot=2", "The word is slots"),
    ("ada 4\nlearner@bob 2\neva 2", "write slots= before it"),
    ("ada slots=4 learner@bob slots=2 eva slots=2", "A line has one host"),
    ("ada\nlearner@bob\neva", "Expected 8 slots, got 3: a host without slots= has one slot"),
    ("ada slots=4\nlearner@bob slots=4\neva slots=4", "Expected 8 slots in all, one for each rank, got 12"),
    ("learner@bob slots=2\nada slots=4\neva slots=2", "Expected rank 0 on ada, got bob"),
    ("ada slots=4\nbob slots=2\neva slots=2", "Expected learner as the name that ssh uses on bob, got none"),
    ("learner@ada slots=4\nlearner@bob slots=2\neva slots=2", "Expected none as the name that ssh uses on ada"),
    ("ada slots=4 # four GPUs\nlearner@bob slots=2\n\neva:2", "Exercise 7.a: passed."),
]

SBATCH = ["#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=8", "#SBATCH --time=30", "#SBATCH --signal=B:TERM@120"]
START = "exec kolorun --stop-timeout 90 cifar10_slurm --checkpoint run/last.safetensors"
GOOD = "\n".join(["#!/bin/bash", *SBATCH, START])
SRUN = GOOD.replace("B:", "").replace("exec kolorun --stop-timeout 90", "srun --mpi=pmix")
JOBS = [
    ("#!/bin/bash\n# What the job needs:\n", "Not done yet"),
    ("\n".join([*SBATCH, START]), "the first line must name the shell"),
    (GOOD.replace("#SBATCH --nodes", "# SBATCH --nodes"), "to SLURM that is a comment"),
    ("\n".join(["#!/bin/bash", START, *SBATCH]), "SLURM stops reading them at the first command"),
    (GOOD.replace("--nodes=4", "--nodes = 4"), "spaces around its ="),
    (GOOD.replace("--nodes=4", "--nodes=32"), "expected 4 nodes"),
    (GOOD.replace("--ntasks-per-node=8", "--ntasks=32"), "share 32 tasks among the nodes unevenly"),
    (GOOD.replace("--ntasks-per-node=8", "--ntasks-per-node=32"), "128 ranks"),
    (GOOD.replace("--time=30", "--time=00:30"), "are 30 seconds"),
    (GOOD.replace(START, "cifar10_slurm --checkpoint run/last.safetensors"), "started once, on the first node"),
    (GOOD.replace("exec kolorun", "exec srun kolorun"), "srun starts kolorun 32 times"),
    (GOOD.replace("--stop-timeout 90", "-np 8 --stop-timeout 90"), "more ranks than the allocation"),
    (GOOD.replace("exec kolorun", "mpirun"), "kolorun calls mpirun itself"),
    (GOOD.replace(" --checkpoint run/last.safetensors", ""), "saves nothing before its end"),
    (GOOD.replace("#SBATCH --signal=B:TERM@120\n", ""), "no signal is asked for"),
    (GOOD.replace("TERM@120", "TERM"), "120 seconds before the limit"),
    (GOOD.replace("B:TERM", "TERM"), "kolorun runs in the script, and is not told"),
    (GOOD.replace("exec kolorun", "kolorun"), "the signal reaches the shell"),
    (GOOD.replace("--stop-timeout 90", ""), "unless --stop-timeout says otherwise"),
    (GOOD.replace("--stop-timeout 90", "--stop-timeout 120"), "SLURM kills them first"),
    (SRUN.replace(" --mpi=pmix", ""), "do not find each other"),
    (SRUN.replace("TERM@", "B:TERM@"), "srun never gets it"),
    (GOOD + "\nif", "bash cannot read the script"),
    (GOOD.replace("--nodes=4", "-N 4").replace("--time=30", "-t 0:30:00"), "Exercise 7.b: passed."),
    (GOOD.replace("--nodes=4\n#SBATCH ", "--nodes=4 ") + " # all ranks", "Exercise 7.b: passed."),
    (GOOD.replace("--time=30", "--time 0-00:30:00").replace("90 cifar", "90 \\\n    cifar"), "Exercise 7.b: passed."),
    (GOOD.replace("--time=30", "--time=0-30"), "expected a limit of 30 minutes"),
    (GOOD.replace("--nodes=4", "--nodes"), "nothing asks for nodes"),
    (SRUN, "Exercise 7.b: passed."),
    (SRUN.replace("TERM@", "B:TERM@").replace("srun --mpi=", "exec srun --mpi "), "Exercise 7.b: passed."),
]

GATHER = """
    if (rank != leader) host_send(values, count, leader);
    else for (int from = leader + 1; from < leader + 4; from++) {
        host_receive(arrived, count, from);
        for (int64_t i = 0; i < count; i++) values[i] += arrived[i];
    }
"""
EXCHANGE = """
    if (rank == 4) host_send(values, count, 0), host_receive(values, count, 0);
    if (rank == 0) {
        host_receive(arrived, count, 4);
        for (int64_t i = 0; i < count; i++) values[i] += arrived[i];
        host_send(values, count, 4);
    }
"""
SHARE = """
    if (rank != leader) host_receive(values, count, leader);
    else for (int to = leader + 1; to < leader + 4; to++) host_send(values, count, to);
"""
BOTH = """
    if (rank == leader) {
        if (rank) host_send(values, count, other), host_receive(arrived, count, other);
        else host_receive(arrived, count, other), host_send(values, count, other);
        for (int64_t i = 0; i < count; i++) values[i] += arrived[i];
    }
"""
FLAT = """
    if (rank) host_send(values, count, 0), host_receive(values, count, 0);
    else {
        for (int from = 1; from < 8; from++) {
            host_receive(arrived, count, from);
            for (int64_t i = 0; i < count; i++) values[i] += arrived[i];
        }
        for (int to = 1; to < 8; to++) host_send(values, count, to);
    }
"""
REDUCES = [
    ("", "Not done yet: every rank still has its own values"),
    (GATHER + SHARE, "the two leaders have not exchanged"),
    (GATHER + BOTH, "each leader must send it to its host"),
    (GATHER + EXCHANGE.replace("        host_send(values, count, 4);\n", "").replace(", host_receive(values, count, 0)", "") + SHARE,
     "the leaders must both have the other's sum"),
    (BOTH + GATHER + SHARE, "The leaders exchanged before they had added the values of their hosts"),
    (GATHER.replace("values[i] += arrived[i]", "values[i] += 2 * arrived[i]") + BOTH + SHARE, "counted twice"),
    (GATHER + BOTH + SHARE + "for (int64_t i = 0; i < count; i++) values[i] /= 8;\n", "That is the mean"),
    (FLAT, "got 8.00: only the leaders may send"),
    (GATHER + EXCHANGE.replace("host_send(values, count, 4);", "") + SHARE, "Two ranks wait for each other"),
    (GATHER + BOTH.replace("if (rank) host_send", "if (1) host_send") + SHARE, "both leaders must not send first"),
    (FLAT.replace("host_send", "kolo_send").replace("host_receive", "kolo_receive"), "host_send() carried nothing"),
    (GATHER + BOTH + SHARE, "Exercise 7.c: passed."),
    (GATHER + EXCHANGE + SHARE, "Exercise 7.c: passed."),
]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesson_7")
    kernel = Kernel()
    began = kernel.run(f'%cd {folder}').status, kernel.run(
        f'#include "{ROOT}/labs/course/course.h"\n#include "{ROOT}/labs/course/lesson_7.h"\ncourse_begin("7");\nlesson_7_hints();')
    assert began[0] == "ok" and "Lesson 7." in began[1].stdout, began[1].error
    return kernel


def told(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", outcome.error
    return outcome.stdout


def check_file(kernel, name, text, check):
    told(kernel, f"%%writefile run/{name}\n{text}")
    return told(kernel, f'{check}("run/{name}");')


def test_hostfiles(kernel):
    assert "There is no file run/hosts yet" in told(kernel, 'lesson_7_check_hostfile("run/hosts");')
    for text, wanted in HOSTS:
        said = check_file(kernel, "hosts", text, "lesson_7_check_hostfile")
        assert wanted in said and said.count("Exercise 7.a:") == 1, f"{text}\n{said}"


def test_where_ranks_land(kernel):
    said = check_file(kernel, "hosts", HOSTS[-1][0], "lesson_7_check_hostfile")
    assert "rank 3: host ada, local rank 3\nrank 4: host bob, local rank 0, by ssh as learner\n" in said


def test_job_scripts(kernel):
    assert "There is no file run/job.sh yet" in told(kernel, 'lesson_7_check_job("run/job.sh");')
    for text, wanted in JOBS:
        said = check_file(kernel, "job.sh", text, "lesson_7_check_job")
        assert wanted in said and said.count("Exercise 7.b:") == 1, f"{text}\n{said}"


@pytest.fixture(scope="module")
def ranks(kernel):
    assert "8 ranks started" in told(kernel, "%ranks 8")
    yield kernel
    told(kernel, "%ranks 0")


@pytest.mark.long("some of its wrong answers make ranks wait for each other")
def test_all_reduces_by_hosts(ranks):
    for steps, wanted in REDUCES:
        said = told(ranks, f"""%%ranks
kolo_status by_host(float *values, int64_t count, void *user)
{{
    int rank = kolo_rank(), leader = rank / 4 * 4, other = 4 - leader;
    float *arrived = calloc(count + 1, sizeof *arrived);
    {steps}
    free(arrived);
    return KOLO_OK;
}}
lesson_7_check_by_host(by_host);""")
        assert wanted in said and said.count("Exercise 7.c:") == 1, f"{steps}\n{said}"


def test_hints_do_not_print_the_solution(kernel):
    for exercise, forbidden in (("7.a", "slots=4"), ("7.b", "exec kolorun"), ("7.c", "host_send(")):
        hints = [told(kernel, f'course_hint("{exercise}");') for _ in range(3)]
        assert len(set(hints)) == 3 and forbidden not in "".join(hints)


def test_quiz_knows_its_answers(kernel):
    told(kernel, 'course_quiz("7", lesson_7_questions);')
    assert "5 of 5 right" in told(kernel, 'course_answers("7", "bcabc");')
    assert "0 of 5 right" in told(kernel, 'course_answers("7", "abcca");')


def test_what_a_job_says_is_read(kernel):
    told(kernel, "%%writefile run/log\n[1,0]<stdout>:Goes on with epoch 1/2, 6/10 steps done, from x\n"
                 "kolorun: rank 2 (host, pid 7): exited with code 1")
    assert told(kernel, 'printf("%g %g", lesson_7_steps_done("run/log"), lesson_7_named("run/log"));') == "6 2"
    assert told(kernel, 'printf("%g", lesson_7_named("run/hosts"));') == "nan"


def test_the_lesson_models_what_the_program_prints_beside_published_figures(kernel):
    printed = subprocess.run([BUILD / "bin/link_model", "--published"], capture_output=True, text=True, check=True).stdout
    for i, title in enumerate(["Horovod, VGG-16", "Horovod, Inception V3", "Horovod, ResNet-101"]):
        row = re.search(rf"== {title}.*\nmodelled +512 GPUs +\w+ +modelled +([\d.]+) +published +([\d.]+)", printed)
        said = told(kernel, f'printf("%.4g %g", lesson_7_efficiency(&lesson_7_networks[{i}], "roce-25", 512), '
                            f'lesson_7_networks[{i}].published);')
        assert said.split() == [row[1], row[2]], title


def test_the_rounds_that_the_text_names(kernel):
    """Of an all-reduce of 1 MB on 128 hosts of 8 GPUs."""
    said = told(kernel, """kolo_link_model *cluster = kolo_link_model_open("dgx-1v", .hosts = 128, .network = "ib-edr");
kolo_algorithm ways[] = {KOLO_ALGORITHM_RING, KOLO_ALGORITHM_HIERARCHICAL, KOLO_ALGORITHM_TREE};
for (int i = 0; i < 3; i++) printf("%d ", (int)kolo_link_model_time(cluster, 1e6, .algorithm = ways[i]).rounds);
kolo_link_model_free(&cluster);""")
    assert said.split() == ["2046", "268", "35"]
    text = json.loads((ROOT / "labs/7.Beyond-One-Node.ipynb").read_text())
    words = "".join("".join(cell["source"]) for cell in text["cells"])
    assert "The ring needs 2,046 rounds, the hierarchical way 268, the tree 35 for 1 MB" in words
