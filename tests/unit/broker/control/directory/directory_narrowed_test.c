/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions that are narrowed by denies never get a cursor in a topic that one matches, however
 * the two come together. They do not count as its readers.
 */
#include "tests/support/rights_try.h"
#include "tests/unit/broker/control/directory/directory_world.h"

static const char roomy[] = "limits = { max_subscriptions = 5000; max_topics = 6000; };\n"
                            "memory = { host = { size = \"16M\"; segment = \"2M\"; }; };\n";

static struct amb_rights *rights_with(struct try_role *role, const char *allow, const char *deny)
{
    *role = (struct try_role){.role = {.name = "r"}};
    try_add(role, 2, allow);
    try_add(role, 3, deny);
    const struct amb_role *roles[] = {&role->role};
    const struct amb_rights_of of = {roles, 1, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    return rights;
}

/* As subscribe() does, by rights that narrow it. */
static void subscribe_with(struct amb_dir_sub *sub, const struct amb_session_id *session,
                           uint32_t handle, const char *pattern, struct amb_rights *rights)
{
    open_sub(sub, session, handle, pattern);
    assert_int_equal(amb_rights_subscribe(rights, sub->pattern, sub->pattern_len, &sub->cut, NULL),
                     AMB_RIGHTS_NARROWED);
    sub->rights = amb_rights_ref(rights);
    unsigned before = f.answers;
    unsigned orders = amb_directory_subscribe(&f.directory, sub, note_answer, NULL);
    while (f.answers < before + orders) {
        round_of_work();
    }
}

static void refresh(void)
{
    f.directory.now_ns += INT64_C(250000000);
    round_of_work();
}

static void test_topics_that_are_there_are_left_out(void **state)
{
    (void)state;
    struct try_role role;
    struct amb_rights *rights = rights_with(&role, ">", "*.secret");
    struct amb_dir_sub near, far;
    set_up(2, roomy);
    struct amb_session_id here = open_session(0, 0), there = open_session(1, 0);
    struct amb_dir_topic *open = awake_topic_of("a.open", 0),
                         *secret = awake_topic_of("a.secret", 0);
    struct amb_dir_topic *high = priority_of(secret, AMB_PRIORITY_HIGH);
    wake(high);
    subscribe_with(&near, &here, 0, ">", rights);
    subscribe_with(&far, &there, 0, "a.*", rights);
    assert_int_equal(rights->refs, 3);
    assert_int_equal(cursors_of(open, 0), 1);
    assert_int_equal(cursors_of(open, 1), 1);
    assert_int_equal(cursors_of(secret, 0) + cursors_of(secret, 1), 0);
    assert_int_equal(cursors_of(high, 0) + cursors_of(high, 1), 0);
    assert_int_equal(amb_directory_matched(open), 2);
    assert_int_equal(amb_directory_matched(secret), 0);
    assert_int_equal(f.directory.pair_count, 2);
    unsubscribe(&near);
    unsubscribe(&far);
    refresh();
    assert_int_equal(f.directory.pair_count, 0);
    assert_int_equal(rights->refs, 1);
    amb_rights_unref(&rights);
    tear_down();
}

static void test_topics_that_wake_later_are_left_out(void **state)
{
    (void)state;
    struct try_role role;
    struct amb_rights *rights = rights_with(&role, ">", "*.secret");
    struct amb_dir_sub narrowed, whole, other;
    set_up(2, roomy);
    struct amb_session_id here = open_session(0, 0), there = open_session(1, 0);
    subscribe_with(&narrowed, &here, 0, ">", rights);
    (void)subscribe(&whole, &there, 0, ">");
    subscribe_with(&other, &there, 1, "a.*", rights);
    struct amb_dir_topic *open = awake_topic_of("a.open", 1),
                         *secret = awake_topic_of("a.secret", 1);
    assert_int_equal(cursors_of(open, 0), 1);
    assert_int_equal(cursors_of(open, 1), 2);
    assert_int_equal(cursors_of(secret, 0), 0);
    assert_int_equal(cursors_of(secret, 1), 1);
    assert_int_equal(secret->on_shard[1]->audience.matched, 1);
    unsubscribe(&narrowed);
    unsubscribe(&other);
    unsubscribe(&whole);
    amb_rights_unref(&rights);
    tear_down();
}

static void test_quiet_topics_count_exactly_who_will_read_them(void **state)
{
    (void)state;
    struct try_role role;
    struct amb_rights *rights = rights_with(&role, ">", "*.secret");
    struct amb_dir_sub narrowed, whole;
    set_up(1, roomy);
    struct amb_session_id session = open_session(0, 0);
    struct amb_dir_topic *topic = topic_of("a.secret", 0);
    struct amb_dir_publisher publisher = {.session = session, .is_auto = true, .user = 1000};
    amb_list_init(&publisher.of_topic);
    amb_directory_publish(&publisher, topic);
    open_sub(&narrowed, &session, 0, ">");
    assert_int_equal(amb_rights_subscribe(rights, ">", 1, &narrowed.cut, NULL),
                     AMB_RIGHTS_NARROWED);
    narrowed.rights = amb_rights_ref(rights);
    narrowed.may_map = true;
    narrowed.maps = UINT64_MAX;
    narrowed.user = 1001;
    (void)amb_directory_subscribe(&f.directory, &narrowed, note_answer, NULL);
    refresh();
    assert_int_equal(amb_directory_matched(topic), 0);
    assert_int_equal(topic->told, 0);    /* Nobody will read it, */
    assert_false(publisher.told_copies); /* ... so no other user does. */
    (void)subscribe(&whole, &session, 1, ">");
    refresh();
    assert_int_equal(topic->told, 1);
    assert_false(publisher.told_copies);
    struct amb_dir_topic *open = topic_of("a.open", 0);
    assert_int_equal(amb_directory_matched(open), 2);
    unsubscribe(&narrowed);
    assert_int_equal(amb_directory_matched(open), 1);
    assert_int_equal(narrowed.rights == NULL, true);
    unsubscribe(&whole);
    amb_directory_unpublish(&f.directory, &publisher);
    amb_rights_unref(&rights);
    tear_down();
}

enum {
    ROUNDS = 40,
    SUBS = 24,
};

/* The definition, topic by topic. */
static unsigned readers_of(const struct amb_dir_topic *topic, struct amb_dir_sub *subs,
                           const bool *is_there)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SUBS; i++) {
        const struct amb_dir_sub *sub = &subs[i];
        count +=
            is_there[i] &&
            amb_pattern_matches(sub->pattern, sub->pattern_len, topic->name, topic->name_len) &&
            (sub->rights == NULL ||
             !amb_pattern_matches(sub->rights->subscribe.deny.items[0].pattern,
                                  sub->rights->subscribe.deny.items[0].len, topic->name,
                                  topic->name_len));
    }
    return count;
}

static void compare(struct amb_dir_sub *subs, const bool *is_there)
{
    AMB_LIST_FOR_EACH (node, &f.directory.topics) {
        struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        unsigned expected = readers_of(topic, subs, is_there);
        if (amb_directory_matched(topic) != expected) {
            fail_msg("%s: %u, not %u", topic->name, amb_directory_matched(topic), expected);
        }
        if (topic->wake == AMB_DIR_AWAKE) {
            assert_int_equal(cursors_of(topic, 0) + cursors_of(topic, 1), expected);
        }
    }
}

/* Subscriptions with one deny each, topics and their first messages, in any order. */
static void test_any_order_agrees_with_the_definition(void **state)
{
    (void)state;
    const struct try_world *world = try_world();
    for (unsigned round = 0; round < ROUNDS; round++) {
        static struct try_role roles[SUBS];
        static struct amb_dir_sub subs[SUBS];
        bool is_there[SUBS] = {false};
        set_up(2, roomy);
        struct amb_session_id sessions[] = {open_session(0, 0), open_session(1, 0)};
        for (unsigned step = 0; step < 3 * SUBS; step++) {
            unsigned i = step / 3;
            const struct try_text *text = &world->patterns[try_random() % world->pattern_count];
            const struct try_text *deny = &world->patterns[try_random() % world->pattern_count];
            if (step % 3 != 0) {
                const struct try_text *name = &world->topics[try_random() % world->topic_count];
                struct amb_dir_topic *topic = topic_of(name->at, (unsigned)try_random() % 2);
                if (step % 3 == 1 && topic->wake == AMB_DIR_QUIET) {
                    wake(topic);
                }
                continue;
            }
            bool is_narrowed = strpbrk(text->at, "*>") != NULL &&
                               amb_pattern_meets(text->at, text->len, deny->at, deny->len) &&
                               !amb_pattern_contains(deny->at, deny->len, text->at, text->len);
            if (is_narrowed) {
                struct amb_rights *rights = rights_with(&roles[i], text->at, deny->at);
                subscribe_with(&subs[i], &sessions[i % 2], i, text->at, rights);
                amb_rights_unref(&rights); /* The subscription's is the last one. */
            } else {
                (void)subscribe(&subs[i], &sessions[i % 2], i, text->at);
            }
            is_there[i] = true;
            round_of_work();
            compare(subs, is_there);
        }
        for (unsigned i = 0; i < SUBS; i++) {
            is_there[i] = false;
            unsubscribe(&subs[i]);
            assert_null(subs[i].rights);
        }
        refresh();
        assert_int_equal(f.directory.pair_count, 0);
        tear_down();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topics_that_are_there_are_left_out),
        cmocka_unit_test(test_topics_that_wake_later_are_left_out),
        cmocka_unit_test(test_quiet_topics_count_exactly_who_will_read_them),
        cmocka_unit_test(test_any_order_agrees_with_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
