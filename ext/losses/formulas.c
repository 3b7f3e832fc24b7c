/* Kinds to formulas: see formulas.h. */
#include "losses/formulas.h"

kolo_formula kolo_loss_formula(const kolo_loss_kind *kind)
{
    const struct {
        const kolo_loss_kind *kind;
        kolo_formula formula;
    } own[] = {{&kolo_sparse_crossentropy_kind, KOLO_FORMULA_SPARSE_CROSSENTROPY},
               {&kolo_categorical_crossentropy_kind, KOLO_FORMULA_CATEGORICAL_CROSSENTROPY},
               {&kolo_kl_divergence_kind, KOLO_FORMULA_KL_DIVERGENCE},
               {&kolo_binary_crossentropy_kind, KOLO_FORMULA_BINARY_CROSSENTROPY},
               {&kolo_mse_kind, KOLO_FORMULA_MSE},
               {&kolo_mae_kind, KOLO_FORMULA_MAE},
               {&kolo_huber_kind, KOLO_FORMULA_HUBER},
               {&kolo_log_cosh_kind, KOLO_FORMULA_LOG_COSH}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].kind->row == kind->row) return own[i].formula;
    return KOLO_FORMULA_NONE;
}

/* Precision of single outputs has no name of its own: it is what is chosen for one output. */
kolo_formula kolo_metric_formula(const kolo_metric_kind *kind)
{
    const struct {
        const kolo_metric_kind *kind;
        kolo_formula formula;
    } own[] = {{&kolo_mean_kind, KOLO_FORMULA_MEAN},
               {&kolo_metric_mse_kind, KOLO_FORMULA_MSE},
               {&kolo_metric_mae_kind, KOLO_FORMULA_MAE},
               {&kolo_binary_accuracy_kind, KOLO_FORMULA_BINARY_ACCURACY},
               {&kolo_categorical_accuracy_kind, KOLO_FORMULA_CATEGORICAL_ACCURACY},
               {&kolo_top_k_kind, KOLO_FORMULA_TOP_K},
               {&kolo_precision_kind, KOLO_FORMULA_COUNT_LARGEST},
               {kolo_precision_kind.choose(NULL, 1), KOLO_FORMULA_COUNT_EACH},
               {&kolo_auc_kind, KOLO_FORMULA_AUC}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].kind->row == kind->row) return own[i].formula;
    return KOLO_FORMULA_NONE;
}
