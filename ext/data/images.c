/* Synthetic pictures, which replace CIFAR-10 and the like. A class is the shape of a figure, the waves inside it and
 * behind it, and their colours. A sample adds a random position, rotation, size, shading and noise. Colours and
 * phases vary so much that the mean picture of a class says little. Read chance.h first. */
#include "data/chance.h"
#include "data/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WAVE         1024 /* entries of the sine table: one period */
#define FIGURES      6
#define CHANNELS_MAX 4
#define CLASSES_MAX  1000

typedef struct ground { /* the pattern inside a figure, or behind it */
    float across, down; /* number of waves over the picture's width and height */
    float low[CHANNELS_MAX], high[CHANNELS_MAX];
} ground;

typedef struct picture_class {
    int figure;
    ground grounds[2]; /* behind, inside */
} picture_class;

typedef struct painter {
    int height, width, channels, classes;
    uint64_t key;
    picture_class *list;
    float wave[WAVE];
} painter;

/* ------------------------------------------------------------------------------------------ classes */

static ground pick_ground(kolo_chance *c)
{
    float angle = kolo_chance_between(c, 0, 3.14159265f), waves = kolo_chance_between(c, 1.5f, 5);
    ground g = {.across = waves * cosf(angle), .down = waves * sinf(angle)};
    for (int i = 0; i < CHANNELS_MAX; i++) {
        g.low[i] = kolo_chance_between(c, 0.15f, 0.6f);
        g.high[i] = g.low[i] + kolo_chance_between(c, 0.1f, 0.35f);
    }
    return g;
}

static void pick_classes(painter *p, uint64_t seed)
{
    for (int i = 0; i < p->classes; i++) {
        kolo_chance c = {.key = kolo_random_key(seed, KOLO_RANDOM_SYNTHETIC, 0), .sample = (uint64_t)i};
        p->list[i].figure = i % FIGURES;
        for (int k = 0; k < 2; k++) p->list[i].grounds[k] = pick_ground(&c);
    }
    for (int i = 0; i < WAVE; i++) p->wave[i] = 0.5f + 0.5f * sinf(6.28318531f * (float)i / WAVE);
}

/* ------------------------------------------------------------------------------------------ one picture */

/* Whether a point lies inside the figure. x and y are relative to its centre, rotation and size: it reaches to about
 * 1. */
static bool inside(int figure, float x, float y)
{
    float far = x * x + y * y, ax = fabsf(x), ay = fabsf(y);
    switch (figure) {
    case 0: return far < 1;                               /* a disc */
    case 1: return ax < 0.85f && ay < 0.85f;              /* a square */
    case 2: return far < 1 && far > 0.3f;                 /* a ring */
    case 3: return (ax < 0.33f && ay < 1) || (ay < 0.33f && ax < 1); /* a cross */
    case 4: return y < 0.8f && y > 2 * ax - 1;            /* a triangle */
    default: return ax < 1 && ay < 0.42f;                 /* a bar */
    }
}

typedef struct view { /* the random properties of a sample */
    float x, y, cosine, sine; /* of the figure: centre, and its rotation's cosine and sine, divided by its size */
    float phase[2], tint[2][CHANNELS_MAX], light, grain;
} view;

static view pick_view(const painter *p, kolo_chance *c)
{
    float turn = kolo_chance_between(c, -0.4f, 0.4f), size = kolo_chance_between(c, 0.22f, 0.38f);
    view v = {.x = kolo_chance_between(c, 0.35f, 0.65f), .y = kolo_chance_between(c, 0.35f, 0.65f)};
    v.cosine = cosf(turn) / size, v.sine = sinf(turn) / size;
    for (int k = 0; k < 2; k++) {
        v.phase[k] = kolo_chance_between(c, 0, 1);
        for (int i = 0; i < p->channels; i++) v.tint[k][i] = kolo_chance_between(c, -0.22f, 0.22f);
    }
    v.light = kolo_chance_between(c, 0.7f, 1.2f);
    v.grain = kolo_chance_between(c, 0, 0.12f);
    return v;
}

static uint8_t develop(float value)
{
    value = value > 0 ? value * 255 : 0;
    return (uint8_t)(value < 255 ? value : 255);
}

static void paint(const painter *p, int class, kolo_chance *c, uint8_t *bytes)
{
    const picture_class *of = &p->list[class];
    view v = pick_view(p, c);
    for (int row = 0; row < p->height; row++)
        for (int column = 0; column < p->width; column++) {
            float x = ((float)column + 0.5f) / (float)p->width, y = ((float)row + 0.5f) / (float)p->height;
            float dx = x - v.x, dy = y - v.y;
            int k = inside(of->figure, dx * v.cosine + dy * v.sine, dy * v.cosine - dx * v.sine);
            const ground *g = &of->grounds[k];
            float turns = g->across * dx + g->down * dy + v.phase[k] + 16; /* + 16: keeps it positive */
            float wave = p->wave[(int)(turns * WAVE) % WAVE];
            uint32_t noise = kolo_chance_word(c);
            for (int i = 0; i < p->channels; i++, noise >>= 8) {
                float grain = v.grain * ((float)(noise & 255) / 255 - 0.5f);
                *bytes++ = develop(v.light * (g->low[i] + (g->high[i] - g->low[i]) * wave + v.tint[k][i]) + grain);
            }
        }
}

/* ------------------------------------------------------------------------------------------ the data set */

static kolo_status check(const kolo_synthetic_images_args *args, painter *p, int64_t *samples)
{
    kolo_shape shape = {3, {32, 32, 3}};
    if (args->split != KOLO_TRAIN && args->split != KOLO_TEST)
        return kolo_fail(KOLO_INVALID, ".split: wanted KOLO_TRAIN or KOLO_TEST, got %d", (int)args->split);
    if (args->shape[0]) KOLO_TRY(kolo_check_shape(".shape", args->shape, &shape));
    if (shape.rank != 3 || shape.dim[2] > CHANNELS_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .shape = {height, width, 1 to %d channels}, got %s", CHANNELS_MAX,
                         kolo_shape_text(shape));
    *samples = args->samples ? args->samples : args->split == KOLO_TRAIN ? 50000 : 10000;
    if (*samples < 1 || *samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .samples of 1 to %d, got %" PRId64, KOLO_SAMPLES_MAX, *samples);
    p->classes = args->classes ? args->classes : 10;
    if (p->classes < 2 || p->classes > CLASSES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .classes of 2 to %d, got %d", CLASSES_MAX, p->classes);
    p->height = shape.dim[0], p->width = shape.dim[1], p->channels = shape.dim[2];
    return KOLO_OK;
}

static kolo_status draw(kolo_arrays *arrays, painter *p)
{
    size_t bytes = (size_t)kolo_shape_count(arrays->shape);
    arrays->bytes = malloc((size_t)arrays->samples * bytes);
    arrays->labels = malloc((size_t)arrays->samples * sizeof *arrays->labels);
    if (!arrays->bytes || !arrays->labels) return kolo_fail_memory((size_t)arrays->samples * (bytes + 4), "pictures");
    for (int64_t i = 0; i < arrays->samples; i++) {
        kolo_chance c = {.key = p->key, .sample = (uint64_t)i};
        arrays->labels[i] = (int32_t)kolo_chance_below(&c, (uint32_t)p->classes);
        paint(p, arrays->labels[i], &c, arrays->bytes + (size_t)i * bytes);
    }
    return KOLO_OK;
}

kolo_status kolo_images_draw(kolo_arrays *arrays, const kolo_synthetic_images_args *args)
{
    int64_t samples = 0;
    painter p = {0};
    uint64_t seed = args->seed ? args->seed : 1;
    KOLO_TRY(check(args, &p, &samples));
    if (!(p.list = calloc((size_t)p.classes + 1, sizeof *p.list)))
        return kolo_fail_memory((size_t)p.classes * sizeof *p.list, "the classes of pictures");
    pick_classes(&p, seed);
    p.key = kolo_random_key(seed, KOLO_RANDOM_SYNTHETIC, (uint64_t)args->split); /* the splits use different streams */
    *arrays = (kolo_arrays){.samples = samples,
                            .shape = {3, {p.height, p.width, p.channels}},
                            .scale = 1.0f / 255.0f,
                            .label_count = 1,
                            .classes = p.classes,
                            .synthetic = true};
    snprintf(arrays->source, sizeof arrays->source, "pictures drawn by Kolo (seed %" PRIu64 ")", seed);
    kolo_status status = draw(arrays, &p);
    free(p.list);
    return status;
}

kolo_data *kolo_synthetic_images_at(const kolo_synthetic_images_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_synthetic_images", here);
    return kolo_arrays_leave(scope, kolo_images_draw(&arrays, args), &arrays);
}
