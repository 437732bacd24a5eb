/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/status: each view is valid JSON with the right counts, large answers come in pieces, and
 * nobody but the broker's own user may ask.
 */
#include "broker/control/status/status.h"

#include "broker/control/status/status_worker.h"
#include "tests/support/door/door_harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *ask(struct door_client *client, const char *query)
{
    char *text = door_admin(client, query);
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        fail_msg("%s: %s: %.200s", query, error.text, text);
    }
    free(text);
    return json;
}

static json_int_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        fail_msg("'%s' is no number", key);
    }
    return json_integer_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL) {
        fail_msg("'%s' is no text", key);
    }
    return value;
}

/* The rows of a view, which has that name. */
static const json_t *rows_of(const json_t *view, const char *name, size_t count)
{
    const json_t *rows = json_object_get(view, name);
    assert_true(json_is_array(rows));
    assert_int_equal(json_array_size(rows), count);
    return rows;
}

static void test_status_counts_what_there_is(void **state)
{
    (void)state;
    static const char *const options[] = {"server.workers=2", NULL};
    struct door door;
    struct door_client a, b, half;
    door_open(&door, options);
    door_login_unix(&door, &a);
    door_login_unix(&door, &b);
    door_connect_unix(&door, &half);
    door_send_hello(&half, "");
    amb_control_free(door_expect(&half, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_pub_open(&a, 0, "x");
    door_pub_open(&b, 0, "y");
    door_subscribe(&b, 0, ">");
    json_t *view = ask(&a, "status");
    assert_string_equal(text(view, "name"), "door");
    assert_int_equal(number(view, "pid"), getpid());
    assert_int_equal(number(view, "workers"), 2);
    assert_int_equal(number(view, "clients"), 2);
    assert_int_equal(number(view, "connecting"), 1);
    assert_int_equal(number(view, "clients_limit"), 64);
    assert_int_equal(number(view, "topics"), 2);
    assert_int_equal(number(view, "subscriptions"), 1);
    assert_int_equal(number(view, "messages_in"), 0);
    assert_int_equal(number(view, "accepted"), 3);
    assert_int_equal(number(view, "refused_auth"), 0);
    assert_int_equal(number(view, "memory_limit_bytes"), 16 << 20);
    json_decref(view);
    door_disconnect(&half);
    door_disconnect(&a);
    door_disconnect(&b);
    door_close(&door);
}

static void test_refusals_are_counted(void **state)
{
    (void)state;
    static const char *const options[] = {"auth.token=t", NULL};
    struct door door;
    struct door_client bad, client;
    door_open(&door, options);
    door_connect_tcp(&door, &bad);
    door_send_bytes(&bad, "GET / HTTP/1.0\r\n\r\n", 18);
    door_expect_closed(&bad);
    door_disconnect(&bad);
    door_connect_tcp(&door, &bad);
    door_send_hello(&bad, "");
    amb_control_free(door_expect(&bad, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&bad, NULL);
    door_expect_error(&bad, 0, AMB_EAUTH, "");
    door_disconnect(&bad);
    static const uint8_t length_zero[8] = {'A', 'M', 'B', 1};
    door_connect_tcp(&door, &bad);
    door_send_bytes(&bad, length_zero, 8);
    door_expect_error(&bad, 0, AMB_EPROTO, "");
    door_disconnect(&bad);
    door_login_unix(&door, &client);
    json_t *view = ask(&client, "status");
    assert_int_equal(number(view, "bad_magic"), 1);
    assert_int_equal(number(view, "refused_auth"), 1);
    assert_int_equal(number(view, "bad_messages"), 1);
    assert_int_equal(number(view, "violations"), 1);
    assert_int_equal(number(view, "refused_version"), 0);
    json_decref(view);
    door_disconnect(&client);
    door_close(&door);
}

static void test_topics_and_subs_are_listed_with_their_workers(void **state)
{
    (void)state;
    static const char *const options[] = {"server.workers=2", NULL};
    struct door door;
    struct door_client a, b;
    struct door_session first, second;
    door_open(&door, options);
    door_connect_unix(&door, &a);
    door_login(&a, "", &first);
    door_connect_unix(&door, &b);
    door_login(&b, "", &second);
    door_pub_open(&a, 0, "x.y");
    door_pub_open(&b, 0, "x.z");
    door_subscribe(&b, 0, "x.*");
    door_subscribe(&b, 1, "x.y");
    json_t *view = ask(&a, "topics");
    const json_t *rows = rows_of(view, "topics", 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(rows, i);
        bool is_y = strcmp(text(row, "topic"), "x.y") == 0;
        assert_int_equal(number(row, "subscriptions"), is_y ? 2 : 1);
        assert_int_equal(number(row, "messages"), 0);
    }
    assert_int_not_equal(number(json_array_get(rows, 0), "worker"),
                         number(json_array_get(rows, 1), "worker"));
    json_decref(view);

    view = ask(&a, "subs");
    rows = rows_of(view, "subs", 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(rows, i);
        assert_int_equal(number(row, "client"), second.client_id);
        assert_int_equal(number(row, "delivered"), 0);
        assert_int_equal(number(row, "outstanding"), 0);
        assert_int_equal(number(row, "credit_bytes"), 64 << 20);
        assert_true(strcmp(text(row, "pattern"), i == 0 ? "x.*" : "x.y") == 0);
    }
    json_decref(view);
    door_disconnect(&a);
    door_disconnect(&b);
    door_close(&door);
}

static void test_clients_and_transports_say_who_and_how(void **state)
{
    (void)state;
    struct door door;
    struct door_client local, remote, half;
    struct door_session session;
    door_open(&door, NULL);
    door_connect_unix(&door, &local);
    door_login(&local, "", &session);
    door_connect_tcp(&door, &remote);
    door_login(&remote, "", NULL);
    door_connect_tcp(&door, &half); /* Not a client before it is known. */
    json_t *view = ask(&local, "clients");
    const json_t *rows = rows_of(view, "clients", 2);
    const json_t *row = json_array_get(rows, 0);
    assert_int_equal(number(row, "id"), session.client_id);
    assert_int_equal(number(row, "pid"), getpid());
    assert_int_equal(number(row, "uid"), geteuid());
    assert_string_equal(text(row, "name"), "door-client");
    assert_string_equal(text(row, "state"), "live");
    assert_string_equal(text(row, "link"), "ring");
    assert_string_equal(text(row, "address"), "unix");
    assert_non_null(strstr(text(row, "lanes"), "ring"));
    row = json_array_get(rows, 1);
    assert_string_equal(text(row, "link"), "stream");
    assert_string_equal(text(row, "lanes"), "none"); /* Not attached. */
    assert_ptr_equal(strstr(text(row, "address"), "127.0.0.1:"), text(row, "address"));
    json_decref(view);

    view = ask(&local, "transports");
    row = json_array_get(rows_of(view, "transports", 2), 0);
    assert_string_equal(text(row, "link"), "ring");
    assert_string_equal(text(row, "why_not_better"), "");
    json_decref(view);
    door_disconnect(&half);
    door_disconnect(&remote);
    door_disconnect(&local);
    door_close(&door);
}

static void test_workers_and_memory_have_a_row_for_each_worker(void **state)
{
    (void)state;
    static const char *const options[] = {"server.workers=4", "memory.host.size=32M", NULL};
    struct door door;
    struct door_client client;
    door_open(&door, options);
    door_login_unix(&door, &client);
    json_t *view = ask(&client, "workers");
    const json_t *rows = rows_of(view, "workers", 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(number(json_array_get(rows, i), "worker"), i);
        assert_true(number(json_array_get(rows, i), "turns") >= 0);
        assert_true(json_is_null(json_object_get(json_array_get(rows, i), "processor")));
    }
    json_decref(view);
    json_decref(ask(&client, "memory"));
    json_decref(ask(&client, "memory"));
    view = ask(&client, "workers");
    rows = rows_of(view, "workers", 4);
    for (size_t i = 0; i < 4; i++) { /* The first of these was a mail to each, and is counted. */
        assert_true(number(json_array_get(rows, i), "mails") > 0);
        assert_true(number(json_array_get(rows, i), "bells") >= 0);
    }
    json_decref(view);
    view = ask(&client, "memory");
    rows = rows_of(view, "memory", 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(text(json_array_get(rows, i), "kind"), "host");
        assert_int_equal(number(json_array_get(rows, i), "used_bytes"), 0);
        assert_int_equal(number(json_array_get(rows, i), "quarantined_bytes"), 0);
    }
    json_decref(view);
    door_disconnect(&client);
    door_close(&door);
}

/* ---- without memory ---- */

static _Atomic size_t missing_size; /* of an allocation that fails, once; 0: none does */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    if (count == 1 && size == missing_size) {
        missing_size = 0;
        return NULL;
    }
    return __real_calloc(count, size);
}

static void test_memory_says_that_a_worker_is_missing(void **state)
{
    (void)state;
    static const char *const options[] = {"server.workers=2", NULL};
    struct door door;
    struct door_client client;
    door_open(&door, options);
    door_login_unix(&door, &client);
    missing_size = amb_status_collect.size; /* The control thread reads it behind the question. */
    json_t *view = ask(&client, "memory");
    assert_int_equal(missing_size, 0);
    rows_of(view, "memory", 1);
    assert_int_equal(number(view, "not_shown"), 1);
    json_decref(view);
    view = ask(&client, "memory");
    rows_of(view, "memory", 2);
    assert_null(json_object_get(view, "not_shown"));
    json_decref(view);
    door_disconnect(&client);
    door_close(&door);
}

static void test_large_answers_come_in_pieces(void **state)
{
    (void)state;
    enum {
        TOPICS = 700
    };
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    for (uint32_t i = 0; i < TOPICS; i++) {
        char topic[64];
        (void)snprintf(topic, sizeof(topic), "a.rather.long.name.of.topic.%u", i);
        door_pub_open(&client, i, topic);
    }
    json_t *view = ask(&client, "topics"); /* Over 100 KiB. */
    (void)rows_of(view, "topics", TOPICS);
    json_decref(view);
    door_disconnect(&client);
    door_close(&door);
}

static void test_objects_without_a_slot_are_counted(void **state)
{
    (void)state;
    enum {
        CLIENTS = 5,
        EACH = 1000,
        SHOWN = 4096 - CLIENTS, /* Each of these has a slot, too. */
    };
    static const char *const options[] = {"server.workers=2", "server.counters_objects=4096", NULL};
    struct door door;
    struct door_client clients[CLIENTS];
    door_open(&door, options);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        door_login_unix(&door, &clients[c]);
        for (uint32_t i = 0; i < EACH; i++) {
            char topic[64];
            (void)snprintf(topic, sizeof(topic), "plant.line%u.sensor%u", c, i);
            door_pub_open(&clients[c], i, topic);
        }
    }
    json_t *view = ask(&clients[0], "topics");
    (void)rows_of(view, "topics", SHOWN);
    assert_int_equal(number(view, "not_shown"), CLIENTS * EACH - SHOWN);
    json_decref(view);
    view = ask(&clients[0], "topics plant.line3.*");
    (void)rows_of(view, "topics", EACH);
    json_decref(view);
    view = ask(&clients[0], "topics nobody.>");
    (void)rows_of(view, "topics", 0);
    json_decref(view);
    view = ask(&clients[0], "clients");
    (void)rows_of(view, "clients", CLIENTS);
    assert_null(json_object_get(view, "not_shown"));
    json_decref(view);
    uint64_t id = door_ask_admin(&clients[0], "topics a..b");
    door_expect_error(&clients[0], id, AMB_EINVAL, "the pattern has an empty token");
    for (uint32_t c = 0; c < CLIENTS; c++) {
        door_disconnect(&clients[c]);
    }
    door_close(&door);
}

/* Each has a reason; the last comes first, and the eldest have made room. */
static void test_clients_that_have_gone_are_kept(void **state)
{
    (void)state;
    enum {
        GONE = 1003,
        KEPT = 1000,
    };
    static const char *const options[] = {"server.counters_objects=64", NULL};
    struct door door;
    struct door_client asker, other;
    door_open(&door, options);
    door_login_unix(&door, &asker);
    json_t *view = ask(&asker, "closed");
    (void)rows_of(view, "closed", 0);
    json_decref(view);
    for (unsigned i = 0; i < GONE; i++) {
        door_login_unix(&door, &other);
        door_disconnect(&other);
    }
    const json_t *row;
    do { /* The broker has to see the end of the last one, too. */
        view = ask(&asker, "closed top=1");
        row = json_array_get(rows_of(view, "closed", 1), 0);
        if (number(row, "number") == GONE) {
            break;
        }
        json_decref(view);
    } while (true);
    assert_string_equal(text(row, "kind"), "lost");
    assert_string_not_equal(text(row, "why"), "");
    assert_int_equal(number(row, "pid"), getpid());
    assert_int_equal(number(row, "client"), GONE + 1);
    assert_true(number(row, "closed_s") > 1700000000);
    json_decref(view);
    view = ask(&asker, "closed");
    const json_t *rows = rows_of(view, "closed", KEPT);
    for (size_t i = 0; i < KEPT; i++) {
        assert_int_equal(number(json_array_get(rows, i), "number"), (json_int_t)(GONE - i));
    }
    json_decref(view);
    door_disconnect(&asker);
    door_close(&door);
}

/* Some megabytes, in pages; sorted and cut by the broker. */
static void test_an_answer_has_no_size_limit(void **state)
{
    (void)state;
    enum {
        CLIENTS = 9,
        EACH = 1000,
    };
    static const char *const options[] = {"server.workers=2", NULL};
    struct door door;
    struct door_client clients[CLIENTS];
    door_open(&door, options);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        door_login_unix(&door, &clients[c]);
    }
    for (uint32_t i = 0; i < CLIENTS * EACH; i++) {
        door_subscribe(&clients[CLIENTS - 1 - i / EACH], i % EACH, i == 77 ? "seventy.seven" : "x");
    }
    json_t *view = ask(&clients[0], "subs");
    const json_t *rows = rows_of(view, "subs", CLIENTS * EACH);
    assert_null(json_object_get(view, "not_shown"));
    for (size_t i = 0; i < CLIENTS * EACH; i++) {
        assert_int_equal(number(json_array_get(rows, i), "delivered"), 0);
        assert_int_equal(number(json_array_get(rows, i), "id"), i + 1);
    }
    json_decref(view);
    view = ask(&clients[0], "subs sort=id top=3");
    rows = rows_of(view, "subs", 3);
    assert_int_equal(number(json_array_get(rows, 2), "id"), CLIENTS * EACH - 2);
    json_decref(view);
    view = ask(&clients[0], "subs match=seventy.*");
    assert_int_equal(number(json_array_get(rows_of(view, "subs", 1), 0), "id"), 78);
    json_decref(view);
    uint64_t id = door_ask_admin(&clients[0], "subs sort=nonsense");
    door_expect_error(&clients[0], id, AMB_EINVAL, "subs has no column 'nonsense', only pattern");
    for (uint32_t c = 0; c < CLIENTS; c++) {
        door_disconnect(&clients[c]);
    }
    door_close(&door);
}

/* A worker looks at some objects and goes on with its turn. */
static void test_objects_are_looked_at_in_slices(void **state)
{
    (void)state;
    enum {
        TOPICS = 1000
    };
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    for (uint32_t i = 0; i < TOPICS; i++) {
        char topic[64];
        (void)snprintf(topic, sizeof(topic), "t%u", i);
        door_pub_open(&client, i, topic);
    }
    json_t *view = ask(&client, "workers");
    json_int_t turns = number(json_array_get(rows_of(view, "workers", 1), 0), "turns");
    json_decref(view);
    json_decref(ask(&client, "topics"));
    view = ask(&client, "workers");
    assert_true(number(json_array_get(rows_of(view, "workers", 1), 0), "turns") >=
                turns + TOPICS / 500);
    json_decref(view);
    door_disconnect(&client);
    door_close(&door);
}

static void test_who_may_not_ask_is_told_and_stays(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_connect_tcp(&door, &client);
    door_login(&client, "", NULL);
    uint64_t id = door_ask_admin(&client, "status");
    door_expect_error(&client, id, AMB_EFORBIDDEN, "unix://");
    id = door_ask_admin(&client, "nonsense"); /* Not even which queries there are. */
    door_expect_error(&client, id, AMB_EFORBIDDEN, "unix://");
    door_pub_open(&client, 0, "a");
    door_disconnect(&client);
    door_close(&door);
}

static void test_unknown_queries_are_refused(void **state)
{
    (void)state;
    static const char *const queries[] = {"", "statuss", "STATUS", "topics;drop"};
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        uint64_t id = door_ask_admin(&client, queries[i]);
        door_expect_error(&client, id, AMB_EINVAL, "no such query");
    }
    door_disconnect(&client);
    door_close(&door);
}

static void test_who_asks_and_leaves_hurts_nobody(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    for (int i = 0; i < 50; i++) {
        door_login_unix(&door, &client);
        (void)door_ask_admin(&client, "clients");
        (void)door_ask_admin(&client, "subs");
        door_disconnect(&client);
    }
    door_login_unix(&door, &client);
    json_decref(ask(&client, "status"));
    door_disconnect(&client);
    door_close(&door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_counts_what_there_is),
        cmocka_unit_test(test_refusals_are_counted),
        cmocka_unit_test(test_topics_and_subs_are_listed_with_their_workers),
        cmocka_unit_test(test_clients_and_transports_say_who_and_how),
        cmocka_unit_test(test_workers_and_memory_have_a_row_for_each_worker),
        cmocka_unit_test(test_memory_says_that_a_worker_is_missing),
        cmocka_unit_test(test_large_answers_come_in_pieces),
        cmocka_unit_test(test_objects_without_a_slot_are_counted),
        cmocka_unit_test(test_clients_that_have_gone_are_kept),
        cmocka_unit_test(test_an_answer_has_no_size_limit),
        cmocka_unit_test(test_objects_are_looked_at_in_slices),
        cmocka_unit_test(test_who_may_not_ask_is_told_and_stays),
        cmocka_unit_test(test_unknown_queries_are_refused),
        cmocka_unit_test(test_who_asks_and_leaves_hurts_nobody),
    };
    return cmocka_run_group_tests_name("broker/status", tests, NULL, NULL);
}
