/* Synthetic digits, drawn from strokes: the lessons train on them if there is no MNIST.
 *
 * A digit is a glyph (a few ways of writing each class), bent by a smooth random field, rotated, sheared, scaled and
 * moved, drawn with a pen of random width and softness, and then damaged: noise, a stray stroke, a patch rubbed out.
 * Sample i depends only on (seed, split, i), so samples can be drawn in any order. */
#include "data/chance.h"
#include "data/sources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE       28
#define PIXELS     (SIDE * SIDE)
#define PI         3.14159265f
#define POINTS_MAX 40
#define STEPS      4 /* straight pieces between two points of a curve */

/* ------------------------------------------------------------------------------------------ glyphs */

/* Points in hundredths of the digit's box, x to the right and y down. A stroke is a smooth curve through its points.
 * UP ends a stroke, END ends the glyph. */
#define UP  {-1, 0}
#define END {-2, 0}
typedef struct point {
    signed char x, y;
} point;

#define WAYS 3
static const point glyphs[10][WAYS][24] = {
    {{{50, 4}, {24, 16}, {12, 50}, {22, 82}, {50, 96}, {78, 82}, {88, 50}, {76, 16}, {50, 4}, END},
     {{58, 8}, {34, 10}, {22, 34}, {22, 66}, {38, 94}, {62, 92}, {78, 66}, {76, 32}, {58, 8}, {42, 10}, END},
     {{70, 14}, {42, 4}, {16, 30}, {14, 64}, {34, 94}, {64, 90}, {86, 58}, {82, 24}, {60, 8}, END}},
    {{{50, 4}, {50, 96}, END},
     {{30, 24}, {54, 4}, UP, {54, 4}, {52, 96}, END},
     {{32, 22}, {52, 4}, UP, {52, 4}, {52, 95}, UP, {30, 95}, {74, 95}, END}},
    {{{16, 26}, {30, 8}, {60, 4}, {80, 22}, {74, 44}, {46, 70}, {14, 94}, UP, {14, 94}, {88, 93}, END},
     {{18, 20}, {48, 4}, {76, 16}, {72, 44}, {40, 80}, {18, 92}, {14, 82}, {30, 76}, {60, 90}, {88, 90}, END},
     {{22, 14}, {56, 6}, {76, 24}, {64, 52}, {20, 90}, UP, {20, 90}, {52, 84}, {86, 92}, END}},
    {{{18, 14}, {44, 4}, {74, 14}, {72, 36}, {42, 47}, UP, {42, 47}, {76, 56}, {82, 80}, {50, 96}, {14, 86}, END},
     {{18, 8}, {80, 8}, UP, {80, 8}, {44, 42}, UP, {44, 42}, {78, 56}, {78, 84}, {46, 96}, {16, 84}, END},
     {{22, 20}, {52, 4}, {76, 22}, {46, 46}, {40, 48}, {52, 46}, {82, 68}, {58, 95}, {18, 88}, END}},
    {{{62, 4}, {12, 62}, UP, {12, 62}, {90, 62}, UP, {66, 34}, {66, 96}, END},
     {{22, 6}, {16, 50}, UP, {16, 50}, {84, 50}, UP, {78, 6}, {72, 96}, END},
     {{30, 8}, {18, 40}, {36, 54}, {74, 46}, UP, {80, 8}, {70, 60}, {66, 96}, END}},
    {{{80, 7}, {28, 7}, UP, {28, 7}, {24, 44}, UP, {24, 44}, {56, 38}, {82, 58}, {76, 86}, {46, 96}, {14, 86}, END},
     {{30, 8}, {24, 42}, UP, {24, 42}, {66, 46}, {78, 74}, {50, 95}, {18, 88}, UP, {30, 8}, {84, 4}, END},
     {{78, 10}, {40, 10}, {26, 30}, {40, 44}, {70, 56}, {74, 84}, {40, 96}, {16, 84}, END}},
    {{{70, 5}, {36, 28}, {16, 64}, {28, 92}, {60, 96}, {84, 76}, {66, 56}, {38, 56}, {18, 72}, END},
     {{50, 4}, {28, 34}, {20, 74}, {44, 96}, {76, 86}, {76, 64}, {52, 56}, {26, 68}, END},
     {{78, 12}, {52, 6}, {26, 34}, {16, 70}, {40, 95}, {70, 84}, {68, 60}, {40, 54}, {20, 66}, END}},
    {{{12, 9}, {88, 9}, UP, {88, 9}, {56, 48}, {40, 96}, END},
     {{14, 10}, {84, 10}, UP, {84, 10}, {50, 96}, UP, {32, 50}, {80, 50}, END},
     {{14, 20}, {24, 8}, {56, 14}, {86, 8}, UP, {86, 8}, {66, 44}, {58, 96}, END}},
    {{{78, 18}, {50, 4}, {22, 20}, {38, 42}, {70, 60}, {80, 80}, {50, 96}, {20, 80}, {34, 58}, {64, 40}, {78, 18}, END},
     {{50, 46}, {28, 34}, {32, 10}, {66, 8}, {74, 32}, {50, 46}, {22, 64}, {26, 90}, {66, 96}, {80, 70}, {50, 46}, END},
     {{72, 12}, {42, 6}, {28, 26}, {60, 52}, {70, 82}, {44, 96}, {26, 78}, {50, 52}, {74, 28}, {64, 8}, END}},
    {{{80, 26}, {54, 4}, {22, 18}, {22, 42}, {54, 48}, {80, 26}, UP, {80, 26}, {78, 62}, {66, 96}, END},
     {{78, 22}, {48, 6}, {22, 26}, {38, 50}, {70, 40}, {78, 22}, UP, {78, 22}, {78, 74}, {52, 96}, {24, 86}, END},
     {{72, 12}, {40, 8}, {24, 32}, {48, 46}, {74, 16}, UP, {74, 16}, {72, 96}, END}},
};

/* ------------------------------------------------------------------------------------------ chance */

/* Draws the sum of three uniform numbers: mean 0, variance 1/4, mostly within ±1. */
static float spread(kolo_chance *c)
{
    return kolo_chance_between(c, -0.5f, 0.5f) + kolo_chance_between(c, -0.5f, 0.5f) +
           kolo_chance_between(c, -0.5f, 0.5f);
}

/* ------------------------------------------------------------------------------------------ the hand */

typedef struct hand {
    float across[3], down[3]; /* affine map from the box to pixels: x·[0] + y·[1] + [2] */
    float bend[2][4];         /* for x and for y: amplitude, wave numbers along x and y, phase */
} hand;

static hand pick_hand(kolo_chance *c)
{
    float turn = 0.28f * spread(c), shear = 0.30f * spread(c);
    float width = 15.5f * (1.0f + 0.28f * spread(c)), height = 19.5f * (1.0f + 0.18f * spread(c));
    float cosine = cosf(turn), sine = sinf(turn);
    hand h = {.across = {width * cosine, height * (shear * cosine - sine), 0},
              .down = {width * sine, height * (shear * sine + cosine), 0}};
    h.across[2] = 13.5f + 2.2f * spread(c);
    h.down[2] = 13.5f + 2.2f * spread(c);
    for (int axis = 0; axis < 2; axis++) {
        h.bend[axis][0] = 0.10f * spread(c);
        h.bend[axis][1] = kolo_chance_between(c, -1.2f, 1.2f);
        h.bend[axis][2] = kolo_chance_between(c, -1.2f, 1.2f);
        h.bend[axis][3] = kolo_chance_between(c, 0, 2);
    }
    return h;
}

/* Converts a point from hundredths of the box to pixels, bent and with a little noise. */
static void place(const hand *h, point p, kolo_chance *c, float target[2])
{
    float x = (float)p.x / 100 - 0.5f, y = (float)p.y / 100 - 0.5f, bent[2];
    for (int axis = 0; axis < 2; axis++) {
        const float *b = h->bend[axis];
        bent[axis] = (axis ? y : x) + b[0] * sinf(PI * (b[1] * x + b[2] * y + b[3])) + 0.022f * spread(c);
    }
    target[0] = h->across[0] * bent[0] + h->across[1] * bent[1] + h->across[2];
    target[1] = h->down[0] * bent[0] + h->down[1] * bent[1] + h->down[2];
}

/* ------------------------------------------------------------------------------------------ the pen */

typedef struct pen {
    float radius, edge, ink; /* pixels; pixels; 0 … 1 */
} pen;

/* Draws a straight piece: each pixel near it gets the ink that its distance gives, unless it has more already. */
static void draw_piece(float *image, const float a[2], const float b[2], pen p)
{
    float reach = p.radius + p.edge, along[2] = {b[0] - a[0], b[1] - a[1]};
    float length = along[0] * along[0] + along[1] * along[1], shorter = length > 1e-9f ? 1 / length : 0;
    float softness = 1 / (2 * p.edge);
    int from[2], to[2];
    for (int axis = 0; axis < 2; axis++) {
        float low = fminf(a[axis], b[axis]) - reach, high = fmaxf(a[axis], b[axis]) + reach;
        from[axis] = (int)ceilf(fmaxf(low, 0));
        to[axis] = (int)floorf(fminf(high, SIDE - 1));
    }
    for (int y = from[1]; y <= to[1]; y++)
        for (int x = from[0]; x <= to[0]; x++) {
            float dx = (float)x - a[0], dy = (float)y - a[1];
            float t = (dx * along[0] + dy * along[1]) * shorter;
            t = t > 0 ? t : 0;
            t = t < 1 ? t : 1;
            dx -= t * along[0], dy -= t * along[1];
            float away = dx * dx + dy * dy;
            if (away >= reach * reach) continue;
            float full = (reach - sqrtf(away)) * softness, ink = full < 1 ? p.ink * full : p.ink;
            if (ink > image[y * SIDE + x]) image[y * SIDE + x] = ink;
        }
}

/* Draws a Catmull-Rom spline through the points; two points give a straight line. */
static void draw_stroke(float *image, float (*points)[2], int count, pen p)
{
    for (int i = 0; i + 1 < count; i++) {
        const float *p0 = points[i ? i - 1 : 0], *p1 = points[i], *p2 = points[i + 1];
        const float *p3 = points[i + 2 < count ? i + 2 : i + 1];
        float last[2] = {p1[0], p1[1]};
        for (int step = 1, steps = count > 2 ? STEPS : 1; step <= steps; step++) {
            float t = (float)step / (float)steps, next[2];
            for (int axis = 0; axis < 2; axis++)
                next[axis] = 0.5f * (2 * p1[axis] + t * (p2[axis] - p0[axis] +
                                                         t * (2 * p0[axis] - 5 * p1[axis] + 4 * p2[axis] - p3[axis] +
                                                              t * (3 * (p1[axis] - p2[axis]) + p3[axis] - p0[axis]))));
            draw_piece(image, last, next, p);
            memcpy(last, next, sizeof last);
        }
    }
}

static void draw_glyph(float *image, int digit, kolo_chance *c)
{
    hand h = pick_hand(c);
    pen p = {kolo_chance_between(c, 0.6f, 1.5f), kolo_chance_between(c, 0.45f, 0.9f), kolo_chance_between(c, 0.65f, 1)};
    float points[POINTS_MAX][2];
    int count = 0;
    for (const point *at = glyphs[digit][kolo_chance_word(c) % WAYS];; at++) {
        if (at->x >= 0) {
            place(&h, *at, c, points[count++]);
            continue;
        }
        draw_stroke(image, points, count, p);
        count = 0;
        if (at->x == -2) return;
    }
}

/* ------------------------------------------------------------------------------------------ blur and noise */

static void stray_stroke(float *image, kolo_chance *c)
{
    float x = kolo_chance_between(c, 0, SIDE), y = kolo_chance_between(c, 0, SIDE),
          angle = kolo_chance_between(c, 0, 2 * PI), length = kolo_chance_between(c, 3, 11);
    float a[2] = {x, y}, b[2] = {x + length * cosf(angle), y + length * sinf(angle)};
    draw_piece(image, a, b, (pen){kolo_chance_between(c, 0.4f, 1.1f), 0.6f, kolo_chance_between(c, 0.4f, 1)});
}

static void rub_out(float *image, kolo_chance *c)
{
    int height = 2 + (int)(kolo_chance_word(c) % 6), width = 2 + (int)(kolo_chance_word(c) % 6);
    int top = 4 + (int)(kolo_chance_word(c) % (uint32_t)(SIDE - 8 - height)),
        left = 4 + (int)(kolo_chance_word(c) % (uint32_t)(SIDE - 8 - width));
    for (int y = top; y < top + height; y++)
        for (int x = left; x < left + width; x++) image[y * SIDE + x] *= 0.15f;
}

/* Converts an image to bytes and adds noise, whose strength is drawn for each sample: the difference of two random
 * bytes for each pixel, which has a triangular distribution. */
static void develop(const float *image, uint8_t *bytes, kolo_chance *c)
{
    float grain = kolo_chance_between(c, 0, 0.16f);
    uint8_t noise[2][PIXELS];
    grain = grain * grain * 6;
    for (int i = 0; i < PIXELS; i += 2) {
        uint32_t word = kolo_chance_word(c);
        noise[0][i] = (uint8_t)word, noise[1][i] = (uint8_t)(word >> 8);
        noise[0][i + 1] = (uint8_t)(word >> 16), noise[1][i + 1] = (uint8_t)(word >> 24);
    }
    for (int i = 0; i < PIXELS; i++) { /* a separate loop, which compilers vectorise */
        float value = 255 * image[i] + grain * (float)(noise[0][i] - noise[1][i]);
        value = value > 0 ? value : 0;
        bytes[i] = (uint8_t)(int)(value < 255 ? value : 255);
    }
}

static int32_t draw_digit(uint8_t *bytes, uint64_t key, int64_t sample)
{
    float image[PIXELS] = {0};
    kolo_chance c = {.key = key, .sample = (uint64_t)sample};
    int32_t digit = (int32_t)(kolo_chance_word(&c) % 10);
    draw_glyph(image, digit, &c);
    if (kolo_chance_word(&c) % 100 < 35) rub_out(image, &c);
    if (kolo_chance_word(&c) % 100 < 35) stray_stroke(image, &c);
    develop(image, bytes, &c);
    return digit;
}

/* ------------------------------------------------------------------------------------------ the data set */

kolo_status kolo_digits_draw(kolo_arrays *arrays, kolo_split split, int64_t samples, uint64_t seed)
{
    if (split != KOLO_TRAIN && split != KOLO_TEST)
        return kolo_fail(KOLO_INVALID, ".split: wanted KOLO_TRAIN or KOLO_TEST, got %d", (int)split);
    if (samples == 0) samples = split == KOLO_TRAIN ? 60000 : 10000;
    if (samples < 1 || samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .samples of 1 to %d, got %" PRId64, KOLO_SAMPLES_MAX, samples);
    if (seed == 0) seed = 1;
    uint64_t key = kolo_random_key(seed, KOLO_RANDOM_DIGITS, (uint64_t)split); /* the splits use different streams */
    *arrays = (kolo_arrays){.samples = samples,
                            .shape = {3, {SIDE, SIDE, 1}},
                            .bytes = malloc((size_t)samples * PIXELS),
                            .scale = 1.0f / 255.0f,
                            .labels = malloc((size_t)samples * sizeof *arrays->labels),
                            .label_count = 1,
                            .classes = 10,
                            .synthetic = true};
    if (!arrays->bytes || !arrays->labels)
        return kolo_fail_memory((size_t)samples * (PIXELS + sizeof *arrays->labels), "the digits");
    for (int64_t i = 0; i < samples; i++) arrays->labels[i] = draw_digit(arrays->bytes + i * PIXELS, key, i);
    snprintf(arrays->source, sizeof arrays->source, "digits drawn by Kolo (seed %" PRIu64 ")", seed);
    return KOLO_OK;
}

kolo_data *kolo_synthetic_digits_at(const kolo_synthetic_digits_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_synthetic_digits", here);
    return kolo_arrays_leave(scope, kolo_digits_draw(&arrays, args->split, args->samples, args->seed), &arrays);
}
