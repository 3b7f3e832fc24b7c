/* For the program of exercise 4.b, in its %%run cell: gives every rank a gradient with a known noise, calls the
 * learner's function on all ranks, and writes to run/noise which number came, and which mistake it shows. */
#ifndef COURSE_LESSON_4_NOISE_H
#define COURSE_LESSON_4_NOISE_H

#include <kolo.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NOISE_COUNT  2000
#define NOISE_IMAGES 32 /* of each rank */

typedef double (*noise_function)(const float *mine, int64_t count, int images);

/* A number between -1 and 1 that depends on both arguments alone. */
static inline double noise_number(unsigned rank, unsigned i)
{
    uint64_t x = (uint64_t)rank * 1000003u + i * 2654435761u + 12345u;
    x ^= x >> 33, x *= 0xff51afd7ed558ccdu, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53u, x ^= x >> 33;
    return (double)(x >> 11) / (double)(1ull << 52) - 1;
}

/* From mean |gradient|² over batches of b images and over batches of B images: tr(Σ) and |G|². */
static inline void noise_split(double b, double of_b, double B, double of_B, double *noise, double *signal)
{
    *signal = (B * of_B - b * of_b) / (B - b);
    *noise = (of_b - of_B) / (1 / b - 1 / B);
}

static inline double noise_ratio(double b, double of_b, double B, double of_B)
{
    double noise, signal;
    noise_split(b, of_b, B, of_B, &noise, &signal);
    return noise / signal;
}

static inline double noise_squares(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* The sentence about a wrong number; "right" for the right one. n: ranks; of_b: mean |g|² of the ranks; of_B: |mean|².
 */
static inline const char *noise_verdict(double got, double least, double most, int n, double of_b, double of_B)
{
    double b = NOISE_IMAGES, B = b * n, noise, signal, wanted = noise_ratio(b, of_b, B, of_B);
    noise_split(b, of_b, B, of_B, &noise, &signal);
    const struct {
        double value;
        const char *why;
    } known[] = {
        {wanted, "right"},
        {wanted / b, "The scale is in ranks. Each rank's gradient is the mean over `images` images: count in images."},
        {1 / wanted, "The ratio is upside down: noise over signal."},
        {noise, "That is tr(Sigma) alone: divide it by |G|^2."},
        {signal, "That is |G|^2 alone: it is the denominator."},
        {noise_ratio(b, of_b, B, of_B * n * n),
         "The big batch's gradient is the MEAN over the ranks; yours is the sum."},
        {noise_ratio(b, of_b * n, B, of_B), "The small batch's |g|^2 is the MEAN over the ranks; yours is the sum."},
        {noise_ratio(b, of_B, B, of_b), "The two squares are exchanged: the small batch has the larger |g|^2."},
        {noise / of_B,
         "|G|^2 is not the square of the mean gradient: that still has noise in it. Two batch sizes give both."},
        {noise_ratio(b, sqrt(of_b), B, sqrt(of_B)), "The lengths have to be squared."},
    };
    if (got == 0) return "The function returns nothing yet.";
    if (isnan(got)) return "The function returns NaN: look for a division by 0.";
    if (most - least > 1e-6 * fabs(most))
        return "The ranks return different numbers: average |g|^2 over the ranks, too.";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fabs(got - known[i].value) <= 1e-3 * fabs(known[i].value)) return known[i].why;
    return "Write down |g|^2 = |G|^2 + tr(Sigma) / B for both batch sizes, and solve for both unknowns.";
}

static inline void noise_write(double wanted, double got, const char *why)
{
    mkdir("run", 0777);
    FILE *file = fopen("run/noise", "w");
    if (!file) return;
    fprintf(file, "wanted %.17g got %.17g\n%s\n", wanted, got, why);
    fclose(file);
    printf("expected %.4g images, got %.4g\n", wanted, got);
}

/* The whole program: returns main()'s exit code. */
static inline int noise_check(int *argc, char ***argv, noise_function yours)
{
    kolo_init(argc, argv);
    int n = kolo_size();
    float *mine = malloc(NOISE_COUNT * sizeof *mine), *mean = malloc(NOISE_COUNT * sizeof *mean);
    for (unsigned i = 0; mine && mean && i < NOISE_COUNT; i++)
        mean[i] = mine[i] =
            (float)(0.1 * noise_number(99, i) + 1.5 * noise_number((unsigned)kolo_rank(), i) / sqrt(NOISE_IMAGES));
    double of_b = noise_squares(mine, NOISE_COUNT), got = yours(mine, NOISE_COUNT, NOISE_IMAGES), least = got,
           most = got;
    kolo_allreduce(mean, NOISE_COUNT, .op = KOLO_REDUCE_MEAN);
    kolo_allreduce(&of_b, 1, .op = KOLO_REDUCE_MEAN);
    kolo_allreduce(&least, 1, .op = KOLO_REDUCE_MIN);
    kolo_allreduce(&most, 1, .op = KOLO_REDUCE_MAX);
    double of_B = noise_squares(mean, NOISE_COUNT);
    if (n < 2) noise_write(NAN, got, "The program ran as one rank: its cell begins with %%run -np 4.");
    else if (kolo_rank() == 0)
        noise_write(noise_ratio(NOISE_IMAGES, of_b, NOISE_IMAGES * n, of_B), got,
                    noise_verdict(got, least, most, n, of_b, of_B));
    free(mine);
    free(mean);
    return kolo_finish();
}

#endif
