/* Made by keras_optimizers.py with Keras 3.15.1. */
{"sgd", kolo_sgd(.learning_rate = 0.05), {0.494234085f, -2.55542874f, -1.05413079f, -4.50306463f}},
{"momentum", kolo_sgd(.learning_rate = 0.05, .momentum = 0.9), {-0.0900096521f, -15.131052f, -25.2298431f, -40.3931999f}},
{"nesterov", kolo_sgd(.learning_rate = 0.05, .momentum = 0.9, .nesterov = true), {-0.0367745236f, -15.2733717f, -25.5609932f, -40.856945f}},
{"adam", kolo_adam(.learning_rate = 0.02), {0.408240974f, -1.81553543f, 0.704916775f, -1.59854937f}},
{"adam_options", kolo_adam(.learning_rate = 0.02, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3), {0.436716586f, -1.78913462f, 0.721714973f, -1.5780201f}},
