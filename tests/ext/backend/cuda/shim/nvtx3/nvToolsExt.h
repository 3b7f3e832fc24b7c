/* A profiler's ranges: who traces (trace.h) is told in which one a launch was. */
#ifndef KOLO_SHIM_NVTX_H
#define KOLO_SHIM_NVTX_H

#ifdef __cplusplus
extern "C" {
#endif
int nvtxRangePushA(const char *text);
int nvtxRangePop(void);
#ifdef __cplusplus
}
#endif
#endif
