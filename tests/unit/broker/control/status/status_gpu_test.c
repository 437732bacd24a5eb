/* SPDX-License-Identifier: Apache-2.0 */
/* The broker's words on its GPUs, on the fake driver: pools, each client's way, findings. */
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/door/door_harness.h"
#include "wire/mem/cuda.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static json_t *ask(struct door_client *client, const char *query)
{
    char *text = door_admin(client, query);
    json_t *view = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(view);
    free(text);
    json_t *rows = json_incref(json_object_get(view, query));
    json_decref(view);
    assert_true(json_is_array(rows));
    return rows;
}

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));
    assert_non_null(value);
    return value;
}

static const json_t *row_with(const json_t *rows, const char *key, const char *value)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *own = json_string_value(json_object_get(row, key));
        if (own != NULL && strcmp(own, value) == 0) {
            return row;
        }
    }
    fail_msg("no row with %s '%s'", key, value);
    return NULL;
}

static void test_without_pools_it_says_how_to_get_them(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    json_t *rows = ask(&client, "transports");
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(text(row, "gpu"), "staged");
    assert_non_null(strstr(text(row, "gpu_why"), "memory.cuda.size"));
    json_decref(rows);
    rows = ask(&client, "doctor");
    row = row_with(rows, "check", "gpu");
    assert_string_equal(text(row, "state"), "ok");
    assert_non_null(strstr(text(row, "fix"), "memory.cuda.size"));
    json_decref(rows);
    door_disconnect(&client);
    door_close(&door);
}

static void test_each_pool_has_a_row_and_each_client_its_way(void **state)
{
    (void)state;
    static const char *const options[] = {"memory.cuda.size=16M", NULL};
    struct door door;
    struct door_client local, remote;
    door_open(&door, options);
    door_login_unix(&door, &local);
    door_connect_tcp(&door, &remote);
    door_login(&remote, "", NULL);
    json_t *rows = ask(&local, "memory");
    assert_int_equal(json_array_size(rows), 3); /* A worker, two GPUs. */
    const json_t *row = row_with(rows, "kind", "cuda");
    assert_string_equal(text(row, "state"), "ok");
    assert_int_equal(json_integer_value(json_object_get(row, "segment_bytes")), 16 << 20);
    assert_int_equal(json_integer_value(json_object_get(row, "used_bytes")), 0);
    json_decref(rows);
    rows = ask(&local, "transports");
    assert_string_equal(text(json_array_get(rows, 0), "gpu"), "possible");
    assert_string_equal(text(json_array_get(rows, 1), "gpu"), "staged");
    assert_non_null(strstr(text(json_array_get(rows, 1), "gpu_why"), "ring"));
    json_decref(rows);
    rows = ask(&local, "doctor");
    assert_string_equal(text(row_with(rows, "check", "gpu 1"), "state"), "ok");
    assert_string_equal(text(row_with(rows, "check", "gpu 0 to 1"), "finding"), "peer access");
    assert_int_equal(fakecuda_calls_of("cuCtxEnablePeerAccess"),
                     0); /* A question changes nothing. */
    assert_string_equal(text(row_with(rows, "check", "gpu trust"), "state"), "ok");
    json_decref(rows);
    door_disconnect(&remote);
    door_disconnect(&local);
    door_close(&door);
}

static void test_who_is_not_trusted_is_told_so(void **state)
{
    (void)state;
    static const char *const options[] = {"memory.cuda.size=16M", "memory.cuda.trust=none", NULL};
    struct door door;
    struct door_client client;
    door_open(&door, options);
    door_login_unix(&door, &client);
    json_t *rows = ask(&client, "transports");
    assert_non_null(strstr(text(json_array_get(rows, 0), "gpu_why"), "memory.cuda.trust"));
    json_decref(rows);
    rows = ask(&client, "doctor");
    assert_string_equal(text(row_with(rows, "check", "gpu trust"), "state"), "warning");
    json_decref(rows);
    door_disconnect(&client);
    door_close(&door);
}

/* As another user; files are still looked up as root. */
static void connect_as(struct door *door, struct door_client *client, uid_t uid)
{
    assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0); /* this thread alone */
    (void)setfsuid(0);
    door_connect_unix(door, client);
    assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
    door_login(client, "", NULL);
}

static void expect_no_finding(struct door_client *client, const char *check)
{
    json_t *rows = ask(client, "doctor");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        assert_string_not_equal(text(json_array_get(rows, i), "check"), check);
    }
    json_decref(rows);
}

static void say_staged(struct door_client *client, uint64_t in)
{
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    ping.staged_in = in;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    door_send(client, &message);
    amb_control_free(door_expect(client, AMB__CONTROL__CONTROL__BODY_PONG));
}

static void test_clients_of_other_users_are_a_finding_with_a_remedy(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    static const char *const options[] = {"memory.cuda.size=16M", NULL};
    struct door door;
    struct door_client own, other;
    door_open(&door, options);
    door_login_unix(&door, &own);
    expect_no_finding(&own, "gpu users");
    connect_as(&door, &other, 4711);
    expect_no_finding(&own, "gpu users"); /* It has no GPU, as far as anybody knows. */
    say_staged(&other, 4096);
    json_t *rows = ask(&own, "doctor");
    const json_t *row = row_with(rows, "check", "gpu users");
    assert_string_equal(text(row, "state"), "warning");
    assert_non_null(strstr(text(row, "finding"), "of 1 client are copied"));
    assert_non_null(strstr(text(row, "finding"), "user 4711"));
    assert_non_null(strstr(text(row, "fix"), "every local user may read and write"));
    json_decref(rows);
    door_disconnect(&other);
    door_disconnect(&own);
    door_close(&door);
}

static void test_what_a_client_says_it_staged_is_shown(void **state)
{
    (void)state;
    static const char *const options[] = {"memory.cuda.size=16M", NULL};
    struct door door;
    struct door_client client;
    door_open(&door, options);
    door_login_unix(&door, &client);
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    ping.staged_in = 4711;
    ping.staged_out = 12;
    ping.staged_why = (char *)(uintptr_t) "trust\n= verify";
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    door_send(&client, &message);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_PONG));
    json_t *rows = ask(&client, "transports");
    const json_t *row = json_array_get(rows, 0);
    assert_int_equal(json_integer_value(json_object_get(row, "gpu_staged_in")), 4711);
    assert_int_equal(json_integer_value(json_object_get(row, "gpu_staged_out")), 12);
    assert_non_null(strstr(text(row, "gpu_why"), "= verify"));
    assert_null(strchr(text(row, "gpu_why"), '\n'));
    json_decref(rows);
    door_disconnect(&client);
    door_close(&door);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_pools_it_says_how_to_get_them),
        cmocka_unit_test(test_each_pool_has_a_row_and_each_client_its_way),
        cmocka_unit_test(test_who_is_not_trusted_is_told_so),
        cmocka_unit_test(test_clients_of_other_users_are_a_finding_with_a_remedy),
        cmocka_unit_test(test_what_a_client_says_it_staged_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
