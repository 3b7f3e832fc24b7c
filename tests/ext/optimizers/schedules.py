"""Makes keras_schedules.h and pytorch_schedules.h: learning rates of 50 steps. usage: python schedules.py keras|pytorch > FILE"""
import os
import sys
import warnings
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
warnings.simplefilter("ignore")
STEPS = range(0, 350, 7)


def show(recipe, rates):
    print(f"{{{recipe}, {{{', '.join(f'{float(rate):.9g}' for rate in rates)}}}}},")


def keras():
    import keras
    from keras.optimizers import schedules as s
    print(f"/* Made by schedules.py with Keras {keras.__version__}. */")
    cases = [
        ("kolo_piecewise_constant(.boundaries = {70, 200}, .values = {0.1, 0.01, 0.001})",
         s.PiecewiseConstantDecay([70, 200], [0.1, 0.01, 0.001])),
        ("kolo_exponential_decay(.decay_steps = 50, .decay_rate = 0.7)", s.ExponentialDecay(0.2, 50, 0.7)),
        ("kolo_exponential_decay(.decay_steps = 50, .decay_rate = 0.7, .staircase = true)",
         s.ExponentialDecay(0.2, 50, 0.7, staircase=True)),
        ("kolo_inverse_time_decay(.initial_learning_rate = 0.3, .decay_steps = 40, .decay_rate = 0.5)",
         s.InverseTimeDecay(0.3, 40, 0.5)),
        ("kolo_inverse_time_decay(.decay_steps = 40, .decay_rate = 0.5, .staircase = true)",
         s.InverseTimeDecay(0.2, 40, 0.5, staircase=True)),
        ("kolo_polynomial_decay(.decay_steps = 250)", s.PolynomialDecay(0.2, 250)),
        ("kolo_polynomial_decay(.decay_steps = 80, .end_learning_rate = 0.01, .power = 2, .cycle = true)",
         s.PolynomialDecay(0.2, 80, 0.01, 2.0, cycle=True)),
        ("kolo_cosine_decay(.decay_steps = 300)", s.CosineDecay(0.2, 300)),
        ("kolo_cosine_decay(.decay_steps = 200, .alpha = 0.1, .warmup_target = 0.5, .warmup_steps = 60)",
         s.CosineDecay(0.2, 200, 0.1, warmup_target=0.5, warmup_steps=60)),
        ("kolo_cosine_restarts(.first_decay_steps = 45)", s.CosineDecayRestarts(0.2, 45)),
        ("kolo_cosine_restarts(.first_decay_steps = 45, .t_mul = 1, .m_mul = 0.8, .alpha = 0.05)",
         s.CosineDecayRestarts(0.2, 45, 1.0, 0.8, 0.05)),
        ("kolo_cosine_restarts(.first_decay_steps = 45, .t_mul = 1.5, .m_mul = 0.9)",
         s.CosineDecayRestarts(0.2, 45, 1.5, 0.9)),
    ]
    for recipe, schedule in cases:
        show(recipe, [schedule(step) for step in STEPS])


def pytorch():
    import torch
    from torch.optim import lr_scheduler as s
    print(f"/* Made by schedules.py with PyTorch {torch.__version__}. */")

    def rates(make, rate=0.2):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate, momentum=0.9)
        schedule, found = make(optimizer), []
        for _ in range(STEPS.stop):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return [found[step] for step in STEPS]

    show("kolo_one_cycle(.total_steps = 360)", rates(lambda o: s.OneCycleLR(o, 0.2, 360)))
    show("kolo_one_cycle(.max_learning_rate = 0.5, .total_steps = 400, .pct_start = 0.4, .div_factor = 10, "
         ".final_div_factor = 50, .linear = true)",
         rates(lambda o: s.OneCycleLR(o, 0.5, 400, pct_start=0.4, div_factor=10, final_div_factor=50,
                                      anneal_strategy="linear")))
    show("kolo_one_cycle(.total_steps = 360, .three_phase = true)",
         rates(lambda o: s.OneCycleLR(o, 0.2, 360, three_phase=True)))
    show("kolo_warmup(kolo_constant(), .steps = 100, .from = 0.02)",
         rates(lambda o: s.LinearLR(o, start_factor=0.1, total_iters=100)))
    show("kolo_warmup(kolo_exponential_decay(.decay_steps = 1, .decay_rate = 0.99), .steps = 80, .from = 0.05)",
         rates(lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.25, total_iters=80), s.ExponentialLR(o, 0.99)], [80])))


{"keras": keras, "pytorch": pytorch}[sys.argv[1]]()
