/* Scaled dot-product attention of each head (Vaswani et al. 2017, "Attention is all you need", section 3.2.1), one row
 * at a time. Position i attends to every position j, or with .causal to those up to itself:
 *   p_j = exp(s_j − max s) / Σ exp(s − max s)  with s_j = q_i·k_j / √size,  y_i = Σ_j p_j·m_j·v_j,
 * where m_j is 1, or in training with dropout 0 or 1 / (1 − rate). Backward, with g_j = m_j·(dy_i·v_j):
 *   dv_j += p_j·m_j·dy_i,  ds_j = p_j·(g_j − Σ_k p_k·g_k),  dq_i = Σ_j ds_j·k_j / √size,  dk_j += ds_j·q_i / √size. */
#include "backend/reference/reference.h"

#include <math.h>
#include <string.h>

/* One head of one sample. Rows of queries, keys and values are `wide` elements apart. */
typedef struct head {
    const kolo_reference_job *job;
    const double *q, *k, *v;
    int64_t length, size, wide;
    int number, sample;
} head;

static int64_t seen(const head *h, int64_t i)
{
    return h->job->op->causal ? i + 1 : h->length;
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t c = 0; c < count; c++) sum += a[c] * b[c];
    return sum;
}

/* m_j. Which weights are dropped is a function of (seed, step, layer, sample, element) alone: core/random.h. */
static double kept(const head *h, int64_t i, int64_t j)
{
    const kolo_op *op = h->job->op;
    const kolo_call *call = h->job->call;
    if (op->rate == 0) return 1;
    uint64_t element = (uint64_t)((h->number * h->length + i) * h->length + j);
    uint64_t sample = (uint64_t)(call->first_sample + h->sample);
    uint64_t key = kolo_dropout_key(call->seed, op->layer, call->step);
    uint32_t bits = kolo_philox(key, element / 4, sample).word[element % 4];
    return bits >= kolo_dropout_threshold(op->rate) ? 1 / (1 - op->rate) : 0;
}

/* Computes p[length] of position i; zero for the positions that it does not attend to. */
static void weigh(const head *h, int64_t i, double *p)
{
    int64_t count = seen(h, i);
    double largest = -INFINITY, sum = 0, scale = 1 / sqrt((double)h->size);
    memset(p, 0, (size_t)h->length * sizeof *p);
    for (int64_t j = 0; j < count; j++) {
        p[j] = scale * dot(h->q + i * h->wide, h->k + j * h->wide, h->size);
        largest = fmax(largest, p[j]);
    }
    for (int64_t j = 0; j < count; j++) sum += p[j] = exp(p[j] - largest);
    for (int64_t j = 0; j < count; j++) p[j] /= sum;
}

static head head_of(const kolo_reference_job *job, const double *qkv, kolo_shape shape, int sample, int number)
{
    int64_t wide = shape.dim[1], all = wide / 3, size = all / job->op->heads;
    const double *q = qkv + sample * kolo_shape_count(shape) + number * size;
    return (head){job, q, q + all, q + 2 * all, shape.dim[0], size, wide, number, sample};
}

void kolo_reference_attention(const kolo_reference_job *job)
{
    kolo_shape shape = kolo_reference_in(job, 0);
    int heads = job->op->heads, all = shape.dim[1] / 3, length = shape.dim[0];
    double *y = job->out[0], p[length];
    for (int n = 0; n < job->plan->microbatch * heads; n++) {
        head h = head_of(job, job->in[0], shape, n / heads, n % heads);
        for (int64_t i = 0; i < length; i++) {
            double *row = y + (n / heads * (int64_t)length + i) * all + n % heads * h.size;
            weigh(&h, i, p);
            memset(row, 0, (size_t)h.size * sizeof *row);
            for (int64_t j = 0; j < seen(&h, i); j++) {
                double weight = p[j] * kept(&h, i, j);
                for (int64_t c = 0; c < h.size; c++) row[c] += weight * h.v[j * h.wide + c];
            }
        }
    }
}

/* Adds position i's part to the gradients of its head. dq points to the place in dqkv that q has in qkv. */
static void row_backward(const head *h, int64_t i, const double *dy, double *dq, double *p, double *g)
{
    double *dk = dq + (h->k - h->q), *dv = dq + (h->v - h->q), scale = 1 / sqrt((double)h->size), sum = 0;
    weigh(h, i, p);
    for (int64_t j = 0; j < seen(h, i); j++) {
        double mask = kept(h, i, j);
        g[j] = mask * dot(dy, h->v + j * h->wide, h->size);
        sum += p[j] * g[j];
        for (int64_t c = 0; c < h->size; c++) dv[j * h->wide + c] += p[j] * mask * dy[c];
    }
    for (int64_t j = 0; j < seen(h, i); j++) {
        double ds = scale * p[j] * (g[j] - sum);
        for (int64_t c = 0; c < h->size; c++) {
            dq[i * h->wide + c] += ds * h->k[j * h->wide + c];
            dk[j * h->wide + c] += ds * h->q[i * h->wide + c];
        }
    }
}

void kolo_reference_attention_backward(const kolo_reference_job *job)
{
    kolo_shape shape = kolo_reference_in(job, 1);
    int heads = job->op->heads, all = shape.dim[1] / 3, length = shape.dim[0];
    const double *dy = job->in[0], *qkv = job->in[1];
    double *dqkv = job->out[0], p[length], g[length];
    memset(dqkv, 0, (size_t)(job->plan->microbatch * kolo_shape_count(shape)) * sizeof *dqkv);
    for (int n = 0; n < job->plan->microbatch * heads; n++) {
        head h = head_of(job, qkv, shape, n / heads, n % heads);
        const double *rows = dy + n / heads * (int64_t)length * all + n % heads * h.size;
        for (int64_t i = 0; i < length; i++) row_backward(&h, i, rows + i * all, dqkv + (h.q - qkv), p, g);
    }
}
