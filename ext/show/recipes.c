#define _GNU_SOURCE
/* Layers, optimizers, strategies, losses and metrics as the C that makes them: see bundle.h. */
#include "show/bundle.h"
#include "core/model.h"
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

static const char *activation_name(int activation)
{
    const char *name = kolo_activation_name(activation);
    return name ? name : "KOLO_LINEAR";
}

/* One element of an option. */
static void print_element(FILE *out, const kolo_field *field, const void *at)
{
    switch (field->type) {
    case KOLO_FIELD_INT: fprintf(out, "%d", *(const int *)at); break;
    case KOLO_FIELD_BOOL: fputs(*(const bool *)at ? "true" : "false", out); break;
    case KOLO_FIELD_DOUBLE: fprintf(out, "%g", *(const double *)at); break;
    case KOLO_FIELD_STRING: fprintf(out, "\"%s\"", *(const char *const *)at); break;
    case KOLO_FIELD_ACTIVATION: fputs(activation_name(*(const kolo_activation *)at), out); break;
    case KOLO_FIELD_PADDING: fputs(*(const kolo_padding *)at == KOLO_SAME ? "KOLO_SAME" : "KOLO_VALID", out); break;
    }
}

static void add_field(recipe *r, const kolo_field *field, const char *at)
{
    size_t size = kolo_field_size(field->type);
    option(r, "%s%s%s", field->positional ? "" : ".", field->positional ? "" : field->name,
           field->positional ? "" : " = ");
    if (field->count > 1) fputs("{", r->out);
    for (int i = 0; i < field->count; i++) {
        if (i > 0) fputs(", ", r->out);
        print_element(r->out, field, at + (size_t)i * size);
    }
    if (field->count > 1) fputs("}", r->out);
}

char *kolo_layer_bundle(const kolo_layer *layer)
{
    recipe r;
    if (!begin(&r, layer->kind && layer->kind->name ? layer->kind->name : "layer")) return NULL;
    const kolo_field *field = layer->kind ? kolo_layer_fields(layer->kind) : NULL;
    for (; field && field->name; field++) {
        const char *at = (const char *)kolo_layer_arguments(layer) + field->offset;
        if (kolo_field_given(field, at)) add_field(&r, field, at);
    }
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

char *kolo_loss_bundle(const kolo_loss *loss)
{
    if (!loss->kind) return NULL;
    return name_bundle(loss->kind == &kolo_sparse_crossentropy_kind ? "KOLO_SPARSE_CROSSENTROPY" : NULL,
                       loss->kind->name, "loss");
}

char *kolo_metric_bundle(const kolo_metric *metric)
{
    if (!metric->kind) return NULL;
    return name_bundle(metric->kind == &kolo_accuracy_kind ? "KOLO_ACCURACY" : NULL, metric->kind->name, "metric");
}
