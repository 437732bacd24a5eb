/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: their numbers, their limit, their time. */
#include "client/request/replies.h"

#include "tests/unit/client/session.h"

#include "client/batch/pub.h"
#include "client/drive/lock.h"

#include <stdlib.h>

static void no_reply(enum amb_status status, struct amb_msg *reply, void *arg)
{
    assert_null(reply);
    assert_int_equal(status, AMB_ETIMEDOUT);
    ++*(unsigned *)arg;
}

/* A connection whose inbox is there; its lock is held. */
static void open_locked(struct session *s)
{
    session_open(s, NULL, NULL);
    assert_int_equal(amb_replies_open(s->conn), AMB_OK);
    assert_int_equal(amb_replies_open(s->conn), AMB_OK); /* once */
    fake_broker_look(s->fake, &s->seen);
    assert_int_equal(s->seen.subscribes, 1);
    amb_conn_lock(s->conn);
}

static void numbers_name_one_request_at_a_time(void **state)
{
    (void)state;
    struct session s;
    open_locked(&s);
    static struct amb_asked asked[3000];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3000; i++) {
            if (round == 0 || i % 3 == round) {
                asked[i].deadline_ns = INT64_MAX;
                amb_list_init(&asked[i].node);
                assert_int_equal(amb_replies_enter(s.conn, &asked[i]), AMB_OK);
            }
        }
        for (unsigned i = 0; i < 3000; i++) {
            assert_ptr_equal(s.conn->replies->cells[asked[i].number & s.conn->replies->mask],
                             &asked[i]);
        }
        for (unsigned i = 0; i < 3000; i++) {
            if (round == 2 || i % 3 == round + 1) {
                amb_replies_leave(s.conn, &asked[i]);
            }
        }
    }
    assert_int_equal(s.conn->replies->count, 0);
    amb_conn_unlock(s.conn);
    session_close(&s);
}

static void there_are_at_most_65536(void **state)
{
    (void)state;
    struct session s;
    open_locked(&s);
    struct amb_asked *asked = calloc(AMB_REQUESTS_MAX + 1, sizeof(*asked));
    assert_non_null(asked);
    for (unsigned i = 0; i < AMB_REQUESTS_MAX; i++) {
        asked[i].deadline_ns = INT64_MAX;
        assert_int_equal(amb_replies_enter(s.conn, &asked[i]), AMB_OK);
    }
    assert_int_equal(amb_replies_enter(s.conn, &asked[AMB_REQUESTS_MAX]), AMB_ELIMIT);
    for (unsigned i = 0; i < AMB_REQUESTS_MAX; i++) {
        amb_replies_leave(s.conn, &asked[i]);
    }
    amb_conn_unlock(s.conn);
    free(asked);
    session_close(&s);
}

static void only_what_is_late_and_put_ends(void **state)
{
    (void)state;
    struct session s;
    open_locked(&s);
    unsigned ended = 0;
    struct amb_asked *asked[3];
    for (unsigned i = 0; i < 3; i++) {
        asked[i] = calloc(1, sizeof(*asked[i]));
        assert_non_null(asked[i]);
        asked[i]->deadline_ns = i == 2 ? INT64_MAX - 1 : 1000;
        asked[i]->on_reply = no_reply;
        asked[i]->arg = &ended;
        asked[i]->is_put = i != 1;
        assert_int_equal(amb_replies_enter(s.conn, asked[i]), AMB_OK);
    }
    amb_replies_timer(s.conn, 999);
    assert_false(amb_replies_is_due(s.conn));
    amb_replies_timer(s.conn, 1000);
    assert_true(amb_replies_is_due(s.conn));
    amb_conn_unlock(s.conn);
    assert_int_equal(amb_replies_run(s.conn, 10), 1);
    assert_int_equal(ended, 1);
    amb_conn_lock(s.conn);
    for (unsigned i = 1; i < 3; i++) {
        amb_replies_leave(s.conn, asked[i]);
        free(asked[i]);
    }
    amb_conn_unlock(s.conn);
    session_close(&s);
}

/* It was being put while another one's time was looked at: the clock is told of it again. */
static void one_that_is_put_late_ends(void **state)
{
    (void)state;
    struct session s;
    open_locked(&s);
    unsigned ended = 0;
    struct amb_pub pub = {.conn = s.conn, .settle = {.settled_seq = 1}};
    struct amb_asked *asked = calloc(1, sizeof(*asked));
    assert_non_null(asked);
    asked->deadline_ns = 1000;
    asked->on_reply = no_reply;
    asked->arg = &ended;
    assert_int_equal(amb_replies_enter(s.conn, asked), AMB_OK);
    amb_replies_timer(s.conn, 1000);
    assert_int_equal(s.conn->notify.reply_ns, INT64_MAX);
    amb_replies_put(s.conn, asked, &pub, 1);
    assert_int_equal(s.conn->notify.reply_ns, 1000);
    amb_replies_timer(s.conn, 1000);
    amb_conn_unlock(s.conn);
    assert_int_equal(amb_replies_run(s.conn, 10), 1);
    assert_int_equal(ended, 1);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_name_one_request_at_a_time),
        cmocka_unit_test(there_are_at_most_65536),
        cmocka_unit_test(only_what_is_late_and_put_ends),
        cmocka_unit_test(one_that_is_put_late_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
