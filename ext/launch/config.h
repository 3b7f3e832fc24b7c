/* --config-file: options of kolorun in a JSON object, by their long names. */
#ifndef KOLO_LAUNCH_CONFIG_H
#define KOLO_LAUNCH_CONFIG_H

#include "launch/words.h"

#include <argp.h>

/* Reads the file and adds its options to `words` as a command line has them, "--num-proc=4". A value is a text or a
 * number, true or false for an option without a value, or a list of values for an option that may be repeated. `known`
 * are kolorun's options. Returns KOLORUN_GO_ON, or an exit code after one sentence. */
int config_read(const char *path, const struct argp_option *known, struct words *words);

#endif
