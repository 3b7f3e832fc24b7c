/* kolo_topology: the places of the devices, and the connection of each pair. See topology.h. */
#include "topology/topology.h"

#include "backend/device_information.h"
#include "core/plugin.h"
#include "runtime/runtime.h"

/* ---------------------------------------------------------------- the machine's processors */

kolo_status kolo_machine_read(int sharers, int count, kolo_machine *machine)
{
    const char *why;
    const kolo_plugin *plugin = kolo_plugin_load("hwloc", &why);
    if (!plugin || !plugin->read_machine)
        return kolo_fail(KOLO_UNSUPPORTED, "wanted hwloc, to ask it about the processors, got: %s",
                         plugin ? "a plugin without it" : why);
    return plugin->read_machine(sharers, count, machine);
}

static bool has_cpu(const unsigned long *cpus, int number)
{
    int bits = 8 * (int)sizeof *cpus;
    return number < KOLO_CPU_WORDS * bits && (cpus[number / bits] >> (number % bits) & 1);
}

void kolo_cpus_text(const unsigned long cpus[KOLO_CPU_WORDS], char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (int first = 0, end; first < 8 * KOLO_CPU_WORDS * (int)sizeof *cpus; first = end) {
        char range[32];
        for (end = first; has_cpu(cpus, end); end++) continue;
        if (end++ == first) continue;
        int length =
            snprintf(range, sizeof range, end - 2 > first ? "%s%d-%d" : "%s%d", used ? "," : "", first, end - 2);
        bool fits = used + (size_t)length + sizeof "…" <= size;
        used += (size_t)snprintf(text + used, size - used, "%s", fits ? range : "…");
        if (!fits) return;
    }
}

/* ---------------------------------------------------------------- the report */

void kolo_connection_name(kolo_connection *connection)
{
    static const char *const names[] = {
        [KOLO_LINK_UNKNOWN] = "?", [KOLO_LINK_SELF] = "X",    [KOLO_LINK_SAME] = "SAME", [KOLO_LINK_L2] = "L2",
        [KOLO_LINK_L3] = "L3",     [KOLO_LINK_NVLINK] = "NV", [KOLO_LINK_PIX] = "PIX",   [KOLO_LINK_PXB] = "PXB",
        [KOLO_LINK_PHB] = "PHB",   [KOLO_LINK_NODE] = "NODE", [KOLO_LINK_SYS] = "SYS",   [KOLO_LINK_PEER] = "P2P",
        [KOLO_LINK_HOST] = "HOST"};
    size_t size = sizeof connection->name;
    snprintf(connection->name, size, "%s", names[connection->link]);
    if (connection->link == KOLO_LINK_NVLINK) snprintf(connection->name, size, "NV%d", connection->nvlinks % 1000);
}

static void place(const kolo_spot *spot, kolo_device_place *where)
{
    kolo_cpus_text(spot->cpus, where->cpus, sizeof where->cpus);
    where->numa_node = spot->numa_node;
}

static kolo_status report_cpus(const kolo_visible *visible, kolo_topology_report *report)
{
    kolo_machine machine;
    KOLO_TRY(kolo_machine_read(visible->count, report->count, &machine));
    for (int a = 0; a < report->count; a++) {
        place(&machine.spot[a], &report->device[a]);
        for (int b = 0; b < report->count; b++)
            report->between[a][b] = (kolo_connection){.link = machine.between[a][b], .direct = true};
    }
    return KOLO_OK;
}

/* The connection of two GPU devices. Virtual devices on the same GPU share its memory, so they reach it directly. */
static kolo_connection connect_gpus(const kolo_visible *visible, int a, int b)
{
    int gpu = visible->device[a] % visible->gpus, other = visible->device[b] % visible->gpus;
    kolo_connection connection = {.direct = true};
    if (gpu != other) kolo_gpu_information()->connect(gpu, other, &connection);
    else connection.link = a == b ? KOLO_LINK_SELF : KOLO_LINK_SAME;
    return connection;
}

static void report_gpus(const kolo_visible *visible, kolo_topology_report *report)
{
    for (int a = 0; a < report->count; a++) {
        kolo_spot spot;
        kolo_gpu_information()->locate(visible->device[a] % visible->gpus, &spot);
        place(&spot, &report->device[a]);
        for (int b = 0; b < report->count; b++) report->between[a][b] = connect_gpus(visible, a, b);
    }
}

kolo_status kolo_topology_read(int most, kolo_topology_report *report)
{
    kolo_visible visible = kolo_visible_now();
    int count = visible.count < KOLO_PEERS_MAX ? visible.count : KOLO_PEERS_MAX;
    KOLO_TRY(kolo_check_environment());
    if (most < 0) return kolo_fail(KOLO_INVALID, "most: wanted at least 1 device, got %d", most);
    if (visible.count == 0)
        return kolo_fail(KOLO_NOT_FOUND, "wanted a device, got none: CUDA_VISIBLE_DEVICES or "
                                         "kolo_set_visible_devices() leaves none");
    *report = (kolo_topology_report){.count = most > 0 && most < count ? most : count};
    for (int i = 0; i < report->count; i++)
        snprintf(report->device[i].name, sizeof report->device[i].name, "%s:%d", visible.gpus ? "gpu" : "cpu", i);
    if (visible.gpus) report_gpus(&visible, report);
    else KOLO_TRY(report_cpus(&visible, report));
    for (int a = 0; a < report->count; a++)
        for (int b = 0; b < report->count; b++) kolo_connection_name(&report->between[a][b]);
    return KOLO_OK;
}

kolo_topology_report kolo_topology_at(const kolo_topology_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_topology", here);
    kolo_topology_report report = {.count = 0};
    kolo_status status = kolo_topology_read(args->most, &report);
    if (status == KOLO_OK && args->print && kolo_rank() == 0) status = kolo_topology_write(stdout, &report);
    status = kolo_leave(scope, status);
    return status == KOLO_OK ? report : (kolo_topology_report){.count = 0};
}
