/* The modelled time of collectives, held to the closed forms of simple machines, and of training steps. */
#include "written.h"

#define EXACT 1e-9 /* a share: sums of a few products of doubles, rounded in another order */

/* N devices at a switch, and nothing else: B = 10 GB/s, α = 2 · 3 µs between any two. */
static kolo_link_model *star(int devices)
{
    char text[16000] = "{'nodes': [{'name': 's', 'kind': 'switch'}";
    for (int i = 0; i < devices; i++) sprintf(text + strlen(text), ", {'name': 'd%d', 'kind': 'device'}", i);
    strcat(text, "], 'links': [");
    for (int i = 0; i < devices; i++)
        sprintf(text + strlen(text),
                "%s{'from': 'd%d', 'to': 's', 'kind': 'x', 'gigabytes_per_second': 10, 'microseconds': 3}",
                i ? "," : "", i);
    strcat(text, "]}");
    return open_text(text);
}
static const double bandwidth = 10e9, alpha = 6e-6;

/* 2(N−1)/N · S/B + 2(N−1) · α, and half of it for a reduce-scatter and an all-gather. */
static void a_ring_is_its_closed_form(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 7, 8, 9, 16, 33};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kolo_link_model *model = star(sizes[i]);
        double n = sizes[i];
        for (double bytes = 0; bytes <= 1e9; bytes = bytes * 1000 + 1000) {
            double wanted = 2 * (n - 1) / n * bytes / bandwidth + 2 * (n - 1) * alpha;
            kolo_modelled_time time = kolo_link_model_time(model, bytes, .algorithm = KOLO_ALGORITHM_RING);
            is_near(time.seconds, wanted, EXACT);
            assert_int_equal(time.rounds, 2 * (sizes[i] - 1));
            is_near(time.bus_bandwidth, bytes / wanted * 2 * (n - 1) / n / 1e9, EXACT);
            is_near(kolo_link_model_time(model, bytes, .operation = KOLO_MODELLED_ALLGATHER).seconds, wanted / 2,
                    EXACT);
        }
        kolo_link_model_free(&model);
    }
}

/* Two devices, each the root of one tree: S/2 goes up and S/2 comes down each tree in k pieces, both trees at once, so
 * a link carries 2 · S/2k a round, and half of it in the first and the last round: S/B + (k+1) · α. */
static void two_devices_in_trees(void **state)
{
    (void)state;
    kolo_link_model *model = star(2);
    kolo_modelled_time time = kolo_link_model_time(model, 1e6, .algorithm = KOLO_ALGORITHM_TREE);
    double pieces = (double)time.rounds - 1, best = INFINITY;
    for (double k = 1; k <= 65536; k *= 2) best = fmin(best, 1e6 / bandwidth + (k + 1) * alpha);
    is_near(time.seconds, 1e6 / bandwidth + (pieces + 1) * alpha, EXACT);
    is_near(time.seconds, best, EXACT);
    kolo_link_model_free(&model);
}

/* Without bytes only latency counts: 2 · depth rounds, and a tree of N devices is at most ⌈log2 N⌉ deep. */
static void a_tree_is_as_deep_as_a_logarithm(void **state)
{
    (void)state;
    for (int n = 2; n <= 33; n++) {
        kolo_link_model *model = star(n);
        kolo_modelled_time time = kolo_link_model_time(model, 0, .algorithm = KOLO_ALGORITHM_TREE);
        is_near(time.seconds, (double)time.rounds * alpha, EXACT);
        assert_true(time.rounds >= 2 && time.rounds <= 2 * ceil(log2(n)));
        kolo_modelled_time down =
            kolo_link_model_time(model, 0, .operation = KOLO_MODELLED_BROADCAST, .algorithm = KOLO_ALGORITHM_TREE);
        assert_int_equal(2 * down.rounds, time.rounds);
        kolo_link_model_free(&model);
    }
}

/* A broadcast along a chain: (N−2+k) · (S/kB + α) with the best k. */
static void a_chain_is_its_closed_form(void **state)
{
    (void)state;
    kolo_link_model *model = star(8);
    double best = INFINITY;
    for (double k = 1; k <= 1 << 20; k *= 2) best = fmin(best, (8 - 2 + k) * (1e8 / k / bandwidth + alpha));
    is_near(kolo_link_model_time(model, 1e8, .operation = KOLO_MODELLED_BROADCAST, .algorithm = KOLO_ALGORITHM_RING)
                .seconds,
            best, EXACT);
    kolo_link_model_free(&model);
}

/* H hosts of L devices, one NIC of 12.5 GB/s a host: in each of the 2(H−1) rounds across hosts, L transfers of S/(L·H)
 * share it. Before and after, (L−1) rounds within a host, whose slowest link two devices do not share. */
static void hierarchical_is_its_closed_form(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("pcie-4", .hosts = 16, .network = "ib-edr");
    kolo_link_model *host = kolo_link_model_open("pcie-4");
    double bytes = 1e9, across = 2 * 15 * (bytes / 16 / 12.5e9);
    double within = kolo_link_model_time(host, bytes, .operation = KOLO_MODELLED_REDUCE_SCATTER).seconds;
    kolo_modelled_time time = kolo_link_model_time(model, bytes, .algorithm = KOLO_ALGORITHM_HIERARCHICAL);
    double latency = kolo_link_model_time(model, 0, .algorithm = KOLO_ALGORITHM_HIERARCHICAL).seconds;
    double latency_within = kolo_link_model_time(host, 0, .operation = KOLO_MODELLED_REDUCE_SCATTER).seconds;
    is_near(time.seconds - latency, across + 2 * (within - latency_within), EXACT);
    assert_int_equal(time.rounds, 2 * 15 + 2 * 3);
    kolo_link_model_free(&model);
    kolo_link_model_free(&host);
}

/* N devices send S bytes each to the host over its one link, and get S bytes each back. */
static void a_parameter_server_is_its_closed_form(void **state)
{
    (void)state;
    kolo_link_model *model =
        open_text("{'nodes': [{'name': 'a', 'kind': 'device'}, {'name': 'b', 'kind': 'device'}, {'name': 's', 'kind': "
                  "'switch'},"
                  "{'name': 'h', 'kind': 'host'}], 'links': ["
                  "{'from': 'a', 'to': 's', 'kind': 'x', 'gigabytes_per_second': 8, 'microseconds': 1},"
                  "{'from': 'b', 'to': 's', 'kind': 'x', 'gigabytes_per_second': 8, 'microseconds': 1},"
                  "{'from': 's', 'to': 'h', 'kind': 'x', 'gigabytes_per_second': 10, 'microseconds': 1}]}");
    is_near(kolo_link_model_time(model, 1e9, .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER).seconds,
            2 * (2 * 1e9 / 10e9 + 2e-6), EXACT);
    is_near(kolo_link_model_time(model, 1e9, .devices = 1, .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER).seconds,
            2 * (1e9 / 8e9 + 2e-6), EXACT);
    kolo_link_model_free(&model);
}

/* All six NVLinks of each GPU are used, in each direction: 3 of them carry what a GPU sends on around the rings that go
 * one way, 3 that of the others. 6 × 24.245 GB/s is what NCCL's rings can have there at most. */
static void rings_use_all_nvlinks_of_a_dgx_1v(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-1v");
    double latency = kolo_link_model_time(model, 0, .algorithm = KOLO_ALGORITHM_RING).seconds;
    kolo_modelled_time time = kolo_link_model_time(model, 1e9, .algorithm = KOLO_ALGORITHM_RING);
    is_near(2 * 7.0 / 8 * 1e9 / (time.seconds - latency), 6 * 24.245e9, EXACT);
    kolo_link_model_free(&model);
}

/* Every NIC of a host carries a ring: 8 × 25 GB/s. */
static void rings_across_hosts_use_all_nics(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-a100", .hosts = 4, .network = "ib-hdr");
    double latency = kolo_link_model_time(model, 0, .algorithm = KOLO_ALGORITHM_RING).seconds;
    kolo_modelled_time time = kolo_link_model_time(model, 1e9, .algorithm = KOLO_ALGORITHM_RING);
    is_near(2 * 31.0 / 32 * 1e9 / (time.seconds - latency), 200e9, EXACT);
    kolo_link_model_free(&model);
}

static void the_fastest_is_taken(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-a100", .hosts = 16);
    bool seen[KOLO_ALGORITHM_PARAMETER_SERVER + 1] = {false};
    for (double bytes = 1; bytes <= 1e10; bytes *= 10) {
        kolo_modelled_time best = kolo_link_model_time(model, bytes);
        double least = INFINITY;
        for (kolo_algorithm a = KOLO_ALGORITHM_RING; a <= KOLO_ALGORITHM_HIERARCHICAL; a++)
            least = fmin(least, kolo_link_model_time(model, bytes, .algorithm = a).seconds);
        is_near(best.seconds, least, EXACT);
        seen[best.algorithm] = true;
    }
    assert_true(seen[KOLO_ALGORITHM_TREE]); /* few bytes: the fewest rounds */
    assert_true(seen[KOLO_ALGORITHM_HIERARCHICAL] || seen[KOLO_ALGORITHM_RING]);
    kolo_link_model_free(&model);
}

/* 2048 hosts. The test's own limit of time is that it takes seconds, not minutes. */
static void many_devices(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-a100", .hosts = 2048, .network = "ib-hdr");
    assert_int_equal(kolo_link_model_devices(model), 16384);
    kolo_modelled_time ring = kolo_link_model_time(model, 1e9, .algorithm = KOLO_ALGORITHM_RING);
    kolo_modelled_time best = kolo_link_model_time(model, 1e9);
    assert_int_equal(ring.rounds, 2 * 16383);
    assert_true(best.seconds < ring.seconds && best.algorithm != KOLO_ALGORITHM_RING);
    kolo_link_model_free(&model);
}

static void wrong_use(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-1v", .hosts = 2);
    kolo_link_model *bare = star(4);
    assert_true(isnan(kolo_link_model_time(NULL, 1).seconds));
    failed_with("wanted a kolo_link_model, got NULL");
    assert_true(isnan(kolo_link_model_time(model, -1).seconds));
    failed_with("bytes: wanted 0 to 1e15, got -1");
    assert_true(isnan(kolo_link_model_time(model, NAN).seconds));
    failed_with("bytes: wanted 0 to 1e15");
    assert_true(isnan(kolo_link_model_time(model, 1, .devices = 17).seconds));
    failed_with(".devices: wanted 1 to 16 of 2 x dgx-1v, ib-edr, got 17");
    assert_true(isnan(kolo_link_model_time(model, 1, .devices = 12).seconds));
    failed_with("wanted at most 8, or a multiple of it");
    assert_true(isnan(kolo_link_model_time(model, 1, .devices = 8, .algorithm = KOLO_ALGORITHM_HIERARCHICAL).seconds));
    failed_with("wanted several hosts for hierarchical, got 8 devices");
    assert_true(isnan(kolo_link_model_time(model, 1, .algorithm = (kolo_algorithm)99).seconds));
    failed_with("wanted a kolo_algorithm, got 99");
    assert_true(isnan(kolo_link_model_time(model, 1, .operation = (kolo_modelled_operation)7).seconds));
    failed_with("wanted a kolo_modelled_operation, got 7");
    assert_true(isnan(kolo_link_model_time(bare, 1, .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER).seconds));
    failed_with("wanted a machine with a host");
    assert_true(isnan(kolo_link_model_time(bare, 1, .operation = KOLO_MODELLED_ALLGATHER,
                                           .algorithm = KOLO_ALGORITHM_TREE)
                          .seconds));
    failed_with("wanted one that has an all-gather, got tree");
    is_near(kolo_link_model_time(model, 1e9, .devices = 1).seconds, 0, 0);
    kolo_link_model_free(&model);
    kolo_link_model_free(&bare);
}

/* ---------------------------------------------------------------- steps */

static void one_device_has_nothing_to_sum(void **state)
{
    (void)state;
    kolo_link_model *model = star(4);
    kolo_modelled_step step = kolo_link_model_step(model, 0.1, 1e9, .devices = 1, .each_step = 1, .each_doubling = 1);
    is_near(step.seconds, 0.1, 0);
    is_near(step.efficiency, 1, 0);
    is_near(step.rate, 10, EXACT);
    kolo_link_model_free(&model);
}

/* One bucket is ready at the end: its whole sum is exposed. With nothing else to hide, so is that of any number. */
static void one_bucket_hides_nothing(void **state)
{
    (void)state;
    kolo_link_model *model = star(4);
    double sum = kolo_link_model_time(model, 1e9).seconds;
    kolo_modelled_step step = kolo_link_model_step(model, 0.1, 1e9);
    is_near(step.exposed, sum, EXACT);
    is_near(step.communication, sum, EXACT);
    is_near(step.seconds, 0.1 + sum, EXACT);
    is_near(step.efficiency, 0.1 / (0.1 + sum), EXACT);
    is_near(kolo_link_model_step(model, 0.1, 1e9, .bucket_bytes = 1e8, .backward = KOLO_NONE).exposed,
            10 * kolo_link_model_time(model, 1e8).seconds, EXACT);
    kolo_link_model_free(&model);
}

/* Buckets whose sums are shorter than the time between them: only the last is exposed. Longer: the first is ready after
 * a tenth of the backward pass, and from then on the sums never pause. */
static void buckets_overlap_the_backward_pass(void **state)
{
    (void)state;
    kolo_link_model *model = star(4);
    double one = kolo_link_model_time(model, 1e8).seconds;
    is_near(kolo_link_model_step(model, 30, 1e9, .bucket_bytes = 1e8).exposed, one, 1e-6);
    double backward = 0.02;
    kolo_modelled_step busy = kolo_link_model_step(model, 0.03, 1e9, .bucket_bytes = 1e8);
    is_near(busy.exposed, 0.1 * backward + 10 * one - backward, EXACT);
    busy = kolo_link_model_step(model, 0.03, 1e9, .bucket_bytes = 1e8, .early = 1);
    is_near(busy.exposed, 10 * one - backward, EXACT);
    is_near(kolo_link_model_step(model, 30, 1e9, .bucket_bytes = 1e8, .early = 1).exposed, 0, 0);
    kolo_link_model_free(&model);
}

static void what_links_do_not_explain_is_added(void **state)
{
    (void)state;
    kolo_link_model *model = star(8);
    double bare = kolo_link_model_step(model, 1, 1e6).seconds;
    is_near(kolo_link_model_step(model, 1, 1e6, .each_step = 0.5, .each_doubling = 0.25, .each_device = 0.125).seconds -
                bare,
            0.5 + 3 * 0.25 + 7 * 0.125, EXACT);
    kolo_link_model_free(&model);
}

/* The weights come back when nothing hides them. */
static void a_parameter_server_exposes_the_way_back(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("pcie-risers");
    double way = 76e6 / 0.76e9;
    kolo_modelled_step step = kolo_link_model_step(model, 30, 76e6, .devices = 2, .bucket_bytes = 7.6e6,
                                                   .algorithm = KOLO_ALGORITHM_PARAMETER_SERVER);
    is_near(step.exposed, way + way / 10, 1e-3);
    kolo_link_model_free(&model);
}

static void wrong_steps(void **state)
{
    (void)state;
    kolo_link_model *model = star(4);
    assert_true(isnan(kolo_link_model_step(NULL, 1, 1).seconds));
    failed_with("got NULL");
    assert_true(isnan(kolo_link_model_step(model, 0, 1).efficiency));
    failed_with("device_seconds: wanted more than 0");
    assert_true(isnan(kolo_link_model_step(model, 1, -1).rate));
    failed_with("gradient_bytes: wanted 0");
    assert_true(isnan(kolo_link_model_step(model, 1, 1, .backward = 1.5).exposed));
    failed_with(".backward: wanted a share from 0 to 1, got 1.5");
    assert_true(isnan(kolo_link_model_step(model, 1, 1, .early = -0.5).exposed));
    failed_with(".early: wanted a share");
    assert_true(isnan(kolo_link_model_step(model, 1, 1, .each_step = NAN).communication));
    failed_with(".each_step, .each_doubling, .each_device: wanted 0 to 1e9");
    assert_true(isnan(kolo_link_model_step(model, 1, 1e9, .bucket_bytes = 1).seconds));
    failed_with(".bucket_bytes: wanted at least a 100000th of gradient_bytes, got 1");
    assert_true(isnan(kolo_link_model_step(model, 1, 1, .devices = 9).seconds));
    failed_with(".devices: wanted 1 to 4");
    kolo_link_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_its_closed_form),
        cmocka_unit_test(two_devices_in_trees),
        cmocka_unit_test(a_tree_is_as_deep_as_a_logarithm),
        cmocka_unit_test(a_chain_is_its_closed_form),
        cmocka_unit_test(hierarchical_is_its_closed_form),
        cmocka_unit_test(a_parameter_server_is_its_closed_form),
        cmocka_unit_test(rings_use_all_nvlinks_of_a_dgx_1v),
        cmocka_unit_test(rings_across_hosts_use_all_nics),
        cmocka_unit_test(the_fastest_is_taken),
        cmocka_unit_test(many_devices),
        cmocka_unit_test(wrong_use),
        cmocka_unit_test(one_device_has_nothing_to_sum),
        cmocka_unit_test(one_bucket_hides_nothing),
        cmocka_unit_test(buckets_overlap_the_backward_pass),
        cmocka_unit_test(what_links_do_not_explain_is_added),
        cmocka_unit_test(a_parameter_server_exposes_the_way_back),
        cmocka_unit_test(wrong_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
