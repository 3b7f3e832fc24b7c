/* The reports on topology and bandwidth as text tables. See topology.h. */
#include "topology/topology.h"

#include <math.h>
#include "core/table.h"
#include "show/bundle.h"

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

/* ---------------------------------------------------------------- bandwidth */

typedef double matrix[KOLO_PEERS_MAX][KOLO_PEERS_MAX];

static kolo_status open_matrix(const kolo_bandwidth_report *report, kolo_table **table)
{
    const char *headings[KOLO_TABLE_COLUMNS] = {"from \\ to"};
    for (int i = 0; i < report->count; i++) headings[i + 1] = report->name[i];
    return kolo_table_open(report->count + 1, 1, headings, table);
}

static kolo_status add_row(const kolo_bandwidth_report *report, const matrix figures, int row, kolo_table *table)
{
    char texts[KOLO_PEERS_MAX][32];
    const char *cells[KOLO_TABLE_COLUMNS] = {report->name[row]};
    for (int i = 0; i < report->count; i++) {
        snprintf(texts[i], sizeof texts[i], "%.2f", figures[row][i]);
        cells[i + 1] = isnan(figures[row][i]) ? "-" : texts[i];
    }
    return kolo_table_add(table, cells);
}

static kolo_status write_matrix(FILE *out, const kolo_bandwidth_report *report, const char *title, const char *more,
                                const matrix figures)
{
    kolo_table *table = NULL;
    kolo_status status;
    fprintf(out, "%s%s\n", title, more);
    KOLO_GO(done, open_matrix(report, &table));
    for (int i = 0; i < report->count; i++) KOLO_GO(done, add_row(report, figures, i, table));
    kolo_table_write(out, table);
    fputc('\n', out);
done:
    kolo_table_close(&table);
    return status;
}

/* Remarks that are added to the titles of the three matrices. */
typedef struct notes {
    const char *one_way, *both_ways, *latency;
} notes;

static kolo_status write_speeds(FILE *out, const kolo_bandwidth_report *report, const kolo_peer_speeds *speeds,
                                notes more)
{
    KOLO_TRY(write_matrix(out, report, "One way, GB/s", more.one_way, speeds->one_way));
    KOLO_TRY(write_matrix(out, report, "Both ways at once, GB/s", more.both_ways, speeds->both_ways));
    return write_matrix(out, report, "Latency, µs", more.latency, speeds->latency);
}

kolo_status kolo_bandwidth_write(FILE *out, const kolo_bandwidth_report *report)
{
    static const char on_cpu[] = "Of CPU devices: the memory of this machine, which they share; there is no link.\n",
                      off[] = ", peer access off: through the host's memory",
                      on[] = ", peer access on where a pair has it";
    fprintf(out, "%sCopies of %s.\n\n", report->gpus ? "" : on_cpu, kolo_bytes_text((double)report->bytes));
    if (report->gpus) {
        KOLO_TRY(write_speeds(out, report, &report->staged, (notes){off, off, off}));
        KOLO_TRY(write_speeds(out, report, &report->direct, (notes){on, on, on}));
    } else {
        notes threads = {", by the threads of the device that gets it", "", ", until the other has seen it"};
        KOLO_TRY(write_speeds(out, report, &report->direct, threads));
    }
    fflush(out);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- in a notebook */

char *kolo_topology_bundle(const kolo_topology_report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    bool whole = report->count > 0 && report->count <= KOLO_PEERS_MAX;
    if (!whole || kolo_topology_write(out, report) != KOLO_OK) fputs("no devices", out);
    fclose(out);
    return kolo_text_bundle(text, size);
}
