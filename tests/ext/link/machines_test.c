/* Machines: the published matrix of a DGX-1V, clusters, and machines from files. */
#include "written.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Row 0 of p2pBandwidthLatencyTest on a DGX-1V, as the bootcamp's notebook on topology prints it: both ways at once in
 * GB/s and latency in µs, to GPU 1 … 7. The model's numbers were set by the first element of each kind, so others are
 * predicted: that they are within 10 % is the claim of kolo_link_model.h. */
static const double off_both[] = {9.56, 14.43, 14.46, 14.47, 14.24, 14.51, 14.43};
static const double on_both[] = {48.49, 48.49, 96.85, 96.90, 14.25, 14.54, 14.49};
static const double off_latency[] = {17.52, 16.41, 16.43, 17.35, 16.88, 17.34, 16.85};
static const double on_latency[] = {1.62, 1.61, 2.01, 2.02, 18.44, 19.15, 19.34};

static void a_dgx_1v_is_as_published(void **state)
{
    (void)state;
    kolo_link_model *on = kolo_link_model_open("dgx-1v");
    kolo_link_model *off = kolo_link_model_open("dgx-1v", .no_peer_access = true);
    for (int i = 0; i < 7; i++) {
        is_near(kolo_link_model_pair(off, 0, i + 1).both_ways, off_both[i], 0.02);
        is_near(kolo_link_model_pair(on, 0, i + 1).both_ways, on_both[i], 0.02);
        is_near(kolo_link_model_pair(off, 0, i + 1).latency, off_latency[i], 0.10);
        is_near(kolo_link_model_pair(on, 0, i + 1).latency, on_latency[i], 0.10);
    }
    assert_string_equal(kolo_link_model_pair(on, 0, 1).kind, "NV1");
    assert_string_equal(kolo_link_model_pair(on, 0, 3).kind, "NV2");
    kolo_link_model_free(&on);
    kolo_link_model_free(&off);
}

/* `nvidia-smi topo -m` there, its rows as the bootcamp and PyTorch's benchmark print them. */
static void a_dgx_1v_has_the_published_nvlinks(void **state)
{
    (void)state;
    static const char *const rows[] = {"01122000", "10210200", "12020010", "21200001",
                                       "20000112", "02001021", "00101202", "00012120"};
    kolo_link_model *model = kolo_link_model_open("dgx-1v");
    for (int a = 0; a < 8; a++) {
        int sum = 0;
        for (int b = 0; b < 8; b++) {
            const char *kind = kolo_link_model_pair(model, a, b).kind;
            int links = strncmp(kind, "NV", 2) == 0 ? atoi(kind + 2) : 0;
            assert_int_equal(links, rows[a][b] - '0');
            sum += links;
        }
        assert_int_equal(sum, 6);
    }
    kolo_link_model_free(&model);
}

static void every_name_opens(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int devices;
    } machines[] = {{"dgx-1v", 8}, {"dgx-a100", 8},    {"dgx-h100", 8}, {"pcie-8", 8},
                    {"pcie-4", 4}, {"pcie-risers", 7}, {"azure-m60", 4}};
    static const char *const networks[] = {"ethernet-1", "ethernet-10", "roce-25", "ib-edr", "ib-hdr", "ib-ndr"};
    for (size_t i = 0; i < COUNT(machines); i++) {
        for (size_t n = 0; n < COUNT(networks); n++) {
            kolo_link_model *model = kolo_link_model_open(machines[i].name, .hosts = 3, .network = networks[n]);
            int last = 3 * machines[i].devices - 1;
            assert_int_equal(kolo_link_model_devices(model), last + 1);
            assert_int_equal(kolo_link_model_hosts(model), 3);
            assert_true(kolo_link_model_pair(model, 0, last).one_way > 0.1);
            kolo_link_model_free(&model);
        }
    }
}

/* Devices of different hosts reach each other at the speed of the NIC, and of the network on both ends. */
static void a_cluster_is_joined_by_its_nics(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-a100", .hosts = 4, .network = "ib-hdr");
    assert_string_equal(kolo_link_model_name(model), "4 x dgx-a100, ib-hdr");
    kolo_modelled_pair pair = kolo_link_model_pair(model, 1, 30);
    is_near(pair.one_way, 25, 1e-9);
    is_near(pair.both_ways, 50, 1e-9);
    assert_string_equal(pair.kind, "IB");
    assert_true(isnan(kolo_link_model_pair(model, 5, 5).one_way) && kolo_last_error().code == KOLO_OK);
    kolo_link_model_free(&model);
    assert_null(model);
}

static void chosen_devices_are_renumbered(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-1v", .devices = "7,3,0");
    assert_int_equal(kolo_link_model_devices(model), 3);
    assert_string_equal(kolo_link_model_pair(model, 0, 1).kind, "NV1");
    assert_string_equal(kolo_link_model_pair(model, 1, 2).kind, "NV2");
    kolo_link_model_free(&model);
    static const char *const wrong[] = {"",   "8", "0,0", "0,", ",1", "a", "-1", "0;1", "99999999999999999999",
                                        "+1", " 1"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_null(kolo_link_model_open("dgx-1v", .devices = wrong[i]));
        failed_with(".devices: wanted different numbers from 0 to 7");
    }
}

static void one_link_is_changed(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("pcie-4", .hosts = 2, .link = "plx0-gpu1:0.5");
    is_near(kolo_link_model_pair(model, 0, 1).one_way, 0.5, 1e-9);
    is_near(kolo_link_model_pair(model, 5, 4).one_way, 0.5, 1e-9); /* of each host */
    is_near(kolo_link_model_pair(model, 2, 3).one_way, 7.215, 1e-9);
    kolo_link_model_free(&model);
    static const char *const wrong[] = {"", "plx0-gpu1", "plx0-gpu1:", "plx0-gpu1:0", "plx0-gpu1:x", "plx0-gpu1:1e7"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_null(kolo_link_model_open("pcie-4", .link = wrong[i]));
        failed_with(".link: wanted two nodes and 1e-6 to 1e6 GB/s");
    }
    assert_null(kolo_link_model_open("pcie-4", .link = "gpu0-gpu1:1"));
    failed_with(".link: wanted a link of the machine, got \"gpu0-gpu1:1\"");
}

#define NODES                                                                                                          \
    "'nodes': [{'name': 'a', 'kind': 'device'}, {'name': 'b', 'kind': 'device'}, {'name': 'h', 'kind': 'host'},"       \
    "          {'name': 'n', 'kind': 'nic'}]"
#define LINK(from, to)                                                                                                 \
    "{'from': '" from "', 'to': '" to "', 'kind': 'PIX', 'gigabytes_per_second': 2, 'microseconds': 3}"
#define LINKS "'links': [" LINK("a", "h") ", " LINK("b", "h") ", " LINK("h", "n") "]"

static void a_file_is_a_machine(void **state)
{
    (void)state;
    kolo_link_model *model = open_text("{" NODES "," LINKS "}");
    assert_int_equal(kolo_link_model_devices(model), 2);
    kolo_modelled_pair pair = kolo_link_model_pair(model, 0, 1);
    is_near(pair.one_way, 2, 1e-9);
    is_near(pair.latency, 6, 1e-9);
    kolo_link_model_free(&model);
    model = open_text("{" NODES "," LINKS ", 'hosts': 2, 'network': "
                      "{'kind': 'Ethernet', 'gigabytes_per_second': 0.5, 'microseconds': 10}}");
    assert_int_equal(kolo_link_model_devices(model), 4);
    pair = kolo_link_model_pair(model, 0, 3);
    is_near(pair.one_way, 0.5, 1e-9);
    is_near(pair.latency, 4 * 3 + 2 * 10, 1e-9);
    kolo_link_model_free(&model);
}

static void a_wrong_file_is_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "line 1: wanted a machine in JSON"},
        {"[1]", "the machine: wanted an object, got a list"},
        {"{'node': []}", "got \"node\""},
        {"{'links': []}", "wanted a list as \"nodes\", got nothing"},
        {"{'nodes': []}", "wanted a list as \"links\", got nothing"},
        {"{'nodes': [], 'links': []}", "wanted a node that is a device, got none"},
        {"{'nodes': [7]}", "nodes[0]: wanted an object, got a number"},
        {"{'nodes': [{'name': 'a'}]}", "nodes[0]: wanted a text as \"kind\", got nothing"},
        {"{'nodes': [{'name': 'a', 'kind': 'gpu'}]}", "wanted device, switch, nic or host as \"kind\", got \"gpu\""},
        {"{'nodes': [{'name': '', 'kind': 'nic'}]}", "nodes[0]: wanted a name of 1 to 23 bytes"},
        {"{'nodes': [{'name': 'a', 'kind': 'nic'}, {'name': 'a', 'kind': 'nic'}]}", "nodes[1]: wanted a new name"},
        {"{" NODES ", 'links': [" LINK("a", "x") "]}", "links[0]: wanted the name of a node, got \"x\""},
        {"{" NODES ", 'links': [" LINK("a", "a") "]}", "links[0]: wanted two nodes"},
        {"{" NODES ", 'links': [" LINK("a", "h") "]}", "wanted links that lead from a to b, got none"},
        {"{" NODES ", 'links': [{'from': 'a', 'to': 'b', 'kind': 'x', 'gigabytes_per_second': 0, 'microseconds': 1}]}",
         "links[0]: wanted gigabytes_per_second from 1e-6"},
        {"{" NODES ", 'links': [{'from': 'a', 'to': 'b', 'kind': 'x', 'gigabytes_per_second': 1, 'microseconds': -1}]}",
         "links[0]: wanted microseconds from 0"},
        {"{" NODES
         ", 'links': [{'from': 'a', 'to': 'b', 'kind': 'x', 'gigabytes_per_second': '1', 'microseconds': 1}]}",
         "wanted a number as \"gigabytes_per_second\", got a text"},
        {"{" NODES "," LINKS ", 'hosts': 0}", "wanted a whole number from 1 to 65536 as \"hosts\", got 0"},
        {"{" NODES "," LINKS ", 'hosts': 1.5}", "as \"hosts\", got a number"},
        {"{" NODES "," LINKS ", 'network': {'kind': '', 'gigabytes_per_second': 1, 'microseconds': 1}}",
         "network: wanted a text that is not empty as \"kind\""},
        {"{" NODES "," LINKS ", 'network': 3}", "network: wanted an object, got a number"},
        {"{'nodes': [{'name': 'a', 'kind': 'device'}], 'links': [], 'hosts': 2}", "wanted a NIC"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_null(open_text(cases[i].text));
        failed_with(cases[i].words);
    }
}

static void more_nodes_than_there_is_room_for(void **state)
{
    (void)state;
    char text[8000] = "{'nodes': [";
    for (int i = 0; i < 70; i++) sprintf(text + strlen(text), "%s{'name': 'a%d', 'kind': 'device'}", i ? "," : "", i);
    strcat(text, "], 'links': []}");
    assert_null(open_text(text));
    failed_with("nodes[64]: wanted at most 64 nodes");
}

static void wrong_names_and_numbers(void **state)
{
    (void)state;
    assert_null(kolo_link_model_open("dgx"));
    failed_with("wanted dgx-1v, dgx-a100, dgx-h100, pcie-8, pcie-4, pcie-risers, azure-m60, or the path of a .json "
                "file");
    assert_null(kolo_link_model_open(NULL));
    failed_with("got NULL");
    assert_null(kolo_link_model_open("/nowhere/box.json"));
    failed_with("/nowhere/box.json: wanted a file to read");
    assert_null(kolo_link_model_open("pcie-4", .network = "token-ring"));
    failed_with("network: wanted ethernet-1, ethernet-10, roce-25, ib-edr, ib-hdr, ib-ndr, got \"token-ring\"");
    assert_null(kolo_link_model_open("pcie-4", .hosts = 70000));
    failed_with(".hosts: wanted 1 to 65536, got 70000");
    assert_null(kolo_link_model_open("pcie-4", .hosts = -1));
    failed_with(".hosts: wanted 1 to 65536, got -1");
    kolo_link_model *model = kolo_link_model_open("pcie-4");
    assert_true(isnan(kolo_link_model_pair(model, 0, 4).latency));
    failed_with("wanted devices from 0 to 3, got 0 and 4");
    kolo_link_model_free(&model);
    kolo_link_model_free(&model);
    kolo_link_model_free(NULL);
    assert_int_equal(kolo_link_model_devices(NULL), 0);
    assert_int_equal(kolo_link_model_hosts(NULL), 0);
    assert_string_equal(kolo_link_model_name(NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dgx_1v_is_as_published),
        cmocka_unit_test(a_dgx_1v_has_the_published_nvlinks),
        cmocka_unit_test(every_name_opens),
        cmocka_unit_test(a_cluster_is_joined_by_its_nics),
        cmocka_unit_test(chosen_devices_are_renumbered),
        cmocka_unit_test(one_link_is_changed),
        cmocka_unit_test(a_file_is_a_machine),
        cmocka_unit_test(a_wrong_file_is_one_sentence),
        cmocka_unit_test(more_nodes_than_there_is_room_for),
        cmocka_unit_test(wrong_names_and_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
