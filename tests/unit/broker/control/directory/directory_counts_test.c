/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/directory_counts: how many read a quiet topic, and when its publishers hear of it.
 */
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "tests/unit/broker/control/directory/directory_world.h"

#include <stdio.h>

#define QUARTER_NS INT64_C(250000000)

static const char roomy[] = "limits = { max_subscriptions = 5000; max_topics = 6000; };\n"
                            "memory = { host = { size = \"16M\"; segment = \"2M\"; }; };\n";

/* News that may be told later are told. */
static void refresh(void)
{
    f.directory.now_ns += QUARTER_NS;
    round_of_work();
}

/* A thousand subscriptions to everything would tell each publisher a thousand times. */
static void test_publishers_of_quiet_topics_hear_at_once_what_matters(void **state)
{
    (void)state;
    struct amb_dir_sub first, second, foreign;
    set_up(1, roomy);
    struct amb_session_id session = open_session(0, 0);
    struct amb_dir_topic *topic = topic_of("a", 0);
    struct amb_dir_publisher publisher = {.session = session, .is_auto = true, .user = 1000};
    amb_list_init(&publisher.of_topic);
    amb_directory_publish(&publisher, topic);
    (void)subscribe(&first, &session, 0, ">");
    assert_int_equal(topic->told, 1); /* that somebody is there */
    (void)subscribe(&second, &session, 1, ">");
    assert_int_equal(topic->told, 1);
    refresh();
    assert_int_equal(topic->told, 2);
    assert_false(publisher.told_copies);
    open_sub(&foreign, &session, 2, "*");
    foreign.may_map = true;
    foreign.maps = UINT64_MAX;
    foreign.user = 1001;
    (void)amb_directory_subscribe(&f.directory, &foreign, note_answer, NULL);
    amb_directory_tell(&f.directory);
    assert_true(publisher.told_copies); /* that another user will read in place */
    assert_int_equal(topic->told, 2);
    round_of_work();
    assert_int_equal(topic->told, 3);
    assert_true(publisher.told_copies);
    unsubscribe(&first);
    unsubscribe(&second);
    unsubscribe(&foreign);
    assert_int_equal(topic->told, 3);
    refresh();
    assert_int_equal(topic->told, 0);
    assert_false(publisher.told_copies);
    amb_directory_unpublish(&f.directory, &publisher);
    tear_down();
}

/* Or each of a thousand publishers would have all patterns compared anew. */
static void test_a_count_is_made_once_until_patterns_change(void **state)
{
    (void)state;
    struct amb_dir_sub subs[2];
    set_up(1, roomy);
    struct amb_session_id session = open_session(0, 0);
    struct amb_dir_topic *topic = topic_of("a", 0);
    (void)subscribe(&subs[0], &session, 0, ">");
    assert_int_equal(amb_directory_matched(topic), 1);
    topic->wild.count = 41; /* as it was found */
    assert_int_equal(amb_directory_matched(topic), 41);
    (void)subscribe(&subs[1], &session, 1, "*");
    assert_int_equal(amb_directory_matched(topic), 2);
    tear_down();
}

/* Thousands of patterns that match one topic do not hold the control thread up; those that were not
 * looked at may be anybody's. */
static void test_a_count_has_so_many_steps(void **state)
{
    (void)state;
    enum {
        TOKENS = 12
    };
    static struct amb_list_node nodes[1 << TOKENS];
    static struct amb_pattern *patterns[1 << TOKENS];
    set_up(1, roomy);
    for (unsigned i = 0; i < 1u << TOKENS; i++) {
        char text[2 * TOKENS + 2] = "*"; /* None is the topic's name: these are no subscriptions. */
        for (unsigned j = 0; j < TOKENS; j++) {
            strcat(text, (i >> j & 1) != 0 ? ".*" : ".a");
        }
        patterns[i] =
            amb_patterns_add(&f.directory.patterns, 0, text, strlen(text), &nodes[i], NULL);
        assert_non_null(patterns[i]);
    }
    struct amb_dir_topic *topic = topic_of("a.a.a.a.a.a.a.a.a.a.a.a.a", 0);
    struct amb_dir_publisher publisher = {.is_auto = true, .user = 1000};
    amb_list_init(&publisher.of_topic);
    assert_in_range(amb_directory_matched(topic), 1, 4096);
    assert_true(topic->wild.is_cut);
    amb_directory_publish(&publisher, topic);
    assert_true(publisher.told_copies);
    amb_directory_unpublish(&f.directory, &publisher);
    for (unsigned i = 0; i < 1u << TOKENS; i++) {
        amb_patterns_remove(&f.directory.patterns, &patterns[i], &nodes[i], NULL);
    }
    assert_int_equal(amb_directory_matched(topic), 0);
    assert_false(topic->wild.is_cut);
    tear_down();
}

static void test_a_walk_over_many_topics_has_slices_and_a_pause(void **state)
{
    (void)state;
    enum {
        TOPICS = 5000
    };
    static struct amb_dir_topic *topics[TOPICS];
    struct amb_dir_sub sub;
    set_up(1, roomy);
    f.directory.now_ns = QUARTER_NS;
    struct amb_session_id session = open_session(0, 0);
    for (unsigned i = 0; i < TOPICS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t.%u", i);
        topics[i] = topic_of(name, 0);
    }
    open_sub(&sub, &session, 0, ">");
    (void)amb_directory_subscribe(&f.directory, &sub, note_answer, NULL);
    unsigned rounds = 0;
    do {
        round_of_work();
        rounds++;
    } while (amb_directory_is_busy(&f.directory));
    assert_in_range(rounds, 3, 30);
    for (unsigned i = 0; i < TOPICS; i++) {
        assert_int_equal(topics[i]->told, 1);
        assert_int_equal(topics[i]->on_shard[0]->audience.matched, 1);
    }
    unsubscribe(&sub);
    round_of_work();
    assert_false(amb_directory_is_busy(&f.directory)); /* Not yet again. */
    assert_int_equal(topics[0]->told, 1);
    f.directory.now_ns += QUARTER_NS;
    do {
        round_of_work();
    } while (amb_directory_is_busy(&f.directory));
    for (unsigned i = 0; i < TOPICS; i++) {
        assert_int_equal(topics[i]->told, 0);
    }
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_publishers_of_quiet_topics_hear_at_once_what_matters),
        cmocka_unit_test(test_a_count_is_made_once_until_patterns_change),
        cmocka_unit_test(test_a_count_has_so_many_steps),
        cmocka_unit_test(test_a_walk_over_many_topics_has_slices_and_a_pause),
    };
    return cmocka_run_group_tests_name("broker/directory_counts", tests, NULL, NULL);
}
