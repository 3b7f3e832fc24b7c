/* Inside the shim: the machine that the simulated devices are in, by KOLO_SHIM_MACHINE, read whenever it is asked:
 *
 *   dgx-1      eight V100: some pairs have one or two NVLinks, each GPU six; two processors
 *   dgx-a100   eight A100, each with twelve NVLinks to switches
 *   pcie       six devices without NVLink, each further from device 0 than the one before
 *
 * Without it NVML knows no device, and all devices reach each other's memory. */
#ifndef KOLO_SHIM_MACHINE_H
#define KOLO_SHIM_MACHINE_H

#include <cstdlib>
#include <cstring>

struct Machine {
    const char *name;
    int links[8][8];  /* straight, of a pair */
    int switch_links; /* of each device */
    int levels[8];    /* nvmlGpuTopologyLevel_t by the exclusive or of two devices' numbers */
    int a_node;       /* devices of a NUMA node */
};

inline const Machine *machine()
{
    static const Machine known[] = {
        {"dgx-1",
         {{0, 1, 1, 2, 2, 0, 0, 0},
          {1, 0, 2, 1, 0, 2, 0, 0},
          {1, 2, 0, 2, 0, 0, 1, 0},
          {2, 1, 2, 0, 0, 0, 0, 1},
          {2, 0, 0, 0, 0, 1, 1, 2},
          {0, 2, 0, 0, 1, 0, 2, 1},
          {0, 0, 1, 0, 1, 2, 0, 2},
          {0, 0, 0, 1, 2, 1, 2, 0}},
         0,
         {0, 10, 40, 40, 50, 50, 50, 50},
         4},
        {"dgx-a100", {}, 12, {0, 20, 50, 50, 50, 50, 50, 50}, 2},
        {"pcie", {}, 0, {0, 10, 20, 30, 40, 50, 50, 50}, 4},
    };
    const char *name = getenv("KOLO_SHIM_MACHINE");
    for (const Machine &one : known)
        if (name && strcmp(name, one.name) == 0) return &one;
    return nullptr;
}

/* Whether a device reaches the other's memory, and in gigabytes a second one way. A V100's NVLink as a DGX-1's was
 * measured (48.49 GB/s both ways), PCIe as there with peer access off (14.43 both ways). */
inline bool reaches(int a, int b)
{
    const Machine *here = machine();
    return a != b && (!here || here->switch_links || here->links[a][b] || here->levels[a ^ b] < 40);
}
inline double speed(int a, int b, bool direct)
{
    const Machine *here = machine();
    if (a == b) return 783.95 / 2;
    int links = !direct || !here ? 0 : here->switch_links ? here->switch_links : here->links[a][b];
    return links ? links * 48.49 / 2 : 14.43 / 2;
}
/* Seconds of a copy. */
inline double copying(int a, int b, bool direct, size_t bytes)
{
    double latency = a == b ? 1.78e-6 : direct ? 2.02e-6 : 17.35e-6, moving = (double)bytes / speed(a, b, direct) / 1e9;
    return moving > latency ? moving : latency;
}

#endif
