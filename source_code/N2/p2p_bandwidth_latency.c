/* What connects the devices, and how fast they copy to each other: what `nvidia-smi topo -m` and NVIDIA's
 * p2pBandwidthLatencyTest print.
 *
 *   p2p_bandwidth_latency                               all devices: GPUs where there are any, else the CPU's
 *   p2p_bandwidth_latency --topology                    what connects them, and nothing measured
 *   CUDA_VISIBLE_DEVICES=0,3 p2p_bandwidth_latency      those two
 *   KOLO_DEVICES=cpu p2p_bandwidth_latency --devices 2  the first two of the CPU
 */
#include <kolo.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int bytes = 0;
    double seconds = 0;
    bool topology_alone = false;
    const kolo_program_option own[] = {
        {"bytes", "N", "of one copy (default: of GPUs 64 MB, on the CPU as its largest cache, at least 32 MB)",
         .count = &bytes},
        {"seconds", "X", "that one figure takes (default: 0.03)", .number = &seconds},
        {"topology", .help = "print what connects the devices, and measure nothing", .flag = &topology_alone},
        {0},
    };
    kolo_options options = {.trains_nothing = true, .own = own};
    kolo_init(&argc, &argv);
    kolo_parse_options(argc, argv, &options, "Prints what connects the devices, and measures how fast they copy.");
    if (kolo_rank() == 0) { /* of several on one machine one measures, or they would measure each other */
        kolo_devices(options.devices, .print = true);
        printf("\n");
        kolo_topology(options.devices, .print = true);
        printf("\n");
        if (!topology_alone && kolo_last_error().code == KOLO_OK)
            kolo_peer_bandwidth(options.devices, .bytes = bytes, .seconds = seconds, .print = true);
    }
    return kolo_finish();
}
