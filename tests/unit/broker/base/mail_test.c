/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inboxes: order, the bell, mail that is posted again from its own function.
 */
#include "broker/base/mail.h"
#include "wire/base/list.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct letter {
    struct amb_mail mail;
    unsigned value;
    unsigned left; /* reposts */
};

struct reader {
    struct amb_inbox inbox;
    unsigned got[64], count;
};

static void read_letter(struct amb_mail *mail, void *owner)
{
    struct reader *reader = owner;
    struct letter *letter = AMB_CONTAINER_OF(mail, struct letter, mail);
    assert_true(reader->count < 64);
    reader->got[reader->count++] = letter->value;
}

static void read_and_repost(struct amb_mail *mail, void *owner)
{
    struct reader *reader = owner;
    struct letter *letter = AMB_CONTAINER_OF(mail, struct letter, mail);
    reader->count++;
    if (letter->left-- > 0) {
        amb_mail_post(&reader->inbox, mail, read_and_repost);
    }
}

static void free_letter(struct amb_mail *mail, void *owner)
{
    (void)owner;
    free(AMB_CONTAINER_OF(mail, struct letter, mail));
}

static void setup(struct reader *reader)
{
    *reader = (struct reader){.count = 0};
    assert_int_equal(amb_inbox_init(&reader->inbox, reader), AMB_OK);
}

static bool bell_rings(const struct reader *reader)
{
    struct pollfd fd = {.fd = reader->inbox.bell, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void test_mail_runs_in_the_order_of_posting_with_the_owner(void **state)
{
    (void)state;
    struct reader reader;
    struct letter letters[10];
    setup(&reader);
    for (unsigned i = 0; i < 10; i++) {
        letters[i].value = i;
        amb_mail_post(&reader.inbox, &letters[i].mail, read_letter);
    }
    assert_int_equal(amb_inbox_run(&reader.inbox), 10);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(reader.got[i], i);
    }
    assert_int_equal(amb_inbox_run(&reader.inbox), 0);
    amb_inbox_fini(&reader.inbox);
}

static void test_mail_posted_by_mail_is_the_next_runs(void **state)
{
    (void)state;
    struct reader reader;
    struct letter letter = {.left = 2};
    setup(&reader);
    amb_mail_post(&reader.inbox, &letter.mail, read_and_repost);
    assert_int_equal(amb_inbox_run(&reader.inbox), 1);
    assert_int_equal(amb_inbox_run(&reader.inbox), 1);
    assert_int_equal(amb_inbox_run(&reader.inbox), 1);
    assert_int_equal(amb_inbox_run(&reader.inbox), 0);
    assert_int_equal(reader.count, 3);
    amb_inbox_fini(&reader.inbox);
}

static void test_a_function_may_free_its_mail(void **state)
{
    (void)state;
    struct reader reader;
    setup(&reader);
    for (unsigned i = 0; i < 3; i++) {
        struct letter *letter = calloc(1, sizeof(*letter));
        assert_non_null(letter);
        amb_mail_post(&reader.inbox, &letter->mail, free_letter);
    }
    assert_int_equal(amb_inbox_run(&reader.inbox), 3);
    amb_inbox_fini(&reader.inbox);
}

static void test_the_bell_rings_only_for_a_sleeper_and_once(void **state)
{
    (void)state;
    struct reader reader;
    struct letter letters[3];
    setup(&reader);
    amb_mail_post(&reader.inbox, &letters[0].mail, read_letter);
    assert_false(bell_rings(&reader));
    assert_false(amb_inbox_arm(&reader.inbox)); /* there is mail: no sleep */
    amb_inbox_disarm(&reader.inbox, false);
    assert_int_equal(amb_inbox_run(&reader.inbox), 1);
    assert_true(amb_inbox_arm(&reader.inbox));
    amb_mail_post(&reader.inbox, &letters[1].mail, read_letter);
    assert_true(bell_rings(&reader));
    amb_mail_post(&reader.inbox, &letters[2].mail, read_letter);
    amb_inbox_disarm(&reader.inbox, true);
    assert_false(bell_rings(&reader));
    assert_int_equal(amb_inbox_run(&reader.inbox), 2);
    amb_inbox_fini(&reader.inbox);
}

#define SENDERS 3u
#define LETTERS 2000u

struct sender {
    struct amb_inbox *to;
    struct letter letters[LETTERS];
};

struct counter {
    struct amb_inbox inbox;
    unsigned next[SENDERS];
    unsigned count;
};

static void count_letter(struct amb_mail *mail, void *owner)
{
    struct counter *counter = owner;
    const struct letter *letter = AMB_CONTAINER_OF(mail, struct letter, mail);
    assert_int_equal(letter->left, counter->next[letter->value]);
    counter->next[letter->value]++;
    counter->count++;
}

static void *send_letters(void *arg)
{
    struct sender *sender = arg;
    for (unsigned i = 0; i < LETTERS; i++) {
        amb_mail_post(sender->to, &sender->letters[i].mail, count_letter);
    }
    return NULL;
}

static void test_senders_never_miss_a_sleeping_reader(void **state)
{
    (void)state;
    static struct sender senders[SENDERS];
    static struct counter counter;
    pthread_t threads[SENDERS];
    assert_int_equal(amb_inbox_init(&counter.inbox, &counter), AMB_OK);
    for (unsigned s = 0; s < SENDERS; s++) {
        senders[s].to = &counter.inbox;
        for (unsigned i = 0; i < LETTERS; i++) {
            senders[s].letters[i].value = s;
            senders[s].letters[i].left = i;
        }
        assert_int_equal(pthread_create(&threads[s], NULL, send_letters, &senders[s]), 0);
    }
    while (counter.count < SENDERS * LETTERS) {
        bool rang = false;
        if (amb_inbox_arm(&counter.inbox)) {
            struct pollfd fd = {.fd = counter.inbox.bell, .events = POLLIN};
            rang = poll(&fd, 1, 20000) == 1;
            assert_true(rang);
        }
        amb_inbox_disarm(&counter.inbox, rang);
        (void)amb_inbox_run(&counter.inbox);
    }
    for (unsigned s = 0; s < SENDERS; s++) {
        assert_int_equal(pthread_join(threads[s], NULL), 0);
    }
    amb_inbox_fini(&counter.inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mail_runs_in_the_order_of_posting_with_the_owner),
        cmocka_unit_test(test_mail_posted_by_mail_is_the_next_runs),
        cmocka_unit_test(test_a_function_may_free_its_mail),
        cmocka_unit_test(test_the_bell_rings_only_for_a_sleeper_and_once),
        cmocka_unit_test(test_senders_never_miss_a_sleeping_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
