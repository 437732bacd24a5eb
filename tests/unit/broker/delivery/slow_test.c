/* SPDX-License-Identifier: Apache-2.0 */
/* The readers that are told to be slow, and their losses, and when; and the broker's own
 * messages. */
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/slow.h"
#include "broker/session/session.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "broker/worker/announce.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOTES_MAX 16u

static const char rules[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "topics = ( { match = \"few\"; max_messages = 10; } );\n";

struct world {
    struct shard_harness h;
    struct shard_client *p, *s;
};

static struct amb_note notes[NOTES_MAX];
static unsigned note_count;

static void noted(struct amb_shard *shard, const struct amb_note *note)
{
    (void)shard;
    assert_true(note_count < NOTES_MAX);
    notes[note_count++] = *note;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, rules);
    w->h.upcalls.noted = noted;
    w->p = shard_client_create(&w->h, 0, NULL);
    w->s = shard_client_create(&w->h, 0, NULL);
    note_count = 0;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    free(w);
    return 0;
}

static uint32_t begin(struct world *w, const char *name, enum amb_slow slow, uint64_t credit)
{
    uint32_t topic = harness_topic(&w->h, name, 0);
    const struct amb_subscription_options options = {
        .slow = slow, .slow_block_ns = INT64_MAX, .credit_msgs = credit};
    client_open_pub(w->p, 0, topic, false);
    client_subscribe(w->s, 0, topic, &options);
    harness_settle(&w->h);
    return topic;
}

static void publish(struct world *w, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        client_send(w->p, 0, 1, 32);
        harness_settle(&w->h);
    }
}

static void pass(struct world *w)
{
    for (unsigned i = 0; i < 2; i++) { /* A client's words come behind the first look. */
        harness_pass(&w->h, AMB_SLOW_TICK_NS + 1);
        harness_settle(&w->h);
    }
}

static void test_at_three_quarters_it_is_slow_and_below_half_it_has_recovered(void **state)
{
    struct world *w = *state;
    begin(w, "a", AMB_SLOW_BLOCK, 100);
    publish(w, 74);
    pass(w);
    assert_int_equal(note_count, 0);
    publish(w, 1);
    pass(w);
    pass(w);
    assert_int_equal(note_count, 1); /* once */
    assert_int_equal(notes[0].kind, AMB_NOTE_SLOW);
    assert_int_equal(notes[0].client_id, w->s->id);
    assert_int_equal(notes[0].msgs_out, 75);
    client_release(w->s, 0, 25);
    pass(w);
    assert_int_equal(note_count, 1);
    client_release(w->s, 0, 26);
    pass(w);
    assert_int_equal(note_count, 2);
    assert_int_equal(notes[1].kind, AMB_NOTE_RECOVERED);
    client_drain(w->s, 0);
}

static void test_a_message_that_waits_is_enough(void **state)
{
    struct world *w = *state;
    begin(w, "a", AMB_SLOW_BLOCK, 1);
    publish(w, 1);
    pass(w);
    assert_int_equal(note_count, 0); /* it is busy with one, and nobody waits */
    publish(w, 1);
    pass(w);
    assert_int_equal(note_count, 1);
    client_drain(w->s, 0);
    pass(w);
    assert_int_equal(note_count, 2);
    assert_int_equal(notes[1].kind, AMB_NOTE_RECOVERED);
}

static void test_losses_are_told_once_a_second_with_their_number(void **state)
{
    struct world *w = *state;
    begin(w, "few", AMB_SLOW_DROP_OLDEST, 1);
    publish(w, 31); /* one is out, ten are kept */
    pass(w);
    assert_int_equal(note_count, 2);
    assert_int_equal(notes[0].kind, AMB_NOTE_SLOW);
    assert_int_equal(notes[1].kind, AMB_NOTE_LOST);
    assert_int_equal(notes[1].count, 20);
    assert_int_equal(notes[1].why, AMB_LOSS_SLOW);
    publish(w, 5);
    pass(w);
    assert_int_equal(note_count, 2);
    harness_pass(&w->h, AMB_NS_PER_SEC);
    pass(w);
    assert_int_equal(note_count, 3);
    assert_int_equal(notes[2].count, 5);
    assert_int_equal(notes[2].total, 25);
    client_drain(w->s, 0);
    assert_int_equal(w->s->subs[0].lost, 25); /* its own note */
    pass(w);
    assert_int_equal(note_count, 4);
    assert_int_equal(notes[3].kind, AMB_NOTE_RECOVERED);
}

/* Nobody else waits for a look at all cursors of one session. */
static void test_thousands_of_cursors_are_looked_at_in_parts(void **state)
{
    struct world *w = *state;
    uint32_t id = begin(w, "a", AMB_SLOW_BLOCK, 1);
    struct amb_topic *topic = harness_home(&w->h, id);
    struct amb_subscription *sub = amb_session_subscription(w->s->session, 0);
    for (unsigned i = 0; i < 2 * AMB_SLOW_CURSORS; i++) {
        struct amb_begun begun;
        amb_begin_find(topic, NULL, &begun);
        assert_int_equal(amb_subscription_attach(sub, topic, &begun), AMB_OK);
    }
    publish(w, 2); /* One message is out, and the others wait. */
    w->h.shards[0].slow.due_ns = 0;
    sub->look.is_begun = false;
    note_count = 0;
    sub->is_slow = false;
    (void)amb_slow_tick(&w->h.shards[0]);
    unsigned looked = 0;
    AMB_LIST_FOR_EACH (node, &sub->cursors) {
        looked +=
            AMB_CONTAINER_OF(node, struct amb_cursor, of_sub)->loss.looked == sub->look.number;
    }
    assert_int_equal(looked, AMB_SLOW_CURSORS);
    assert_int_equal(note_count, 0); /* It is not known before all were looked at. */
    for (unsigned i = 0; i < 2; i++) {
        w->h.shards[0].slow.due_ns = 0;
        (void)amb_slow_tick(&w->h.shards[0]);
    }
    assert_int_equal(note_count, 1);
    assert_int_equal(notes[0].kind, AMB_NOTE_SLOW);
    harness_forget(&w->h);
}

static void test_where_nothing_moves_nobody_looks(void **state)
{
    struct world *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    begin(w, "a", AMB_SLOW_BLOCK, 100);
    publish(w, 3);
    client_drain(w->s, 0);
    pass(w);
    pass(w);
    pass(w);
    assert_true(shard->slow.due_ns == INT64_MAX);
    publish(w, 1);
    assert_true(shard->slow.due_ns <= shard->now_ns + AMB_SLOW_TICK_NS);
    client_drain(w->s, 0);
}

static void test_what_the_broker_says_is_a_message_like_any_other(void **state)
{
    struct world *w = *state;
    uint32_t topic = begin(w, "$SYS.test", AMB_SLOW_DROP_OLDEST, 10);
    char text[] = "{\"a\":1}";
    struct amb_order_announce ask = {.topic = topic, .text = text};
    amb_order_announce.run(&w->h.shards[0], &ask.order);
    assert_int_equal(ask.order.status, AMB_OK);
    harness_settle(&w->h);
    const struct amb_frame *frame = &client_delivery(w->s, 0, 1)->frame;
    assert_int_equal(frame->seq, 1);
    assert_int_equal(frame->data_len, 16);
    client_drain(w->s, 0);
    client_unsubscribe(w->s, 0);
    harness_settle(&w->h);
    amb_order_announce.run(&w->h.shards[0], &ask.order); /* to nobody: nothing is made */
    assert_int_equal(ask.order.status, AMB_OK);
    assert_int_equal(harness_home(&w->h, topic)->counts.msgs_in, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_at_three_quarters_it_is_slow_and_below_half_it_has_recovered),
        T(test_a_message_that_waits_is_enough),
        T(test_losses_are_told_once_a_second_with_their_number),
        T(test_thousands_of_cursors_are_looked_at_in_parts),
        T(test_where_nothing_moves_nobody_looks),
        T(test_what_the_broker_says_is_a_message_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
