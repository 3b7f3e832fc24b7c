/* First in a test that is another one, of this backend: models take it, whatever the test says. */
#ifndef KOLO_TESTS_ON_CUDA_H
#define KOLO_TESTS_ON_CUDA_H

#include <stdlib.h>

#include <kolo.h>

__attribute__((constructor)) static void choose_backend(void)
{
    setenv("KOLO_BACKEND", "cuda", 1);
}

static inline kolo_status compile_on_cuda(kolo_compile_args args, kolo_here here)
{
    args.backend = "cuda";
    return kolo_compile_at(&args, here);
}
#undef kolo_compile
#define kolo_compile(...) compile_on_cuda((kolo_compile_args){._ = 0, __VA_ARGS__}, KOLO_HERE)

#endif
