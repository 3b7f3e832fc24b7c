/* Winograd's algorithm for convolutions, and where it is used. Read convolution.h first.
 *
 * F(4×4, 3×3) of Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks" (2016, arXiv 1509.09308): 16 outputs
 * of a channel take 36 multiplications instead of 144, besides transforms of x, of the kernel and of y. oneDNN has it
 * for AVX-512, in float32, for 3×3 windows and strides of one. Its terms are larger than its sums, so its error is
 * larger than the direct algorithm's: about four times as large where it was measured (2e-6 of the largest output).
 * Both errors are within the bound for float32, 1e-5, which tests/ext/backend/winograd_test.c checks. KOLO_WINOGRAD=0
 * in the environment turns it off. NaN and infinity spread over the tile that they are in, never to another sample.
 *
 * Whether it is used depends on shapes and the microbatch's size alone, never on a measurement: all devices and ranks
 * must agree to the last bit. The times that the rule compares, in multiplications for each pair of channels, were
 * fitted to oneDNN 2.6 on one thread of a Zen 4, for 16 to 512 channels, image sides of 4 to 56, and 2 to 32 samples.
 */
#include "backend/onednn/convolution.h"

#include <stdlib.h>
#include <string.h>

#define TILE          4                         /* outputs of a tile, along each axis */
#define PRODUCTS      36                        /* of a tile and a pair of channels; elements of a transform */
#define TRANSFORM     700.0                     /* time to transform a tile of one channel */
#define KERNEL        1900.0                    /* time to transform the kernel of a pair of channels, */
#define KERNEL_BACK   3000.0                    /* or its gradient: once for all samples of a round */
#define LOPSIDED      4                         /* ratio of x's and y's channels above which the rule fails */
#define GAIN          1.1                       /* the factor by which it must be faster */
#define ROUND_BYTES   ((int64_t)4 << 20)        /* transformed at once; more would not stay in the caches */
#define SCRATCH_BYTES ((size_t)20 << 20)        /* at most, of oneDNN, for each thread */

static int64_t rounded_up(int64_t number, int64_t to)
{
    return (number + to - 1) / to * to;
}

/* Tiles of one sample's outputs: image is y, or x for the input gradient. */
static int64_t tiles_of(const dnnl_memory_desc_t *image)
{
    return rounded_up(image->dims[2], TILE) / TILE * (rounded_up(image->dims[3], TILE) / TILE);
}

static bool turned_off(void)
{
    const char *given = getenv("KOLO_WINOGRAD");
    return given && strcmp(given, "0") == 0;
}

/* Whether oneDNN can have it for these operands, both x and y have at least a block of channels, and it is not turned
 * off. */
static bool fits(const kolo_convolution *c)
{
    bool plain = c->kernel.ndims == 4 && c->kernel.dims[2] == 3 && c->kernel.dims[3] == 3;
    for (int axis = 0; axis < 2; axis++)
        plain = plain && c->stride[axis] == 1 && c->gap[axis] == 0 && c->before[axis] <= 1 && c->after[axis] <= 1;
    int64_t in = c->x.dims[1], out = c->y.dims[1];
    bool wide = in >= 16 && out >= 16 && in <= LOPSIDED * out && out <= LOPSIDED * in;
    return plain && wide && c->x.data_type == dnnl_f32 && c->y.data_type == dnnl_f32 && !turned_off();
}

static bool gains(const kolo_convolution *c, int64_t tiles, double kernel, int64_t samples)
{
    double in = (double)rounded_up(c->x.dims[1], 16), out = (double)rounded_up(c->y.dims[1], 16);
    double direct = 9.0 * (double)(c->y.dims[2] * c->y.dims[3]);
    double here = (double)tiles * (PRODUCTS + TRANSFORM * (1 / in + 1 / out)) + kernel / (double)samples;
    return direct > GAIN * here;
}

/* The samples of a round: the largest divisor of the microbatch whose transforms take ROUND_BYTES at most, or 1. */
static int64_t samples_of(const kolo_convolution *c, int64_t tiles)
{
    int64_t channels = rounded_up(c->x.dims[1], 16) + rounded_up(c->y.dims[1], 16);
    int64_t bytes = PRODUCTS * tiles * channels * (int64_t)sizeof(float), microbatch = c->x.dims[0],
            samples = microbatch;
    while (samples > 1 && (microbatch % samples != 0 || samples * bytes > ROUND_BYTES)) samples--;
    return samples;
}

static kolo_convolution in_rounds_of(const kolo_convolution *c, int64_t samples)
{
    kolo_convolution part = *c;
    part.algorithm = dnnl_convolution_winograd;
    part.rounds = (int)(c->x.dims[0] / samples);
    part.x.dims[0] = part.x.padded_dims[0] = part.y.dims[0] = part.y.padded_dims[0] = samples;
    return part;
}

/* Handles the result of the request for `part`, which becomes *c. If oneDNN has no such primitive, or it needs too much
 * scratch memory, *made becomes NULL and *c stays as it was. */
static kolo_status settle(kolo_status status, const kolo_convolution *part, kolo_convolution *c,
                          dnnl_primitive_desc_t *made)
{
    if (status == KOLO_UNSUPPORTED) kolo_failure_take();
    if (status != KOLO_OK) *made = NULL;
    if (status != KOLO_OK) return status == KOLO_UNSUPPORTED ? KOLO_OK : status;
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(*made, dnnl_query_scratchpad_md, 0);
    if (dnnl_memory_desc_get_size(scratch) <= SCRATCH_BYTES) {
        *c = *part;
        return KOLO_OK;
    }
    dnnl_primitive_desc_destroy(*made);
    *made = NULL;
    return KOLO_OK;
}

kolo_status kolo_winograd_forward(kolo_convolution *c, bool bias, dnnl_primitive_desc_t *made)
{
    int64_t tiles = tiles_of(&c->y), samples = samples_of(c, tiles);
    *made = NULL;
    if (!fits(c) || !gains(c, tiles, KERNEL, samples)) return KOLO_OK;
    const kolo_convolution part = in_rounds_of(c, samples);
    return settle(kolo_convolution_forward(&part, bias, false, made), &part, c, made);
}

kolo_status kolo_winograd_by_x(kolo_convolution *c, dnnl_primitive_desc_t *made)
{
    int64_t tiles = tiles_of(&c->x), samples = samples_of(c, tiles);
    *made = NULL;
    if (!fits(c) || !gains(c, tiles, KERNEL, samples)) return KOLO_OK;
    const kolo_convolution part = in_rounds_of(c, samples);
    return settle(kolo_convolution_by_x(&part, made), &part, c, made);
}

kolo_status kolo_winograd_by_kernel(kolo_convolution *c, bool bias, dnnl_primitive_desc_t *made)
{
    int64_t microbatch = c->x.dims[0];
    *made = NULL;
    if (!fits(c) || !gains(c, tiles_of(&c->y), KERNEL_BACK, microbatch)) return KOLO_OK;
    const kolo_convolution whole = in_rounds_of(c, microbatch);
    return settle(kolo_convolution_by_kernel(&whole, bias, made), &whole, c, made);
}
