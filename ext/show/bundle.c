/* Scores as a line of text: see bundle.h. */
#include "show/bundle.h"
#include "show/show.h"

/* "accuracy: 0.9012 - loss: 0.3451 - 10000 samples in 1.2 s", as kolo_evaluate() prints it. */
char *kolo_scores_bundle(const kolo_scores *scores)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (int m = 0; m < scores->metrics && m < KOLO_METRICS_MAX; m++)
        fprintf(out, "%s - ", kolo_measure_text(&(kolo_measure){scores->metric_name[m], scores->metric[m]}));
    fprintf(out, "%s - %lld samples in %.1f s", kolo_measure_text(&(kolo_measure){"loss", scores->loss}),
            (long long)scores->samples, scores->seconds);
    fclose(out);
    return kolo_text_bundle(text, size);
}
