/* Checks the operands of an operation when it is added to a plan, and their order when the plan is complete. Without
 * these checks an operand that a layer forgets is value 0, and the model would train with a wrong gradient. */
#include "plan/plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *ins, *outs;
} operations[] = {
#define OPERATION(name, ins, outs) {ins, outs},
    KOLO_OPS(OPERATION)
#undef OPERATION
};

/* ---------------------------------------------------------------- kinds of values */

/* What a letter of KOLO_OPS stands for. */
static const char *letter_text(char letter)
{
    switch (letter) {
    case 'a': return "an activation";
    case 'f': return "an activation or the features";
    case 'w': return "weights";
    case 'g': return "a gradient of weights";
    case 's': return "a workspace";
    case 'p': return "partial sums";
    case 'r': return "reduced sums";
    default: return "a value";
    }
}

static bool is_of(char letter, kolo_value_kind kind)
{
    switch (letter) {
    case 'a': return kind == KOLO_VALUE_ACTIVATION;
    case 'f': return kind == KOLO_VALUE_ACTIVATION || kind == KOLO_VALUE_INPUT;
    case 'w': return kind == KOLO_VALUE_WEIGHTS;
    case 'g': return kind == KOLO_VALUE_GRADIENT;
    case 's': return kind == KOLO_VALUE_WORKSPACE;
    case 'p': return kind == KOLO_VALUE_PARTIAL;
    case 'r': return kind == KOLO_VALUE_REDUCED || kind == KOLO_VALUE_PARTIAL;
    default: return true;
    }
}

static const char *kind_text(kolo_value_kind kind)
{
    static const char letters[] = {
        [KOLO_VALUE_ACTIVATION] = 'a', [KOLO_VALUE_WEIGHTS] = 'w', [KOLO_VALUE_GRADIENT] = 'g',
        [KOLO_VALUE_WORKSPACE] = 's',  [KOLO_VALUE_PARTIAL] = 'p', [KOLO_VALUE_REDUCED] = 'r'};
    return kind == KOLO_VALUE_INPUT ? "value 0, the features: an operand that is left out is 0, and one that the "
                                      "operation may lack is -1"
                                    : letter_text(letters[kind]);
}

/* ---------------------------------------------------------------- one operation */

/* The operands whose shapes the capital letters of KOLO_OPS name; NULL: no operand has the letter yet. */
typedef struct shapes {
    const kolo_shape *of[26];
    const char *named[26]; /* "in[0]" */
} shapes;

static kolo_status wrong(const kolo_op *op, const char *operand, const char *wanted, const char *got)
{
    return kolo_fail(KOLO_INTERNAL, "operation %s: %s: wanted %s, got %s", kolo_op_name(op->kind), operand, wanted,
                     got);
}

/* word: as in KOLO_OPS, "aX?". */
static kolo_status check_operand(const kolo_plan *plan, const kolo_op *op, const char *word, int value,
                                 const char *operand, shapes *seen)
{
    bool shaped = isupper((unsigned char)word[1]), optional = word[shaped ? 2 : 1] == '?';
    if (value == -1 && optional) return KOLO_OK;
    if (value == -1) return wrong(op, operand, letter_text(word[0]), "none, -1");
    if (value < 0 || value >= plan->value_count)
        return wrong(op, operand, kolo_phrase("the number of one of %d values", plan->value_count),
                     kolo_phrase("%d", value));
    const kolo_value *v = &plan->values[value];
    if (!is_of(word[0], v->kind)) return wrong(op, operand, letter_text(word[0]), kind_text(v->kind));
    if (!shaped) return KOLO_OK;
    int letter = word[1] - 'A';
    if (!seen->of[letter]) {
        seen->of[letter] = &v->shape;
        seen->named[letter] = operand;
    }
    if (kolo_shape_equal(*seen->of[letter], v->shape)) return KOLO_OK;
    return wrong(op, operand,
                 kolo_phrase("%s, the shape of %s", kolo_shape_text(*seen->of[letter]), seen->named[letter]),
                 kolo_shape_text(v->shape));
}

/* Checks `most` operands by the words, and sets those beyond the last word to -1. What a caller leaves out is 0, so
 * only a number above 0 is an operand too many. */
static kolo_status check_operands(const kolo_plan *plan, const kolo_op *op, const char *words, const char *const *names,
                                  int *operands, int most, shapes *seen)
{
    for (int i = 0; i < most; i++) {
        if (*words) KOLO_TRY(check_operand(plan, op, words, operands[i], names[i], seen));
        else if (operands[i] > 0) return wrong(op, names[i], "none, as in KOLO_OPS", "a value");
        else operands[i] = -1;
        words += strcspn(words, " ");
        words += *words == ' ';
    }
    return *words ? wrong(op, names[most - 1], "as many operands in KOLO_OPS as a kolo_op has", "more") : KOLO_OK;
}

/* ---------------------------------------------------------------- shapes that follow from others */

static kolo_status wrong_shape(const kolo_op *op, const char *what, kolo_shape wanted, kolo_shape got)
{
    return wrong(op, what, kolo_shape_text(wanted), kolo_shape_text(got));
}

/* The kernel's first axis is the last of x, its second the last of y. */
static kolo_status check_dense(const kolo_op *op, kolo_shape x, kolo_shape kernel, kolo_shape y)
{
    kolo_shape wanted = {2, {x.dim[x.rank - 1], y.dim[y.rank - 1]}};
    if (!kolo_shape_equal(kernel, wanted)) return wrong_shape(op, "kernel", wanted, kernel);
    kolo_shape out = x;
    out.dim[x.rank - 1] = wanted.dim[1];
    return kolo_shape_equal(y, out) ? KOLO_OK : wrong_shape(op, "y", out, y);
}

/* The height and width of y, the result of moving the window over x. */
static kolo_status check_window(const kolo_op *op, kolo_shape x, kolo_shape y)
{
    kolo_shape wanted = y;
    bool images = x.rank == 3 && y.rank == 3;
    for (int axis = 0; images && axis < 2; axis++) {
        const kolo_window *w = &op->window;
        int reach = (w->kernel[axis] - 1) * (w->gap[axis] + 1) + 1;
        int room = x.dim[axis] + w->before[axis] + w->after[axis] - reach;
        if (w->stride[axis] < 1)
            return wrong(op, "window", "strides of at least 1", kolo_phrase("%d", w->stride[axis]));
        wanted.dim[axis] = room / w->stride[axis] + 1;
    }
    if (!images) return wrong(op, "x and y", "images {height, width, channels}", "other shapes");
    return kolo_shape_equal(y, wanted) ? KOLO_OK : wrong_shape(op, "the window's output", wanted, y);
}

static kolo_status check_slice(const kolo_op *op, kolo_shape x, kolo_shape y)
{
    bool fits = op->axis >= 0 && op->axis < x.rank && x.rank == y.rank;
    for (int axis = 0; fits && axis < x.rank; axis++)
        fits = axis == op->axis ? op->first >= 0 && op->first + y.dim[axis] <= x.dim[axis] : y.dim[axis] == x.dim[axis];
    return fits ? KOLO_OK : wrong_shape(op, "y, a slice of x", x, y);
}

static kolo_status check_attention(const kolo_op *op, kolo_shape x, kolo_shape y)
{
    kolo_shape wanted = {2, {y.dim[0], 3 * y.dim[1]}};
    return kolo_shape_equal(x, wanted) ? KOLO_OK : wrong_shape(op, "x, queries, keys and values", wanted, x);
}

/* The rules of shapes that KOLO_OPS cannot say. An operation that is not here has none. */
static kolo_status check_shapes(const kolo_plan *plan, const kolo_op *op)
{
    const kolo_value *values = plan->values;
    kolo_shape none = {0}, in = op->in[0] < 0 ? none : values[op->in[0]].shape;
    kolo_shape out = op->out[0] < 0 ? none : values[op->out[0]].shape;
    switch (op->kind) {
    case KOLO_OP_DENSE: return check_dense(op, in, values[op->in[1]].shape, out);
    case KOLO_OP_DENSE_BACKWARD: return check_dense(op, values[op->in[2]].shape, values[op->out[1]].shape, in);
    case KOLO_OP_CONV2D:
    case KOLO_OP_MAX_POOL2D:
    case KOLO_OP_AVERAGE_POOL2D: return check_window(op, in, out);
    case KOLO_OP_CONV2D_BACKWARD: return check_window(op, values[op->in[2]].shape, in);
    case KOLO_OP_CONV2D_TRANSPOSE:
    case KOLO_OP_MAX_POOL2D_BACKWARD:
    case KOLO_OP_AVERAGE_POOL2D_BACKWARD: return check_window(op, out, in);
    case KOLO_OP_CONV2D_TRANSPOSE_BACKWARD: return check_window(op, in, values[op->in[2]].shape);
    case KOLO_OP_SLICE: return check_slice(op, in, out);
    case KOLO_OP_ATTENTION: return check_attention(op, in, out);
    default: return KOLO_OK;
    }
}

kolo_status kolo_plan_check_operands(const kolo_plan *plan, kolo_op *op)
{
    static const char *const ins[] = {"in[0]", "in[1]", "in[2]", "in[3]", "in[4]", "in[5]", "in[6]", "in[7]"};
    static const char *const outs[] = {"out[0]", "out[1]", "out[2]", "out[3]"};
    _Static_assert(sizeof ins / sizeof *ins == KOLO_OP_INS, "a name for each operand");
    _Static_assert(sizeof outs / sizeof *outs == KOLO_OP_OUTS, "a name for each operand");
    shapes seen = {0};
    KOLO_TRY(check_operands(plan, op, operations[op->kind].ins, ins, op->in, KOLO_OP_INS, &seen));
    KOLO_TRY(check_operands(plan, op, operations[op->kind].outs, outs, op->out, KOLO_OP_OUTS, &seen));
    return check_shapes(plan, op);
}

/* ---------------------------------------------------------------- the whole plan */

static bool is_made(kolo_value_kind kind)
{
    return kind != KOLO_VALUE_INPUT && kind != KOLO_VALUE_WEIGHTS && kind != KOLO_VALUE_GRADIENT;
}

static kolo_status check_order(const kolo_plan *plan, bool *written, const kolo_op **found)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++) {
        *found = op;
        for (int i = 0; i < KOLO_OP_INS; i++) {
            int base = op->in[i] < 0 ? -1 : kolo_plan_base(plan, op->in[i]);
            if (base < 0 || !is_made(plan->values[base].kind) || written[base]) continue;
            return wrong(op, kolo_phrase("in[%d]", i), "a value that an operation before it writes",
                         kolo_phrase("value %d, which none writes", op->in[i]));
        }
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            if (op->out[i] >= 0) written[kolo_plan_base(plan, op->out[i])] = true;
    }
    return KOLO_OK;
}

kolo_status kolo_plan_check_order(const kolo_plan *plan, const kolo_op **op)
{
    bool *written = calloc((size_t)plan->value_count + 1, sizeof *written);
    if (!written) return kolo_fail_memory((size_t)plan->value_count + 1, "a plan");
    kolo_status status = check_order(plan, written, op);
    free(written);
    return status;
}
