/* Inside the shim of cuDNN: descriptors, and graphs at work. Read cudnn.h here first. */
#ifndef KOLO_SHIM_CUDNN_GRAPH_H
#define KOLO_SHIM_CUDNN_GRAPH_H

#include "cudnn.h"
#include "elements.h"

#include <map>
#include <memory>
#include <vector>

namespace
{

const auto FORWARD = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
const auto DATA = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
const auto FILTER = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
const auto POINTWISE = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
const auto TENSOR = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
const auto WINDOW = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
const auto ONE = CUDNN_TYPE_BACKEND_DESCRIPTOR;

struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<unsigned char> bytes;
};

struct Step; /* of a graph at work */

struct Descriptor {
    explicit Descriptor(cudnnBackendDescriptorType_t type_) : type(type_)
    {
    }
    cudnnBackendDescriptorType_t type;
    bool finalized = false;
    std::map<int, Attribute> attributes;
    int engine = -1; /* of one, its configuration or plan */
    std::shared_ptr<std::vector<Step>> steps; /* what a plan keeps of its graph, which may go */

    template <typename T> T get(int name, int64_t i = 0) const
    {
        T value;
        memcpy(&value, attributes.at(name).bytes.data() + (size_t)i * sizeof value, sizeof value);
        return value;
    }
    Descriptor *of(int name, int64_t i = 0) const
    {
        return (Descriptor *)get<cudnnBackendDescriptor_t>(name, i);
    }
    bool has(int name) const
    {
        return attributes.count(name) > 0;
    }
};

/* ---- tensors ---- */

struct Tensor {
    int type;
    int64_t dim[4], stride[4], id, alignment;
    bool inside;
    Tensor(const Descriptor *d)
        : type(d->get<int>(CUDNN_ATTR_TENSOR_DATA_TYPE)), id(d->get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
          alignment(d->get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
          inside(d->has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && d->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL))
    {
        for (int i = 0; i < 4; i++) {
            dim[i] = d->get<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
            stride[i] = d->get<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i);
        }
    }
    int element() const
    {
        return type == CUDNN_DATA_HALF ? CUDA_R_16F : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
    }
    int64_t span() const
    {
        int64_t last = 0;
        for (int i = 0; i < 4; i++) last += (dim[i] - 1) * stride[i];
        return last + 1;
    }
    int64_t at(int64_t n, int64_t c, int64_t h, int64_t w) const
    {
        return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
    }
    /* Channels one behind the other, then columns, rows, images: nothing between. */
    bool channels_last() const
    {
        return stride[1] == 1 && stride[3] == dim[1] && stride[2] == dim[3] * dim[1] &&
               stride[0] == dim[2] * dim[3] * dim[1];
    }
};

/* ---- convolutions ---- */

struct Names {
    int x, w, y, window, alpha, beta;
};
Names names_of(cudnnBackendDescriptorType_t type)
{
    if (type == FORWARD)
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    if (type == DATA)
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

struct Window {
    int64_t before[2], after[2], stride[2], dilation[2];
    Window(const Descriptor *d)
    {
        for (int i = 0; i < 2; i++) {
            before[i] = d->get<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
            after[i] = d->get<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
            stride[i] = d->get<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
            dilation[i] = d->get<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
        }
    }
};

/* ---- computing ---- */

typedef std::map<int64_t, void *> Memory;

/* A graph at work; nothing of it points to a descriptor, which may go. */
struct Step {
    cudnnBackendDescriptorType_t type;
    int mode;
    bool keeps_nan;
    std::vector<Tensor> tensors; /* x, w, y; or x, y, b */
    std::vector<Window> window;
};

struct Computation {
    std::vector<Step> steps;
    Memory memory;
    bool tf32;

    float get(const Tensor &t, std::map<int64_t, std::vector<float>> &inner, int64_t i) const
    {
        return t.inside ? inner.at(t.id)[(size_t)i] : kolo_shim_element(t.element(), memory.at(t.id), i);
    }
    void put(const Tensor &t, std::map<int64_t, std::vector<float>> &inner, int64_t i, float value) const
    {
        if (t.inside) inner.at(t.id)[(size_t)i] = value;
        else kolo_shim_set_element(t.element(), memory.at(t.id), i, value);
    }
    float factor(const Tensor &t, int64_t i) const
    {
        float value = kolo_shim_element(t.element(), memory.at(t.id), i);
        return tf32 && t.type == CUDNN_DATA_FLOAT ? kolo_shim_tf32(value) : value;
    }

    /* Every product of an element of x, of w and of y, added to one of them. */
    void convolve(const Step &step, std::map<int64_t, std::vector<float>> &inner) const
    {
        const Tensor &x = step.tensors[0], &w = step.tensors[1], &y = step.tensors[2];
        const Window &v = step.window[0];
        const Tensor &result = step.type == FORWARD ? y : step.type == DATA ? x : w;
        std::vector<float> sums((size_t)result.span());
        int64_t depth = w.dim[1], filters = y.dim[1] / (x.dim[1] / depth);
        for (int64_t n = 0; n < y.dim[0]; n++)
            for (int64_t f = 0; f < y.dim[1]; f++)
                for (int64_t e = 0; e < y.dim[2] * y.dim[3] * w.dim[2] * w.dim[3]; e++) {
                    int64_t j = e % w.dim[3], i = e / w.dim[3] % w.dim[2], at = e / w.dim[3] / w.dim[2];
                    int64_t oh = at / y.dim[3], ow = at % y.dim[3];
                    int64_t h = oh * v.stride[0] + i * v.dilation[0] - v.before[0];
                    int64_t u = ow * v.stride[1] + j * v.dilation[1] - v.before[1];
                    if (h < 0 || h >= x.dim[2] || u < 0 || u >= x.dim[3]) continue;
                    int64_t of_y = y.at(n, f, oh, ow);
                    for (int64_t c = 0; c < depth; c++) {
                        int64_t of_x = x.at(n, f / filters * depth + c, h, u), of_w = w.at(f, c, i, j);
                        if (step.type == FORWARD) sums[(size_t)of_y] += factor(x, of_x) * factor(w, of_w);
                        if (step.type == DATA) sums[(size_t)of_x] += factor(y, of_y) * factor(w, of_w);
                        if (step.type == FILTER) sums[(size_t)of_w] += factor(x, of_x) * factor(y, of_y);
                    }
                }
        for (int64_t i = 0; i < result.span(); i++) put(result, inner, i, sums[(size_t)i]);
    }

    void each(const Step &step, std::map<int64_t, std::vector<float>> &inner) const
    {
        const Tensor &x = step.tensors[0], &y = step.tensors[1];
        for (int64_t n = 0; n < y.dim[0]; n++)
            for (int64_t c = 0; c < y.dim[1]; c++)
                for (int64_t h = 0; h < y.dim[2]; h++)
                    for (int64_t w = 0; w < y.dim[3]; w++) {
                        float value = get(x, inner, x.at(n, c, h, w));
                        if (step.mode == CUDNN_POINTWISE_ADD) {
                            const Tensor &b = step.tensors[2];
                            value += get(b, inner, b.at(n % b.dim[0], c % b.dim[1], h % b.dim[2], w % b.dim[3]));
                        }
                        bool kept = value > 0 || (step.keeps_nan && value != value);
                        if (step.mode == CUDNN_POINTWISE_RELU_FWD && !kept) value = 0;
                        put(y, inner, y.at(n, c, h, w), value);
                    }
    }

    void operator()() const
    {
        std::map<int64_t, std::vector<float>> inner;
        for (const Step &step : steps)
            for (const Tensor &t : step.tensors)
                if (t.inside) inner[t.id].resize((size_t)t.span());
        for (const Step &step : steps) {
            if (step.type == POINTWISE) each(step, inner);
            else convolve(step, inner);
        }
    }
};

Step step_of(const Descriptor *op)
{
    Step step = {op->type, 0, false, {}, {}};
    if (op->type == POINTWISE) {
        const Descriptor *what = op->of(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        step.mode = what->get<int>(CUDNN_ATTR_POINTWISE_MODE);
        step.keeps_nan = what->has(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) &&
                         what->get<int>(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN;
        step.tensors.push_back(op->of(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
        step.tensors.push_back(op->of(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
        if (op->has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
            step.tensors.push_back(op->of(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
        return step;
    }
    Names names = names_of(op->type);
    for (int name : {names.x, names.w, names.y}) step.tensors.push_back(op->of(name));
    step.window.push_back(op->of(names.window));
    return step;
}

} // namespace

#endif
