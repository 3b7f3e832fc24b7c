#define _GNU_SOURCE
/* Layers, optimizers, strategies, losses and metrics as the C that makes them, defaults filled in: see bundle.h. */
#include "show/bundle.h"
#include "core/loss.h"
#include "core/optimizer.h"
#include "layers/layer.h"
#include "show/display.h"
#include "strategy/strategy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct recipe {
    FILE *out;
    char *text;
    size_t size;
    int options; /* written so far */
} recipe;

static bool begin(recipe *r, const char *name)
{
    *r = (recipe){0};
    r->out = open_memstream(&r->text, &r->size);
    if (r->out) fprintf(r->out, "kolo_%s(", name);
    return r->out != NULL;
}

static char *json_of(recipe *r, const char *end)
{
    char *json = NULL;
    fputs(end, r->out);
    fclose(r->out);
    kolo_mime form = {"text/plain", r->text, r->size, false};
    if (kolo_display_json(&form, 1, &json) != KOLO_OK) json = NULL;
    free(r->text);
    return json;
}

__attribute__((format(printf, 2, 3))) static void option(recipe *r, const char *format, ...)
{
    va_list arguments;
    if (r->options++) fputs(", ", r->out);
    va_start(arguments, format);
    vfprintf(r->out, format, arguments);
    va_end(arguments);
}

static const char *activation_name(kolo_activation a)
{
    return a == KOLO_RELU ? "KOLO_RELU" : a == KOLO_SOFTMAX ? "KOLO_SOFTMAX" : "KOLO_LINEAR";
}

static void add_name(recipe *r, const char *name)
{
    if (name) option(r, ".name = \"%s\"", name);
}

static void add_pair(recipe *r, const char *name, const int *pair, int first, int second)
{
    option(r, ".%s = {%d, %d}", name, pair[0] ? pair[0] : first, pair[1] ? pair[1] : second);
}

static void add_padding(recipe *r, kolo_padding padding)
{
    option(r, ".padding = %s", padding == KOLO_SAME ? "KOLO_SAME" : "KOLO_VALID");
}

static void add_weighted(recipe *r, kolo_activation activation, bool no_bias, const char *name)
{
    option(r, ".activation = %s", activation_name(activation));
    if (no_bias) option(r, ".no_bias = true");
    add_name(r, name);
}

static void add_input(recipe *r, const kolo_input_args *a)
{
    const int sizes[] = {a->size_1, a->size_2, a->size_3, a->size_4};
    for (int i = 0; i < 4 && sizes[i]; i++) option(r, "%d", sizes[i]);
}

static void add_conv2d(recipe *r, const kolo_conv2d_args *a)
{
    option(r, "%d", a->filters);
    add_pair(r, "kernel", a->kernel, 0, 0);
    add_pair(r, "stride", a->stride, 1, 1);
    add_padding(r, a->padding);
    add_weighted(r, a->activation, a->no_bias, a->name);
}

static void add_max_pool2d(recipe *r, const kolo_max_pool2d_args *a)
{
    int width = a->width ? a->width : a->height;
    option(r, "%d", a->height);
    option(r, "%d", width);
    add_pair(r, "stride", a->stride, a->height, width);
    add_padding(r, a->padding);
    add_name(r, a->name);
}

static void add_layer(recipe *r, const kolo_layer *layer)
{
    if (layer->kind == &kolo_input_kind) add_input(r, &layer->input);
    if (layer->kind == &kolo_conv2d_kind) add_conv2d(r, &layer->conv2d);
    if (layer->kind == &kolo_max_pool2d_kind) add_max_pool2d(r, &layer->max_pool2d);
    if (layer->kind == &kolo_flatten_kind) add_name(r, layer->flatten.name);
    if (layer->kind == &kolo_dropout_kind) {
        option(r, "%g", layer->dropout.rate);
        add_name(r, layer->dropout.name);
    }
    if (layer->kind == &kolo_dense_kind) {
        option(r, "%d", layer->dense.units);
        add_weighted(r, layer->dense.activation, layer->dense.no_bias, layer->dense.name);
    }
    if (layer->kind == &kolo_activate_kind) {
        option(r, "%s", activation_name(layer->activate.activation));
        add_name(r, layer->activate.name);
    }
}

char *kolo_layer_bundle(const kolo_layer *layer)
{
    recipe r;
    if (!begin(&r, layer->kind && layer->kind->name ? layer->kind->name : "layer")) return NULL;
    if (layer->kind) add_layer(&r, layer);
    return json_of(&r, ")");
}

static void add_number(recipe *r, const char *name, double value, double fallback)
{
    option(r, ".%s = %g", name, value != 0 ? value : fallback);
}

char *kolo_optimizer_bundle(const kolo_optimizer *optimizer)
{
    recipe r;
    const kolo_optimizer_kind *kind = optimizer->kind;
    const char *name = kind && kind->name ? kind->name : "optimizer";
    char *wrapped = NULL;
    if (optimizer->distributed && asprintf(&wrapped, "distributed(kolo_%s", name) < 0) return NULL;
    bool begun = begin(&r, wrapped ? wrapped : name);
    free(wrapped);
    if (!begun) return NULL;
    if (kind && kind->learning_rate) option(&r, ".learning_rate = %g", kind->learning_rate(optimizer));
    if (kind == &kolo_sgd_kind) {
        option(&r, ".momentum = %g", optimizer->sgd.momentum);
        if (optimizer->sgd.nesterov) option(&r, ".nesterov = true");
    }
    if (kind == &kolo_adam_kind) {
        add_number(&r, "beta_1", optimizer->adam.beta_1, 0.9);
        add_number(&r, "beta_2", optimizer->adam.beta_2, 0.999);
        add_number(&r, "epsilon", optimizer->adam.epsilon, 1e-7);
    }
    return json_of(&r, optimizer->distributed ? "))" : ")");
}

/* How many devices a strategy that names no number takes is known when a model is compiled. */
char *kolo_strategy_bundle(const kolo_strategy *strategy)
{
    recipe r;
    const kolo_strategy_kind *kind = strategy->kind ? strategy->kind : &kolo_one_device_kind;
    if (!begin(&r, kind->name ? kind->name : "strategy")) return NULL;
    if (kind != &kolo_one_device_kind && strategy->devices) option(&r, ".devices = %d", strategy->devices);
    return json_of(&r, ")");
}

static char *name_bundle(const char *constant, const char *name, const char *what)
{
    recipe r = {0};
    r.out = open_memstream(&r.text, &r.size);
    if (!r.out) return NULL;
    if (constant) fputs(constant, r.out);
    else fprintf(r.out, "the %s '%s'", what, name ? name : "");
    return json_of(&r, "");
}

char *kolo_loss_bundle(const struct kolo_loss_kind *loss)
{
    return name_bundle(loss == KOLO_SPARSE_CROSSENTROPY ? "KOLO_SPARSE_CROSSENTROPY" : NULL, loss->name, "loss");
}

char *kolo_metric_bundle(const struct kolo_metric_kind *metric)
{
    return name_bundle(metric == KOLO_ACCURACY ? "KOLO_ACCURACY" : NULL, metric->name, "metric");
}
