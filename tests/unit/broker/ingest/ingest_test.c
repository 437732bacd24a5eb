/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ingest: the upcalls of a link are made by hand, so that bodies complete late, fail, or find that
 * their publisher is gone.
 */
#include "broker/ingest/ingest.h"
#include "broker/ingest/publisher.h"
#include "broker/shard/entry.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *c;
    uint64_t batches;
};

/* A head that was taken, and its body's place. */
struct head {
    struct amb_frame frame;
    void *dst, *cookie;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL);
    w->topic = harness_topic(&w->h, "t", 0);
    w->c = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->c, 0, w->topic, true);
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

static struct head take(struct world *w, uint32_t count)
{
    struct head head = {.frame = {.type = AMB_FRAME_BATCH,
                                  .seq = ++w->batches,
                                  .count = count,
                                  .data_len = count * 16,
                                  .meta_len = count * 16}};
    struct amb_link_mem *mem = NULL;
    assert_int_equal(amb_ingest_head(w->c->session, &head.frame, &head.dst, &head.cookie, &mem),
                     AMB_OK);
    return head;
}

static enum amb_status complete(struct world *w, const struct head *head)
{
    uint8_t *body = head->dst;
    memset(body, 0, head->frame.data_len);
    for (uint32_t i = 0; i < head->frame.count; i++) {
        const struct amb_record record = {.len = 16};
        memcpy(body + head->frame.data_len + i * 16, &record, sizeof(record));
    }
    return amb_ingest_body(w->c->session, head->cookie, AMB_OK);
}

static uint64_t appended(struct world *w)
{
    return harness_home(&w->h, w->topic)->counts.msgs_in;
}

static void test_bodies_that_complete_late_keep_the_order_of_heads(void **state)
{
    struct world *w = *state;
    struct head a = take(w, 1), b = take(w, 2), c = take(w, 3);
    assert_int_equal(complete(w, &c), AMB_OK);
    assert_int_equal(complete(w, &b), AMB_OK);
    assert_int_equal(appended(w), 0);
    assert_int_equal(complete(w, &a), AMB_OK);
    assert_int_equal(appended(w), 6);
    const struct amb_topic *topic = harness_home(&w->h, w->topic);
    assert_int_equal(amb_log_at(&topic->log, 0)->count, 1);
    assert_int_equal(amb_log_at(&topic->log, 1)->count, 2);
    assert_int_equal(amb_log_at(&topic->log, 2)->first_seq, 4);
    w->c->pubs[0].batches = 3;
    harness_settle(&w->h);
    assert_int_equal(w->c->pubs[0].accepted, 3);
}

static void test_a_malformed_body_never_existed(void **state)
{
    struct world *w = *state;
    client_send_malformed(w->c, 0);
    harness_settle(&w->h);
    assert_int_equal(w->c->ended_why, AMB_EPROTO);
    assert_int_equal(appended(w), 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_body_that_fails_is_given_up_without_a_word(void **state)
{
    struct world *w = *state;
    struct head a = take(w, 1);
    assert_int_equal(amb_ingest_body(w->c->session, a.cookie, AMB_ELOST), AMB_OK);
    harness_settle(&w->h);
    assert_int_equal(harness_used(&w->h), 0);
    assert_int_equal(appended(w), 0);
}

static void test_the_link_goes_in_the_middle_of_a_body(void **state)
{
    struct world *w = *state;
    struct head a = take(w, 1), b = take(w, 1);
    assert_int_equal(complete(w, &b), AMB_OK);
    assert_int_equal(amb_ingest_body(w->c->session, a.cookie, AMB_ECANCELED), AMB_OK);
    client_close(w->c, false);
    harness_settle(&w->h);
    assert_int_equal(appended(w), 0); /* nothing passes a hole */
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_body_whose_publisher_has_closed_is_thrown_away(void **state)
{
    struct world *w = *state;
    struct head a = take(w, 1), b = take(w, 1);
    assert_int_equal(complete(w, &b), AMB_OK); /* waits behind a */
    client_close_pub(w->c, 0);
    assert_int_equal(complete(w, &a), AMB_OK);
    harness_settle(&w->h);
    assert_int_equal(appended(w), 0);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_a_body_of_a_former_publisher_is_not_the_new_ones(void **state)
{
    struct world *w = *state;
    struct head a = take(w, 1);
    client_close_pub(w->c, 0);
    client_open_pub(w->c, 0, w->topic, false);
    struct head b = take(w, 2); /* number 2: a handle's batches are counted on */
    assert_int_equal(complete(w, &a), AMB_OK);
    assert_int_equal(appended(w), 0);
    assert_int_equal(complete(w, &b), AMB_OK);
    assert_int_equal(appended(w), 2);
    w->c->pubs[0].batches = 2;
    harness_settle(&w->h);
}

static void count_gone(void *arg)
{
    ++*(unsigned *)arg;
}

static void test_a_publisher_that_ends_waits_for_what_is_on_its_way(void **state)
{
    struct world *w = *state;
    unsigned gone = 0;
    client_send(w->c, 0, 1, 100);
    client_send(w->c, 0, 2, 100);
    amb_publisher_end(amb_session_publisher(w->c->session, 0), 2, count_gone, &gone);
    assert_int_equal(gone, 0); /* the request was faster */
    harness_settle(&w->h);
    assert_int_equal(gone, 1);
    assert_int_equal(appended(w), 3);
    assert_null(amb_session_publisher(w->c->session, 0));
    assert_int_equal(w->c->session->frames_ignored, 0);
}

static void test_a_publisher_that_ends_waits_for_late_bodies(void **state)
{
    struct world *w = *state;
    unsigned gone = 0;
    struct head a = take(w, 1), b = take(w, 2);
    assert_int_equal(complete(w, &b), AMB_OK);
    amb_publisher_end(amb_session_publisher(w->c->session, 0), 2, count_gone, &gone);
    assert_int_equal(gone, 0);
    assert_int_equal(complete(w, &a), AMB_OK);
    assert_int_equal(gone, 1);
    assert_int_equal(appended(w), 3);
}

static void test_a_publisher_that_ends_goes_with_its_session(void **state)
{
    struct world *w = *state;
    unsigned gone = 0;
    amb_publisher_end(amb_session_publisher(w->c->session, 0), 1000, count_gone,
                      &gone); /* a liar */
    harness_settle(&w->h);
    assert_int_equal(gone, 0);
    client_close(w->c, false);
    assert_int_equal(gone, 1);
}

static void test_a_batch_for_no_publisher_is_discarded(void **state)
{
    struct world *w = *state;
    client_close_pub(w->c, 0);
    client_send(w->c, 0, 1, 100);
    harness_settle(&w->h);
    assert_int_equal(w->c->ended, 0);
    assert_int_equal(w->c->session->frames_ignored, 1);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_while_draining_batches_are_refused_in_their_turn(void **state)
{
    struct world *w = *state;
    struct head a = take(w, 1);
    w->h.shards[0].is_draining = true;
    struct head b = take(w, 1);
    assert_null(b.dst);
    assert_int_equal(complete(w, &a), AMB_OK);
    w->c->pubs[0].batches = 2;
    harness_settle(&w->h);
    assert_int_equal(w->c->settle_count, 2);
    assert_int_equal(w->c->settles[0].status, AMB_OK);
    assert_int_equal(w->c->settles[1].status, AMB_ECLOSED);
    assert_int_equal(w->c->pubs[0].accepted, 2);
    assert_int_equal(client_granted(w->c, 0), w->batches * 32);
}

/* Its client sends them again in its next session, so it must not hear that they are settled. */
static void test_while_draining_a_publisher_with_a_name_hears_no_more(void **state)
{
    struct world *w = *state;
    uint64_t come = 0;
    amb_session_publisher(w->c->session, 0)->seq = &come;
    struct head a = take(w, 1);
    w->h.shards[0].is_draining = true;
    assert_null(take(w, 2).dst);
    assert_null(take(w, 1).dst);
    assert_int_equal(complete(w, &a), AMB_OK);
    w->c->pubs[0].batches = 3;
    harness_settle(&w->h);
    assert_int_equal(w->c->settle_count, 1);
    assert_int_equal(w->c->settles[0].status, AMB_OK);
    assert_int_equal(w->c->pubs[0].accepted, 1);
    assert_int_equal(harness_used(&w->h), 0);
}

static void test_without_memory_a_batch_is_refused_and_its_window_comes_back(void **state)
{
    struct world *w = *state;
    size_t max = w->h.shards[0].entries.max;
    w->h.shards[0].entries.max = 0;
    amb_publisher_entries_close(amb_session_publisher(w->c->session, 0));
    client_send(w->c, 0, 2, 100);
    harness_settle(&w->h);
    assert_int_equal(w->c->settle_count, 1);
    assert_int_equal(w->c->settles[0].status, AMB_ENOMEM);
    assert_int_equal(w->c->pubs[0].accepted, 1);
    assert_int_equal(client_granted(w->c, 0), w->c->pubs[0].bytes);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->msgs_rejected), 2);
    w->h.shards[0].entries.max = max;
    client_send(w->c, 0, 2, 100);
    harness_settle(&w->h);
    assert_int_equal(w->c->settles[1].status, AMB_OK);
}

static void test_messages_without_payload_are_messages(void **state)
{
    struct world *w = *state;
    client_subscribe(w->c, 0, w->topic, NULL);
    client_send(w->c, 0, 3, 0);
    harness_settle(&w->h);
    assert_int_equal(w->c->subs[0].msgs, 3);
    client_drain(w->c, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_bodies_that_complete_late_keep_the_order_of_heads),
        T(test_a_malformed_body_never_existed),
        T(test_a_body_that_fails_is_given_up_without_a_word),
        T(test_the_link_goes_in_the_middle_of_a_body),
        T(test_a_body_whose_publisher_has_closed_is_thrown_away),
        T(test_a_body_of_a_former_publisher_is_not_the_new_ones),
        T(test_a_publisher_that_ends_waits_for_what_is_on_its_way),
        T(test_a_publisher_that_ends_waits_for_late_bodies),
        T(test_a_publisher_that_ends_goes_with_its_session),
        T(test_a_batch_for_no_publisher_is_discarded),
        T(test_while_draining_batches_are_refused_in_their_turn),
        T(test_while_draining_a_publisher_with_a_name_hears_no_more),
        T(test_without_memory_a_batch_is_refused_and_its_window_comes_back),
        T(test_messages_without_payload_are_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
