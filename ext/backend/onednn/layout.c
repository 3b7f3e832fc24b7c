/* Layouts: tilings, descriptors, and the conversion of weights and gradients from and to the canonical layout. */
#include "backend/onednn/onednn.h"

#include <stdlib.h>
#include <string.h>

/* ---- tilings */

/* Whether the axis has that stride; an axis of one element may have any. */
static bool strided(const dnnl_memory_desc_t *d, int axis, int64_t length, int64_t stride)
{
    return length == 1 || d->format_desc.blocking.strides[axis] == stride;
}

/* Sets *t to the tiling with blocks of `block` channels; returns whether it is that of the descriptor. */
static bool image_tiling(const dnnl_memory_desc_t *d, int64_t block, kolo_tiling *t)
{
    int64_t padded = d->padded_dims[1], height = d->dims[2], width = d->dims[3];
    *t = (kolo_tiling){d->dims[1], height, width, block, padded / block};
    return strided(d, 0, d->dims[0], padded * height * width) && strided(d, 1, t->blocks, block * height * width) &&
           strided(d, 2, height, block * width) && strided(d, 3, width, block);
}

bool kolo_tiling_of(const dnnl_memory_desc_t *d, kolo_tiling *t)
{
    if (d->format_kind != dnnl_blocked || d->offset0 != 0) return false;
    const dnnl_blocking_desc_t *blocking = &d->format_desc.blocking;
    for (int axis = 0; axis < d->ndims; axis++) {
        if (axis != 1 && d->padded_dims[axis] != d->dims[axis]) return false;
    }
    if (d->ndims == 2) {
        *t = (kolo_tiling){d->dims[1], 1, 1, d->dims[1], 1};
        return blocking->inner_nblks == 0 && strided(d, 1, d->dims[1], 1) && strided(d, 0, d->dims[0], d->dims[1]);
    }
    if (d->ndims != 4) return false;
    if (blocking->inner_nblks == 1 && blocking->inner_idxs[0] == 1) return image_tiling(d, blocking->inner_blks[0], t);
    if (blocking->inner_nblks != 0 || d->padded_dims[1] != d->dims[1]) return false;
    return (strided(d, 1, d->dims[1], 1) && image_tiling(d, d->dims[1], t)) || image_tiling(d, 1, t);
}

void kolo_tiling_clear(kolo_tiling t, void *memory, int64_t samples, size_t size)
{
    int64_t pixels = t.height * t.width, last = t.channels - (t.blocks - 1) * t.block, rest = t.block - last;
    for (int64_t n = 0; rest > 0 && n < samples; n++) {
        char *block = (char *)memory + (size_t)((n + 1) * kolo_tiling_count(t) - pixels * t.block) * size;
        for (int64_t p = 0; p < pixels; p++)
            memset(block + (size_t)(p * t.block + last) * size, 0, (size_t)rest * size);
    }
}

/* ---- descriptors */

dnnl_data_type_t kolo_onednn_type(const kolo_plan *plan, int value)
{
    bool narrow = plan->precision == KOLO_MIXED_BF16 && plan->values[value].kind != KOLO_VALUE_INPUT;
    return narrow && !kolo_plan_canonical(plan, value) ? dnnl_bf16 : dnnl_f32;
}

kolo_status kolo_desc_rows(int64_t rows, int64_t columns, dnnl_data_type_t type, dnnl_memory_desc_t *desc)
{
    dnnl_dims_t dims = {rows, columns};
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(desc, 2, dims, type, dnnl_ab), "rows");
}

static kolo_status describe(const kolo_plan *plan, kolo_shape shape, dnnl_data_type_t type, bool any,
                            dnnl_memory_desc_t *desc)
{
    if (shape.rank != 3) return kolo_desc_rows(plan->microbatch, kolo_shape_count(shape), type, desc);
    dnnl_dims_t dims = {plan->microbatch, shape.dim[2], shape.dim[0], shape.dim[1]};
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(desc, 4, dims, type, any ? dnnl_format_tag_any : dnnl_nhwc),
                             "an image");
}

kolo_status kolo_desc_plain(const kolo_plan *plan, int value, dnnl_data_type_t type, dnnl_memory_desc_t *desc)
{
    return describe(plan, plan->values[value].shape, type, false, desc);
}

kolo_status kolo_desc_any(const kolo_plan *plan, kolo_shape shape, dnnl_data_type_t type, dnnl_memory_desc_t *desc)
{
    return describe(plan, shape, type, true, desc);
}

kolo_status kolo_desc_blocked(const kolo_plan *plan, kolo_shape image, int64_t block, dnnl_data_type_t type,
                              dnnl_memory_desc_t *desc)
{
    dnnl_dims_t dims = {plan->microbatch, image.dim[2], image.dim[0], image.dim[1]};
    dnnl_format_tag_t tag = block == 0    ? dnnl_nhwc
                            : block == 1  ? dnnl_nchw
                            : block == 4  ? dnnl_nChw4c
                            : block == 8  ? dnnl_nChw8c
                            : block == 16 ? dnnl_nChw16c
                                          : dnnl_format_tag_undef;
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(desc, 4, dims, type, tag), "an image");
}

kolo_status kolo_desc_resized(const kolo_plan *plan, const dnnl_memory_desc_t *desc, kolo_shape image,
                              dnnl_memory_desc_t *resized)
{
    kolo_tiling t;
    if (!kolo_tiling_of(desc, &t)) return kolo_fail(KOLO_INTERNAL, "an image whose layout is no tiling");
    return kolo_desc_blocked(plan, image, t.block == t.channels ? 0 : t.block, desc->data_type, resized);
}

kolo_status kolo_desc_image(const kolo_plan *plan, int value, dnnl_memory_desc_t *desc)
{
    kolo_shape shape = plan->values[value].shape;
    dnnl_data_type_t type = kolo_activation_type(plan);
    *desc = kolo_layout_of(plan, value)->desc;
    bool image = desc->ndims == 4 && desc->dims[1] == shape.dim[2] && desc->dims[2] == shape.dim[0] &&
                 desc->dims[3] == shape.dim[1];
    if (!image) KOLO_TRY(kolo_desc_plain(plan, value, type, desc));
    desc->data_type = type;
    return KOLO_OK;
}

dnnl_memory_desc_t kolo_desc_of_rounds(const dnnl_memory_desc_t *part, int rounds)
{
    dnnl_memory_desc_t whole = *part;
    if (rounds > 1)
        whole.dims[0] = whole.padded_dims[0] = part->dims[0] * rounds; /* the outermost axis, so the strides stay */
    return whole;
}

/* ---- a value's layout */

const kolo_layout *kolo_layout_of(const kolo_plan *plan, int value)
{
    return plan->values[kolo_plan_base(plan, value)].layout;
}

static kolo_status layout_new(kolo_value *value, const dnnl_memory_desc_t *desc)
{
    kolo_layout *layout = calloc(1, sizeof *layout);
    if (!layout) return kolo_fail_memory(sizeof *layout, "a layout");
    layout->desc = *desc;
    value->layout = layout;
    value->bytes = dnnl_memory_desc_get_size(desc);
    return KOLO_OK;
}

kolo_status kolo_layout_set(kolo_plan *plan, int value, const dnnl_memory_desc_t *desc)
{
    int base = kolo_plan_base(plan, value);
    kolo_tiling tiling;
    dnnl_memory_desc_t plain;
    if (plan->values[base].layout) return KOLO_OK;
    if (kolo_plan_canonical(plan, base) || !kolo_tiling_of(desc, &tiling)) {
        KOLO_TRY(kolo_desc_plain(plan, base, kolo_onednn_type(plan, base), &plain));
        desc = &plain;
    }
    return layout_new(&plan->values[base], desc);
}

void kolo_layout_free(kolo_value *value)
{
    kolo_layout *layout = value->layout;
    if (layout && layout->convert) dnnl_primitive_destroy(layout->convert);
    free(layout);
    value->layout = NULL;
}

/* ---- weights and gradients */

static kolo_status reorder_new(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, dnnl_primitive_t *reorder)
{
    dnnl_primitive_desc_t descriptor;
    dnnl_engine_t engine = kolo_onednn_engine();
    KOLO_DNNL(dnnl_reorder_primitive_desc_create(&descriptor, from, engine, to, engine, NULL), "reordered weights");
    dnnl_status_t status = dnnl_primitive_create(reorder, descriptor);
    dnnl_primitive_desc_destroy(descriptor);
    return kolo_onednn_check(status, "reordered weights");
}

/* The number of elements of an axis that the descriptor's blocks have. */
static int64_t inner_count(const dnnl_memory_desc_t *d, int axis)
{
    int64_t count = 1;
    for (int b = 0; b < d->format_desc.blocking.inner_nblks; b++)
        if (d->format_desc.blocking.inner_idxs[b] == axis) count *= d->format_desc.blocking.inner_blks[b];
    return count;
}

/* The axes of a dense kernel whose rows are those of an image: those of its descriptor, COLUMN and ROW, and behind them
 * those that take the place of ROW, which becomes the channels of a block. */
enum { COLUMN, ROW, PIXEL, BLOCK, AXES };

static void set_axis(dnnl_memory_desc_t *d, int axis, int64_t length, int64_t stride)
{
    d->dims[axis] = d->padded_dims[axis] = length;
    d->format_desc.blocking.strides[axis] = stride;
}

/* The two descriptors are of a dense kernel: the canonical array, and the packed one. Gives both an axis each for the
 * blocks, the pixels and the channels of a block, so that one reorder brings the canonical rows into their order in
 * memory. Returns false if the descriptors cannot have them: if a block of channels has padding, or if rows of several
 * pixels are in one block of the primitive's layout. */
static bool split_rows(kolo_tiling t, dnnl_memory_desc_t *plain, dnnl_memory_desc_t *desc)
{
    bool blocked = desc->format_kind == dnnl_blocked && plain->format_kind == dnnl_blocked && desc->ndims == 2;
    if (!blocked || t.blocks * t.block != t.channels || desc->padded_dims[ROW] != desc->dims[ROW]) return false;
    int64_t inner = inner_count(desc, ROW), pixels = t.height * t.width;
    if (t.block % inner != 0) return false;
    int64_t in_memory = desc->format_desc.blocking.strides[ROW], row = plain->format_desc.blocking.strides[ROW];
    desc->ndims = plain->ndims = AXES;
    set_axis(desc, ROW, t.block, in_memory);
    set_axis(desc, PIXEL, pixels, in_memory * (t.block / inner));
    set_axis(desc, BLOCK, t.blocks, in_memory * (t.block / inner) * pixels);
    set_axis(plain, ROW, t.block, row);
    set_axis(plain, PIXEL, pixels, row * t.channels);
    set_axis(plain, BLOCK, t.blocks, row * t.block);
    return true;
}

/* Whether both weights are packed in the same way. */
static bool packs_alike(const kolo_plan *plan, int a, int b)
{
    const kolo_layout *x = plan->values[a].layout, *y = plan->values[b].layout;
    return dnnl_memory_desc_equal(&x->desc, &y->desc) && dnnl_memory_desc_equal(&x->plain, &y->plain) &&
           memcmp(&x->rows, &y->rows, sizeof x->rows) == 0 &&
           kolo_plan_canonical(plan, a) == kolo_plan_canonical(plan, b);
}

kolo_status kolo_layout_set_parameter(kolo_plan *plan, int value, const dnnl_memory_desc_t *desc,
                                      const dnnl_memory_desc_t *plain, const kolo_tiling *rows)
{
    kolo_value *v = &plan->values[value];
    KOLO_TRY(layout_new(v, desc));
    kolo_layout *layout = v->layout;
    layout->plain = *plain;
    layout->permuted = rows && !kolo_tiling_canonical(*rows);
    if (rows) layout->rows = *rows;
    if (!dnnl_memory_desc_equal(desc, plain)) {
        dnnl_memory_desc_t canonical = *plain, packed = *desc;
        bool packs = v->kind == KOLO_VALUE_WEIGHTS;
        if (layout->permuted) layout->permuted = !split_rows(*rows, &canonical, &packed);
        KOLO_TRY(reorder_new(packs ? &canonical : &packed, packs ? &packed : &canonical, &layout->convert));
    }
    kolo_plan_share_packed(plan, value, packs_alike);
    return KOLO_OK;
}

kolo_status kolo_layout_set_in_place(kolo_plan *plan, int value)
{
    dnnl_memory_desc_t plain;
    KOLO_TRY(kolo_desc_rows(1, kolo_shape_count(plan->values[value].shape), dnnl_f32, &plain));
    plan->values[value].in_place = true;
    return kolo_layout_set_parameter(plan, value, &plain, &plain, NULL);
}

kolo_status kolo_layout_set_sparse(kolo_plan *plan, int value)
{
    kolo_value *v = &plan->values[value];
    dnnl_memory_desc_t plain;
    KOLO_TRY(kolo_desc_rows(v->shape.dim[0], v->shape.dim[1], dnnl_f32, &plain));
    KOLO_TRY(kolo_layout_set_parameter(plan, value, &plain, &plain, NULL));
    kolo_layout *layout = v->layout;
    layout->sparse = true;
    v->bytes += (size_t)v->shape.dim[0];
    return KOLO_OK;
}

uint8_t *kolo_rows_touched(const kolo_plan *plan, int value, void *memory)
{
    return (uint8_t *)memory + (size_t)kolo_shape_count(plan->values[value].shape) * sizeof(float);
}

static kolo_status convert(dnnl_primitive_t reorder, const void *from, void *to)
{
    dnnl_engine_t engine = kolo_onednn_engine();
    dnnl_stream_t stream = NULL;
    dnnl_memory_t in = NULL, out = NULL;
    const_dnnl_primitive_desc_t made = NULL;
    dnnl_status_t status = dnnl_primitive_get_primitive_desc(reorder, &made);
    if (status == dnnl_success) status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    const dnnl_memory_desc_t *from_desc = dnnl_primitive_desc_query_md(made, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t *to_desc = dnnl_primitive_desc_query_md(made, dnnl_query_dst_md, 0);
    if (status == dnnl_success) status = dnnl_memory_create(&in, from_desc, engine, (void *)(uintptr_t)from);
    if (status == dnnl_success) status = dnnl_memory_create(&out, to_desc, engine, to);
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, in}, {DNNL_ARG_TO, out}};
    if (status == dnnl_success) status = dnnl_primitive_execute(reorder, stream, 2, arguments);
    if (status == dnnl_success) status = dnnl_stream_wait(stream);
    dnnl_memory_destroy(in);
    dnnl_memory_destroy(out);
    dnnl_stream_destroy(stream);
    return kolo_onednn_check(status, "reordered weights");
}

/* Copies the rows of a dense kernel, of `row` bytes each, between the canonical order and that of the tiling. In
 * memory, the rows that pad the last block become zero. */
static void permute(kolo_tiling t, size_t row, char *in_memory, char *canonical, bool to_memory)
{
    for (int64_t b = 0; b < t.blocks; b++) {
        for (int64_t pixel = 0; pixel < t.height * t.width; pixel++) {
            for (int64_t c = b * t.block; c < (b + 1) * t.block; c++, in_memory += row) {
                char *other = canonical + (size_t)(pixel * t.channels + c) * row;
                bool real = c < t.channels;
                if (to_memory && real) memcpy(in_memory, other, row);
                if (to_memory && !real) memset(in_memory, 0, row);
                if (!to_memory && real) memcpy(other, in_memory, row);
            }
        }
    }
}

kolo_status kolo_onednn_pack(const kolo_plan *plan, int value, const float *canonical, void *packed)
{
    const kolo_value *v = &plan->values[value];
    const kolo_layout *layout = v->layout;
    size_t plain_bytes = dnnl_memory_desc_get_size(&layout->plain);
    if (!layout->permuted && layout->convert) return convert(layout->convert, canonical, packed);
    if (!layout->permuted) {
        memcpy(packed, canonical, plain_bytes);
        return KOLO_OK;
    }
    void *rows = layout->convert ? kolo_host_allocate(plain_bytes) : packed;
    if (!rows) return kolo_fail_memory(plain_bytes, "weights being packed");
    permute(layout->rows, (size_t)v->shape.dim[1] * sizeof(float), rows, (char *)(uintptr_t)canonical, true);
    if (!layout->convert) return KOLO_OK;
    kolo_status status = convert(layout->convert, rows, packed);
    kolo_host_deallocate(rows);
    return status;
}

/* Copies the rows that are marked as touched; the others become zero without being read. */
static void unpack_rows(const kolo_plan *plan, int value, const void *packed, float *canonical)
{
    kolo_shape shape = plan->values[value].shape;
    const uint8_t *touched = kolo_rows_touched(plan, value, (void *)(uintptr_t)packed);
    const float *from = packed;
    size_t size = (size_t)shape.dim[1];
    for (size_t row = 0; row < (size_t)shape.dim[0]; row++) {
        if (touched[row]) memcpy(canonical + row * size, from + row * size, size * sizeof *from);
        else memset(canonical + row * size, 0, size * sizeof *from);
    }
}

static void add_rows(const kolo_plan *plan, int value, float *to, const float *from)
{
    kolo_shape shape = plan->values[value].shape;
    uint8_t *ours = kolo_rows_touched(plan, value, to);
    const uint8_t *theirs = kolo_rows_touched(plan, value, (void *)(uintptr_t)from);
    size_t size = (size_t)shape.dim[1];
    for (size_t row = 0; row < (size_t)shape.dim[0]; row++) {
        if (!theirs[row]) continue;
        if (ours[row]) kolo_host_add(to + row * size, from + row * size, (int64_t)size);
        else memcpy(to + row * size, from + row * size, size * sizeof *from);
        ours[row] = 1;
    }
}

void kolo_onednn_accumulate(const kolo_plan *plan, int value, void *to, const void *from)
{
    const kolo_value *v = &plan->values[value];
    const kolo_layout *layout = v->layout;
    if (layout->sparse) add_rows(plan, value, to, from);
    else kolo_host_add(to, from, (int64_t)(v->bytes / sizeof(float)));
}

kolo_status kolo_onednn_unpack(const kolo_plan *plan, int value, const void *packed, float *canonical)
{
    const kolo_value *v = &plan->values[value];
    const kolo_layout *layout = v->layout;
    size_t plain_bytes = dnnl_memory_desc_get_size(&layout->plain);
    if (layout->sparse) {
        unpack_rows(plan, value, packed, canonical);
        return KOLO_OK;
    }
    if (!layout->permuted && layout->convert) return convert(layout->convert, packed, canonical);
    if (!layout->permuted) {
        memcpy(canonical, packed, plain_bytes);
        return KOLO_OK;
    }
    void *rows = layout->convert ? kolo_host_allocate(plain_bytes) : (void *)(uintptr_t)packed;
    if (!rows) return kolo_fail_memory(plain_bytes, "gradients being unpacked");
    kolo_status status = layout->convert ? convert(layout->convert, packed, rows) : KOLO_OK;
    if (status == KOLO_OK)
        permute(layout->rows, (size_t)v->shape.dim[1] * sizeof(float), rows, (char *)canonical, false);
    if (layout->convert) kolo_host_deallocate(rows);
    return status;
}
