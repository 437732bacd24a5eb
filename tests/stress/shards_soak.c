/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three shards in one thread under a simulated clock, so that a seed gives the same run again.
 * Clients publish, lease, subscribe, hold, release, close and die at random.
 *
 *   stress-shards [SEED [STEPS [SEEDS]]]    without arguments: seed after seed for some seconds
 *
 * These invariants hold always. A sequence number of a topic is one message, the same for all
 * subscriptions. A subscription's deliveries and the losses it is told of leave no gap. One that
 * blocks loses nothing but messages that a topic with full = drop-oldest throws away. A publisher's
 * messages stay in order. A message that a client holds in place does not change, though publishers
 * write into slots as soon as these are told free. In the end, when nobody holds anything, each
 * publisher that waits for a window gets it, and then all memory is back.
 */
#include "broker/config/config.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SHARDS 3u
#define TOPICS 5u
#define LIVE_MAX 10u
#define SEQ_MAX (1u << 18)
#define SECONDS 8
#define WAIT_ROUNDS 100u
#define WAIT_NS (10 * AMB_NS_PER_MS)
#define SLOTS 32u
#define SLOT UINT64_C(65536)

static const char config[] =
    "memory = { host = { size = \"24M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "limits = { window = \"256K\"; max_mapped_per_session = \"3M\"; };\n"
    "topics = ( { match = \"block.b\"; trust = \"verify\"; },\n"
    "           { match = \"drop.>\"; full = \"drop-oldest\"; max_bytes = \"400K\"; },\n"
    "           { match = \"reject.>\"; full = \"reject\"; max_bytes = \"400K\"; },\n"
    "           { match = \"few.>\"; max_messages = 20; slow = \"drop-oldest\"; } );\n";

/* The message that a client wants to send next on a publisher. */
struct plan {
    uint32_t count;
    uint64_t len;
    uint64_t wanted; /* told with WANT */
};

/* The number that a subscription must see next in a topic. */
struct reading {
    uint64_t expected; /* 0: not known */
};

struct script {
    struct plan plans[CLIENT_HANDLES];
    struct reading readings[CLIENT_HANDLES][TOPICS];
    bool is_broken;
    struct client_lease lease;
    uint64_t slots[SLOTS]; /* the commit that took it last, 0: none */
};

struct soak {
    struct shard_harness h;
    uint64_t random;
    uint32_t topics[TOPICS];
    struct client_stamp *seen[TOPICS]; /* by sequence number; client + 1 in `client`, 0: not yet */
    uint64_t delivered, lost;
    unsigned waits; /* for a window, in the end */
};

static uint64_t current_seed, current_step;

static uint64_t next_random(struct soak *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static uint32_t pick(struct soak *s, uint32_t n)
{
    return (uint32_t)(next_random(s) % n);
}

static bool chance(struct soak *s, uint32_t percent)
{
    return pick(s, 100) < percent;
}

/* What comes -------------------------------------------------------------------------------- */

static void check_gap(struct soak *s, const struct shard_client *client,
                      const struct amb_frame *frame)
{
    struct script *script = client->user;
    struct reading *reading = &script->readings[frame->handle][frame->topic];
    if (reading->expected != 0) {
        assert_int_equal(frame->seq, reading->expected + frame->lost);
    }
    if (frame->lost != 0) {
        const struct amb_topic *topic = harness_home(&s->h, frame->topic);
        enum amb_slow slow = client->subs[frame->handle].options.slow;
        slow = slow == AMB_SLOW_DEFAULT ? topic->rule->slow : slow;
        bool is_limited = client->subs[frame->handle].options.slow == AMB_SLOW_BLOCK &&
                          client->subs[frame->handle].options.slow_block_ns != INT64_MAX;
        assert_true(slow == AMB_SLOW_DROP_OLDEST || is_limited ||
                    topic->rule->full == AMB_FULL_DROP_OLDEST);
        s->lost += frame->lost;
    }
    uint32_t given = frame->count - frame->first - frame->rest;
    reading->expected = frame->seq + given;
    s->delivered += given;
}

static struct soak *soak_of(const struct shard_client *client)
{
    return AMB_CONTAINER_OF(client->harness, struct soak, h);
}

static void on_message(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                       const struct client_stamp *stamp)
{
    struct soak *s = soak_of(client);
    if (index == 0) {
        check_gap(s, client, frame);
    }
    uint64_t seq = frame->seq + index;
    assert_true(seq < SEQ_MAX);
    struct client_stamp *seen = &s->seen[frame->topic][seq];
    if (seen->client == 0) {
        *seen = *stamp;
        seen->client++;
        /* Order: the nearest older message of the same publisher has a smaller number. */
        for (uint64_t i = seq - 1; stamp->number != 0 && i > 0 && i + 200 > seq; i--) {
            const struct client_stamp *older = &s->seen[frame->topic][i];
            if (older->client == stamp->client + 1 && older->handle == stamp->handle &&
                older->number != 0) {
                assert_true(older->number < stamp->number);
                break;
            }
        }
    } else {
        assert_int_equal(seen->client, stamp->client + 1);
        assert_int_equal(seen->handle, stamp->handle);
        assert_int_equal(seen->number, stamp->number);
    }
}

/* What clients do --------------------------------------------------------------------------- */

static struct shard_client *create_client(struct soak *s, unsigned shard,
                                          const struct client_options *options)
{
    struct shard_client *client = shard_client_create(&s->h, shard, options);
    struct script *script = calloc(1, sizeof(*script));
    assert_non_null(script);
    script->lease.fd = -1;
    client->user = script;
    client->on_message = on_message;
    return client;
}

static void do_create(struct soak *s)
{
    unsigned live = 0;
    for (unsigned i = 0; i < s->h.client_count; i++) {
        live += s->h.clients[i] != NULL;
    }
    if (live >= LIVE_MAX || s->h.client_count == HARNESS_CLIENTS_MAX) {
        return;
    }
    const struct client_options options = {
        .may_map = chance(s, 60),
        .answers_offers = chance(s, 80),
        .link_bytes_max = chance(s, 30) ? 1 + pick(s, 100000) : 0,
        .link_poll_frames = chance(s, 30) ? 1 + pick(s, 5) : 0,
    };
    struct shard_client *client = create_client(s, pick(s, SHARDS), &options);
    struct script *script = client->user;
    if (options.may_map && chance(s, 80) &&
        client_lease_open(client, SLOT, SLOTS, &script->lease) == AMB_OK) {
        assert_int_equal(client_lease_map(client, &script->lease), AMB_OK);
    }
}

static void do_open_pub(struct soak *s, struct shard_client *client, uint32_t handle)
{
    if (amb_session_publisher(client->session, handle) != NULL ||
        client->pubs[handle].batches != 0) {
        return; /* Numbers of a publisher go on for ever: a handle is opened once. */
    }
    struct script *script = client->user;
    script->plans[handle] = (struct plan){0}; /* Its wish ended with its last opening. */
    client_open_pub(client, handle, s->topics[pick(s, TOPICS)], chance(s, 30));
}

static void make_plan(struct soak *s, struct plan *plan)
{
    uint32_t kind = pick(s, 100);
    plan->count = kind < 40 ? 1 : 1 + pick(s, 40);
    plan->len = kind < 3 ? 0 : 16 + pick(s, 600);
    if (kind > 96) {
        plan->count = 1;
        plan->len = 16 + pick(s, 1500000);
    } else if (kind > 85) {
        plan->count = 1;
        plan->len = 16 + pick(s, 60000);
    }
}

/* So many slots in a row that are free, as far as the client has been told; SLOTS: none. */
static uint32_t free_slots(const struct shard_client *client, uint32_t from, uint32_t count)
{
    const struct script *script = client->user;
    for (uint32_t n = 0, at = from; n < SLOTS; n++, at = (at + 1) % (SLOTS - count + 1)) {
        uint32_t i = 0;
        while (i < count && client_is_freed(client, script->slots[at + i])) {
            i++;
        }
        if (i == count) {
            return at;
        }
    }
    return SLOTS;
}

static void do_commit(struct soak *s, struct shard_client *client, uint32_t handle)
{
    struct script *script = client->user;
    if (script->lease.base == NULL || !client->pubs[handle].is_open) {
        return;
    }
    for (unsigned n = 1 + pick(s, 4); n > 0; n--) {
        uint32_t count = 1 + pick(s, 5);
        uint32_t first = free_slots(client, pick(s, SLOTS - count + 1), count);
        if (first == SLOTS) {
            return;
        }
        client_commit(client, handle, &script->lease, first, count, 16 + pick(s, SLOT - 16));
        for (uint32_t i = first; i < first + count; i++) {
            script->slots[i] = client->commits;
        }
    }
}

/* Sends it if the window has room. False: not yet, and the broker has been told what is wanted. */
static bool publish_plan(struct shard_client *client, uint32_t handle, struct plan *plan)
{
    if (client_may_send(client, handle, plan->count, plan->len)) {
        client_send(client, handle, plan->count, plan->len);
        plan->count = 0;
        return true;
    }
    uint64_t upto = client->pubs[handle].bytes + client_batch_bytes(plan->count, plan->len);
    if (upto > plan->wanted) {
        plan->wanted = upto;
        client_want(client, handle, upto);
    }
    return false;
}

static void do_publish(struct soak *s, struct shard_client *client, uint32_t handle)
{
    struct script *script = client->user;
    struct plan *plan = &script->plans[handle];
    for (unsigned n = 1 + pick(s, 8); client->pubs[handle].is_open && n > 0; n--) {
        if (plan->count == 0) {
            make_plan(s, plan);
        }
        if (!publish_plan(client, handle, plan)) {
            return;
        }
    }
}

static void do_subscribe(struct soak *s, struct shard_client *client, uint32_t handle)
{
    if (amb_session_subscription(client->session, handle) != NULL || client->subs[handle].is_open) {
        return;
    }
    /* Release ranges of the handle's former use must not be under way: flow values overtake them.
     */
    if (client->txs != 0 || !amb_link_arm(client->session->link, true)) {
        return;
    }
    static const enum amb_slow slows[] = {AMB_SLOW_DEFAULT, AMB_SLOW_BLOCK, AMB_SLOW_DROP_OLDEST};
    struct amb_subscription_options options = {
        .slow = slows[pick(s, 3)],
        .slow_block_ns = chance(s, 50) ? INT64_MAX : (int64_t)pick(s, 100) * AMB_NS_PER_MS,
        .credit_msgs = chance(s, 50) ? 0 : 1 + pick(s, 100),
        .credit_bytes = chance(s, 50) ? 0 : 1 + pick(s, 1000000),
        .copy = chance(s, 20),
    };
    struct script *script = client->user;
    memset(script->readings[handle], 0, sizeof(script->readings[handle]));
    uint32_t first = pick(s, TOPICS);
    client_subscribe(client, handle, s->topics[first], &options);
    if (chance(s, 30)) {
        client_attach(client, handle, s->topics[(first + 1) % TOPICS]);
    }
}

static void do_release(struct soak *s, struct shard_client *client, uint32_t handle)
{
    struct client_sub *sub = &client->subs[handle];
    if (amb_session_subscription(client->session, handle) == NULL || sub->last == sub->released) {
        return;
    }
    client_check_held(client, handle);
    uint32_t open = (uint32_t)(sub->last - sub->released);
    if (chance(s, 30)) {
        uint32_t offset = pick(s, open);
        client_release_range(client, handle, sub->released + 1 + offset,
                             1 + pick(s, open - offset));
    } else {
        client_release(client, handle, sub->released + 1 + pick(s, open));
    }
}

static void forget(struct soak *s, unsigned i)
{
    struct script *script = s->h.clients[i]->user;
    client_lease_fini(&script->lease);
    free(script);
    s->h.clients[i]->user = NULL;
    s->h.clients[i]->on_message = NULL;
    shard_client_destroy(&s->h.clients[i]);
}

/* A client ends: politely, by the loss of its link, or by its death. */
static void do_end(struct soak *s, unsigned i)
{
    struct shard_client *client = s->h.clients[i];
    if (client->is_closed) {
        for (uint32_t handle = 0; handle < CLIENT_HANDLES; handle++) {
            client_check_held(client, handle);
        }
        forget(s, i);
    } else if (chance(s, 40)) {
        forget(s, i);
    } else {
        struct script *script = client->user;
        if (chance(s, 50)) {
            amb_sim_break(client->session->link);
            script->is_broken = true;
            harness_turn(&s->h, client->shard);
            assert_int_equal(client->ended, 1);
        }
        client_close(client, true);
        if (client->session == NULL) {
            forget(s, i);
        }
    }
}

static void do_client(struct soak *s, unsigned i)
{
    struct shard_client *client = s->h.clients[i];
    uint32_t handle = pick(s, 4), kind = pick(s, 1000);
    if (client->is_closed) {
        if (kind < 100) {
            do_end(s, i);
        }
        return;
    }
    assert_int_equal(client->ended, 0);
    if (kind < 200) {
        do_publish(s, client, handle);
    } else if (kind < 350) {
        do_commit(s, client, handle);
    } else if (kind < 650) {
        do_release(s, client, handle);
    } else if (kind < 700) {
        do_open_pub(s, client, handle);
    } else if (kind < 750) {
        do_subscribe(s, client, handle);
    } else if (kind < 765) {
        if (client->subs[handle].is_open) {
            client_unsubscribe(client, handle);
        }
    } else if (kind < 770) {
        if (client->pubs[handle].is_open) {
            client_close_pub(client, handle);
        }
    } else if (kind < 774) {
        do_end(s, i);
    } else {
        (void)shard_client_turn(client);
    }
}

static void step(struct soak *s)
{
    uint32_t kind = pick(s, 100);
    if (kind < 45) {
        (void)harness_turn(&s->h, pick(s, SHARDS));
    } else if (kind < 46) {
        harness_pass(&s->h, (int64_t)pick(s, 50) * AMB_NS_PER_MS);
    } else if (kind < 48) {
        do_create(s);
    } else if (s->h.client_count > 0) {
        unsigned i = pick(s, s->h.client_count);
        for (unsigned n = 0; n < s->h.client_count && s->h.clients[i] == NULL; n++) {
            i = (i + 1) % s->h.client_count;
        }
        if (s->h.clients[i] != NULL) {
            do_client(s, i);
        }
    }
    if (current_step % 256 == 0) {
        harness_check(&s->h);
    }
}

/* The end ----------------------------------------------------------------------------------- */

static bool drain_once(struct soak *s)
{
    bool any = false;
    for (unsigned i = 0; i < s->h.client_count; i++) {
        struct shard_client *client = s->h.clients[i];
        for (uint32_t h = 0; client != NULL && !client->is_closed && h < CLIENT_HANDLES; h++) {
            if (amb_session_subscription(client->session, h) != NULL &&
                client->subs[h].last > client->subs[h].released) {
                client_release_all(client, h);
                any = true;
            }
        }
    }
    harness_settle(&s->h);
    return any;
}

/* Sends what was planned, as far as windows allow, and wants the rest. True: something waits. */
static bool send_planned(struct shard_client *client)
{
    struct script *script = client->user;
    bool any = false;
    assert_int_equal(client->ended, 0);
    for (uint32_t h = 0; h < CLIENT_HANDLES; h++) {
        struct plan *plan = &script->plans[h];
        if (client->pubs[h].is_open && plan->count != 0) {
            any = !publish_plan(client, h, plan) || any;
        }
    }
    return any;
}

/* Nobody holds anything any more: each publisher that waits for a window gets it before long. */
static void send_all(struct soak *s)
{
    bool any = true;
    for (unsigned round = 0; any; round++) {
        assert_true(round < WAIT_ROUNDS);
        any = false;
        for (unsigned i = 0; i < s->h.client_count; i++) {
            if (s->h.clients[i] != NULL) {
                any = send_planned(s->h.clients[i]) || any;
            }
        }
        s->waits += any ? 1 : 0;
        harness_pass(&s->h, WAIT_NS);
        harness_settle(&s->h);
        while (drain_once(s)) {
        }
    }
}

/* It has a message for each topic. A new publisher may have no window until it wants one. */
static const struct shard_client *create_last(struct soak *s)
{
    struct shard_client *client = create_client(s, 0, NULL);
    struct script *script = client->user;
    for (uint32_t t = 0; t < TOPICS; t++) {
        client_open_pub(client, t, s->topics[t], true);
        script->plans[t] = (struct plan){.count = 1, .len = 16};
    }
    return client;
}

/* Everybody catches up, and the last message of each topic shows the last losses. */
static void finish(struct soak *s)
{
    for (unsigned i = 0; i < s->h.client_count; i++) {
        if (s->h.clients[i] != NULL && s->h.clients[i]->is_closed) {
            forget(s, i);
        } else if (s->h.clients[i] != NULL) {
            s->h.clients[i]->answers_offers = true;
        }
    }
    harness_settle(&s->h);
    while (drain_once(s)) {
    }
    send_all(s);
    const struct shard_client *last = create_last(s);
    send_all(s);
    assert_int_equal(last->ended, 0);
    assert_int_equal(last->settle_count, TOPICS);
    for (unsigned i = 0; i < s->h.client_count; i++) {
        const struct shard_client *client = s->h.clients[i];
        for (uint32_t h = 0; client != NULL && client != last && h < CLIENT_HANDLES; h++) {
            const struct client_sub *sub = &client->subs[h];
            const struct script *script = client->user;
            for (unsigned t = 0; sub->is_open && t < sub->topic_count; t++) {
                assert_int_equal(script->readings[h][sub->topics[t]].expected,
                                 harness_home(&s->h, sub->topics[t])->log.next_seq);
            }
        }
    }
    for (unsigned i = 0; i < s->h.client_count; i++) {
        if (s->h.clients[i] != NULL) {
            forget(s, i);
        }
    }
}

static void run(uint64_t seed, uint64_t steps)
{
    struct soak *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    current_seed = seed;
    s->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    harness_init(&s->h, SHARDS, config);
    static const char *const names[TOPICS] = {"block.a", "block.b", "drop.a", "reject.a", "few.a"};
    for (uint32_t t = 0; t < TOPICS; t++) {
        s->topics[t] = harness_topic(&s->h, names[t], (unsigned)(seed + t) % SHARDS);
        s->seen[t] = calloc(SEQ_MAX, sizeof(struct client_stamp));
        assert_non_null(s->seen[t]);
    }
    for (current_step = 0; current_step < steps; current_step++) {
        step(s);
    }
    finish(s);
    for (uint32_t t = 0; t < TOPICS; t++) {
        free(s->seen[t]);
    }
    if (getenv("SOAK_VERBOSE") != NULL) {
        uint64_t commits = 0;
        for (unsigned i = 0; i < SHARDS; i++) {
            commits += amb_stat_get(&s->h.shards[i].stats->commits_in);
        }
        print_message("seed %llu: %llu delivered, %llu lost, %u clients, %llu commits, %u waits\n",
                      (unsigned long long)seed, (unsigned long long)s->delivered,
                      (unsigned long long)s->lost, s->h.client_count, (unsigned long long)commits,
                      s->waits);
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        assert_int_equal(s->h.shards[i].leases.bytes, 0);
    }
    harness_fini(&s->h);
    free(s);
}

static uint64_t argument_seed, argument_steps = 20000, argument_seeds = 1;

static void test_soak(void **state)
{
    (void)state;
    if (argument_seed != 0) {
        for (uint64_t i = 0; i < argument_seeds; i++) {
            run(argument_seed + i, argument_steps);
        }
        return;
    }
    int64_t end_ns = amb_clock_monotonic_ns() + SECONDS * AMB_NS_PER_SEC;
    for (uint64_t seed = 1; seed <= 3 || amb_clock_monotonic_ns() < end_ns; seed++) {
        run(seed, argument_steps);
    }
}

static void on_abort(int number)
{
    static const char text[] = "the run of this seed aborted: ";
    char digits[24];
    size_t at = sizeof(digits);
    uint64_t seed = current_seed;
    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + seed % 10);
        seed /= 10;
    } while (seed != 0);
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)!write(STDERR_FILENO, digits + at, sizeof(digits) - at);
    (void)signal(number, SIG_DFL);
}

int main(int argc, char **argv)
{
    argument_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    argument_steps = argc > 2 ? strtoull(argv[2], NULL, 10) : argument_steps;
    argument_seeds = argc > 3 ? strtoull(argv[3], NULL, 10) : argument_seeds;
    (void)signal(SIGABRT, on_abort);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soak),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed != 0) {
        (void)fprintf(stderr, "failed at seed %llu, step %llu\n", (unsigned long long)current_seed,
                      (unsigned long long)current_step);
    }
    return failed;
}
