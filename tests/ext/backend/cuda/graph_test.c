/* core/graph_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/model/graph_test.c"
