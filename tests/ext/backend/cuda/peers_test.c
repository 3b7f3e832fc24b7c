/* Bandwidth and latency between simulated GPUs, whose copies take as long as a DGX-1's did: the matrices are the ones
 * that were measured there. */
#include "device.h"

#include "shim/cuda_runtime.h"

#define BYTES 1000000 /* enough for no copy to be all latency */

static int no_machine(void **state)
{
    (void)state;
    unsetenv("KOLO_SHIM_MACHINE");
    unsetenv("KOLO_GPU_DEVICES");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("KOLO_SHIM_MEMORY");
    kolo_clear_error();
    return 0;
}

static void expect_row(const double figures[KOLO_PEERS_MAX], const double wanted[8])
{
    for (int i = 0; i < 8; i++) assert_true(fabs(figures[i] - wanted[i]) < 1e-3 * wanted[i]);
}

/* As p2pBandwidthLatencyTest counts: both ways is the sum, and within a GPU reading and writing. */
static void a_dgx_1(void **state)
{
    (void)state;
    static const double off[8] = {783.95, 14.43, 14.43, 14.43, 14.43, 14.43, 14.43, 14.43},
                        on[8] = {783.95, 48.49, 48.49, 96.98, 96.98, 14.43, 14.43, 14.43},
                        one_way[8] = {783.95, 24.245, 24.245, 48.49, 48.49, 7.215, 7.215, 7.215},
                        late[8] = {1.78, 17.35, 17.35, 17.35, 17.35, 17.35, 17.35, 17.35},
                        early[8] = {1.78, 2.02, 2.02, 2.02, 2.02, 17.35, 17.35, 17.35};
    setenv("KOLO_SHIM_MACHINE", "dgx-1", 1);
    kolo_bandwidth_report report = kolo_peer_bandwidth(.bytes = BYTES, .seconds = 1e-3);
    assert_int_equal(report.count, 8);
    assert_true(report.gpus);
    expect_row(report.staged.both_ways[0], off);
    expect_row(report.direct.both_ways[0], on);
    expect_row(report.direct.one_way[0], one_way);
    expect_row(report.staged.latency[0], late);
    expect_row(report.direct.latency[0], early);
    assert_float_equal(report.direct.one_way[7][4], 48.49, 0.05);
    assert_float_equal(report.direct.one_way[7][3], 24.245, 0.05);
    assert_float_equal(report.direct.one_way[7][2], 7.215, 0.05);
}

static void virtual_devices_copy_within_their_gpu(void **state)
{
    (void)state;
    setenv("KOLO_SHIM_MACHINE", "dgx-1", 1);
    setenv("KOLO_GPU_DEVICES", "9", 1);
    setenv("CUDA_VISIBLE_DEVICES", "8,0,3", 1);
    kolo_bandwidth_report report = kolo_peer_bandwidth(.bytes = BYTES, .seconds = 1e-3);
    assert_int_equal(report.count, 3);
    assert_float_equal(report.direct.one_way[0][1], 783.95, 0.8);
    assert_float_equal(report.direct.one_way[1][0], 783.95, 0.8);
    assert_float_equal(report.direct.one_way[0][2], 48.49, 0.05);
}

/* NCCL turns it on and needs it: it stays on, and what it cannot be measured without is not measured. The plugin's
 * CUDA is the one that the simulated devices are in. */
static void others_peer_access_is_left_alone(void **state)
{
    (void)state;
    Dl_info plugin;
    cudaError_t (*set)(int), (*enable)(int, unsigned), (*disable)(int);
    assert_true(dladdr(tested_backend(), &plugin) != 0);
    void *library = dlopen(plugin.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&set = dlsym(library, "cudaSetDevice");
    *(void **)&enable = dlsym(library, "cudaDeviceEnablePeerAccess");
    *(void **)&disable = dlsym(library, "cudaDeviceDisablePeerAccess");
    assert_true(set && enable && disable);
    setenv("KOLO_SHIM_MACHINE", "dgx-1", 1);
    set(1), assert_int_equal(enable(0, 0), cudaSuccess);
    kolo_bandwidth_report report = kolo_peer_bandwidth(3, .bytes = BYTES, .seconds = 1e-3);
    assert_int_equal(report.count, 3);
    assert_true(isnan(report.staged.one_way[0][1]) && isnan(report.staged.latency[1][0]));
    assert_float_equal(report.direct.one_way[0][1], 24.245, 0.05);
    assert_float_equal(report.staged.one_way[0][2], 7.215, 0.05);
    set(1), assert_int_equal(disable(0), cudaSuccess);
    set(0), assert_int_equal(disable(1), cudaErrorPeerAccessNotEnabled); /* ours was taken back */
}

/* A model that is placed on several GPUs copies between them, behind events. */
static void a_stream_reaches_the_device_that_it_waits_for(void **state)
{
    (void)state;
    kolo_stream *own, *other;
    kolo_event *event = NULL;
    cudaError_t (*set)(int), (*disable)(int);
    setenv("KOLO_SHIM_MACHINE", "dgx-1", 1);
    *(void **)&set = device_symbol("cudaSetDevice");
    *(void **)&disable = device_symbol("cudaDeviceDisablePeerAccess");
    const kolo_stream_kind *kind = tested_backend()->streams;
    rig_ok(device_open_stream(0, &own));
    for (int from = 3; from < 6; from += 2) { /* the sixth has no NVLink to the first */
        cudaError_t wanted = from == 3 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
        rig_ok(device_open_stream(from, &other));
        for (int again = 0; again < 2; again++) {
            rig_ok(kind->record_event(other, &event));
            rig_ok(kind->wait_event(own, event));
        }
        set(0), assert_int_equal(disable(from), wanted);
        kind->free_event(other, event);
        kind->close(&other);
        event = NULL;
    }
    kind->close(&own);
}

static void too_little_memory_is_a_sentence(void **state)
{
    (void)state;
    setenv("KOLO_SHIM_MEMORY", "3500000", 1);
    assert_int_equal(kolo_peer_bandwidth(2, .bytes = BYTES).count, 0);
    assert_non_null(strstr(kolo_last_error().text, "kolo_peer_bandwidth: wanted four times 0.001 GB"));
    assert_non_null(strstr(kolo_last_error().text, "lower .bytes"));
    kolo_clear_error();
    unsetenv("KOLO_SHIM_MEMORY");
    assert_int_equal(kolo_peer_bandwidth(2, .bytes = BYTES).count, 2);
}

/* Whatever they are: figures that can be, and a topology. */
static void any_devices(void **state)
{
    (void)state;
    kolo_topology_report topology = kolo_topology(4, .print = true);
    kolo_bandwidth_report report = kolo_peer_bandwidth(4, .bytes = BYTES, .print = true);
    assert_true(topology.count > 0 && topology.count == report.count && report.gpus);
    for (int a = 0; a < report.count; a++)
        for (int b = 0; b < report.count; b++) {
            assert_int_equal(topology.between[a][b].link == KOLO_LINK_SELF, a == b);
            assert_true(topology.between[a][b].link != KOLO_LINK_UNKNOWN);
            assert_true(report.direct.one_way[a][b] > 0.1 && report.direct.one_way[a][b] < 1e5);
            assert_true(report.direct.both_ways[a][b] > 0.1 && report.direct.both_ways[a][b] < 1e5);
            assert_true(report.direct.latency[a][b] > 0.1 && report.direct.latency[a][b] < 1e4);
        }
}

int main(void)
{
    const struct CMUnitTest real[] = {cmocka_unit_test(any_devices)};
    if (!device_is_simulated()) return cmocka_run_group_tests(real, NULL, NULL);
    setenv("KOLO_SHIM_DEVICES", "8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_dgx_1, no_machine),
        cmocka_unit_test_setup(virtual_devices_copy_within_their_gpu, no_machine),
        cmocka_unit_test_setup(others_peer_access_is_left_alone, no_machine),
        cmocka_unit_test_setup(a_stream_reaches_the_device_that_it_waits_for, no_machine),
        cmocka_unit_test_setup(any_devices, no_machine),
        cmocka_unit_test_setup(too_little_memory_is_a_sentence, no_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
