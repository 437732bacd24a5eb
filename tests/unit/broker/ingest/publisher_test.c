/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers: their windows, and the words to them. A scripted client on shard 0 publishes to a
 * topic at home there.
 */
#include "tests/unit/broker/ingest/publisher_world.h"

static void test_a_new_publisher_may_send_the_first_window(void **state)
{
    struct world *w = *state;
    assert_int_equal(w->p->pubs[0].window, AMB_WINDOW_FIRST);
    assert_true(client_may_send(w->p, 0, 1, 60000));
}

static void test_every_batch_is_accepted_and_its_window_comes_back(void **state)
{
    struct world *w = *state;
    for (unsigned i = 1; i <= 20; i++) {
        assert_true(client_may_send(w->p, 0, 2, 10000));
        client_send(w->p, 0, 2, 10000);
        harness_settle(&w->h);
        assert_int_equal(w->p->pubs[0].accepted, i);
        assert_int_equal(w->p->pubs[0].window, w->p->pubs[0].bytes + AMB_WINDOW_FIRST);
    }
    assert_int_equal(w->p->settle_count, 0);
    assert_int_equal(harness_home(&w->h, w->topic)->log.next_seq, 41);
}

static void test_small_windows_come_back_in_steps_and_at_once_to_who_waits(void **state)
{
    struct world *w = *state;
    client_send(w->p, 0, 1, 1000);
    harness_settle(&w->h);
    assert_int_equal(client_granted(w->p, 0), w->p->pubs[0].bytes);
    assert_int_equal(w->p->pubs[0].window, AMB_WINDOW_FIRST);
    client_send(w->p, 0, 1, 8000);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, w->p->pubs[0].bytes + AMB_WINDOW_FIRST);
    client_send(w->p, 0, 1, 1000);
    harness_settle(&w->h);
    client_want(w->p, 0, w->p->pubs[0].bytes + AMB_WINDOW_FIRST);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, w->p->pubs[0].bytes + 256 * KIB);
}

static void test_settled_frames_tell_sequence_and_matches(void **state)
{
    struct world *w = *state;
    client_open_pub(w->p, 1, w->topic, true);
    client_subscribe(w->p, 0, w->topic, NULL);
    client_send(w->p, 1, 3, 16);
    client_send(w->p, 1, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 2);
    assert_int_equal(w->p->settles[0].status, AMB_OK);
    assert_int_equal(w->p->settles[0].handle, 1);
    assert_int_equal(w->p->settles[0].batch, 1);
    assert_int_equal(w->p->settles[0].first_seq, 1);
    assert_int_equal(w->p->settles[0].matched, 1);
    assert_int_equal(w->p->settles[1].batch, 2);
    assert_int_equal(w->p->settles[1].first_seq, 4);
    client_release_all(w->p, 0);
    harness_settle(&w->h);
}

static void test_past_the_window_is_a_protocol_error(void **state)
{
    struct world *w = *state;
    client_send(w->p, 0, 1, 70000);
    harness_settle(&w->h);
    assert_int_equal(w->p->ended, 1);
    assert_int_equal(w->p->ended_why, AMB_EPROTO);
}

static void test_a_wrong_batch_number_is_a_protocol_error(void **state)
{
    struct world *w = *state;
    w->p->pubs[0].batches = 1;
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    assert_int_equal(w->p->ended_why, AMB_EPROTO);
}

static void test_want_opens_the_whole_window_for_who_uses_it(void **state)
{
    struct world *w = *state;
    client_send(w->p, 0, 1, 60000);
    client_want(w->p, 0, 60016 + 100016);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, 60016 + 256 * KIB);
}

static void test_a_message_larger_than_the_window_gets_a_buffer_first(void **state)
{
    struct world *w = *state;
    uint64_t bytes = client_batch_bytes(1, 1000 * KIB);
    client_want(w->p, 0, bytes);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, bytes);
    assert_true(publisher(w, 0)->prepared.cap >= bytes);
    uint64_t used = harness_used(&w->h);
    const uint8_t *prepared = publisher(w, 0)->prepared.data;
    client_subscribe(w->p, 0, w->topic, &(struct amb_subscription_options){.copy = true});
    client_send(w->p, 0, 1, 1000 * KIB);
    amb_link_flush(w->p->link);
    (void)harness_turn(&w->h, 0);
    assert_int_equal(harness_used(&w->h), 0); /* delivered at once, so it is free again */
    assert_true(used >= bytes);
    assert_non_null(prepared);
    harness_settle(&w->h);
    assert_int_equal(w->p->subs[0].last, 1);
    assert_int_equal(w->p->pubs[0].window, bytes + 256 * KIB);
    client_release_all(w->p, 0);
}

static void test_a_prepared_buffer_waits_until_nothing_is_under_way(void **state)
{
    struct world *w = *state;
    /* A reader that takes nothing holds the second entry back. */
    client_subscribe(w->p, 0, w->topic, &(struct amb_subscription_options){.credit_msgs = 1});
    client_send(w->p, 0, 1, 16);
    harness_settle(&w->h);
    client_want(w->p, 0, 200 * KIB);
    harness_settle(&w->h);
    struct client_pub *pub = &w->p->pubs[0];
    assert_true(pub->window >= 200 * KIB);
    client_want(w->p, 0, pub->bytes + 1500 * KIB);
    harness_settle(&w->h);
    assert_int_equal(pub->window, pub->bytes + 1500 * KIB);
    client_release_all(w->p, 0);
    harness_settle(&w->h);
}

static void test_what_was_prepared_and_is_not_needed_goes_back(void **state)
{
    struct world *w = *state;
    uint64_t bytes = 1000 * KIB;
    client_want(w->p, 0, bytes);
    harness_settle(&w->h);
    assert_non_null(publisher(w, 0)->prepared.data);
    /* It sends small batches instead. */
    while (w->p->pubs[0].bytes < bytes && client_may_send(w->p, 0, 1, 50000)) {
        client_send(w->p, 0, 1, 50000);
        harness_settle(&w->h);
    }
    while (w->p->pubs[0].bytes < bytes) {
        client_send(w->p, 0, 1, 16);
        harness_settle(&w->h);
    }
    assert_null(publisher(w, 0)->prepared.data);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_session_reserves_no_more_than_the_largest_message_takes(void **state)
{
    struct world *w = *state;
    uint64_t max = w->h.config->server.max_message;
    for (uint32_t handle = 1; handle < 5; handle++) {
        client_open_pub(w->p, handle, w->topic, false);
        client_want(w->p, handle, max / 5 * 2);
    }
    harness_settle(&w->h);
    assert_true(w->p->session->prepared_bytes > 0 && w->p->session->prepared_bytes <= max);
    assert_true(harness_used(&w->h) <= max);
    assert_non_null(publisher(w, 2)->prepared.data);
    assert_null(publisher(w, 3)->prepared.data);
    assert_int_equal(w->p->ended, 0);
    /* Another session's are its own; and a publisher that has sent makes room for the next of this
     * one. */
    client_send(w->p, 1, 1, max / 5);
    client_send(w->p, 1, 1, max / 5 - 1000);
    client_close_pub(w->p, 2);
    harness_settle(&w->h);
    assert_non_null(publisher(w, 3)->prepared.data);
}

static void test_nonsense_wants_are_protocol_errors(void **state)
{
    struct world *w = *state;
    struct shard_client *q = shard_client_create(&w->h, 0, NULL);
    client_open_pub(q, 0, w->topic, false);
    client_want(w->p, 0, UINT64_MAX);
    client_want(q, 0, 100 * KIB);
    harness_settle(&w->h);
    assert_int_equal(w->p->ended_why, AMB_EPROTO);
    assert_int_equal(q->ended, 0);
}

static void test_a_handle_goes_on_where_its_last_publisher_left_off(void **state)
{
    struct world *w = *state;
    client_want(w->p, 0, 65 * KIB); /* worth the whole window */
    harness_settle(&w->h);
    uint64_t window = w->p->pubs[0].window;
    assert_int_equal(window, w->h.config->limits.window);
    client_send(w->p, 0, 1, 1024);
    client_send(w->p, 0, 1, 1024);
    harness_settle(&w->h);
    uint64_t bytes = w->p->pubs[0].bytes;
    client_close_pub(w->p, 0);
    client_open_pub(w->p, 0, w->topic, false);
    assert_int_equal(publisher(w, 0)->batches, 2);
    assert_int_equal(publisher(w, 0)->received, bytes);
    assert_true(publisher(w, 0)->window >= window); /* the client may hear of it only now */
    client_want(w->p, 0, bytes + 100);              /* the former's word, late */
    harness_settle(&w->h);
    client_send(w->p, 0, 1, 1024);
    harness_settle(&w->h);
    assert_int_equal(w->p->ended, 0);
    assert_int_equal(w->p->pubs[0].accepted, 3);
    client_want(w->p, 0, bytes); /* less than was wanted before: nothing */
    harness_settle(&w->h);
    assert_int_equal(w->p->ended, 0);
}

static void test_the_largest_message_is_served_and_a_larger_one_is_not(void **state)
{
    struct world *w = *state;
    uint64_t max = w->h.config->server.max_message;
    client_want(w->p, 0, client_batch_bytes(1, max));
    harness_settle(&w->h);
    assert_true(client_may_send(w->p, 0, 1, max));
    client_send(w->p, 0, 1, max);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].accepted, 1);
    assert_int_equal(w->p->ended, 0);
    client_want(w->p, 0, w->p->pubs[0].bytes + client_batch_bytes(1, max + 32));
    harness_settle(&w->h);
    client_send(w->p, 0, 1, max + 32);
    harness_settle(&w->h);
    assert_int_equal(w->p->ended_why, AMB_EPROTO);
}

static void test_a_batch_of_small_messages_may_be_larger_than_the_largest_message(void **state)
{
    struct shard_harness h;
    (void)state;
    harness_init(&h, 1, "server = { max_message = \"4K\"; };\n");
    struct shard_client *p = shard_client_create(&h, 0, NULL);
    client_open_pub(p, 0, harness_topic(&h, "a", 0), false);
    uint32_t most = AMB_BATCH_BYTES / 80; /* records are 16 bytes */
    client_want(p, 0, client_batch_bytes(most, 64));
    harness_settle(&h);
    assert_true(client_may_send(p, 0, most, 64));
    client_send(p, 0, most, 64);
    harness_settle(&h);
    assert_int_equal(p->ended, 0);
    assert_int_equal(p->pubs[0].accepted, 1);
    client_send(p, 0, 1, 4200);
    harness_settle(&h);
    assert_int_equal(p->ended_why, AMB_EPROTO);
    harness_fini(&h);
}

static void test_a_publisher_starves_without_memory_and_recovers(void **state)
{
    struct world *w = *state;
    struct shard_client *others[5];
    for (unsigned i = 0; i < 5; i++) {
        others[i] = shard_client_create(&w->h, 0, NULL);
        client_open_pub(others[i], 0, w->topic, false);
        client_want(others[i], 0, 3900 * KIB);
        harness_settle(&w->h);
    }
    unsigned granted = 0;
    for (unsigned i = 0; i < 5; i++) {
        granted += others[i]->pubs[0].window == 3900 * KIB;
    }
    assert_int_equal(granted, 2); /* Half of the memory: the rest is for what does come. */
    assert_false(amb_list_is_empty(&w->h.shards[0].windows.rationed));
    for (unsigned i = 0; i < 15; i++) {
        struct shard_client *one = others[i % 5];
        if (one->pubs[0].window == 3900 * KIB && one->pubs[0].bytes == 0) {
            client_send(one, 0, 1, 3800 * KIB);
            client_send(one, 0, 1, 90 * KIB);
        }
        harness_settle(&w->h);
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_true(others[i]->pubs[0].window >= 3900 * KIB);
    }
    assert_true(amb_list_is_empty(&w->h.shards[0].windows.starving));
    assert_true(amb_list_is_empty(&w->h.shards[0].windows.rationed));
}

static void test_small_memory_that_is_free_serves_a_large_message(void **state)
{
    struct world *w = *state;
    /* Every segment was cut into small buffers once; all of them are free again. */
    struct amb_buf bufs[256];
    unsigned count = 0;
    while (count < 256 &&
           amb_bufpool_alloc(&w->h.shards[0].memory.bufpool, 100 * KIB, &bufs[count]) == AMB_OK) {
        count++;
    }
    assert_true(count > 100);
    while (count > 0) {
        amb_bufpool_free(&w->h.shards[0].memory.bufpool, &bufs[--count]);
    }
    client_want(w->p, 0, 3000 * KIB);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].window, 3000 * KIB);
}

/* Waits for a window if there is none. */
static void publish(struct world *w, struct shard_client *client, uint64_t len)
{
    if (!client_may_send(client, 0, 1, len)) {
        client_want(client, 0, client->pubs[0].bytes + client_batch_bytes(1, len));
        harness_settle(&w->h);
    }
    assert_true(client_may_send(client, 0, 1, len));
    client_send(client, 0, 1, len);
    harness_settle(&w->h);
}

static void test_slow_droppers_make_room_for_a_large_message(void **state)
{
    struct world *w = *state;
    struct shard_client *slow = shard_client_create(&w->h, 0, NULL);
    client_subscribe(
        slow, 0, w->topic,
        &(struct amb_subscription_options){.slow = AMB_SLOW_DROP_OLDEST, .credit_msgs = 1});
    for (unsigned i = 0; i < 400; i++) {
        publish(w, w->p, 60000);
    }
    client_want(w->p, 0, w->p->pubs[0].bytes + 3000 * KIB);
    harness_settle(&w->h);
    assert_true(client_may_send(w->p, 0, 1, 2900 * KIB));
    client_send(w->p, 0, 1, 2900 * KIB);
    harness_settle(&w->h);
    assert_int_equal(w->p->settle_count, 0); /* nothing was refused */
    client_drain(slow, 0);
    assert_int_equal(slow->subs[0].msgs + slow->subs[0].lost, 401);
}

static void test_a_refusal_is_told_before_it_counts_as_accepted(void **state)
{
    struct world *w = *state;
    struct shard_client *c =
        shard_client_create(&w->h, 0, &(struct client_options){.link_bytes_max = 1});
    client_open_pub(c, 0, w->topic, false);
    client_open_pub(w->p, 1, w->topic, false);
    client_subscribe(c, 0, w->topic, NULL);
    client_send(w->p, 1, 1, 16); /* its link is full of a delivery from here on */
    harness_settle(&w->h);
    client_send(w->p, 1, 1, 16);
    amb_link_flush(w->p->link);
    (void)harness_turn(&w->h, 0);
    client_send(c, 0, 1, 16);
    amb_link_flush(c->link);
    (void)harness_turn(&w->h, 0);
    w->h.shards[0].is_draining = true; /* from here on everything is refused */
    client_send(c, 0, 1, 16);
    client_send(c, 0, 1, 16);
    amb_link_flush(c->link);
    (void)harness_turn(&w->h, 0);
    uint64_t before = c->pubs[0].accepted;
    for (unsigned i = 0; i < 20 && c->pubs[0].accepted < 3; i++) {
        (void)shard_client_turn(c);
        assert_true(c->pubs[0].accepted <= 1 + c->settle_count);
        (void)harness_turn(&w->h, 0);
    }
    assert_int_equal(before, 0);
    assert_int_equal(c->pubs[0].accepted, 3);
    assert_int_equal(c->settle_count, 2);
    client_drain(c, 0);
}

static void test_closing_gives_back_what_was_prepared(void **state)
{
    struct world *w = *state;
    client_want(w->p, 0, 3000 * KIB);
    harness_settle(&w->h);
    assert_true(harness_used(&w->h) > 0);
    client_close_pub(w->p, 0);
    assert_int_equal(harness_used(&w->h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_a_new_publisher_may_send_the_first_window),
        T(test_every_batch_is_accepted_and_its_window_comes_back),
        T(test_small_windows_come_back_in_steps_and_at_once_to_who_waits),
        T(test_settled_frames_tell_sequence_and_matches),
        T(test_past_the_window_is_a_protocol_error),
        T(test_a_wrong_batch_number_is_a_protocol_error),
        T(test_want_opens_the_whole_window_for_who_uses_it),
        T(test_a_message_larger_than_the_window_gets_a_buffer_first),
        T(test_a_prepared_buffer_waits_until_nothing_is_under_way),
        T(test_what_was_prepared_and_is_not_needed_goes_back),
        T(test_a_session_reserves_no_more_than_the_largest_message_takes),
        T(test_nonsense_wants_are_protocol_errors),
        T(test_a_handle_goes_on_where_its_last_publisher_left_off),
        T(test_the_largest_message_is_served_and_a_larger_one_is_not),
        T(test_a_batch_of_small_messages_may_be_larger_than_the_largest_message),
        T(test_a_publisher_starves_without_memory_and_recovers),
        T(test_small_memory_that_is_free_serves_a_large_message),
        T(test_slow_droppers_make_room_for_a_large_message),
        T(test_a_refusal_is_told_before_it_counts_as_accepted),
        T(test_closing_gives_back_what_was_prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
