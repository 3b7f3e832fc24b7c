/* What connects simulated GPUs: a DGX-1's matrix is the one that `nvidia-smi topo -m` prints there. */
#include "device.h"

#include "ext/topology/described.h"

static int no_machine(void **state)
{
    (void)state;
    unsetenv("KOLO_SHIM_MACHINE");
    unsetenv("KOLO_GPU_DEVICES");
    unsetenv("CUDA_VISIBLE_DEVICES");
    kolo_clear_error();
    return 0;
}

static void a_dgx_1(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "X NV1 NV1 NV2 NV2 SYS SYS SYS | 0-19,40-59 | 0",  "NV1 X NV2 NV1 SYS NV2 SYS SYS | 0-19,40-59 | 0",
        "NV1 NV2 X NV2 SYS SYS NV1 SYS | 0-19,40-59 | 0",  "NV2 NV1 NV2 X SYS SYS SYS NV1 | 0-19,40-59 | 0",
        "NV2 SYS SYS SYS X NV1 NV1 NV2 | 20-39,60-79 | 1", "SYS NV2 SYS SYS NV1 X NV2 NV1 | 20-39,60-79 | 1",
        "SYS SYS NV1 SYS NV1 NV2 X NV2 | 20-39,60-79 | 1", "SYS SYS SYS NV1 NV2 NV1 NV2 X | 20-39,60-79 | 1"};
    setenv("KOLO_SHIM_MACHINE", "dgx-1", 1);
    kolo_topology_report report = kolo_topology();
    assert_int_equal(report.count, 8);
    for (int d = 0; d < 8; d++) assert_string_equal(described(&report, d), rows[d]);
    assert_int_equal(report.between[0][3].nvlinks, 2);
    assert_true(report.between[0][3].direct);
    assert_false(report.between[0][7].direct);
    assert_string_equal(report.device[7].name, "gpu:7");
}

static void switches(void **state)
{
    (void)state;
    setenv("KOLO_SHIM_MACHINE", "dgx-a100", 1);
    kolo_topology_report report = kolo_topology(4);
    assert_string_equal(described(&report, 2), "NV12 NV12 X NV12 | 20-39,60-79 | 1");
}

static void pcie(void **state)
{
    (void)state;
    setenv("KOLO_SHIM_MACHINE", "pcie", 1);
    kolo_topology_report report = kolo_topology(6);
    assert_string_equal(described(&report, 0), "X PIX PXB PHB NODE SYS | 0-19,40-59 | 0");
    assert_true(report.between[0][3].direct && !report.between[0][4].direct);
}

static void without_nvml(void **state)
{
    (void)state;
    kolo_topology_report report = kolo_topology(3);
    assert_string_equal(described(&report, 1), "P2P X P2P |  | -1");
}

static void masks_and_virtual_devices(void **state)
{
    (void)state;
    setenv("KOLO_SHIM_MACHINE", "dgx-1", 1);
    setenv("KOLO_GPU_DEVICES", "10", 1);
    setenv("CUDA_VISIBLE_DEVICES", "9,1,7", 1);
    kolo_topology_report report = kolo_topology();
    assert_string_equal(described(&report, 0), "X SAME SYS | 0-19,40-59 | 0");
    assert_true(report.between[0][1].direct);
}

static void wants_simulated_devices(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
    const struct CMUnitTest none[] = {cmocka_unit_test(wants_simulated_devices)};
    if (!device_is_simulated()) return cmocka_run_group_tests(none, NULL, NULL);
    setenv("KOLO_SHIM_DEVICES", "8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_dgx_1, no_machine),
        cmocka_unit_test_setup(switches, no_machine),
        cmocka_unit_test_setup(pcie, no_machine),
        cmocka_unit_test_setup(without_nvml, no_machine),
        cmocka_unit_test_setup(masks_and_virtual_devices, no_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
