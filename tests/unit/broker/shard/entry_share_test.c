/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of a worker's entries. A user that publishes to readers that stand leaves some to others,
 * by however many clients. publisher_entries_test.c has the entries that windows reserve.
 */
#include "broker/shard/entry_share.h"
#include "broker/shard/slice.h"
#include "tests/support/shard/shard_queue.h"
#include "tests/unit/broker/ingest/publisher_world.h"

#define MOST 4096u       /* entries in these tests, */
#define PART (MOST / 64) /* ... in parts */
#define CROWD 16u        /* publishers, each with a reader that stands */
#define LEN UINT64_C(1000)
#define FAR 4u     /* topics with a reader on another worker */
#define TRIES 400u /* of a client that wants more */

struct parties {
    struct amb_parties all;
    struct amb_party *evil, *twin, *honest; /* two processes of one user; another user's */
};

static const struct amb_subscription_options stands = {
    .slow = AMB_SLOW_BLOCK, .slow_block_ns = INT64_MAX, .credit_msgs = 1};

static void parties_init(struct parties *p)
{
    assert_int_equal(amb_parties_init(&p->all, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&p->all, 4001, "1", &p->evil), AMB_OK);
    assert_int_equal(amb_parties_find(&p->all, 4001, "2", &p->twin), AMB_OK);
    assert_int_equal(amb_parties_find(&p->all, 4002, "3", &p->honest), AMB_OK);
}

/* Nothing that they published is left. */
static void parties_fini(struct parties *p)
{
    struct amb_party *all[] = {p->evil, p->twin, p->honest};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(all[i]->refs, 2); /* This one, and the table's. */
        for (unsigned worker = 0; worker < 2; worker++) {
            const struct amb_entry_share *share = all[i]->entry_shares->of[worker];
            assert_true(share == NULL || (share->used == 0 && share->party == NULL));
        }
        amb_party_unref(&all[i]);
    }
    amb_parties_fini(&p->all);
}

static struct shard_client *client_of(struct world *w, struct amb_party *party)
{
    return shard_client_create(&w->h, 0, &(struct client_options){.party = party});
}

/* Sends tiny batches for as long as its windows open. */
static void take_all(struct world *w, struct shard_client *evil)
{
    for (unsigned i = 0; i < TRIES; i++) {
        while (client_may_send(evil, 0, 1, 16)) {
            client_send(evil, 0, 1, 16);
        }
        client_want(evil, 0, evil->pubs[0].bytes + client_batch_bytes(1, 16));
        harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
        harness_settle(&w->h);
    }
}

/* It publishes so many, each when its window is open, to a topic that nobody reads. */
static void publish(struct world *w, struct shard_client *client, unsigned count)
{
    unsigned refused = client->settle_count;
    for (unsigned i = 0; i < count; i++) {
        for (unsigned turn = 0; turn < 10 && !client_may_send(client, 0, 1, LEN); turn++) {
            client_want(client, 0, client->pubs[0].bytes + client_batch_bytes(1, LEN));
            harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
            harness_settle(&w->h);
        }
        assert_true(client_may_send(client, 0, 1, LEN));
        client_send(client, 0, 1, LEN);
        harness_settle(&w->h);
    }
    assert_int_equal(client->settle_count, refused);
}

/* A topic with a reader that stands. */
static uint32_t open_standing(struct world *w)
{
    w->h.shards[0].entries.max = MOST;
    uint32_t topic = harness_topic(&w->h, "tiny", 0);
    client_subscribe(shard_client_create(&w->h, 0, NULL), 0, topic, &stands);
    return topic;
}

static void test_one_client_leaves_entries_to_others(void **state)
{
    struct world *w = *state;
    struct parties p;
    parties_init(&p);
    uint32_t topic = open_standing(w);
    struct shard_client *evil = client_of(w, p.evil), *other = client_of(w, p.honest);
    client_open_pub(evil, 0, topic, false);
    take_all(w, evil);
    size_t used = w->h.shards[0].entries.pool.used;
    assert_in_range(used, 48 * PART - 16, 60 * PART + 1);
    assert_int_equal(amb_entry_share_room(&w->h.shards[0], evil->session->entry_share), 0);
    assert_true(amb_list_is_empty(&w->h.shards[0].windows.starving)); /* Nobody is behind it. */
    assert_false(amb_list_is_empty(&w->h.shards[0].windows.shut));
    client_open_pub(other, 0, w->topic, false);
    publish(w, other, 3 * MOST);
    /* Another process of the same user goes on, too. */
    struct shard_client *twin = client_of(w, p.twin);
    client_open_pub(twin, 0, w->topic, false);
    publish(w, twin, MOST);
    harness_forget(&w->h);
    parties_fini(&p);
}

/* A process that comes back is charged for what it has left. Another one of its user finds half of
 * the rest. */
static void test_many_clients_of_a_user_leave_entries_to_others(void **state)
{
    struct world *w = *state;
    struct parties p;
    parties_init(&p);
    uint32_t topic = open_standing(w);
    for (unsigned i = 0; i < 6; i++) {
        struct shard_client *evil = client_of(w, i % 2 == 0 ? p.evil : p.twin);
        client_open_pub(evil, 0, topic, false);
        take_all(w, evil);
        shard_client_destroy(&w->h.clients[evil->id]);
    }
    const struct amb_shard *shard = &w->h.shards[0];
    assert_true(p.evil->entry_shares->of[0]->used > 44 * PART);
    assert_int_equal(p.evil->entry_shares->of[0]->sessions, 0);
    /* A user leaves a twentieth of the last ones. Half of that is enough here. */
    struct shard_client *other = client_of(w, p.honest);
    assert_in_range(amb_entry_share_room(shard, other->session->entry_share), PART / 2, PART);
    client_open_pub(other, 0, w->topic, false);
    publish(w, other, MOST);
    harness_forget(&w->h);
    parties_fini(&p);
}

/* History goes for its own party, too. */
static void test_a_party_gives_its_history_up(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    harness_init(
        &w->h, 1,
        "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };"
        "topics = ( { match = \">\"; retain = { messages = 1000000; }; } );");
    struct parties p;
    parties_init(&p);
    w->h.shards[0].entries.max = MOST;
    uint32_t topic = harness_topic(&w->h, "kept", 0);
    struct shard_client *client = client_of(w, p.evil);
    client_open_pub(client, 0, topic, false);
    publish(w, client, 4 * MOST);
    assert_in_range(w->h.shards[0].entries.pool.used, 1, 60 * PART);
    harness_forget(&w->h);
    parties_fini(&p);
}

/* Shadows for a reader of another worker are entries of the topic's worker. They are the
 * publisher's, too. */
static void test_shadows_are_of_the_party_that_published(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    harness_init(&w->h, 2, small_window);
    struct parties p;
    parties_init(&p);
    uint32_t topic = harness_topic(&w->h, "far", 1);
    client_subscribe(shard_client_create(&w->h, 0, NULL), 0, topic, &stands);
    struct shard_client *client = client_of(w, p.evil);
    client_open_pub(client, 0, topic, false);
    for (unsigned i = 0; i < 10; i++) {
        client_send(client, 0, 1, 16);
    }
    harness_settle(&w->h);
    assert_null(p.honest->entry_shares->of[1]);
    assert_int_equal(p.evil->entry_shares->of[1]->used, w->h.shards[1].entries.pool.used);
    assert_int_equal(p.evil->user->entry_shares->of[1]->used, w->h.shards[1].entries.pool.used);
    shard_client_destroy(&w->h.clients[client->id]);
    assert_in_range(p.evil->entry_shares->of[0]->used, 5, 10); /* It has sent some. */
    assert_non_null(p.evil->entry_shares->of[0]->party);       /* It is charged still. */
    harness_forget(&w->h);
    parties_fini(&p);
}

/* A message that is cut out of a batch may be kept for as long as its key. */
static void test_a_slice_is_of_the_party_that_published(void **state)
{
    struct world *w = *state;
    struct parties p;
    parties_init(&p);
    uint32_t topic = open_standing(w);
    struct shard_client *client = client_of(w, p.evil);
    client_open_pub(client, 0, topic, false);
    for (unsigned i = 0; i < 4; i++) {
        client_send(client, 0, 2, 16);
    }
    harness_settle(&w->h);
    const struct amb_log *log = &harness_home(&w->h, topic)->log;
    const struct amb_entry_share *share = client->session->entry_share;
    size_t used = share->used;
    struct amb_entry *slice = amb_slice_copy(&w->h.shards[0], amb_log_at(log, log->lo), 1, 1);
    assert_int_equal(share->used, used + 1);
    amb_entry_unref(slice, &w->h.shards[0]);
    assert_int_equal(share->used, used);
    harness_forget(&w->h);
    parties_fini(&p);
}

static void take(struct amb_shard *shard, struct amb_entry_share *share, size_t count)
{
    shard->entries.reserved += count;
    amb_entry_share_add(share, count);
}

/* While there are plenty one party may have all. */
static void test_nobody_has_a_share_where_there_are_plenty(void **state)
{
    struct world *w = *state;
    struct parties p;
    parties_init(&p);
    struct amb_shard *shard = &w->h.shards[0];
    shard->entries.max = MOST;
    struct amb_entry_share *share = amb_entry_share_open(shard, p.evil);
    struct amb_entry_share *other = amb_entry_share_open(shard, p.honest);
    size_t before = shard->entries.reserved, most = 48 * PART - before;
    assert_int_equal(amb_entry_share_room(shard, share), most);
    take(shard, share, 32 * PART);
    assert_int_equal(amb_entry_share_room(shard, share), most - 32 * PART);
    assert_int_equal(amb_entry_share_room(shard, other), most - 32 * PART);
    take(shard, share, 12 * PART);
    assert_in_range(amb_entry_share_room(shard, other), 4 * PART - before, 4 * PART);
    take(shard, share, 4 * PART);
    assert_int_equal(amb_entry_share_room(shard, share), 0);
    struct amb_entry_claim claim = {.share = share};
    assert_false(amb_entry_share_is_used_up(shard, &claim)); /* Batches were granted before. */
    take(shard, share, 12 * PART + 1);
    assert_true(amb_entry_share_is_used_up(shard, &claim));
    claim.has_entry = true;
    assert_false(amb_entry_share_is_used_up(shard, &claim));
    claim = (struct amb_entry_claim){.share = other};
    assert_false(amb_entry_share_is_used_up(shard, &claim));
    assert_int_equal(amb_entry_share_room(shard, other), PART);
    take(shard, share, (size_t)0 - 60 * PART - 1);
    assert_int_equal(shard->entries.reserved, before);
    amb_entry_share_close(&share);
    amb_entry_share_close(&other);
    amb_entry_share_close(&other);
    parties_fini(&p);
}

/* Others have many. A party that has few finds some for its batches, more so if its user has few,
 * or is root. */
static void test_the_last_entries_are_for_batches_of_those_with_few(void **state)
{
    struct world *w = *state;
    struct parties p;
    struct amb_party *own;
    parties_init(&p);
    assert_int_equal(amb_parties_find(&p.all, 0, "4", &own), AMB_OK);
    struct amb_shard *shard = &w->h.shards[0];
    shard->entries.max = MOST;
    const struct {
        struct amb_party *party;
        size_t own, of_user;
        unsigned parts; /* where its batches end */
    } cases[] = {{p.honest, 0, 0, 64},
                 {p.honest, 2 * PART, 0, 60},
                 {own, 0, 50 * PART, 64},
                 {p.twin, 0, 50 * PART, 62}};
    for (unsigned i = 0; i < 4; i++) {
        struct amb_entry_share *share = amb_entry_share_open(shard, cases[i].party);
        const struct amb_entry_claim claim = {.share = share};
        size_t before = shard->entries.reserved;
        share->used += cases[i].own;
        share->above->used += cases[i].own + cases[i].of_user;
        shard->entries.reserved = 55 * PART;
        while (!amb_entry_share_is_used_up(shard, &claim)) {
            shard->entries.reserved++;
        }
        assert_int_equal(shard->entries.reserved, cases[i].parts * PART + 1);
        shard->entries.reserved = before;
        share->used -= cases[i].own;
        share->above->used -= cases[i].own + cases[i].of_user;
        amb_entry_share_close(&share);
    }
    amb_party_unref(&own);
    parties_fini(&p);
}

/* It publishes so many tiny batches from its worker, as its window lets it. */
static void publish_tiny(struct world *w, struct shard_client *client, uint32_t handle,
                         unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!client_may_send(client, handle, 1, 16)) {
            client_want(client, handle, client->pubs[handle].bytes + client_batch_bytes(1, 16));
            harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
            harness_settle(&w->h);
        }
        assert_true(client_may_send(client, handle, 1, 16));
        client_send(client, handle, 1, 16);
    }
    harness_settle(&w->h);
}

/* A party that has its share here publishes from another worker, for readers there. Their messages
 * are lent one by one. */
static void test_shadows_leave_entries_to_others(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    harness_init(&w->h, 2, small_window);
    struct parties p;
    parties_init(&p);
    uint32_t topic = open_standing(w), own = harness_topic(&w->h, "own", 0);
    struct shard_client *evil = client_of(w, p.evil), *other = client_of(w, p.honest);
    client_open_pub(evil, 0, topic, false);
    take_all(w, evil);
    const struct amb_shard *shard = &w->h.shards[0];
    size_t used = shard->entries.pool.used;
    struct shard_client *reader = shard_client_create(&w->h, 1, NULL);
    struct shard_client *far =
        shard_client_create(&w->h, 1, &(struct client_options){.party = p.evil});
    for (unsigned i = 0; i < FAR; i++) {
        char name[] = {'f', (char)('0' + i), 0};
        uint32_t at = harness_topic(&w->h, name, 0);
        client_subscribe(reader, i, at, &stands);
        client_open_pub(far, i, at, false);
        publish_tiny(w, far, i, MOST / 8);
    }
    assert_in_range(shard->entries.pool.used, used, used + FAR);
    client_open_pub(other, 0, own, false);
    publish(w, other, 3 * MOST);
    /* None is stuck. */
    for (unsigned i = 0; i < FAR; i++) {
        client_drain(reader, i);
        assert_int_equal(reader->subs[i].msgs, MOST / 8);
    }
    harness_forget(&w->h);
    parties_fini(&p);
}

/* The same for a member of a queue, which has credit for all. */
static void test_takes_leave_entries_to_others(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    harness_init(&w->h, 2, small_window);
    struct parties p;
    parties_init(&p);
    uint32_t topic = open_standing(w), own = harness_topic(&w->h, "own", 0);
    uint32_t queued = harness_topic(&w->h, "queued", 0);
    struct shard_client *evil = client_of(w, p.evil), *other = client_of(w, p.honest);
    client_open_pub(evil, 0, topic, false);
    take_all(w, evil);
    const struct amb_shard *shard = &w->h.shards[0];
    size_t used = shard->entries.pool.used;
    struct harness_queue queue;
    harness_queue_open(&w->h, 0, NULL, &queue);
    harness_queue_read(&queue, queued);
    struct shard_client *member = shard_client_create(&w->h, 1, NULL);
    client_join(member, 0, &queue, &(struct amb_subscription_options){.credit_msgs = MOST});
    struct shard_client *far =
        shard_client_create(&w->h, 1, &(struct client_options){.party = p.evil});
    client_open_pub(far, 0, queued, false);
    publish_tiny(w, far, 0, MOST / 4);
    assert_in_range(shard->entries.pool.used, used, used + 2);
    client_open_pub(other, 0, own, false);
    publish(w, other, MOST);
    for (uint64_t i = 1; i <= MOST / 4; i++) { /* None is stuck. */
        assert_true(member->subs[0].last >= i);
        client_ack(member, 0, i);
        client_release(member, 0, i);
        harness_settle(&w->h);
    }
    shard_client_destroy(&w->h.clients[member->id]);
    harness_settle(&w->h);
    harness_queue_close(&queue);
    harness_forget(&w->h);
    parties_fini(&p);
}

/* Each of them has a reader that stands, and is one of so many users. Their windows shut in time.
 */
static void crowd_waits(struct world *w, unsigned users)
{
    struct amb_parties parties;
    struct amb_party *party[CROWD];
    struct shard_client *crowd[CROWD];
    harness_fini(&w->h);
    harness_init(
        &w->h, 1,
        "memory = { host = { size = \"256M\"; segment = \"2M\"; grow_on_demand = true; }; };"
        "limits = { window = \"64K\"; };");
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    w->h.shards[0].entries.max = 3 * MOST;
    for (unsigned i = 0; i < CROWD; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        uint32_t topic = harness_topic(&w->h, name, 0);
        client_subscribe(shard_client_create(&w->h, 0, NULL), 0, topic, &stands);
        assert_int_equal(amb_parties_find(&parties, 4001 + i % users, name, &party[i]), AMB_OK);
        crowd[i] = client_of(w, party[i]);
        client_open_pub(crowd[i], 0, topic, false);
    }
    for (unsigned turn = 0; turn < MOST; turn++) {
        for (unsigned i = 0; i < CROWD; i++) {
            if (client_may_send(crowd[i], 0, 1, 400)) {
                client_send(crowd[i], 0, 1, 400);
            } else if (turn % 8 == i % 8) {
                client_want(crowd[i], 0, crowd[i]->pubs[0].bytes + client_batch_bytes(1, 400));
            }
        }
        harness_settle(&w->h);
        if (turn % 16 == 0) {
            harness_pass(&w->h, AMB_RECLAIM_PAUSE_NS);
        }
    }
    assert_in_range(w->h.shards[0].entries.pool.used, 3 * 48 * PART, 3 * 60 * PART);
    for (unsigned i = 0; i < CROWD; i++) {
        assert_int_equal(crowd[i]->settle_count, 0); /* Nothing is refused. */
    }
    harness_forget(&w->h);
    for (unsigned i = 0; i < CROWD; i++) {
        amb_party_unref(&party[i]);
    }
    amb_parties_fini(&parties);
}

static void test_a_crowd_waits_and_is_not_refused(void **state)
{
    crowd_waits(*state, CROWD);
    crowd_waits(*state, 4);
    crowd_waits(*state, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_one_client_leaves_entries_to_others),
        T(test_many_clients_of_a_user_leave_entries_to_others),
        T(test_a_party_gives_its_history_up),
        T(test_shadows_are_of_the_party_that_published),
        T(test_shadows_leave_entries_to_others),
        T(test_takes_leave_entries_to_others),
        T(test_the_last_entries_are_for_batches_of_those_with_few),
        T(test_a_slice_is_of_the_party_that_published),
        T(test_a_crowd_waits_and_is_not_refused),
        T(test_nobody_has_a_share_where_there_are_plenty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
