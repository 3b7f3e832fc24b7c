"""kolo_fit over ranks: what they must agree on, and what is a rank's own."""
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program


pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("training/fit_ranks.c", tmp_path_factory.mktemp("fit"))


def lines(program, *options, ranks):
    done = patience.run([BUILD / "bin/kolorun", "-np", str(ranks), program, *map(str, options)], capture_output=True, text=True, timeout=120)
    return sorted(line.split(">:", 1)[-1].split(">", 1)[-1].strip() for line in done.stdout.splitlines() if line.strip())


@pytest.mark.parametrize("how, sentence", [("order", "wanted the same on all ranks, got .no_shuffle: 0 on rank 0, 1 on rank 2"),
                                           ("buffer", "wanted the same on all ranks, got .shuffle_buffer: 0 on rank 0, 16 on rank 2"),
                                           ("broadcast", "wanted the same on all ranks, got kolo_broadcast_variables() among the .callbacks: 1 on rank 0, 0 on rank 2"),
                                           ("rate", "wanted the same model on all ranks, got the optimizer: kolo_distributed(kolo_sgd(.learning_rate = 0.1)) on rank 0, "
                                                    "the optimizer: kolo_distributed(kolo_sgd(.learning_rate = 0.2)) on rank 2"),
                                           ("activation", "wanted the same model on all ranks, got layer 1: kolo_dense(5, .activation = KOLO_RELU)"),
                                           ("data", "wanted the same data on all ranks, got other samples on rank 2 than on rank 0"),
                                           ("workers", "strategy easgd: wanted the same number of workers on all ranks, got 1 on rank 0, 2 on rank 2"),
                                           ("label", "wanted the same data on all ranks, got other samples on rank 2 than on rank 0")])
def test_what_one_rank_has_alone_is_refused(program, how, sentence):
    """Else samples would be seen twice, or never, or models would learn apart."""
    told = lines(program, how, ranks=3)
    assert len(told) == 3 and all(sentence in line for line in told), told


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_ranks_own_loss_has_the_whole_penalty(program, ranks):
    with_l2, without = (lines(program, "penalty", l2, ranks=ranks) for l2 in (0.5, 0))
    assert len({line.split()[1] for line in without}) == ranks  # each its own
    for one, other in zip(with_l2, without, strict=True):
        (rank, loss, squares), (same, plain, _) = one.split(), other.split()
        assert rank == same and float(squares) > 1
        assert float(loss) - float(plain) == pytest.approx(0.5 * float(squares), rel=1e-6)
