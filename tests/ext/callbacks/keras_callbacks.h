/* What Keras's callbacks decide: made by keras_callbacks.py. */
/* Keras 3.15.1 */
static const double fall_numbers[] = {0.9, 0.7, 0.6, 0.55, 0.54, 0.56, 0.53, 0.6, 0.61, 0.62, 0.63, 0.64};
static const double bumps_numbers[] = {0.5, 0.625, 0.375, 0.5, 0.375, 0.25, 0.5, 0.5, 0.5, 0.125, 0.5, 0.5};
static const double rise_numbers[] = {0.125, 0.25, 0.25, 0.5, 0.375, 0.5, 0.625, 0.5, 0.5, 0.5, 0.5, 0.5};
static const double flat_numbers[] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};

static const struct stopping {
    kolo_early_stopping_args recipe;
    const double *numbers;
    int epochs, restored; /* that are trained; whose weights are put back, -1: none */
} stoppings[] = {
    {{._ = 0, .mode = KOLO_MIN}, fall_numbers, 6, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 1}, fall_numbers, 6, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 2}, fall_numbers, 9, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 3, .min_delta = 0.0625}, fall_numbers, 6, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 2, .start_from_epoch = 6}, fall_numbers, 9, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 3, .restore_best_weights = true}, fall_numbers, 10, 6},
    {{._ = 0, .mode = KOLO_MIN, .patience = 3, .baseline = 0.545}, fall_numbers, 10, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 4, .baseline = 0.3, .restore_best_weights = true}, fall_numbers, 6, 4},
    {{._ = 0, .mode = KOLO_MIN, .patience = 2}, bumps_numbers, 5, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 3, .restore_best_weights = true}, bumps_numbers, 9, 5},
    {{._ = 0, .mode = KOLO_MAX, .patience = 2}, bumps_numbers, 4, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 3, .min_delta = 0.125}, bumps_numbers, 4, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 4, .min_delta = -0.0625}, bumps_numbers, 12, -1},
    {{._ = 0, .mode = KOLO_MAX, .patience = 2}, rise_numbers, 6, -1},
    {{._ = 0, .mode = KOLO_MAX, .patience = 3, .restore_best_weights = true, .start_from_epoch = 2},
     rise_numbers,
     10,
     6},
    {{._ = 0, .mode = KOLO_MIN}, flat_numbers, 2, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 5}, flat_numbers, 6, -1},
    {{._ = 0, .mode = KOLO_MIN, .patience = 20, .restore_best_weights = true}, flat_numbers, 12, 0},
};

static const struct plateau {
    kolo_reduce_lr_on_plateau_args recipe;
    const double *numbers;
    double rates[12]; /* after each epoch, from 0.1 */
} plateaus[] = {
    {{._ = 0, .mode = KOLO_MIN, .patience = 2},
     fall_numbers,
     {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001}},
    {{._ = 0, .mode = KOLO_MIN, .patience = 1, .factor = 0.5},
     fall_numbers,
     {0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.0125, 0.00625, 0.003125, 0.0015625}},
    {{._ = 0, .mode = KOLO_MIN, .patience = 2, .cooldown = 2},
     fall_numbers,
     {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001}},
    {{._ = 0, .mode = KOLO_MIN, .patience = 1, .min_delta = 0.0625, .factor = 0.5},
     fall_numbers,
     {0.1, 0.1, 0.1, 0.05, 0.025, 0.0125, 0.0125, 0.00625, 0.003125, 0.0015625, 0.00078125, 0.000390625}},
    {{._ = 0, .mode = KOLO_MIN}, fall_numbers, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
    {{._ = 0, .mode = KOLO_MIN, .patience = 1, .min_lr = 0.005},
     flat_numbers,
     {0.1, 0.01, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005}},
    {{._ = 0, .mode = KOLO_MIN, .patience = 2, .cooldown = 1, .factor = 0.25},
     flat_numbers,
     {0.1, 0.1, 0.025, 0.025, 0.00625, 0.00625, 0.0015625, 0.0015625, 0.000390625, 0.000390625, 9.765625e-05,
      9.765625e-05}},
    {{._ = 0, .mode = KOLO_MIN, .patience = 2, .factor = 0.5},
     bumps_numbers,
     {0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025, 0.0125}},
    {{._ = 0, .mode = KOLO_MIN, .patience = 2, .factor = 0.5, .min_delta = KOLO_NONE},
     bumps_numbers,
     {0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025, 0.0125}},
    {{._ = 0, .mode = KOLO_MAX, .patience = 2, .factor = 0.5},
     rise_numbers,
     {0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.0125, 0.0125}},
};

static const struct saving {
    kolo_model_checkpoint_args recipe;
    const double *numbers;
    int batches; /* an epoch */
    const char *files; /* in the order in which they are written */
} savings[] = {
    {{._ = 0, "e{epoch:02d}-{val_loss:.2f}.keras", .mode = KOLO_MIN},
     fall_numbers,
     0,
     "e01-0.90.keras e02-0.70.keras e03-0.60.keras e04-0.55.keras e05-0.54.keras e06-0.56.keras e07-0.53.keras "
     "e08-0.60.keras e09-0.61.keras e10-0.62.keras e11-0.63.keras e12-0.64.keras"},
    {{._ = 0, "{epoch}.keras", .mode = KOLO_MIN, .save_best_only = true},
     fall_numbers,
     0,
     "1.keras 2.keras 3.keras 4.keras 5.keras 7.keras"},
    {{._ = 0, "{epoch:03d}_{val_loss:.3f}.keras", .mode = KOLO_MIN, .save_best_only = true},
     bumps_numbers,
     0,
     "001_0.500.keras 003_0.375.keras 006_0.250.keras 010_0.125.keras"},
    {{._ = 0, "{val_loss:5.1f}at{epoch}.keras", .mode = KOLO_MAX, .save_best_only = true},
     rise_numbers,
     0,
     "  0.1at1.keras   0.2at2.keras   0.5at4.keras   0.6at7.keras"},
    {{._ = 0, "{epoch}.keras", .mode = KOLO_MIN, .save_best_only = true, .initial_value_threshold = 0.56},
     fall_numbers,
     0,
     "4.keras 5.keras 7.keras"},
    {{._ = 0, "{epoch}-{batch:02d}.keras", .mode = KOLO_MIN, .save_freq = 4},
     fall_numbers,
     3,
     "2-01.keras 3-02.keras 4-03.keras 6-01.keras 7-02.keras 8-03.keras 10-01.keras 11-02.keras 12-03.keras"},
    {{._ = 0, "{epoch}-{batch}.keras", .mode = KOLO_MIN, .save_freq = 5},
     flat_numbers,
     7,
     "1-5.keras 2-3.keras 3-1.keras 3-6.keras 4-4.keras 5-2.keras 5-7.keras 6-5.keras 7-3.keras 8-1.keras 8-6.keras "
     "9-4.keras 10-2.keras 10-7.keras 11-5.keras 12-3.keras"},
    {{._ = 0, "{epoch}-{batch}.keras", .mode = KOLO_MIN, .save_freq = 2, .save_best_only = true},
     bumps_numbers,
     3,
     "1-2.keras 3-2.keras 6-1.keras 10-1.keras"},
};
