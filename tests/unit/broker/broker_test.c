/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/broker: the order of start and stop. Starts that fail give everything back, and so do
 * brokers that end, whatever their clients are doing.
 */
#include "tests/support/door/door_harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *const both_urls[] = {"unix://%s/broker.sock", "tcp://127.0.0.1:0", NULL};

static void test_starts_and_ends_with_any_number_of_workers(void **state)
{
    (void)state;
    static const char *const workers[] = {"server.workers=1", "server.workers=2",
                                          "server.workers=4"};
    unsigned before = door_count_fds();
    for (size_t i = 0; i < 3; i++) {
        const char *const options[] = {workers[i], "memory.host.size=32M", NULL};
        struct door door;
        door_open(&door, options);
        door_close(&door);
        assert_int_equal(door_count_fds(), before);
    }
}

static void test_says_its_urls_with_real_ports(void **state)
{
    (void)state;
    struct door door;
    char expected[256];
    door_open(&door, NULL);
    (void)snprintf(expected, sizeof(expected), "unix://%s tcp://127.0.0.1:%u", door.socket_path,
                   door.tcp_port);
    assert_string_equal(amb_broker_urls(door.broker), expected);
    door_close(&door);
}

static void test_as_many_listeners_as_the_configuration_takes(void **state)
{
    (void)state;
    enum {
        LISTENERS = 64
    };
    char list[8192] = "listen=";
    for (unsigned i = 0; i < LISTENERS; i++) {
        size_t len = strlen(list);
        (void)snprintf(list + len, sizeof(list) - len, "%stcp://127.0.0.1:0", i == 0 ? "" : ",");
    }
    const char *const options[] = {list, "server.workers=1", "memory.host.size=16M",
                                   "memory.host.segment=2M", NULL};
    struct amb_config_source source = {.options = options, .option_count = 4};
    struct amb_config *config;
    char error[AMB_CONFIG_ERROR_MAX] = "";
    if (amb_config_create(&source, error, sizeof(error), &config) != AMB_OK) {
        fail_msg("%s", error);
    }
    struct amb_broker *broker;
    assert_int_equal(amb_broker_start(config, error, sizeof(error), &broker), AMB_OK);
    unsigned found = 0;
    for (const char *at = amb_broker_urls(broker); (at = strstr(at, "tcp://")) != NULL; at++) {
        found++;
    }
    assert_int_equal(found, LISTENERS);
    amb_broker_drain(broker);
    assert_int_equal(amb_broker_wait(broker), 0);
    amb_broker_destroy(&broker);
    amb_config_destroy(&config);
}

static void test_a_failed_start_gives_everything_back(void **state)
{
    (void)state;
    struct door door, second;
    char error[512] = "";
    door_open(&door, NULL);
    unsigned before = door_count_fds();
    char taken[64];
    (void)snprintf(taken, sizeof(taken), "tcp://127.0.0.1:%u", door.tcp_port);
    const char *const urls[] = {"unix://%s/broker.sock", taken, NULL};
    assert_int_equal(door_try(&second, urls, NULL, error, sizeof(error)), AMB_EUNREACHABLE);
    assert_int_equal(door_count_fds(), before);
    assert_int_not_equal(access(second.socket_path, F_OK), 0);
    assert_int_equal(door_try(&second, urls, NULL, NULL, 0), AMB_EUNREACHABLE);
    door_close(&door);
}

/* With any number of descriptors a start works or fails with a sentence. */
static void test_starts_with_too_few_descriptors_fail_cleanly(void **state)
{
    (void)state;
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct door door;
    char error[512];
    door_open(&door, NULL); /* The descriptors that are opened once a process is open. */
    door_close(&door);
    unsigned before = door_count_fds();
    bool has_started = false;
    for (unsigned more = 0; !has_started; more++) {
        struct amb_config *config = NULL;
        const char *const options[] = {"server.workers=2", "memory.host.size=16M",
                                       "memory.host.segment=2M", "server.max_connections=4"};
        char listen[64];
        (void)snprintf(listen, sizeof(listen), "unix:///tmp/amb-few-%d.sock", (int)getpid());
        const char *const urls[] = {listen, "tcp://127.0.0.1:0"};
        struct amb_config_source source = {
            .options = options, .option_count = 4, .listen = urls, .listen_count = 2};
        assert_int_equal(amb_config_create(&source, NULL, 0, &config), AMB_OK);
        small = limit;
        small.rlim_cur = before + more;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
        struct amb_broker *broker = NULL;
        error[0] = '\0';
        has_started = amb_broker_start(config, error, sizeof(error), &broker) == AMB_OK;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (has_started) {
            amb_broker_drain(broker);
            assert_int_equal(amb_broker_wait(broker), 0);
            amb_broker_destroy(&broker);
        } else {
            assert_string_not_equal(error, "");
        }
        amb_config_destroy(&config);
        assert_int_equal(door_count_fds(), before);
        assert_true(more < 64);
    }
}

static void test_ends_whatever_its_clients_are_doing(void **state)
{
    (void)state;
    static const char *const options[] = {"server.workers=2", NULL};
    unsigned before = door_count_fds();
    for (int i = 0; i < 10; i++) {
        struct door door;
        struct door_client clients[6];
        door_open(&door, options);
        door_connect_tcp(&door, &clients[0]); /* says nothing */
        door_connect_unix(&door, &clients[1]);
        door_send_hello(&clients[1], ""); /* halfway */
        door_login_unix(&door, &clients[2]);
        (void)door_ask_pub_open(&clients[2], 0, "a");
        (void)door_ask_subscribe(&clients[2], 0, ">");
        door_login_unix(&door, &clients[3]);
        (void)door_ask_admin(&clients[3], "clients");
        door_connect_tcp(&door, &clients[4]);
        door_login(&clients[4], "", NULL);
        door_connect_unix(&door, &clients[5]);
        door_send_hello(&clients[5], "");
        amb_control_free(door_expect(&clients[5], AMB__CONTROL__CONTROL__BODY_CHALLENGE));
        door_send_auth(&clients[5], NULL); /* perhaps just being welcomed */
        door_close(&door);
        for (size_t c = 0; c < 6; c++) {
            door_disconnect(&clients[c]);
        }
        assert_int_equal(door_count_fds(), before);
    }
}

static void test_two_brokers_live_side_by_side(void **state)
{
    (void)state;
    struct door one, two;
    struct door_client a, b;
    door_open(&one, NULL);
    door_open(&two, NULL);
    door_login_unix(&one, &a);
    door_login_unix(&two, &b);
    door_close(&one);
    /* It says so first. */
    amb_control_free(door_expect(&a, AMB__CONTROL__CONTROL__BODY_DRAINING));
    door_expect_error(&a, 0, AMB_ECLOSED, "shutting down");
    door_pub_open(&b, 0, "a");
    door_disconnect(&a);
    door_disconnect(&b);
    door_close(&two);
}

static void test_a_drain_that_comes_too_late_is_harmless(void **state)
{
    (void)state;
    struct door door;
    char error[128];
    assert_int_equal(door_try(&door, both_urls, NULL, error, sizeof(error)), AMB_OK);
    for (int i = 0; i < 5; i++) {
        amb_broker_drain(door.broker);
    }
    assert_int_equal(amb_broker_wait(door.broker), 0);
    amb_broker_drain(door.broker);
    assert_int_equal(amb_broker_wait(door.broker), 0);
    amb_broker_destroy(&door.broker);
    amb_broker_destroy(&door.broker); /* NULL by now. */
    amb_config_destroy(&door.config);
    assert_int_equal(rmdir(door.folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_and_ends_with_any_number_of_workers),
        cmocka_unit_test(test_says_its_urls_with_real_ports),
        cmocka_unit_test(test_as_many_listeners_as_the_configuration_takes),
        cmocka_unit_test(test_a_failed_start_gives_everything_back),
        cmocka_unit_test(test_starts_with_too_few_descriptors_fail_cleanly),
        cmocka_unit_test(test_ends_whatever_its_clients_are_doing),
        cmocka_unit_test(test_two_brokers_live_side_by_side),
        cmocka_unit_test(test_a_drain_that_comes_too_late_is_harmless),
    };
    return cmocka_run_group_tests_name("broker/broker", tests, NULL, NULL);
}
