/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead letters: messages that no member could handle, and the words on them.
 */
#include "broker/delivery/acks/deadletter.h"
#include "tests/unit/broker/delivery/acks/queue_world.h"
#include "wire/codec/props.h"

static void expect_prop(const struct amb_entry *entry, const char *name, const char *value)
{
    struct amb_body_iter iter;
    struct amb_message_view view;
    struct amb_prop_view prop;
    if (entry->is_leased) {
        amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
    } else {
        amb_body_iter_init(&iter, entry->data, entry->data_len, entry->count);
    }
    assert_true(amb_body_iter_next(&iter, &view));
    assert_true(amb_props_find(view.props, view.props_len, name, &prop));
    assert_string_equal((const char *)prop.value, value);
}

static void test_what_is_delivered_too_often_or_terminated_becomes_a_dead_letter(void **state)
{
    struct world *w = *state;
    open_with(w, &(struct amb_queue_options){.ack = AMB_ACK_EXPLICIT,
                                             .ack_wait_ns = 30 * AMB_NS_PER_SEC,
                                             .max_deliver = 2});
    client_join(w->a, 0, &w->q, NULL);
    client_subscribe(w->c, 1, w->dead, NULL);
    harness_settle(&w->h);
    publish(w, 2, 1, 48);
    client_say(w->a, 0, 1, 0, 1, AMB_ACK_KIND_NAK, 0);
    assert_int_equal(w->c->subs[1].msgs, 0);
    client_say(w->a, 0, 3, 0, 1, AMB_ACK_KIND_NAK, 0);
    assert_int_equal(w->c->subs[1].msgs, 1);
    const struct amb_topic *dead = harness_home(&w->h, w->dead);
    client_term(w->a, 0, 2, "a poisoned one");
    assert_int_equal(w->c->subs[1].msgs, 2);
    const struct client_delivery *first = client_delivery(w->c, 1, 1);
    assert_int_equal(first->stamp.number, 1); /* the payload as it was */
    assert_int_equal(client_delivery(w->c, 1, 2)->stamp.number, 2);
    (void)dead;
    assert_int_equal(harness_queue(&w->q)->dead, 2);
    assert_int_equal(harness_queue(&w->q)->takes, 0);
    client_drain(w->c, 1);
    client_drain(w->a, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

#define TENANT 7u

/* The content of the letter; nobody reads it, so it is looked at where it is made. */
static struct amb_entry *caught;

static void catch_letter(struct amb_shard *shard, struct amb_entry *entry, uint32_t tenant,
                         const char *topic)
{
    (void)shard;
    assert_int_equal(tenant, TENANT);
    assert_string_equal(topic, "$DLQ.t");
    assert_null(caught);
    caught = entry;
}

/* From here on. Returns what was called before. */
static struct amb_shard_upcalls catch_letters(struct world *w)
{
    const struct amb_shard_upcalls former = w->h.upcalls;
    w->h.upcalls.dead_letter = catch_letter;
    for (unsigned i = 0; i < w->h.count; i++) {
        struct amb_topic *topic = amb_shard_topic(w->h.peers[i], w->topic);
        if (topic != NULL) {
            topic->tenant = TENANT;
        }
    }
    return former;
}

static void test_a_dead_letter_says_why_how_often_and_what_it_was(void **state)
{
    struct world *w = *state;
    for (unsigned large = 0; large < 2; large++) {
        open_with(w, NULL);
        struct amb_shard *shard = w->h.peers[w->where];
        const struct amb_shard_upcalls former = catch_letters(w);
        client_join(w->a, large, &w->q, NULL);
        uint64_t len = large == 0 ? 48 : 200000;
        client_want(w->p, 0, w->p->pubs[0].bytes + client_batch_bytes(1, len));
        harness_settle(&w->h);
        publish(w, 1, 1, len);
        client_term(w->a, large, 1, "a poisoned one");
        assert_non_null(caught);
        assert_int_equal(caught->is_leased, large == 1); /* a large one stays where it is */
        expect_prop(caught, "$reason", "a poisoned one");
        expect_prop(caught, "$deliveries", "1");
        expect_prop(caught, "$topic", "t");
        expect_prop(caught, "$seq", large == 0 ? "1" : "2");
        amb_entry_unref(caught, shard);
        caught = NULL;
        w->h.upcalls = former;
        client_drain(w->a, large);
        client_quit(w->a, large, 1);
        harness_queue_close(&w->q);
        assert_int_equal(harness_used(&w->h), 0);
    }
}

/* It is counted as a GPU's, whatever memory it lies in by now. */
static void test_a_letter_of_a_gpu_payload_says_so(void **state)
{
    struct world *w = *state;
    open_with(w, NULL);
    const struct amb_shard_upcalls former = catch_letters(w);
    publish(w, 1, 1, 48); /* It stays in the logs: there is no member yet. */
    unsigned marked = 0;
    for (unsigned i = 0; i < w->h.count; i++) {
        struct amb_topic *topic = amb_shard_topic(w->h.peers[i], w->topic);
        if (topic != NULL && topic->log.lo < topic->log.hi) {
            amb_log_at(&topic->log, topic->log.lo)->is_of_gpu = true;
            marked++;
        }
    }
    assert_true(marked > 0);
    client_join(w->a, 0, &w->q, NULL);
    harness_settle(&w->h);
    client_term(w->a, 0, 1, "a poisoned one");
    assert_non_null(caught);
    assert_true(caught->is_of_gpu);
    amb_entry_unref(caught, w->h.peers[w->where]);
    caught = NULL;
    w->h.upcalls = former;
    client_drain(w->a, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_what_is_delivered_too_often_or_terminated_becomes_a_dead_letter),
        BOTH(test_a_dead_letter_says_why_how_often_and_what_it_was),
        BOTH(test_a_letter_of_a_gpu_payload_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
