/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/pulse: a thread that reads its inbox is not silent, one that does not is, for so
 * long. */
#include "broker/http/pulse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_threads_that_read_their_mail_are_not_silent(void **state)
{
    (void)state;
    struct amb_inbox inboxes[2];
    struct amb_pulse *pulse = calloc(1, sizeof(*pulse));
    unsigned thread = 7;
    assert_non_null(pulse);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(amb_inbox_init(&inboxes[i], NULL), AMB_OK);
        amb_pulse_add(pulse, &inboxes[i]);
    }
    assert_int_equal(amb_pulse_silence_ns(pulse, 2, 100, &thread), 0);
    amb_pulse_ask(pulse, 100);
    assert_int_equal(amb_inbox_run(&inboxes[0]), 1);
    assert_int_equal(amb_pulse_silence_ns(pulse, 2, 130, &thread), 30);
    assert_int_equal(thread, 1);
    assert_int_equal(amb_pulse_silence_ns(pulse, 1, 130, &thread), 0);
    /* The second one has its mail still, and gets no other. */
    amb_pulse_ask(pulse, 150);
    assert_int_equal(amb_pulse_silence_ns(pulse, 2, 160, &thread), 60);
    assert_int_equal(amb_inbox_run(&inboxes[0]), 1);
    assert_int_equal(amb_inbox_run(&inboxes[1]), 1);
    assert_int_equal(amb_pulse_silence_ns(pulse, 2, 170, &thread), 0);
    amb_inbox_fini(&inboxes[0]);
    amb_inbox_fini(&inboxes[1]);
    free(pulse);
}

/* Their inboxes may be gone by then. */
static void test_behind_the_end_nobody_is_asked(void **state)
{
    (void)state;
    struct amb_inbox inbox;
    struct amb_pulse *pulse = calloc(1, sizeof(*pulse));
    assert_non_null(pulse);
    assert_int_equal(amb_inbox_init(&inbox, NULL), AMB_OK);
    amb_pulse_add(pulse, &inbox);
    amb_pulse_end(pulse);
    amb_pulse_ask(pulse, 100);
    assert_int_equal(amb_inbox_run(&inbox), 0);
    amb_inbox_fini(&inbox);
    free(pulse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_that_read_their_mail_are_not_silent),
        cmocka_unit_test(test_behind_the_end_nobody_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
