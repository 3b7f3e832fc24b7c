/* How long collectives take on machines that are not here: a model of their links. Nothing is measured; every line says
 * "modelled".
 *
 *   link_model                                              an all-reduce of 100 MB on a DGX-1V, by each algorithm
 *   link_model --machine dgx-a100 --hosts 2048 --network ib-hdr --bytes 1e9     16,384 devices
 *   link_model --machine my-box.json --matrix               what its devices copy to each other
 *   link_model --published                                  predicted beside published, with the error
 */
#include "published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- one machine */

static void print_time(const kolo_link_model *model, int devices, double bytes, kolo_algorithm algorithm)
{
    kolo_modelled_time time = kolo_link_model_time(model, bytes, .devices = devices, .algorithm = algorithm);
    bool fastest = algorithm == KOLO_ALGORITHM_FASTEST;
    if (isnan(time.seconds)) return;
    printf("modelled  %-16s  %12.3f ms  %8lld rounds  bus bandwidth %8.3f GB/s%s\n",
           kolo_algorithm_name(time.algorithm), 1e3 * time.seconds, (long long)time.rounds, time.bus_bandwidth,
           fastest ? "  (the fastest)" : "");
}

static void print_times(const kolo_link_model *model, int devices, double bytes, kolo_algorithm algorithm)
{
    int all = kolo_link_model_devices(model), used = devices ? devices : all;
    printf("modelled  all-reduce of %g bytes over %d devices of %s\n", bytes, used, kolo_link_model_name(model));
    print_time(model, devices, bytes, algorithm);
    if (algorithm != KOLO_ALGORITHM_FASTEST || kolo_last_error().code != KOLO_OK) return;
    print_time(model, devices, bytes, KOLO_ALGORITHM_RING);
    print_time(model, devices, bytes, KOLO_ALGORITHM_TREE);
}

enum { SHOWN = 16 }; /* devices in a matrix */

static void print_matrix(const kolo_link_model *model)
{
    static const char *const titles[] = {"One way, GB/s", "Both ways at once, GB/s", "Latency, µs"};
    int count = kolo_link_model_devices(model) < SHOWN ? kolo_link_model_devices(model) : SHOWN;
    for (int t = 0; t < 3; t++) {
        printf("modelled  %s: %s, row to column\n", kolo_link_model_name(model), titles[t]);
        for (int a = 0; a < count; a++) {
            printf("modelled  %3d", a);
            for (int b = 0; b < count; b++) {
                kolo_modelled_pair pair = kolo_link_model_pair(model, a, b);
                double figure = t == 0 ? pair.one_way : t == 1 ? pair.both_ways : pair.latency;
                if (a == b) printf(" %8s", "-");
                else printf(" %8.2f", figure);
            }
            printf("\n");
        }
    }
}

/* ---------------------------------------------------------------- published tables */

/* Counts over all tables. A prediction is worth little if N devices that are simply N times as fast would do as well.
 */
static struct counts {
    int rows, predicted;
    int within, ideal; /* of the predicted rows: those within 10 %; those that perfect scaling has within 10 % */
} counts;

static bool is_within(double modelled, double published)
{
    return fabs(modelled / published - 1) <= 0.10;
}

/* ideal: what perfect scaling would give. */
static void print_row(origin from, const char *name, double modelled, double ideal, double published, const char *why)
{
    double error = modelled / published - 1;
    counts.rows++;
    counts.predicted += from == PREDICTED;
    counts.within += from == PREDICTED && is_within(modelled, published);
    counts.ideal += from == PREDICTED && is_within(ideal, published);
    printf("modelled  %-30s  %-9s  modelled %10.4g  published %10.4g  error %+6.1f %%%s%s\n", name,
           from == FITTED ? "fitted" : "predicted", modelled, published, 100 * error, why ? ": " : "", why ? why : "");
}

/* Row 0 of p2pBandwidthLatencyTest, GPU 1 to 7; fitted[]: a 1 for the figures that the machine's numbers come from. */
static const struct pair_table {
    const char *title, *fitted;
    bool no_peer_access, latency;
    double published[7];
} pairs[] = {
    {"Both ways at once, GB/s, peer access off",
     "1100000",
     true,
     false,
     {9.56, 14.43, 14.46, 14.47, 14.24, 14.51, 14.43}},
    {"Both ways at once, GB/s, peer access on",
     "1000000",
     false,
     false,
     {48.49, 48.49, 96.85, 96.90, 14.25, 14.54, 14.49}},
    {"Latency, µs, peer access off", "0100100", true, true, {17.52, 16.41, 16.43, 17.35, 16.88, 17.34, 16.85}},
    {"Latency, µs, peer access on", "1010100", false, true, {1.62, 1.61, 2.01, 2.02, 18.44, 19.15, 19.34}},
};

static void print_pairs(const struct pair_table *table)
{
    kolo_link_model *model = kolo_link_model_open("dgx-1v", .no_peer_access = table->no_peer_access);
    printf("modelled  == p2pBandwidthLatencyTest, DGX-1V. %s. Source: " BOOTCAMP
           " lesson 2.1. Fitted: bandwidth and latency "
           "of NVLink and PCIe\n",
           table->title);
    for (int i = 0; i < 7; i++) {
        char name[16];
        kolo_modelled_pair pair = kolo_link_model_pair(model, 0, i + 1);
        snprintf(name, sizeof name, "GPU 0 to %d", i + 1);
        print_row(table->fitted[i] == '1' ? FITTED : PREDICTED, name, table->latency ? pair.latency : pair.both_ways,
                  INFINITY, table->published[i], NULL);
    }
    kolo_link_model_free(&model);
}

static double figure(const published_table *table, const published_row *row, double epoch, double step)
{
    double seconds = epoch + (row->steps ? row->steps : 1) * step;
    double images = table->images > 0 ? table->images : row->batch * (double)row->devices;
    return table->unit == PERCENT ? 100 * row->device / step : table->unit == SECONDS ? seconds : images / seconds;
}

static void print_step(const published_table *table, const published_row *row)
{
    kolo_link_model *model =
        kolo_link_model_open(table->machine, .hosts = table->hosts ? table->hosts : 1, .network = table->network,
                             .devices = row->selected, .no_peer_access = row->no_peer_access);
    kolo_modelled_step step =
        kolo_link_model_step(model, row->device, table->bytes, .devices = row->devices, .algorithm = table->algorithm,
                             .bucket_bytes = table->bucket_bytes, .early = table->early, .each_step = table->each_step,
                             .each_doubling = table->each_doubling, .each_device = table->each_device);
    kolo_link_model_free(&model);
    print_row(row->origin, row->name, figure(table, row, table->epoch, step.seconds),
              figure(table, row, 0, row->device), row->published, row->why);
}

static void print_published(void)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) print_pairs(&pairs[i]);
    for (int t = 0; t < TABLES; t++) {
        const published_table *table = &tables[t];
        printf("modelled  == %s. Source: %s. Fitted: %s\n", table->title, table->source, table->fit);
        for (const published_row *row = table->row; row < table->row + ROWS_MAX && row->name; row++)
            print_step(table, row);
    }
    for (int i = 0; i < LEFT_OUT; i++) printf("modelled  not: %s\n", left_out[i]);
    printf("modelled  %d rows: %d fitted, %d predicted, of which %d are within 10 %% of what was published\n",
           counts.rows, counts.rows - counts.predicted, counts.predicted, counts.within);
    printf("modelled  devices that lost nothing to links and hosts would have been within 10 %% in %d of those %d\n",
           counts.ideal, counts.predicted);
}

/* ---------------------------------------------------------------- options */

static kolo_algorithm algorithm_named(const char *name)
{
    kolo_algorithm algorithm = KOLO_ALGORITHM_FASTEST;
    while (strcmp(name, kolo_algorithm_name(algorithm)) != 0) algorithm++;
    return algorithm;
}

int main(int argc, char **argv)
{
    const char *machine = "dgx-1v", *network = NULL, *algorithm = "fastest";
    int hosts = 0;
    double bytes = 100e6;
    bool published = false, matrix = false, no_peer_access = false;
    const kolo_program_option own[] = {
        {"machine", "NAME|FILE", "dgx-1v, dgx-a100, dgx-h100, pcie-8, pcie-4, pcie-risers, azure-m60, or a JSON file",
         .text = &machine},
        {"hosts", "N", "so many such machines (default: 1, or the file's)", .count = &hosts},
        {"network", "ethernet-1|ethernet-10|roce-25|ib-edr|ib-hdr|ib-ndr",
         "between them (default: ib-edr, or the file's)", .choice = &network},
        {"bytes", "X", "of the array that is summed", .number = &bytes, .or_zero = true},
        {"algorithm", "fastest|ring|tree|hierarchical|parameter_server", "of the all-reduce", .choice = &algorithm},
        {"no-peer-access", .help = "devices reach each other through a host's memory only", .flag = &no_peer_access},
        {"matrix", .help = "print the speed between the first 16 devices instead", .flag = &matrix},
        {"published", .help = "print published scaling tables beside the model's instead", .flag = &published},
        {0},
    };
    kolo_options options = {.trains_nothing = true, .most_devices = 8 * 65536, .own = own};
    kolo_init(&argc, &argv);
    kolo_parse_options(argc, argv, &options, "Models how long an all-reduce takes on machines that are not here.");
    if (kolo_rank() != 0) return kolo_finish();
    if (published) {
        print_published();
        return kolo_finish();
    }
    kolo_link_model *model =
        kolo_link_model_open(machine, .hosts = hosts, .network = network, .no_peer_access = no_peer_access);
    if (model && matrix) print_matrix(model);
    else if (model) print_times(model, options.devices, bytes, algorithm_named(algorithm));
    kolo_link_model_free(&model);
    return kolo_finish();
}
