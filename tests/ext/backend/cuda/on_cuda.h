/* First in a test that is another one, of this backend: models take it where the test names a backend of the host's or
 * none; and there are as many devices as the CPU has, virtual ones where there are fewer GPUs. */
#ifndef KOLO_TESTS_ON_CUDA_H
#define KOLO_TESTS_ON_CUDA_H

#include <stdlib.h>
#include <string.h>

#include <kolo.h>

__attribute__((constructor)) static void choose_backend(void)
{
    setenv("KOLO_BACKEND", "cuda", 1);
    setenv("KOLO_GPU_DEVICES", "8", 1);
}

static inline kolo_status compile_on_cuda(kolo_compile_args args, kolo_here here)
{
    bool there = !args.backend || strcmp(args.backend, "reference") == 0 || strcmp(args.backend, "onednn") == 0;
    if (there) args.backend = "cuda";
    return kolo_compile_at(&args, here);
}
#undef kolo_compile
#define kolo_compile(...) compile_on_cuda((kolo_compile_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)

#endif
