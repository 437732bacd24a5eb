/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of sessions that a test has made, before and after something has gone. */
#include "broker/control/status/paths.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"

#include "tests/support/door/door_harness.h"

#include <stdlib.h>
#include <string.h>

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));
    assert_non_null(value);
    return value;
}

static json_int_t number(const json_t *row, const char *key)
{
    assert_true(json_is_integer(json_object_get(row, key)));
    return json_integer_value(json_object_get(row, key));
}

static const json_t *row_of(const json_t *rows, const char *direction, const char *class)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(text(row, "direction"), direction) == 0 &&
            strcmp(text(row, "class"), class) == 0) {
            return row;
        }
    }
    fail_msg("no row of %s, %s", direction, class);
    return NULL;
}

static json_t *ask(struct door_client *client, const char *query)
{
    char *answer = door_admin(client, query);
    json_t *view = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
    free(answer);
    assert_non_null(view);
    json_t *rows = json_incref(json_object_get(view, "paths"));
    json_decref(view);
    assert_true(json_is_array(rows));
    return rows;
}

static void each_session_has_a_row_for_each_direction_and_class(void **state)
{
    (void)state;
    struct door door;
    struct door_client local, remote;
    door_open(&door, NULL);
    door_login_unix(&door, &local);
    json_t *rows = ask(&local, "paths");
    assert_int_equal(json_array_size(rows), 6);
    const json_t *row = row_of(rows, "publish", "small");
    assert_string_equal(text(row, "way"), "one copy");
    assert_non_null(strstr(text(row, "why"), "batch"));
    row = row_of(rows, "publish", "large");
    assert_string_equal(text(row, "way"), "zero-copy");
    assert_string_equal(text(row, "why"), "");
    assert_int_equal(number(row, "messages"), 0);
    assert_true(json_is_null(json_object_get(row, "measured_rate_bytes")));
    assert_true(json_is_null(json_object_get(row, "expected_rate_bytes")));
    assert_string_equal(text(row_of(rows, "deliver", "small"), "way"), "zero-copy");
    row = row_of(rows, "deliver", "gpu");
    assert_string_equal(text(row, "way"), "staged");
    assert_non_null(strstr(text(row, "why"), "memory.cuda.size"));
    json_decref(rows);

    door_connect_tcp(&door, &remote);
    door_login(&remote, "", NULL);
    rows = ask(&local, "paths");
    assert_int_equal(json_array_size(rows), 12);
    row = json_array_get(rows, 6 + 4);
    assert_string_equal(text(row, "link"), "stream");
    assert_string_equal(text(row, "way"), "one copy");
    assert_non_null(strstr(text(row, "why"), "gives it a ring"));
    assert_true(number(row, "expected_rate_bytes") > 0);
    json_decref(rows);
    rows = ask(&local, "paths door-client");
    assert_int_equal(json_array_size(rows), 12);
    json_decref(rows);
    rows = ask(&local, "paths nobody");
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    char longer[100] = "paths ";
    memset(longer + 6, 'x', 80);
    uint64_t id = door_ask_admin(&local, longer);
    door_expect_error(&local, id, AMB_EINVAL, "so long");
    door_disconnect(&local);
    door_disconnect(&remote);
    door_close(&door);
}

/* A session whose counts are set, and its client. */
static struct amb_config config;
static struct amb_shard shard;
static struct amb_shard *shards[] = {&shard};
static struct amb_control control;
static struct amb_client client;
static struct amb_session session;

static int prepare(void **state)
{
    (void)state;
    memset(&client, 0, sizeof(client));
    memset(&session, 0, sizeof(session));
    config.limits.max_leased_per_session = 1 << 20;
    control = (struct amb_control){.config = &config, .shards = shards, .shard_count = 1};
    client.control = &control;
    client.fd = -1;
    client.is_unix = client.knows_process = true;
    client.link = AMB_LINK_RING;
    session.shard = &shard;
    return 0;
}

static json_t *rows_now(void)
{
    json_t *rows = json_array(), *counts = amb_paths_of(&session);
    amb_paths_add(rows, &client, counts);
    json_decref(counts);
    return rows;
}

static void what_has_gone_is_told_and_not_what_should(void **state)
{
    (void)state;
    struct amb_paths *out = &session.paths.out;
    amb_path_count(out, AMB_PATH_SMALL, AMB_PATH_COPIED, AMB_PATH_ROOM, 10, 1000, 1);
    amb_path_count(out, AMB_PATH_LARGE, AMB_PATH_COPIED, AMB_PATH_MAPPING, 2, 2 << 20, 1);
    amb_path_count(out, AMB_PATH_LARGE, AMB_PATH_IN_PLACE, AMB_PATH_BEST, 5, 5 << 20, 1);
    json_t *rows = rows_now();
    const json_t *row = row_of(rows, "deliver", "small");
    assert_string_equal(text(row, "way"), "one copy");
    assert_non_null(strstr(text(row, "why"), "limits.max_mapped_per_session"));
    assert_int_equal(number(row, "messages"), 10);
    assert_int_equal(number(row, "copied"), 10);
    row = row_of(rows, "deliver", "large");
    assert_string_equal(text(row, "way"), "zero-copy");
    assert_string_equal(text(row, "why"), "2 by copy: the client was still mapping the segment");
    assert_int_equal(number(row, "in_place"), 5);
    assert_int_equal(number(row, "bytes"), 7 << 20);
    json_decref(rows);
}

static void what_the_client_staged_is_its_own_word(void **state)
{
    (void)state;
    client.staged_in = 4096;
    client.staged_in_msgs = 3;
    (void)strcpy(client.staged_why, "the pool is full");
    json_t *rows = rows_now();
    const json_t *row = row_of(rows, "publish", "gpu");
    assert_string_equal(text(row, "way"), "staged");
    assert_int_equal(number(row, "messages"), 3);
    assert_int_equal(number(row, "staged"), 3);
    assert_int_equal(number(row, "bytes"), 4096);
    assert_non_null(strstr(text(row, "why"), "memory.cuda.size")); /* The broker's reason first. */
    json_decref(rows);
}

static void a_measured_rate_stands_beside_the_expected_one(void **state)
{
    (void)state;
    struct amb_paths *in = &session.paths.in;
    for (int i = 0; i <= 20; i++) {
        amb_path_count(in, AMB_PATH_SMALL, AMB_PATH_COPIED, AMB_PATH_BATCH, 100, 100000,
                       AMB_NS_PER_SEC + i * AMB_NS_PER_MS);
    }
    shard.now_ns = 100 * AMB_NS_PER_SEC;
    control.rates.copy = 777;
    json_t *rows = rows_now();
    const json_t *row = row_of(rows, "publish", "small");
    assert_int_equal(number(row, "expected_rate_bytes"), 777);
    assert_int_equal(number(row, "measured_rate_bytes"), 105000000); /* 21 batches in 20 ms */
    json_decref(rows);
    shard.now_ns = 0;
}

#define P(test) cmocka_unit_test_setup(test, prepare)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_session_has_a_row_for_each_direction_and_class),
        P(what_has_gone_is_told_and_not_what_should),
        P(what_the_client_staged_is_its_own_word),
        P(a_measured_rate_stands_beside_the_expected_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
