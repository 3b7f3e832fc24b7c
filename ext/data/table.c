/* Synthetic tables, which replace HIGGS and the like. A sample is a point in a space of LATENT dimensions, near one
 * of its class's centres. These lie in pairs opposite each other, so all classes have the same mean, and a single
 * layer cannot separate them. The features are the product of a random matrix with that point, plus noise. Read
 * chance.h first. */
#include "data/chance.h"
#include "data/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LATENT       6
#define CENTRES      4    /* per class */
#define RADIUS       2.3f /* distance of the centres from the origin; points have variance 1 around their centre */
#define NOISE        0.6f /* standard deviation of a feature's noise */
#define FEATURES_MAX 10000
#define CLASSES_MAX  1000
#define TARGET_NOISE 0.1f

typedef struct world {
    int features, classes;
    bool regression;
    uint64_t key;
    float (*centres)[LATENT]; /* [classes · CENTRES] */
    float (*matrix)[LATENT];  /* [features] */
    float waves[LATENT][LATENT];
} world;

static void pick_centre(float *centre, kolo_chance *c)
{
    float length = 0;
    for (int i = 0; i < LATENT; i++) {
        centre[i] = kolo_chance_normal(c);
        length += centre[i] * centre[i];
    }
    for (int i = 0; i < LATENT; i++) centre[i] *= RADIUS / sqrtf(length);
}

static void pick_world(world *w, uint64_t seed)
{
    kolo_chance c = {.key = kolo_random_key(seed, KOLO_RANDOM_SYNTHETIC, 0)};
    for (int k = 0; k < w->classes * CENTRES; k += 2) {
        pick_centre(w->centres[k], &c);
        for (int i = 0; i < LATENT; i++) w->centres[k + 1][i] = -w->centres[k][i];
    }
    for (int f = 0; f < w->features; f++)
        for (int i = 0; i < LATENT; i++) w->matrix[f][i] = kolo_chance_normal(&c) / sqrtf(LATENT);
    for (int k = 0; k < LATENT; k++)
        for (int i = 0; i < LATENT; i++) w->waves[k][i] = 0.5f * kolo_chance_normal(&c);
}

/* The target of a regression: a sum of LATENT sine waves in different directions, plus noise. */
static float target_of(const world *w, const float *point, kolo_chance *c)
{
    float sum = TARGET_NOISE * kolo_chance_normal(c);
    for (int k = 0; k < LATENT; k++) {
        float along = 0;
        for (int i = 0; i < LATENT; i++) along += w->waves[k][i] * point[i];
        sum += sinf(along) / 2;
    }
    return sum;
}

static void draw_sample(const world *w, kolo_arrays *arrays, int64_t sample)
{
    kolo_chance c = {.key = w->key, .sample = (uint64_t)sample};
    float point[LATENT], *features = arrays->floats + sample * w->features;
    uint32_t class = kolo_chance_below(&c, (uint32_t)w->classes);
    const float *centre = w->centres[class * CENTRES + kolo_chance_below(&c, CENTRES)];
    for (int i = 0; i < LATENT; i++) point[i] = (w->regression ? 0 : centre[i]) + kolo_chance_normal(&c);
    for (int f = 0; f < w->features; f++) {
        features[f] = NOISE * kolo_chance_normal(&c);
        for (int i = 0; i < LATENT; i++) features[f] += w->matrix[f][i] * point[i];
    }
    if (w->regression) arrays->targets[sample] = target_of(w, point, &c);
    else arrays->labels[sample] = (int32_t)class;
}

static kolo_status check(const kolo_synthetic_table_args *args, world *w, int64_t *samples)
{
    if (args->split != KOLO_TRAIN && args->split != KOLO_TEST)
        return kolo_fail(KOLO_INVALID, ".split: wanted KOLO_TRAIN or KOLO_TEST, got %d", (int)args->split);
    w->features = args->features ? args->features : 28;
    if (w->features < 1 || w->features > FEATURES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .features of 1 to %d, got %d", FEATURES_MAX, w->features);
    w->classes = args->classes ? args->classes : 2;
    if (w->classes < 2 || w->classes > CLASSES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .classes of 2 to %d, got %d", CLASSES_MAX, w->classes);
    *samples = args->samples ? args->samples : args->split == KOLO_TRAIN ? 70000 : 30000;
    if (*samples < 1 || *samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .samples of 1 to %d, got %" PRId64, KOLO_SAMPLES_MAX, *samples);
    w->regression = args->regression;
    return KOLO_OK;
}

static kolo_status draw(kolo_arrays *arrays, const world *w)
{
    size_t samples = (size_t)arrays->samples, bytes = samples * (size_t)w->features * sizeof *arrays->floats;
    arrays->floats = malloc(bytes);
    if (w->regression) arrays->targets = malloc(samples * sizeof *arrays->targets);
    else arrays->labels = malloc(samples * sizeof *arrays->labels);
    if (!arrays->floats || (!arrays->targets && !arrays->labels))
        return kolo_fail_memory(bytes + 4 * samples, "a table");
    for (int64_t i = 0; i < arrays->samples; i++) draw_sample(w, arrays, i);
    return KOLO_OK;
}

kolo_status kolo_table_draw(kolo_arrays *arrays, const kolo_synthetic_table_args *args)
{
    int64_t samples = 0;
    world w = {0};
    uint64_t seed = args->seed ? args->seed : 1;
    KOLO_TRY(check(args, &w, &samples));
    w.centres = calloc((size_t)w.classes + 1, CENTRES * sizeof *w.centres);
    w.matrix = calloc((size_t)w.features + 1, sizeof *w.matrix);
    kolo_status status = KOLO_OK;
    if (!w.centres || !w.matrix) status = kolo_fail_memory((size_t)(w.classes * CENTRES + w.features) * 24, "a table");
    *arrays = (kolo_arrays){.samples = samples, .shape = {1, {w.features}}, .label_count = 1, .synthetic = true};
    if (w.regression) arrays->target_shape = (kolo_shape){1, {1}};
    else arrays->classes = w.classes;
    snprintf(arrays->source, sizeof arrays->source, "a table drawn by Kolo (seed %" PRIu64 ")", seed);
    if (w.centres && w.matrix) {
        pick_world(&w, seed);
        w.key = kolo_random_key(seed, KOLO_RANDOM_SYNTHETIC, (uint64_t)args->split); /* streams differ by split */
        status = draw(arrays, &w);
    }
    free(w.centres), free(w.matrix);
    return status;
}

kolo_data *kolo_synthetic_table_at(const kolo_synthetic_table_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_synthetic_table", here);
    return kolo_arrays_leave(scope, kolo_table_draw(&arrays, args), &arrays);
}
