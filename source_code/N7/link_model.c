/* How long collectives take on machines that are not here: a model of their links. Nothing is measured; every line says
 * "modelled".
 *
 *   link_model                                              an all-reduce of 100 MB on a DGX-1V, by each algorithm
 *   link_model --machine dgx-a100 --hosts 2048 --network ib-hdr --bytes 1e9     16,384 devices
 *   link_model --hosts 4 --bytes 102e6 --step 0.097 --bucket-bytes 25e6         the efficiency of training a ResNet-50
 *   link_model --machine my-box.json --matrix               what its devices copy to each other
 *   link_model --published                                  predicted beside published, with the error
 */
#include "published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- one machine */

static const char *const operations[] = {[KOLO_MODELLED_ALLREDUCE] = "allreduce",
                                         [KOLO_MODELLED_BROADCAST] = "broadcast",
                                         [KOLO_MODELLED_REDUCE_SCATTER] = "reduce_scatter",
                                         [KOLO_MODELLED_ALLGATHER] = "allgather"};

/* What the command line asks of it. */
typedef struct question {
    int devices; /* 0: all */
    double bytes, bucket_bytes, step;
    kolo_algorithm algorithm;
    kolo_modelled_operation operation;
} question;

static void print_time(const kolo_link_model *model, const question *q, kolo_algorithm algorithm)
{
    kolo_modelled_time time =
        kolo_link_model_time(model, q->bytes, .devices = q->devices, .operation = q->operation, .algorithm = algorithm);
    bool fastest = algorithm == KOLO_ALGORITHM_FASTEST;
    if (isnan(time.seconds)) return;
    printf("modelled  %-16s  %12.3f ms  %8lld rounds  bus bandwidth %8.3f GB/s%s\n",
           kolo_algorithm_name(time.algorithm), 1e3 * time.seconds, (long long)time.rounds, time.bus_bandwidth,
           fastest ? "  (the fastest)" : "");
}

static int devices_of(const kolo_link_model *model, const question *q)
{
    return q->devices ? q->devices : kolo_link_model_devices(model);
}

static int devices_of_host(const kolo_link_model *model)
{
    return kolo_link_model_devices(model) / kolo_link_model_hosts(model);
}

/* The algorithm that was asked for; or the fastest, and beside it those that it was chosen from. */
static void print_times(const kolo_link_model *model, const question *q)
{
    int devices = devices_of(model, q);
    printf("modelled  %s of %g bytes over %d devices of %s\n", operations[q->operation], q->bytes, devices,
           kolo_link_model_name(model));
    print_time(model, q, q->algorithm);
    if (q->algorithm != KOLO_ALGORITHM_FASTEST || kolo_last_error().code != KOLO_OK) return;
    print_time(model, q, KOLO_ALGORITHM_RING);
    if (q->operation <= KOLO_MODELLED_BROADCAST) print_time(model, q, KOLO_ALGORITHM_TREE);
    if (q->operation == KOLO_MODELLED_ALLREDUCE && devices > devices_of_host(model))
        print_time(model, q, KOLO_ALGORITHM_HIERARCHICAL);
}

/* 1, 2, 4 … devices, and the most; of several hosts only whole ones. */
static void print_steps(const kolo_link_model *model, const question *q)
{
    int most = devices_of(model, q), each = devices_of_host(model);
    printf("modelled  steps of %g s on one device, %g bytes of gradients, on %s\n", q->step, q->bytes,
           kolo_link_model_name(model));
    for (int n = 1; n <= most; n = n < most && 2 * n > most ? most : 2 * n) {
        if (n != most && n > each && n % each != 0) continue;
        kolo_modelled_step step = kolo_link_model_step(model, q->step, q->bytes, .devices = n,
                                                       .algorithm = q->algorithm, .bucket_bytes = q->bucket_bytes);
        if (isnan(step.seconds)) return;
        printf("modelled  %6d devices  step %10.3f ms  communication %10.3f ms, exposed %10.3f ms  efficiency %5.1f "
               "%%\n",
               n, 1e3 * step.seconds, 1e3 * step.communication, 1e3 * step.exposed, 100 * step.efficiency);
    }
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
    {"Latency, µs, peer access off", "0101111", true, true, {17.52, 16.41, 16.43, 17.35, 16.88, 17.34, 16.85}},
    {"Latency, µs, peer access on", "1010111", false, true, {1.62, 1.61, 2.01, 2.02, 18.44, 19.15, 19.34}},
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

static kolo_modelled_operation operation_named(const char *name)
{
    kolo_modelled_operation operation = KOLO_MODELLED_ALLREDUCE;
    while (strcmp(name, operations[operation]) != 0) operation++;
    return operation;
}

/* The command line. */
typedef struct request {
    const char *machine, *network, *algorithm, *operation;
    int hosts;
    bool published, matrix, no_peer_access;
    question question;
} request;

static void read_request(int argc, char **argv, request *r)
{
    const kolo_program_option own[] = {
        {"machine", "NAME|FILE", "dgx-1v, dgx-a100, dgx-h100, pcie-8, pcie-4, pcie-risers, azure-m60, or a JSON file",
         .text = &r->machine},
        {"hosts", "N", "so many such machines (default: 1, or the file's)", .count = &r->hosts},
        {"network", "ethernet-1|ethernet-10|roce-25|ib-edr|ib-hdr|ib-ndr",
         "between them (default: ib-edr, or the file's)", .choice = &r->network},
        {"bytes", "X", "of the whole array", .number = &r->question.bytes, .or_zero = true},
        {"operation", "allreduce|broadcast|reduce_scatter|allgather", "the collective", .choice = &r->operation},
        {"algorithm", "fastest|ring|tree|hierarchical|parameter_server", "of the collective", .choice = &r->algorithm},
        {"no-peer-access", .help = "devices reach each other through a host's memory only", .flag = &r->no_peer_access},
        {"step", "SECONDS",
         "that one device takes for a batch: print the efficiency of training on 1, 2, 4 … devices instead, where "
         "--bytes "
         "are the gradients",
         .number = &r->question.step},
        {"bucket-bytes", "X",
         "with --step: sum gradients in buckets of this size beside the backward pass (default: after it)",
         .number = &r->question.bucket_bytes},
        {"matrix", .help = "print the speed between the first 16 devices instead", .flag = &r->matrix},
        {"published", .help = "print published scaling tables beside the model's instead", .flag = &r->published},
        {0},
    };
    kolo_options options = {.trains_nothing = true, .most_devices = 8 * 65536, .own = own};
    kolo_parse_options(argc, argv, &options, "Models how long collectives take on machines that are not here.");
    r->question.devices = options.devices;
    r->question.algorithm = algorithm_named(r->algorithm);
    r->question.operation = operation_named(r->operation);
}

int main(int argc, char **argv)
{
    request r = {.machine = "dgx-1v", .algorithm = "fastest", .operation = "allreduce", .question.bytes = 100e6};
    kolo_init(&argc, &argv);
    read_request(argc, argv, &r);
    if (kolo_rank() != 0) return kolo_finish();
    if (r.published) {
        print_published();
        return kolo_finish();
    }
    kolo_link_model *model =
        kolo_link_model_open(r.machine, .hosts = r.hosts, .network = r.network, .no_peer_access = r.no_peer_access);
    if (model && r.matrix) print_matrix(model);
    else if (model && r.question.step > 0) print_steps(model, &r.question);
    else if (model) print_times(model, &r.question);
    kolo_link_model_free(&model);
    return kolo_finish();
}
