/* SPDX-License-Identifier: Apache-2.0 */
/* A quick start: only in --dev, only for an encrypted listener, and only if nothing else is said.
 */
#include "broker/config/config_quick.h"

#include "broker/auth/users.h"
#include "tests/support/config_try.h"
#include "tests/support/tls/tls_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct tls_made made;
static unsigned calls;
static bool is_full;

static int setup(void **state)
{
    (void)state;
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    tls_made_write(&made, "users", "dev:dev:dev:-:-:uid/1\n", 0600);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_made_fini(&made);
    return 0;
}

static enum amb_status quick(const struct amb_url *door, const char *const *environment,
                             struct amb_config_quick *out, char why[AMB_CONFIG_QUICK_WHY_MAX])
{
    (void)environment;
    calls++;
    assert_int_equal(door->port, 4733);
    if (is_full) {
        (void)snprintf(why, AMB_CONFIG_QUICK_WHY_MAX, "the disk is full");
        return AMB_EINVAL;
    }
    (void)snprintf(out->certificate, sizeof(out->certificate), "%s",
                   tls_made_path(&made, "server.pem"));
    (void)snprintf(out->key, sizeof(out->key), "%s", tls_made_path(&made, "server.key"));
    (void)snprintf(out->users, sizeof(out->users), "%s", tls_made_path(&made, "users"));
    return AMB_OK;
}

static struct amb_config_source source_of(const char *url, const char *option)
{
    static const char *listen[1], *options[1];
    struct amb_config_source source = try_source("");
    listen[0] = url;
    options[0] = option;
    source.dev = true;
    source.quick = quick;
    source.listen = listen;
    source.listen_count = 1;
    source.options = options;
    source.option_count = option == NULL ? 0 : 1;
    calls = 0;
    return source;
}

static void test_a_silent_door_gets_a_certificate_and_a_user(void **state)
{
    (void)state;
    struct amb_config_source source = source_of("tls://127.0.0.1:4733", "tls.threads=2");
    struct amb_config *config = try_accept_source(&source);
    char where[64];
    assert_int_equal(calls, 1);
    assert_non_null(config->tls.context);
    assert_non_null(amb_auth_users_find(config->auth.users, AMB_CONFIG_QUICK_USER));
    assert_int_equal(config->roles.count, 1);
    assert_string_equal(config->roles.items[0].publish.allow.items[0], ">");
    amb_config_where(config, "auth.users", where, sizeof(where));
    assert_string_equal(where, "--dev");
    amb_config_destroy(&config);
}

static void test_whoever_says_anything_says_all(void **state)
{
    (void)state;
    static const char *const options[] = {"auth.token=secret", "tls.ca=/nowhere",
                                          "tls.clients=optional", "auth.users=/nowhere"};
    for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        struct amb_config_source source = source_of("tls://127.0.0.1:4733", options[i]);
        try_refuse_with(&source, ": ");
        assert_int_equal(calls, 0);
    }
    struct amb_config_source source = source_of("tls://127.0.0.1:4733", NULL);
    source.dev = false;
    try_refuse_with(&source, "tls.certificate: is missing");
    source = source_of("tls://127.0.0.1:4733", NULL);
    source.quick = NULL;
    try_refuse_with(&source, "tls.certificate: is missing");
    source = source_of("tcp://127.0.0.1:4733", NULL);
    struct amb_config *config = try_accept_source(&source);
    assert_null(config->auth.users);
    amb_config_destroy(&config);
    assert_int_equal(calls, 0);
}

/* Else each reload of a quick start, and each `config set`, would be refused. */
static void test_a_reload_keeps_the_files_and_makes_none(void **state)
{
    (void)state;
    char restart[256], live[256];
    struct amb_config_source source = source_of("tls://127.0.0.1:4733", "log.level=info");
    struct amb_config *first = try_accept_source(&source);
    source.quick = NULL;
    source.former = first;
    struct amb_config *second = try_accept_source(&source);
    assert_int_equal(calls, 1);
    assert_string_equal(second->tls.certificate, first->tls.certificate);
    assert_non_null(amb_auth_users_find(second->auth.users, AMB_CONFIG_QUICK_USER));
    amb_config_diff(first, second, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "");
    /* One that says more is not of a quick start any more, nor is what comes after it. */
    amb_config_destroy(&second);
    static const char *const options[] = {"tls.ca=/nowhere"};
    source.options = options;
    try_refuse_with(&source, "tls.certificate: is missing");
    amb_config_destroy(&first);
    source = source_of("tcp://127.0.0.1:4733", NULL);
    first = try_accept_source(&source);
    source = source_of("tls://127.0.0.1:4733", NULL);
    source.quick = NULL;
    source.former = first;
    try_refuse_with(&source, "tls.certificate: is missing");
    amb_config_destroy(&first);
}

static void test_a_failure_is_told(void **state)
{
    (void)state;
    struct amb_config_source source = source_of("tls://127.0.0.1:4733", NULL);
    is_full = true;
    try_refuse_with(&source, "listen: the disk is full");
    is_full = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_silent_door_gets_a_certificate_and_a_user),
        cmocka_unit_test(test_whoever_says_anything_says_all),
        cmocka_unit_test(test_a_reload_keeps_the_files_and_makes_none),
        cmocka_unit_test(test_a_failure_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
