/* Values as a notebook shows them: a model as its table, a history as its curves, data as sample images. The
 * notebook's kernel calls these functions if the last expression of a cell is such a pointer or struct. Each returns a
 * JSON object from malloc with a member for each MIME type, text/plain always among them; NULL, without a message, if
 * there is nothing to show. Read first: display.h, plot.h. */
#ifndef KOLO_SHOW_BUNDLE_H
#define KOLO_SHOW_BUNDLE_H

#include <kolo.h>
#include <stdio.h>

char *kolo_model_bundle(const kolo_model *model);       /* model/summary.c */
char *kolo_history_bundle(const kolo_history *history); /* history.c */
char *kolo_data_bundle(const kolo_data *data);          /* data/samples.c */

/* For cells whose last expression is a struct, not a pointer. */
char *kolo_scores_bundle(const kolo_scores *scores);
char *kolo_devices_bundle(const kolo_device_list *list); /* devices.c */
char *kolo_topology_bundle(const kolo_topology_report *report);   /* topology/table.c */
char *kolo_bandwidth_bundle(const kolo_bandwidth_report *report); /* topology/heat_map.c */

/* devices.c: writes the table that kolo_devices(.print = true) prints. */
void kolo_devices_write(FILE *out, const kolo_device_list *list);
/* devices.c: a bundle of text only. Frees the text. */
char *kolo_text_bundle(char *text, size_t size);

/* training/recipes.c and training/callback_recipes.c: the C code that makes the value. Options that were left out are
 * shown with their defaults. */
char *kolo_layer_bundle(const kolo_layer *layer);
char *kolo_optimizer_bundle(const kolo_optimizer *optimizer);
char *kolo_schedule_bundle(const kolo_schedule *schedule);
char *kolo_strategy_bundle(const kolo_strategy *strategy);
char *kolo_loss_bundle(const kolo_loss *loss);
char *kolo_metric_bundle(const kolo_metric *metric);
char *kolo_callback_bundle(const kolo_callback *callback);

#endif
