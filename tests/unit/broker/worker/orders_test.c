/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/orders: the control thread's orders to workers, each with its answer. Some find a session,
 * a topic or a handle that is not the one expected, and are answered so. Two shards without
 * threads.
 */
#include "broker/config/config.h"
#include "broker/session/session.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/orders_subscription.h"
#include "broker/worker/orders_topic.h"
#include "broker/worker/shard_setup.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/link/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct shard_harness harness;
/* The last one, as far as it is read here. */
static union {
    struct amb_order order;
    struct amb_order_session_open session;
    struct amb_order_session_end end;
    struct amb_order_publisher_open publisher;
} answer;
static unsigned answers;

static void note_answer(void *control, struct amb_order *order)
{
    assert_ptr_equal(control, &harness);
    assert_ptr_equal(order->context, &answers);
    memcpy(&answer, order, order->kind->size < sizeof(answer) ? order->kind->size : sizeof(answer));
    answers++;
    amb_order_free(order);
}

static void *prepare(const struct amb_order_kind *kind, uint32_t index)
{
    struct amb_order *order = amb_order_new(kind, note_answer, &answers);
    assert_non_null(order);
    order->session = (struct amb_session_id){.shard = 0, .index = index, .generation = 1};
    return order;
}

/* Posts it to the shard and waits for its answer. */
static enum amb_status carry_out(unsigned shard, struct amb_order *order)
{
    unsigned before = answers;
    amb_order_post(harness.peers[shard], order);
    assert_int_equal(answers, before); /* Never from inside the call. */
    harness_settle(&harness);
    assert_int_equal(answers, before + 1);
    return answer.order.status;
}

static enum amb_status open_session(uint32_t index, enum amb_link_kind link)
{
    struct amb_order_session_open *open = prepare(&amb_order_session_open, index);
    open->opening.client_id = index;
    open->opening.secret = 7;
    open->opening.link = link;
    open->opening.ring_size = 64 << 10;
    return carry_out(0, &open->order);
}

static void close_session(uint32_t index)
{
    struct amb_order *order = prepare(&amb_order_session_close, index);
    assert_int_equal(carry_out(0, order), AMB_OK);
    assert_int_equal(answer.end.closing.quarantined_bytes, 0);
}

static bool is_open_fd(int fd)
{
    return fcntl(fd, F_GETFD) != -1;
}

static enum amb_status open_publisher(uint32_t index, uint32_t handle)
{
    struct amb_order_publisher_open *open = prepare(&amb_order_publisher_open, index);
    open->handle = handle;
    return carry_out(0, &open->order);
}

static enum amb_status open_subscription(uint32_t index, uint32_t handle, uint64_t id)
{
    struct amb_order_subscription_open *open = prepare(&amb_order_subscription_open, index);
    open->handle = handle;
    open->id = id;
    return carry_out(0, &open->order);
}

static enum amb_status attach_cursor(uint32_t index, uint32_t handle, uint64_t id, uint32_t topic)
{
    struct amb_order_cursor_attach *attach = prepare(&amb_order_cursor_attach, index);
    attach->handle = handle;
    attach->sub = id;
    attach->topic = topic;
    return carry_out(0, &attach->order);
}

static void test_ring_session_comes_with_two_descriptors(void **state)
{
    (void)state;
    harness_init(&harness, 2, NULL);
    assert_int_equal(open_session(3, AMB_LINK_RING), AMB_OK);
    const struct amb_ring_fds *fds = &answer.session.opening.fds;
    assert_true(is_open_fd(fds->memory) && is_open_fd(fds->bell));
    (void)close(fds->memory);
    (void)close(fds->bell);
    assert_non_null(amb_session_find(harness.peers[0], 3, 1));
    assert_null(amb_session_find(harness.peers[0], 3, 3)); /* another generation */
    close_session(3);
    assert_null(amb_session_find(harness.peers[0], 3, 1));
    harness_fini(&harness);
}

static void test_session_without_its_link_is_undone(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    assert_int_equal(open_session(0, AMB_LINK_UCX), AMB_ENOTSUP);
    assert_int_equal(answer.session.opening.fds.memory, -1);
    assert_null(amb_session_find(harness.peers[0], 0, 1));
    assert_int_equal(open_session(0, AMB_LINK_SIM), AMB_ENOTSUP);
    assert_int_equal(open_session(0, AMB_LINK_STREAM), AMB_OK); /* The slot is free. */
    close_session(0);
    harness_fini(&harness);
}

static void test_closing_a_session_that_is_gone_is_answered(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    struct amb_order *order = prepare(&amb_order_session_close, 99);
    assert_int_equal(carry_out(0, order), AMB_ECLOSED);
    assert_int_equal(answer.end.closing.quarantined_bytes, 0);
    order = prepare(&amb_order_session_release, 99);
    assert_int_equal(carry_out(0, order), AMB_ENOTFOUND);
    harness_fini(&harness);
}

/* Others have their turns while its client's last words are heard. */
static void test_a_session_that_closes_is_heard_over_many_turns(void **state)
{
    (void)state;
    const unsigned batches = 2000;
    const unsigned a_turn = 64 * AMB_SHARD_HEAR_TURN + 32; /* of the order, and of the worker */
    harness_init(&harness, 1, NULL);
    struct shard_client *client = shard_client_create(&harness, 0, NULL);
    uint32_t topic = harness_topic(&harness, "a", 0);
    client_open_pub(client, 0, topic, false);
    for (unsigned i = 0; i < batches; i++) {
        client_send(client, 0, 1, 0);
    }
    (void)shard_client_turn(client);
    struct amb_order *order = prepare(&amb_order_session_close, (uint32_t)client->id);
    order->session.generation = client->session->generation;
    unsigned before = answers, turns = 0;
    amb_order_post(&harness.shards[0], order);
    for (; answers == before && turns < 1000; turns++) {
        uint64_t heard = harness_home(&harness, topic)->counts.msgs_in;
        (void)harness_turn(&harness, 0);
        assert_in_range(harness_home(&harness, topic)->counts.msgs_in - heard, 0, a_turn);
        (void)amb_inbox_run(&harness.control);
    }
    assert_int_equal(answers, before + 1);
    assert_int_equal(harness_home(&harness, topic)->counts.msgs_in, batches);
    client->session = NULL;
    client->is_closed = true;
    harness_fini(&harness);
}

static unsigned fences, heard_then;

static void note_fence(void *control, struct amb_order *order)
{
    struct shard_harness *h = control;
    fences++;
    heard_then = (unsigned)h->shards[0].stats->msgs_in;
    amb_order_free(order);
}

/* Says much, and the order to close it is posted. */
static void talk_and_close(uint32_t topic, unsigned batches)
{
    struct shard_client *client = shard_client_create(&harness, 0, NULL);
    client_open_pub(client, 0, topic, false);
    for (unsigned i = 0; i < batches; i++) {
        client_send(client, 0, 1, 0);
    }
    (void)shard_client_turn(client);
    struct amb_order *order = prepare(&amb_order_session_close, (uint32_t)client->id);
    order->session.generation = client->session->generation;
    amb_order_post(&harness.shards[0], order);
    client->session = NULL;
    client->is_closed = true;
}

static void post_fence(void)
{
    struct amb_order *order = amb_order_new(&amb_order_fence, note_fence, NULL);
    assert_non_null(order);
    amb_order_post(&harness.shards[0], order);
}

static void turn_until_fences(unsigned count)
{
    for (unsigned i = 0; i < 1000 && fences < count; i++) {
        (void)harness_turn(&harness, 0);
        (void)amb_inbox_run(&harness.control);
    }
    assert_int_equal(fences, count);
}

static void test_a_fence_is_behind_the_last_words_of_sessions_that_close(void **state)
{
    (void)state;
    const unsigned few = 500, many = 2000;
    harness_init(&harness, 1, NULL);
    uint32_t topic = harness_topic(&harness, "a", 0);
    unsigned before = answers;
    fences = 0;
    post_fence();
    turn_until_fences(1);
    talk_and_close(topic, few);
    post_fence();
    (void)harness_turn(&harness, 0);
    talk_and_close(topic, many);
    turn_until_fences(2);
    assert_in_range(heard_then, few, few + many - 1); /* Not behind who closes later. */
    assert_int_equal(answers, before + 1);
    post_fence();
    turn_until_fences(3);
    assert_int_equal(heard_then, few + many);
    assert_int_equal(answers, before + 2);
    harness_fini(&harness);
}

static void test_orders_for_a_session_that_is_gone_change_nothing(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    uint32_t topic = harness_topic(&harness, "a", 0);
    assert_int_equal(open_publisher(5, 0), AMB_ECLOSED);
    assert_int_equal(open_subscription(5, 0, 1), AMB_ECLOSED);
    assert_int_equal(attach_cursor(5, 0, 1, topic), AMB_ECLOSED);
    (void)carry_out(0, prepare(&amb_order_publisher_close, 5));
    (void)carry_out(0, prepare(&amb_order_publisher_subscribers, 5));
    (void)carry_out(0, prepare(&amb_order_subscription_close, 5));
    (void)carry_out(0, prepare(&amb_order_segment_refused, 5));
    harness_fini(&harness);
}

static void test_stream_is_attached_once(void **state)
{
    (void)state;
    int pair[2], again[2];
    harness_init(&harness, 1, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, again), 0);
    assert_int_equal(open_session(0, AMB_LINK_STREAM), AMB_OK);
    assert_null(amb_session_find(harness.peers[0], 0, 1)->link);
    struct amb_order_session_attach *attach = prepare(&amb_order_session_attach, 0);
    attach->fd = pair[0];
    assert_int_equal(carry_out(0, &attach->order), AMB_OK);
    assert_non_null(amb_session_find(harness.peers[0], 0, 1)->link);
    attach = prepare(&amb_order_session_attach, 0);
    attach->fd = again[0];
    assert_int_equal(carry_out(0, &attach->order), AMB_ESTATE);
    assert_false(is_open_fd(again[0]));
    close_session(0);
    assert_false(is_open_fd(pair[0]));
    (void)close(pair[1]);
    (void)close(again[1]);
    harness_fini(&harness);
}

static void test_attaching_to_a_session_that_is_gone_closes_the_stream(void **state)
{
    (void)state;
    int pair[2];
    harness_init(&harness, 1, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct amb_order_session_attach *attach = prepare(&amb_order_session_attach, 1);
    attach->fd = pair[0];
    assert_int_not_equal(carry_out(0, &attach->order), AMB_OK);
    assert_false(is_open_fd(pair[0]));
    (void)close(pair[1]);
    harness_fini(&harness);
}

static void test_publisher_handle_is_used_once_at_a_time(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    (void)harness_topic(&harness, "a", 0);
    assert_int_equal(open_session(0, AMB_LINK_STREAM), AMB_OK);
    assert_int_equal(open_publisher(0, 1023), AMB_OK);
    assert_int_equal(answer.publisher.window, 64 << 10);
    assert_int_equal(open_publisher(0, 1023), AMB_ESTATE);
    struct amb_order_publisher_close *close = prepare(&amb_order_publisher_close, 0);
    close->handle = 1023;
    assert_int_equal(carry_out(0, &close->order), AMB_OK);
    assert_int_equal(open_publisher(0, 1023), AMB_OK);
    close_session(0);
    harness_fini(&harness);
}

static void test_cursor_belongs_to_the_subscription_it_was_meant_for(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    uint32_t topic = harness_topic(&harness, "a", 0);
    assert_int_equal(open_session(0, AMB_LINK_STREAM), AMB_OK);
    assert_int_equal(attach_cursor(0, 4, 10, topic), AMB_ENOTFOUND);
    assert_int_equal(open_subscription(0, 4, 10), AMB_OK);
    assert_int_equal(open_subscription(0, 4, 11), AMB_ESTATE);
    assert_int_equal(attach_cursor(0, 4, 11, topic), AMB_ENOTFOUND);
    assert_int_equal(attach_cursor(0, 4, 10, topic + 1), AMB_ENOTFOUND);
    assert_true(amb_list_is_empty(&harness_home(&harness, topic)->cursors));
    assert_int_equal(attach_cursor(0, 4, 10, topic), AMB_OK);
    assert_false(amb_list_is_empty(&harness_home(&harness, topic)->cursors));
    struct amb_order_subscription_close *close = prepare(&amb_order_subscription_close, 0);
    close->handle = 4;
    assert_int_equal(carry_out(0, &close->order), AMB_OK);
    assert_true(amb_list_is_empty(&harness_home(&harness, topic)->cursors));
    assert_int_equal(open_subscription(0, 4, 12), AMB_OK);
    close_session(0);
    harness_fini(&harness);
}

static struct amb_order_lend *prepare_lend(uint32_t topic, uint64_t sub, int subs)
{
    struct amb_order_lend *lend = prepare(&amb_order_lend, 0);
    lend->topic = topic;
    lend->borrower = 0;
    lend->sub = sub;
    lend->handle = 4;
    lend->subs = subs;
    lend->holding = subs;
    return lend;
}

static void test_home_lends_and_attaches_at_the_borrower(void **state)
{
    (void)state;
    harness_init(&harness, 2, NULL);
    uint32_t topic = harness_topic(&harness, "a", 1);
    struct amb_topic *shadow = harness_topic_on(&harness, topic, 0);
    const struct amb_lend *lend = &harness_home(&harness, topic)->lending.lends[0];
    assert_int_equal(open_session(0, AMB_LINK_STREAM), AMB_OK);
    assert_int_equal(open_subscription(0, 4, 10), AMB_OK);
    struct amb_order_lend *change = prepare_lend(topic, 10, +1);
    change->shadow = shadow;
    assert_int_equal(carry_out(1, &change->order), AMB_OK);
    assert_int_equal(lend->subs, 1);
    assert_int_equal(lend->holding, 1);
    assert_ptr_equal(lend->shadow, shadow);
    assert_false(amb_list_is_empty(&shadow->cursors));
    assert_int_equal(carry_out(1, &prepare_lend(topic, 10, -1)->order), AMB_OK);
    assert_int_equal(lend->subs, 0);
    assert_int_equal(lend->holding, 0);
    assert_int_equal(carry_out(1, &prepare_lend(topic + 7, 10, +1)->order), AMB_ENOTFOUND);
    close_session(0);
    harness_fini(&harness);
}

static void test_other_limits_are_in_force_for_what_comes_next(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    const char *options[] = {"limits.window=1M"};
    struct amb_config_source source = {.dev = true, .options = options, .option_count = 1};
    struct amb_config *config = NULL;
    assert_int_equal(amb_config_create(&source, NULL, 0, &config), AMB_OK);
    struct amb_order_config *order = amb_order_new(&amb_order_config, NULL, NULL);
    order->config = amb_config_ref(config);
    amb_config_destroy(&config); /* The shard has a reference. */
    amb_order_post(harness.peers[0], &order->order);
    uint32_t topic = harness_topic(&harness, "a", 0);
    struct shard_client *client = shard_client_create(&harness, 0, NULL);
    harness_settle(&harness);
    client_open_pub(client, 0, topic, false);
    client_want(client, 0, 100 << 10);
    harness_settle(&harness);
    assert_int_equal(client->pubs[0].window, 1 << 20);
    harness_fini(&harness);
}

static void test_orders_without_an_answer_free_themselves(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    uint32_t topic = harness_topic(&harness, "a", 0);
    struct amb_order_topic_matched *told = amb_order_new(&amb_order_topic_matched, NULL, NULL);
    told->topic = topic;
    told->matched = 42;
    amb_order_post(harness.peers[0], &told->order);
    told = amb_order_new(&amb_order_topic_matched, NULL, NULL);
    told->topic = 4711;
    amb_order_post(harness.peers[0], &told->order);
    harness_settle(&harness);
    assert_int_equal(harness_home(&harness, topic)->audience.matched, 42);
    harness_fini(&harness);
}

static void test_refused_segments_are_never_named_again(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    assert_int_equal(open_session(0, AMB_LINK_STREAM), AMB_OK);
    struct amb_session *session = amb_session_find(harness.peers[0], 0, 1);
    session->mappings[session->mapping_count++] =
        (struct amb_mapping){.segment = 5, .state = AMB_MAPPING_ASKED};
    struct amb_order_segment_refused *refused = prepare(&amb_order_segment_refused, 0);
    refused->segment = 6; /* nobody's */
    assert_int_equal(carry_out(0, &refused->order), AMB_OK);
    assert_int_equal(session->mappings[0].state, AMB_MAPPING_ASKED);
    refused = prepare(&amb_order_segment_refused, 0);
    refused->segment = 5;
    assert_int_equal(carry_out(0, &refused->order), AMB_OK);
    assert_int_equal(session->mappings[0].state, AMB_MAPPING_REFUSED);
    session->mapping_count = 0;
    close_session(0);
    harness_fini(&harness);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_session_comes_with_two_descriptors),
        cmocka_unit_test(test_session_without_its_link_is_undone),
        cmocka_unit_test(test_closing_a_session_that_is_gone_is_answered),
        cmocka_unit_test(test_a_session_that_closes_is_heard_over_many_turns),
        cmocka_unit_test(test_a_fence_is_behind_the_last_words_of_sessions_that_close),
        cmocka_unit_test(test_orders_for_a_session_that_is_gone_change_nothing),
        cmocka_unit_test(test_stream_is_attached_once),
        cmocka_unit_test(test_attaching_to_a_session_that_is_gone_closes_the_stream),
        cmocka_unit_test(test_publisher_handle_is_used_once_at_a_time),
        cmocka_unit_test(test_cursor_belongs_to_the_subscription_it_was_meant_for),
        cmocka_unit_test(test_home_lends_and_attaches_at_the_borrower),
        cmocka_unit_test(test_other_limits_are_in_force_for_what_comes_next),
        cmocka_unit_test(test_orders_without_an_answer_free_themselves),
        cmocka_unit_test(test_refused_segments_are_never_named_again),
    };
    return cmocka_run_group_tests_name("broker/orders", tests, NULL, NULL);
}
