/* kolo_one_hot makes targets of labels, kolo_label_index labels of targets. Read view.h first. */
#include "core/written.h"
#include "data/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------ one-hot */

static kolo_status expand(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                          const kolo_gathered *to)
{
    size_t labels = (size_t)data->label_count, bytes = (size_t)count * labels * sizeof(int32_t);
    int32_t *numbers = malloc(bytes);
    if (!numbers) return kolo_fail_memory(bytes, "labels");
    kolo_status status =
        kolo_data_gather(kolo_view_source(data), call, rows, 0, count, &(kolo_gathered){.labels = numbers});
    if (status == KOLO_OK) memset(to->targets, 0, (size_t)count * (size_t)to->outputs * sizeof *to->targets);
    for (int i = 0; status == KOLO_OK && i < count; i++)
        kolo_labels_expand(numbers + (size_t)i * labels, data->label_count, to->outputs, to->targets + i * to->outputs);
    free(numbers);
    return status;
}

static kolo_status gather_one_hot(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                  const kolo_gathered *to)
{
    kolo_gathered rest = *to;
    rest.targets = NULL;
    if (to->targets) KOLO_TRY(expand(data, call, rows, count, to));
    return kolo_data_gather(kolo_view_source(data), call, rows, 0, count, &rest);
}

static const kolo_view_kind one_hot = {.name = "one-hot", .keeps_features = true, .gather = gather_one_hot};

static kolo_status make_one_hot(const kolo_one_hot_args *args, kolo_data **out)
{
    const kolo_data *data = args->data;
    int classes = args->classes ? args->classes : data->classes;
    if (!data->has_labels) return kolo_fail(KOLO_INVALID, "wanted data with labels, got data without");
    if (classes < data->classes || (int64_t)classes * data->label_count > INT32_MAX)
        return kolo_fail(KOLO_INVALID, ".classes: wanted at least %d, as many as there are, got %d", data->classes,
                         classes);
    KOLO_TRY(kolo_view_open(&one_hot, sizeof(kolo_view), data, out));
    (*out)->has_targets = true;
    (*out)->target_shape = (kolo_shape){1, {classes}};
    if (data->label_count > 1) (*out)->target_shape = (kolo_shape){2, {data->label_count, classes}};
    if (classes != data->classes) (*out)->class_names = NULL;
    (*out)->classes = classes;
    return KOLO_OK;
}

kolo_data *kolo_one_hot_at(const kolo_one_hot_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_one_hot", here);
    return kolo_view_leave(scope, make_one_hot(args, &data), &data);
}

/* ------------------------------------------------------------------------------------------ label index */

typedef struct indexed {
    kolo_view view;
    int32_t *labels;  /* [samples][label_count], the view's labels */
    int32_t *numbers; /* [known], new number of each label, -1: no sample has it; NULL: labels are made from targets */
    int known;
    const char **names; /* [classes], the source's class names in the new order, or NULL */
} indexed;

static kolo_status gather_indexed(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                  const kolo_gathered *to)
{
    const indexed *x = (const indexed *)data->view;
    int64_t labels = data->label_count;
    kolo_gathered rest = *to;
    rest.labels = NULL, rest.targets = NULL;
    if (to->targets) memset(to->targets, 0, (size_t)count * (size_t)to->outputs * sizeof *to->targets);
    for (int i = 0; i < count; i++) {
        const int32_t *own = x->labels + rows[i] * labels;
        if (to->labels) memcpy(to->labels + i * labels, own, (size_t)labels * sizeof *own);
        if (to->targets) kolo_labels_expand(own, data->label_count, to->outputs, to->targets + i * to->outputs);
    }
    return kolo_data_gather(kolo_view_source(data), call, rows, 0, count, &rest);
}

static void free_indexed(kolo_view *view)
{
    indexed *x = (indexed *)view;
    free(x->labels), free(x->numbers), free(x->names);
}

static const kolo_view_kind label_index = {
    .name = "labels indexed", .keeps_features = true, .gather = gather_indexed, .free = free_indexed};

/* The index of the largest of `width` numbers, the first one on a tie. width 1: whether the number is above the
 * threshold. */
static int32_t index_of(const float *row, int64_t width, double threshold)
{
    int32_t best = 0;
    for (int32_t i = 1; i < width; i++)
        if (row[i] > row[best]) best = i;
    return width == 1 ? row[0] > threshold : best;
}

static kolo_status index_targets(const kolo_data *source, double threshold, indexed *x, int64_t width)
{
    int64_t outputs = kolo_shape_count(source->target_shape), rows = outputs / width;
    float *targets = malloc((size_t)outputs * sizeof *targets);
    if (!targets) return kolo_fail_memory((size_t)outputs * sizeof *targets, "targets");
    kolo_status status = KOLO_OK;
    kolo_gathered to = {.targets = targets, .outputs = outputs};
    for (int64_t s = 0; s < source->samples && status == KOLO_OK; s++) {
        status = kolo_data_gather(source, NULL, NULL, s, 1, &to);
        for (int64_t r = 0; r < rows; r++) x->labels[s * rows + r] = index_of(targets + r * width, width, threshold);
    }
    free(targets);
    return status;
}

/* Sets numbers[label] to the number of labels that are more frequent, or equally frequent and smaller; -1 if
 * met[label], the label's count, is 0. */
static void number_by_frequency(const int64_t *met, int known, int32_t *numbers)
{
    for (int label = 0; label < known; label++) {
        int32_t before = 0;
        for (int other = 0; other < known; other++)
            before += met[other] > met[label] || (met[other] == met[label] && other < label);
        numbers[label] = met[label] > 0 ? before : -1;
    }
}

static kolo_status count_labels(const kolo_data *data, indexed *x)
{
    int64_t count = data->samples * data->label_count;
    int64_t *met = calloc((size_t)x->known + 1, sizeof *met);
    if (!met) return kolo_fail_memory((size_t)x->known * sizeof *met, "labels");
    for (int64_t i = 0; i < count; i++) met[x->labels[i]]++;
    number_by_frequency(met, x->known, x->numbers);
    free(met);
    return KOLO_OK;
}

static kolo_status renumber(kolo_data *data, indexed *x)
{
    int64_t count = data->samples * data->label_count;
    for (int64_t i = 0; i < count; i++) {
        int32_t label = x->labels[i], number = label < x->known ? x->numbers[label] : -1;
        if (number < 0)
            return kolo_fail(KOLO_INVALID, "sample %" PRId64 ": wanted a label that .like has, got %d",
                             i / data->label_count, (int)label);
        x->labels[i] = number;
    }
    data->classes = 0;
    for (int label = 0; label < x->known; label++) data->classes += x->numbers[label] >= 0;
    if (!data->class_names) return KOLO_OK;
    x->names = calloc((size_t)data->classes + 1, sizeof *x->names);
    if (!x->names) return kolo_fail_memory((size_t)data->classes * sizeof *x->names, "names");
    for (int label = 0; label < x->known && label < kolo_view_source(data)->classes; label++)
        if (x->numbers[label] >= 0) x->names[x->numbers[label]] = data->class_names[label];
    for (int i = 0; i < data->classes; i++)
        if (!x->names[i]) x->names[i] = "";
    data->class_names = x->names;
    return KOLO_OK;
}

/* The view by which kolo_label_index() numbered a data set's labels, or NULL. */
static const indexed *numbering_of(const kolo_data *data)
{
    while (data->view && data->view->kind != &label_index) data = kolo_view_source(data);
    const indexed *x = data->view ? (const indexed *)data->view : NULL;
    return x && x->numbers ? x : NULL;
}

static kolo_status index_labels(const kolo_label_index_args *args, kolo_data *data, indexed *x)
{
    const kolo_data *source = args->data;
    const indexed *like = args->like ? numbering_of(args->like) : NULL;
    if (args->like && !like)
        return kolo_fail(KOLO_INVALID, ".like: wanted data whose labels kolo_label_index() numbered, got others");
    KOLO_TRY(kolo_data_gather(source, NULL, NULL, 0, (int)source->samples, &(kolo_gathered){.labels = x->labels}));
    x->known = like ? like->known : source->classes;
    x->numbers = malloc(((size_t)x->known + 1) * sizeof *x->numbers);
    if (!x->numbers) return kolo_fail_memory((size_t)x->known * sizeof *x->numbers, "labels");
    if (like) memcpy(x->numbers, like->numbers, (size_t)x->known * sizeof *x->numbers);
    else KOLO_TRY(count_labels(source, x));
    return renumber(data, x);
}

static kolo_status make_index(const kolo_label_index_args *args, kolo_data **out)
{
    const kolo_data *source = args->data;
    bool targets = source->has_targets || source->autoencoder;
    if (!targets && !source->has_labels)
        return kolo_fail(KOLO_INVALID, "wanted data with targets or labels, got data without");
    KOLO_TRY(kolo_view_open(&label_index, sizeof(indexed), source, out));
    kolo_data *data = *out;
    indexed *x = kolo_view_of(data);
    int64_t width = source->target_shape.dim[source->target_shape.rank ? source->target_shape.rank - 1 : 0];
    if (targets) data->label_count = (int)(kolo_shape_count(source->target_shape) / width);
    size_t bytes = (size_t)data->samples * (size_t)data->label_count * sizeof *x->labels;
    x->labels = malloc(bytes);
    if (!x->labels) return kolo_fail_memory(bytes, "labels");
    data->has_labels = true, data->has_targets = false;
    if (!targets) return index_labels(args, data, x);
    data->classes = width == 1 ? 2 : (int)width;
    if (data->classes != source->classes) data->class_names = NULL;
    double threshold = args->threshold;
    kolo_keep_zero(args->_, "threshold", &threshold);
    return index_targets(source, threshold == 0 ? 0.5 : threshold == KOLO_NONE ? 0 : threshold, x, width);
}

kolo_data *kolo_label_index_at(const kolo_label_index_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_label_index", here);
    return kolo_view_leave(scope, make_index(args, &data), &data);
}
