/* kolo_augment: images that are flipped, cropped and shifted at random in training. Read view.h first.
 *
 * The random numbers depend only on the seed, the step and the sample's number in the batch (core/random.h), so they
 * are the same for any number of devices, ranks and threads. */
#include "core/random.h"
#include "data/view.h"

#include <string.h>

typedef struct augmentation {
    kolo_view view;
    bool flip, flip_vertical;
    int padding, shift[2];
    kolo_fill fill;
    uint64_t seed; /* 0: the training's seed */
    int number;    /* kolo_data.views of this view: two augmentations of one data set draw different numbers */
} augmentation;

/* Where a pixel of the result comes from: row + top and column + left of the source, where row and column count from
 * the other end if the image is flipped. */
typedef struct placing {
    int top, left;
    bool down, right; /* flipped upside down; left to right */
} placing;

/* Maps a random word to 0 … below-1, uniformly up to a relative error of below/2³². */
static int below(uint32_t word, int below)
{
    return (int)((uint64_t)word * (uint64_t)below >> 32);
}

/* Draws each number from a separate random word. */
static placing draw(const augmentation *a, const kolo_gather_call *call, int64_t sample, const int room[2])
{
    uint64_t key = kolo_random_key(a->seed ? a->seed : call->seed, KOLO_RANDOM_AUGMENT, (uint64_t)a->number);
    key = kolo_random_key(key, KOLO_RANDOM_AUGMENT, call->step);
    kolo_random_block cut = kolo_philox(key, 0, (uint64_t)sample), turn = kolo_philox(key, 1, (uint64_t)sample);
    return (placing){
        .top = below(cut.word[0], room[0] + 1) - a->padding + below(cut.word[2], 2 * a->shift[0] + 1) - a->shift[0],
        .left = below(cut.word[1], room[1] + 1) - a->padding + below(cut.word[3], 2 * a->shift[1] + 1) - a->shift[1],
        .down = a->flip_vertical && turn.word[0] >> 31,
        .right = a->flip && turn.word[1] >> 31};
}

/* The pixel to take for position `at`, which may lie outside 0 … size-1; -1: none, the pixel is 0. KOLO_FILL_REFLECT:
 * d c b | a b c d | c b a. */
static int inside(int at, int size, kolo_fill fill)
{
    if (at >= 0 && at < size) return at;
    if (fill == KOLO_FILL_NEAREST) return at < 0 ? 0 : size - 1;
    if (fill != KOLO_FILL_REFLECT) return -1;
    if (size == 1) return 0;
    int period = 2 * (size - 1), place = at % period < 0 ? at % period + period : at % period;
    return place < size ? place : period - place;
}

static void place_row(const float *from, int from_columns, kolo_fill fill, placing where, int columns, int channels,
                      float *to)
{
    for (int column = 0; column < columns; column++, to += channels) {
        int source = inside((where.right ? columns - 1 - column : column) + where.left, from_columns, fill);
        for (int c = 0; c < channels; c++) to[c] = source < 0 ? 0 : from[source * channels + c];
    }
}

/* Most rows are copied as they are: those that lie inside the source and are not flipped left to right. */
static void place_image(const float *from, kolo_shape in, kolo_fill fill, placing where, kolo_shape out, float *to)
{
    int rows = out.dim[0], columns = out.dim[1], channels = out.rank == 3 ? out.dim[2] : 1;
    size_t line = (size_t)columns * (size_t)channels;
    bool straight = !where.right && where.left >= 0 && where.left + columns <= in.dim[1];
    for (int row = 0; row < rows; row++, to += line) {
        int source = inside((where.down ? rows - 1 - row : row) + where.top, in.dim[0], fill);
        const float *first = from + (size_t)(source < 0 ? 0 : source) * (size_t)in.dim[1] * (size_t)channels;
        if (source < 0) memset(to, 0, line * sizeof *to);
        else if (straight) memcpy(to, first + (size_t)where.left * (size_t)channels, line * sizeof *to);
        else place_row(first, in.dim[1], fill, where, columns, channels, to);
    }
}

/* Outside training the middle is cut out, as by Keras's CenterCrop. */
static kolo_status gather_image(const kolo_data *data, const kolo_gather_call *call, int32_t row, float *scratch,
                                float *to)
{
    const augmentation *a = (const augmentation *)data->view;
    const kolo_data *source = kolo_view_source(data);
    int room[2];
    placing where = {0};
    KOLO_TRY(kolo_data_gather(source, call, &row, 0, 1, &(kolo_gathered){.features = scratch}));
    for (int i = 0; i < 2; i++) room[i] = source->shape.dim[i] + 2 * a->padding - data->shape.dim[i];
    if (call->training) where = draw(a, call, call->first_sample, room);
    else where.top = room[0] / 2 - a->padding, where.left = room[1] / 2 - a->padding;
    place_image(scratch, source->shape, a->fill, where, data->shape, to);
    return KOLO_OK;
}

static kolo_status gather(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                          const kolo_gathered *to)
{
    return kolo_view_gather_each(data, call, rows, count, to, gather_image);
}

/* ------------------------------------------------------------------------------------------ the call */

static const kolo_view_kind augmented = {.name = "augmented", .gather = gather};

static kolo_status check_amounts(const kolo_augment_args *args, kolo_shape in)
{
    static const char *const axes[] = {"rows", "columns"};
    if (args->padding < 0) return kolo_fail(KOLO_INVALID, ".padding: wanted at least 0, got %d", args->padding);
    if (args->fill < 0 || args->fill > KOLO_FILL_REFLECT)
        return kolo_fail(KOLO_INVALID, ".fill: wanted KOLO_FILL_ZEROS, KOLO_FILL_NEAREST or KOLO_FILL_REFLECT, got %d",
                         (int)args->fill);
    if (args->padding > KOLO_AUGMENT_PIXELS_MAX)
        return kolo_fail(KOLO_INVALID, ".padding: wanted at most %d, got %d", KOLO_AUGMENT_PIXELS_MAX, args->padding);
    for (int i = 0; i < 2; i++) {
        int most = in.dim[i] + 2 * args->padding, shift = args->shift[i];
        if (args->crop[i] < 0 || args->crop[i] > most)
            return kolo_fail(KOLO_INVALID, ".crop: wanted 1 to %d %s, got %d", most, axes[i], args->crop[i]);
        if (shift < 0 || shift >= in.dim[i])
            return kolo_fail(KOLO_INVALID, ".shift: wanted 0 to %d %s, got %d", in.dim[i] - 1, axes[i], shift);
    }
    return KOLO_OK;
}

static kolo_status check(const kolo_augment_args *args)
{
    kolo_shape in = args->data->shape;
    if (args->data->has_tokens) return kolo_fail(KOLO_INVALID, "wanted images, got words");
    if (in.rank != 2 && in.rank != 3)
        return kolo_fail(KOLO_INVALID, "wanted images of {height, width} or {height, width, channels}, got %s",
                         kolo_shape_text(in));
    if (!args->flip && !args->flip_vertical && !args->padding && !args->crop[0] && !args->crop[1] && !args->shift[0] &&
        !args->shift[1])
        return kolo_fail(KOLO_INVALID, "wanted .flip, .flip_vertical, .padding, .crop or .shift, got none of them");
    return check_amounts(args, in);
}

static kolo_status augment(const kolo_augment_args *args, kolo_data **out)
{
    KOLO_TRY(check(args));
    KOLO_TRY(kolo_view_open(&augmented, sizeof(augmentation), args->data, out));
    augmentation *a = kolo_view_of(*out);
    a->flip = args->flip, a->flip_vertical = args->flip_vertical;
    a->padding = args->padding;
    a->fill = args->fill;
    a->seed = args->seed;
    a->number = (*out)->views;
    (*out)->chance = true;
    for (int i = 0; i < 2; i++) {
        a->shift[i] = args->shift[i];
        if (args->crop[i]) (*out)->shape.dim[i] = args->crop[i];
    }
    if (!kolo_shape_equal((*out)->shape, args->data->shape)) (*out)->feature_names = NULL;
    return KOLO_OK;
}

kolo_data *kolo_augment_at(const kolo_augment_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_augment", here);
    return kolo_view_leave(scope, augment(args, &data), &data);
}
