/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that leave while their signatures wait for a handshaker: they cost memory until then. */
#include "broker/control/requests/prove.h"

#include "broker/auth/users.h"
#include "broker/control/door.h"
#include "broker/tls/handshaker.h"
#include "tests/support/door/stepped_control.h"
#include "wire/auth/signer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TOKEN "a-token-of-web"

/* Its one thread has a turn when the test says so. */
static struct amb_handshakers slow = {.count = 1};

static void begin(struct amb_control *control)
{
    char token[AMB_CREDENTIAL_MAX + 1], text[256], why[AMB_AUTH_WHY_MAX];
    assert_true(amb_credential_of_token(TOKEN, strlen(TOKEN), token));
    int len = snprintf(text, sizeof(text), "web:plant:-:-:-:%s\n", token);
    if (amb_auth_users_parse(text, (size_t)len, "users", NULL, why, sizeof(why), &control->users) !=
        AMB_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(amb_inbox_init(&slow.threads[0].inbox, &slow.threads[0]), AMB_OK);
    control->handshakers = &slow;
}

static void say_key(struct amb_client *client, int fd)
{
    uint8_t proof[AMB_SIGNATURE_SIZE] = {1}, key[AMB_CREDENTIAL_KEY_SIZE] = {1};
    Amb__Control__Auth auth = AMB__CONTROL__AUTH__INIT;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    auth.mechanism = (char *)(uintptr_t) "key";
    auth.proof = (ProtobufCBinaryData){sizeof(proof), proof};
    auth.key = (ProtobufCBinaryData){sizeof(key), key};
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    stepped_say_body(fd, stepped_hello, sizeof(stepped_hello));
    stepped_say_message(client, fd, &message);
}

static void test_the_door_pauses_while_too_many_signatures_wait(void **state)
{
    (void)state;
    struct amb_control *control = stepped_control();
    struct amb_listener *listener = &control->listeners[0];
    begin(control);
    for (unsigned i = 0; i < AMB_PROOFS_MAX; i++) {
        int fd;
        listener->watch.fn(&listener->watch, EPOLLIN);
        assert_false(listener->is_paused);
        struct amb_client *client = stepped_connect(true, &fd);
        say_key(client, fd);
        (void)close(fd);
        amb_client_end(client, "it has left");
        amb_client_bury(control);
    }
    assert_int_equal(control->half_open.clients, 0);
    assert_int_equal(control->client_count, AMB_PROOFS_MAX);
    listener->watch.fn(&listener->watch, EPOLLIN);
    assert_true(listener->is_paused);
    (void)amb_inbox_run(&slow.threads[0].inbox);
    (void)amb_inbox_run(&control->inbox);
    amb_client_bury(control);
    assert_int_equal(control->client_count, 0);
    amb_door_resume(control);
    listener->watch.fn(&listener->watch, EPOLLIN);
    assert_false(listener->is_paused);
    control->handshakers = NULL;
    amb_inbox_fini(&slow.threads[0].inbox);
    amb_auth_users_unref(&control->users);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_door_pauses_while_too_many_signatures_wait),
    };
    return cmocka_run_group_tests_name("broker/prove_crowd", tests, NULL, NULL);
}
