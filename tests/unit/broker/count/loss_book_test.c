/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/count/loss_book: workers share the slots and never meet; a record stays until another
 * needs its room, and the first that ended goes first.
 */
#include "broker/count/loss_book.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LOSSES 8u

static struct amb_counters counters;
static struct amb_counters_image image;

static int open_counters(void **state)
{
    (void)state;
    const struct amb_counters_options options = {.why = "a test",
                                                 .workers = 2,
                                                 .objects = 8,
                                                 .losses = LOSSES,
                                                 .name = "losses",
                                                 .version = "1",
                                                 .ucx = "off"};
    if (amb_counters_create(&options, &counters) != AMB_OK) {
        return -1;
    }
    amb_counters_view(&counters, &image);
    return 0;
}

static int close_counters(void **state)
{
    (void)state;
    amb_counters_destroy(&counters);
    return 0;
}

static struct amb_shard_stats *stats_of(unsigned worker)
{
    return amb_counters_shard(&counters, worker);
}

static uint32_t put(struct amb_loss_book *book, unsigned worker, uint64_t subscription)
{
    uint32_t record = amb_loss_book_take(book, stats_of(worker));
    if (record != 0) {
        amb_loss_book_words(book, record)->subscription = subscription;
        amb_loss_book_put(book, record, "a.>", "client", "slow");
    }
    return record;
}

/* Is there a loss of that subscription? */
static bool is_there(uint64_t subscription)
{
    uint64_t words[AMB_TEXTS_WORDS];
    for (uint32_t slot = 0; slot < amb_counters_slots(&image, AMB_COUNTERS_LOSS); slot++) {
        if (amb_counters_texts(&image, AMB_COUNTERS_LOSS, slot, words) &&
            words[AMB_SLOT_FIGURES] == subscription) {
            assert_string_equal(amb_counters_text(words, 0), "a.>");
            assert_string_equal(amb_counters_text(words, 1), "client");
            assert_string_equal(amb_counters_text(words, 2), "slow");
            return true;
        }
    }
    return false;
}

static void test_workers_have_records_of_their_own(void **state)
{
    (void)state;
    struct amb_loss_book books[2];
    for (unsigned i = 0; i < 2; i++) {
        amb_loss_book_init(&books[i], &counters, i, 2);
    }
    for (uint64_t i = 0; i < LOSSES / 2; i++) {
        assert_int_not_equal(put(&books[0], 0, 100 + i), 0);
        assert_int_not_equal(put(&books[1], 1, 200 + i), 0);
    }
    for (uint64_t i = 0; i < LOSSES / 2; i++) {
        assert_true(is_there(100 + i) && is_there(200 + i));
    }
    assert_int_equal(put(&books[0], 0, 300), 0);
    assert_int_equal(amb_stat_get(&stats_of(0)->losses_forgotten), 1);
    assert_int_equal(amb_stat_get(&stats_of(1)->losses_forgotten), 0);
}

static void test_the_first_that_ended_makes_room(void **state)
{
    (void)state;
    struct amb_loss_book book;
    uint32_t records[LOSSES];
    amb_loss_book_init(&book, &counters, 0, 1);
    for (uint64_t i = 0; i < LOSSES; i++) {
        records[i] = put(&book, 0, i + 1);
    }
    amb_loss_book_end(&book, records[5]);
    amb_loss_book_end(&book, records[2]);
    amb_loss_book_end(&book, 0); /* A subscription that lost nothing. */
    assert_true(is_there(6) && is_there(3));
    assert_int_equal(put(&book, 0, 91), records[5]);
    assert_true(!is_there(6) && is_there(3) && is_there(91));
    assert_int_equal(put(&book, 0, 92), records[2]);
    assert_int_equal(put(&book, 0, 93), 0);
    assert_int_equal(amb_stat_get(&stats_of(0)->losses_forgotten), 3);
    amb_loss_book_end(&book, records[5]);
    assert_int_equal(put(&book, 0, 94), records[5]);
    assert_int_equal(amb_loss_book_words(&book, records[5])->messages, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_counters, close_counters)
    const struct CMUnitTest tests[] = {
        TEST(test_workers_have_records_of_their_own),
        TEST(test_the_first_that_ended_makes_room),
    };
    return cmocka_run_group_tests_name("loss_book", tests, NULL, NULL);
}
