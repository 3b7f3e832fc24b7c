/* convolution_test.c, of the CUDA backend's own kernels: without cuDNN. */
/* test: long: it compares hundreds of convolutions. */
#include "../convolution_test.c"

__attribute__((constructor)) static void do_without(void)
{
    setenv("KOLO_CUDNN", "0", 1);
}
