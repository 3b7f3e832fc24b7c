/* tests/ext/layers/pytorch_images_test.c, of the CUDA backend. */
#include "ext/layers/pytorch_images_test.c"
