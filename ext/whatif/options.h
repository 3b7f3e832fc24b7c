/* The words of kolo-what-if and of the kernel's %what_if: OPTION=VALUE. Each sets a member of kolo_what_if_args, which
 * kolo_what_if.h describes. */
#ifndef KOLO_WHATIF_OPTIONS_H
#define KOLO_WHATIF_OPTIONS_H

/* WORD(option, kind of value, member, value in the help) */
#define KOLO_WHAT_IF_WORDS(WORD)                                                                                       \
    WORD("devices", LIST, devices, "1,2,4,8: so many devices")                                                         \
    WORD("machine", TEXT, machine,                                                                                     \
         "dgx-1v|dgx-a100|dgx-h100|pcie-8|pcie-4|pcie-risers|azure-m60|FILE.json: without one, the host's memory")     \
    WORD("network", TEXT, network, "ethernet-1|ethernet-10|roce-25|ib-edr|ib-hdr|ib-ndr: between hosts")               \
    WORD("hosts", COUNT, hosts, "N: such machines")                                                                    \
    WORD("link", TEXT, link, "gpu0-plx0:0.76: this link has so many GB/s")                                             \
    WORD("algorithm", ALGORITHM, algorithm, "fastest|ring|tree|hierarchical|parameter_server: of the sums")            \
    WORD("memory", NUMBER, memory, "GB/s of a core that adds gradients in the host's memory")                          \
    WORD("batch", COUNT, batch, "N: samples a device in a step")                                                       \
    WORD("other", TEXT, other_trace, "FILE: the same training recorded with another batch")                            \
    WORD("bucket_bytes", NUMBER, bucket_bytes, "N: of gradients that are summed together")                             \
    WORD("overlap", SWITCH, overlap, "on|off: sums beside the backward pass")                                          \
    WORD("compression", COMPRESSION, compression, "none|fp16|bf16: of gradients that are sent")                        \
    WORD("compute", NUMBER, compute, "X: times as long for forward and backward")                                      \
    WORD("cores", COUNT, cores, "N: of the host")                                                                      \
    WORD("contention", NUMBER, contention, "X: times as long where all cores compute")                                 \
    WORD("pace", PACE, same_pace, "same|recorded: same is without waiting for the slowest device")                     \
    WORD("noise_scale", NUMBER, noise_scale, "N: the gradient noise scale, for the way to an accuracy")                \
    WORD("steps", NUMBER, steps, "N: that one device needs to the accuracy")                                           \
    WORD("file", TEXT, file, "FILE.svg or FILE.png: the chart")                                                        \
    WORD("width", COUNT, width, "N: pixels of a chart")                                                                \
    WORD("height", COUNT, height, "N: the same")

#endif
