/* The table of built-in losses and metrics: see formulas.h. */
#include "losses/formulas.h"

static const struct known_loss {
    const kolo_loss_kind *kind;
    const char *constant;
    kolo_formula formula;
} losses[] = {
    {&kolo_sparse_crossentropy_kind, "KOLO_SPARSE_CROSSENTROPY", KOLO_FORMULA_SPARSE_CROSSENTROPY},
    {&kolo_categorical_crossentropy_kind, "KOLO_CATEGORICAL_CROSSENTROPY", KOLO_FORMULA_CATEGORICAL_CROSSENTROPY},
    {&kolo_kl_divergence_kind, "KOLO_KL_DIVERGENCE", KOLO_FORMULA_KL_DIVERGENCE},
    {&kolo_binary_crossentropy_kind, "KOLO_BINARY_CROSSENTROPY", KOLO_FORMULA_BINARY_CROSSENTROPY},
    {&kolo_mse_kind, "KOLO_MSE", KOLO_FORMULA_MSE},
    {&kolo_mae_kind, "KOLO_MAE", KOLO_FORMULA_MAE},
    {&kolo_huber_kind, "KOLO_HUBER", KOLO_FORMULA_HUBER},
    {&kolo_log_cosh_kind, "KOLO_LOG_COSH", KOLO_FORMULA_LOG_COSH},
};
#define LOSSES (sizeof losses / sizeof *losses)

/* kolo_accuracy_kind has no formula, since kolo_metric_list_make() replaces it by another kind. */
static const struct known_metric {
    const kolo_metric_kind *kind;
    const char *constant;
    kolo_formula formula;
} metrics[] = {
    {&kolo_accuracy_kind, "KOLO_ACCURACY", KOLO_FORMULA_NONE},
    {&kolo_binary_accuracy_kind, "KOLO_BINARY_ACCURACY", KOLO_FORMULA_BINARY_ACCURACY},
    {&kolo_categorical_accuracy_kind, "KOLO_CATEGORICAL_ACCURACY", KOLO_FORMULA_CATEGORICAL_ACCURACY},
    {&kolo_top_k_kind, "KOLO_TOP_K", KOLO_FORMULA_TOP_K},
    {&kolo_precision_kind, "KOLO_PRECISION", KOLO_FORMULA_COUNT_LARGEST},
    {&kolo_recall_kind, "KOLO_RECALL", KOLO_FORMULA_COUNT_LARGEST},
    {&kolo_f1_kind, "KOLO_F1", KOLO_FORMULA_COUNT_LARGEST},
    {&kolo_auc_kind, "KOLO_AUC", KOLO_FORMULA_AUC},
    {&kolo_metric_mse_kind, "KOLO_METRIC_MSE", KOLO_FORMULA_MSE},
    {&kolo_metric_mae_kind, "KOLO_METRIC_MAE", KOLO_FORMULA_MAE},
    {&kolo_mean_kind, "KOLO_MEAN", KOLO_FORMULA_MEAN},
};
#define METRICS (sizeof metrics / sizeof *metrics)

/* ---------------------------------------------------------------- formulas, found by row() */

kolo_formula kolo_loss_formula(const kolo_loss_kind *kind)
{
    for (size_t i = 0; i < LOSSES; i++)
        if (losses[i].kind->row == kind->row) return losses[i].formula;
    return KOLO_FORMULA_NONE;
}

/* The kinds that count each output (precision, recall and F1) are not in the table: only choose() returns them. */
kolo_formula kolo_metric_formula(const kolo_metric_kind *kind)
{
    if (kind->row == kolo_precision_kind.choose(NULL, 1)->row) return KOLO_FORMULA_COUNT_EACH;
    for (size_t i = 0; i < METRICS; i++)
        if (metrics[i].formula && metrics[i].kind->row == kind->row) return metrics[i].formula;
    return KOLO_FORMULA_NONE;
}

/* ---------------------------------------------------------------- constants, found by kind */

const char *kolo_loss_constant(const kolo_loss_kind *kind)
{
    for (size_t i = 0; i < LOSSES; i++)
        if (losses[i].kind == kind) return losses[i].constant;
    return NULL;
}

const char *kolo_metric_constant(const kolo_metric_kind *kind)
{
    for (size_t i = 0; i < METRICS; i++)
        if (metrics[i].kind == kind) return metrics[i].constant;
    return NULL;
}
