/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures that a handshaker checks: right, wrong, and under way when the handshakers stop. */
#include "broker/tls/verify.h"

#include "broker/tls/handshaker.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MANY 200u

struct answers {
    unsigned good, bad;
};

static void answered(struct amb_mail *mail, void *owner)
{
    struct answers *answers = owner;
    const struct amb_verify *verify = AMB_CONTAINER_OF(mail, struct amb_verify, mail);
    answers->good += verify->is_good;
    answers->bad += !verify->is_good;
}

static void never(struct amb_mail *mail, void *owner)
{
    (void)mail;
    (void)owner;
    fail_msg("no connection was given");
}

static void await(struct amb_inbox *inbox, const struct answers *answers, unsigned count)
{
    while (answers->good + answers->bad < count) {
        if (amb_inbox_arm(inbox)) {
            struct pollfd bell = {.fd = inbox->bell, .events = POLLIN};
            assert_int_equal(poll(&bell, 1, 10000), 1);
        }
        amb_inbox_disarm(inbox, true);
        (void)amb_inbox_run(inbox);
    }
}

static void fill(struct amb_verify *verify, const struct amb_signer *signer,
                 struct amb_inbox *inbox, unsigned number)
{
    *verify = (struct amb_verify){.control = inbox, .on_done = answered, .text_len = 100};
    memset(verify->text, (int)number, verify->text_len);
    amb_signer_public(signer, verify->key);
    assert_true(amb_signer_sign(signer, verify->text, verify->text_len, verify->signature));
    if (number % 2 == 1) {
        verify->text[99] ^= 1;
    }
}

/* Starts the handshakers, and gives them all signatures. */
static void post_all(struct amb_handshakers *handshakers, unsigned threads,
                     const struct amb_signer *signer, struct amb_inbox *inbox)
{
    static struct amb_verify verify[MANY];
    assert_int_equal(amb_handshakers_start(handshakers, threads, inbox, never), AMB_OK);
    for (unsigned i = 0; i < MANY; i++) {
        fill(&verify[i], signer, inbox, i);
        amb_verify_post(&verify[i], handshakers);
    }
}

static void test_signatures_are_checked_on_other_threads(void **state)
{
    (void)state;
    struct answers answers = {0};
    struct amb_inbox inbox;
    struct amb_handshakers handshakers = {.count = 0};
    struct amb_signer *signer;
    assert_int_equal(amb_signer_create(&signer), AMB_OK);
    assert_int_equal(amb_inbox_init(&inbox, &answers), AMB_OK);
    for (unsigned threads = 1; threads <= 2; threads++) {
        answers = (struct answers){0};
        post_all(&handshakers, threads, signer, &inbox);
        await(&inbox, &answers, MANY);
        assert_int_equal(answers.good, MANY / 2);
        assert_int_equal(answers.bad, MANY / 2);
        amb_handshakers_stop(&handshakers);
    }
    amb_signer_free(&signer);
    amb_inbox_fini(&inbox);
}

static void test_a_stop_answers_all(void **state)
{
    (void)state;
    struct answers answers = {0};
    struct amb_inbox inbox;
    struct amb_handshakers handshakers = {.count = 0};
    struct amb_signer *signer;
    assert_int_equal(amb_signer_create(&signer), AMB_OK);
    assert_int_equal(amb_inbox_init(&inbox, &answers), AMB_OK);
    post_all(&handshakers, 1, signer, &inbox);
    amb_handshakers_stop(&handshakers);
    (void)amb_inbox_run(&inbox);
    assert_int_equal(answers.good + answers.bad, MANY);
    amb_signer_free(&signer);
    amb_inbox_fini(&inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signatures_are_checked_on_other_threads),
        cmocka_unit_test(test_a_stop_answers_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
