"""kolo_fit over ranks: what they must agree on, and what is a rank's own."""
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program


pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("training/fit_ranks.c", tmp_path_factory.mktemp("fit"))


def run(program, *options, ranks, launch=()):
    return patience.run([BUILD / "bin/kolorun", "-np", str(ranks), *launch, program, *map(str, options)], capture_output=True, text=True,
                        timeout=120)


def words_of(text):
    return sorted(line.split(">:", 1)[-1].split(">", 1)[-1].strip() for line in text.splitlines() if line.strip())


def lines(program, *options, **more):
    return words_of(run(program, *options, **more).stdout)


SAME = "wanted the same on all ranks, got "
MODEL = "wanted the same model on all ranks, got "
SETTINGS = "wanted the same settings on all ranks, got "
DATA = "wanted the same data on all ranks, got other "
MISTAKES = {
    "order": SAME + ".no_shuffle: 0 on rank 0, 1 on rank 2",
    "buffer": SAME + ".shuffle_buffer: 0 on rank 0, 16 on rank 2",
    "broadcast": SAME + "kolo_broadcast_variables() among the .callbacks: 1 on rank 0, 0 on rank 2",
    "resume": SAME + ".resume: 0 on rank 0, 1 on rank 2",
    "sharded": SAME + ".sharded: 0 on rank 0, 1 on rank 2",
    "rate": MODEL + "the optimizer: kolo_distributed(kolo_sgd(.learning_rate = 0.1)) on rank 0, "
                    "the optimizer: kolo_distributed(kolo_sgd(.learning_rate = 0.2)) on rank 2",
    "digits": MODEL + "the optimizer: kolo_distributed(kolo_sgd(.learning_rate = 0.1)) on rank 0, "
                      "the optimizer: kolo_distributed(kolo_sgd(.learning_rate = 0.10000001)) on rank 2",
    "activation": MODEL + "layer 1: kolo_dense(5, .activation = KOLO_RELU)",
    "huber": MODEL + "the loss: KOLO_HUBER(0.1) on rank 0, the loss: KOLO_HUBER(3) on rank 2",
    "smoothing": MODEL + "the loss: KOLO_SPARSE_CROSSENTROPY on rank 0, the loss: KOLO_LABEL_SMOOTHING(KOLO_SPARSE_CROSSENTROPY, 0.3) on rank 2",
    "metric": MODEL + "the metrics: KOLO_ACCURACY on rank 0, the metrics: KOLO_CATEGORICAL_ACCURACY on rank 2",
    "workers": "strategy easgd: wanted the same number of workers on all ranks, got 1 on rank 0, 2 on rank 2",
    "window": MODEL + "the strategy: kolo_downpour(.window = 5, .servers = 1) on rank 0, the strategy: kolo_downpour(.window = 2, .servers = 1) on rank 2",
    "momentum": ".momentum = 0.9) on rank 0, the strategy: kolo_async_eamsgd(.window = 32, .servers = 1, .momentum = 0.5) on rank 2",
    "turns": '.turns = "0 1 2") on rank 0, the strategy: kolo_downpour(.window = 5, .servers = 1, .turns = "0 1 2 2") on rank 2',
    "class_weight": SETTINGS + ".class_weight: {} on rank 0, .class_weight: {[2] = 100} on rank 2",
    "scheduler": "kolo_broadcast_variables(0), kolo_learning_rate_scheduler(…) on rank 2",
    "patience": 'kolo_early_stopping(.monitor = "loss", .patience = 3) on rank 2',
    "set_rate": "wanted the same learning rate on all ranks, got 0.1 on rank 0, 0.01 on rank 2",
    "own_callback": "wanted the same learning rate on all ranks, got 0.1 on rank 0, 0.025 on rank 2",
    "data": DATA + "features on rank 2 than on rank 0: give every rank the whole data set",
    "middle": DATA + "features on rank 2 than on rank 0",
    "label": DATA + "labels on rank 2 than on rank 0",
    "targets": DATA + "targets on rank 2 than on rank 0",
    "weights": DATA + "sample weights on rank 2 than on rank 0",
    "validation": "wanted the same validation data on all ranks, got other features on rank 2 than on rank 0",
    "no_data": "data: wanted data, got NULL",
    "weights_apart": "after step 2 of epoch 1 all 3 ranks have different weights",
    "alone": "wanted kolo_distributed() around the .optimizer (or a strategy over ranks) on all ranks or on none, "
             "got it on ranks 0, 1, not on rank 2",
    "watching": "trained"}


@pytest.fixture(scope="module")
def told(program):
    """One job makes all mistakes, one after the other: what the ranks say of each."""
    found = {how: [] for how in MISTAKES}
    for line in lines(program, "differ", *MISTAKES, ranks=3):
        how, _, sentence = line.partition(": ")
        found[how].append(sentence)
    return found


@pytest.mark.parametrize("how", MISTAKES)
def test_what_one_rank_has_alone_is_refused(told, how):
    """Else samples would be seen twice, or never, or models would learn apart. A callback that only watches is a rank's own."""
    assert len(told[how]) == 3 and all(MISTAKES[how] in sentence for sentence in told[how]), told[how]


@pytest.mark.parametrize("how", ["alone_plain", pytest.param("alone_workers", marks=pytest.mark.long("the same with workers"))])
def test_a_rank_that_trains_alone_is_told_at_the_limit_who_waits_for_it(program, how):
    """Nothing says that it was to train with the others. Its signs of life do not keep them waiting."""
    told = lines(program, "differ", how, ranks=3, launch=["--stall-limit", "2"])
    assert len(told) == 3 and all(MISTAKES["alone"] in line for line in told), told


def test_ranks_that_train_alone_do_not_wait_for_each_other(program):
    done = run(program, "apart", ranks=3)
    warned = [line for line in words_of(done.stderr) if "kolo_broadcast_variables() among the .callbacks has no effect" in line]
    assert words_of(done.stdout) == ["apart: trained"] * 4 and len(warned) == 1, done.stdout + done.stderr
    assert "without kolo_distributed() around the .optimizer each of the 3 ranks trains a model of its own" in warned[0]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_ranks_own_loss_has_the_whole_penalty(program, ranks):
    with_l2, without = (lines(program, "penalty", l2, ranks=ranks) for l2 in (0.5, 0))
    assert len({line.split()[1] for line in without}) == ranks  # each its own
    for one, other in zip(with_l2, without, strict=True):
        (rank, loss, squares), (same, plain, _) = one.split(), other.split()
        assert rank == same and float(squares) > 1
        assert float(loss) - float(plain) == pytest.approx(0.5 * float(squares), rel=1e-6)
