/* What was found out about devices as tables of text. See topology.h. */
#include "topology/topology.h"

#include <stdlib.h>

#include "core/table.h"
#include "show/bundle.h"
#include "show/display.h"

static const char *const meanings[] = {
    [KOLO_LINK_UNKNOWN] = "nobody could tell",
    [KOLO_LINK_SELF] = "the device itself",
    [KOLO_LINK_SAME] = "the same GPU or the same core, on which virtual devices take turns",
    [KOLO_LINK_L2] = "cores that share a second-level cache",
    [KOLO_LINK_L3] = "cores that share a third-level cache",
    [KOLO_LINK_NVLINK] = "as many NVLinks, to the other GPU or to switches that reach all",
    [KOLO_LINK_PIX] = "at most one PCIe bridge",
    [KOLO_LINK_PXB] = "several PCIe bridges, but no host bridge",
    [KOLO_LINK_PHB] = "a PCIe host bridge: the processor",
    [KOLO_LINK_NODE] = "a NUMA node: its memory, or what joins its PCIe host bridges",
    [KOLO_LINK_SYS] = "what joins the NUMA nodes, such as QPI, UPI or Infinity Fabric",
    [KOLO_LINK_PEER] = "straight to the other's memory, by a way that is unknown without NVML",
    [KOLO_LINK_HOST] = "through the host's memory, by a way that is unknown without NVML"};

static kolo_status add_device(const kolo_topology_report *report, int device, kolo_table *table)
{
    const kolo_device_place *place = &report->device[device];
    const char *cells[KOLO_TABLE_COLUMNS] = {place->name};
    char node[16] = "?";
    int column = 1;
    for (int other = 0; other < report->count; other++) cells[column++] = report->between[device][other].name;
    cells[column++] = *place->cpus ? place->cpus : "?";
    if (place->numa_node >= 0) snprintf(node, sizeof node, "%d", place->numa_node);
    cells[column] = node;
    return kolo_table_add(table, cells);
}

static kolo_status open_table(const kolo_topology_report *report, kolo_table **table)
{
    const char *headings[KOLO_TABLE_COLUMNS] = {""};
    int column = 1;
    for (int i = 0; i < report->count; i++) headings[column++] = report->device[i].name;
    headings[column++] = "processors";
    headings[column++] = "NUMA node";
    return kolo_table_open(column, 1, headings, table);
}

static bool occurs(const kolo_topology_report *report, kolo_link link)
{
    for (int a = 0; a < report->count; a++)
        for (int b = 0; b < report->count; b++)
            if (report->between[a][b].link == link) return true;
    return false;
}

static void write_legend(FILE *out, const kolo_topology_report *report)
{
    fputc('\n', out);
    for (kolo_link link = KOLO_LINK_UNKNOWN; link <= KOLO_LINK_HOST; link++) {
        kolo_connection connection = {.link = link};
        if (!occurs(report, link)) continue;
        kolo_connection_name(&connection);
        fprintf(out, "%-4s  %s\n", link == KOLO_LINK_NVLINK ? "NV#" : connection.name, meanings[link]);
    }
}

kolo_status kolo_topology_write(FILE *out, const kolo_topology_report *report)
{
    kolo_table *table = NULL;
    kolo_status status;
    KOLO_GO(done, open_table(report, &table));
    for (int i = 0; i < report->count; i++) KOLO_GO(done, add_device(report, i, table));
    kolo_table_write(out, table);
    write_legend(out, report);
    fflush(out);
done:
    kolo_table_close(&table);
    return status;
}

char *kolo_topology_bundle(const kolo_topology_report *report)
{
    char *text = NULL, *json = NULL;
    size_t size = 0;
    bool whole = report->count > 0 && report->count <= KOLO_PEERS_MAX;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    if (!whole || kolo_topology_write(out, report) != KOLO_OK) fputs("no devices", out);
    fclose(out);
    kolo_mime form = {"text/plain", text, size, false};
    kolo_display_json(&form, 1, &json);
    free(text);
    return json;
}
