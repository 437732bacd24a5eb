/* SPDX-License-Identifier: Apache-2.0 */
/* TLS in a configuration: files that are wrong, and listeners that would let in everybody. */
#include "broker/config/config_tls.h"

#include "broker/config/print/config_print.h"
#include "tests/support/config_try.h"
#include "tests/support/tls/tls_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct tls_made made;

static int setup(void **state)
{
    (void)state;
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    tls_made_plain(&made, "other", AMB_TLS_SERVER, "localhost");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_made_fini(&made);
    return 0;
}

/* A configuration with these settings of tls, of which each %s is the folder. */
static const char *text_of(const char *listen, const char *settings, const char *rest)
{
    static char text[4096];
    char tls[2048] = "";
    for (const char *at = settings; *at != '\0'; at++) {
        size_t len = strlen(tls);
        if (at[0] == '@') {
            (void)snprintf(tls + len, sizeof(tls) - len, "%s", made.folder);
        } else {
            (void)snprintf(tls + len, sizeof(tls) - len, "%c", at[0]);
        }
    }
    (void)snprintf(text, sizeof(text), "listen = ( \"%s\" );\ntls = { %s };\n%s", listen, tls,
                   rest);
    return text;
}

#define OWN "certificate = \"@/server.pem\"; key = \"@/server.key\"; "
#define TOKEN "auth = { token = \"secret\"; };"

static void refuses(const char *text, const char *part)
{
    struct amb_config_source source = try_source(text);
    try_refuse_with(&source, part);
}

static void test_files_make_a_context(void **state)
{
    (void)state;
    struct amb_config *config = try_accept(text_of("tls://127.0.0.1:0", OWN, TOKEN));
    assert_non_null(config->tls.context);
    assert_int_equal(config->tls.threads, 1);
    assert_int_equal(config->doors.items[0].scheme, AMB_URL_TLS);
    amb_config_destroy(&config);
    config = try_accept(text_of("tls://0.0.0.0:0",
                                OWN "ca = \"@/ca.pem\"; clients = \"required\"; threads = 4;", ""));
    assert_int_equal(config->tls.clients, AMB_TLS_CLIENTS_REQUIRED);
    amb_config_destroy(&config);
    config = try_accept("listen = ( \"tcp://127.0.0.1:0\" );");
    assert_null(config->tls.context);
    amb_config_destroy(&config);
}

static void test_an_encrypted_listener_needs_files_and_somebody_at_the_door(void **state)
{
    (void)state;
    refuses(text_of("tls://127.0.0.1:1", "threads = 1;", TOKEN),
            "default: tls.certificate: is missing: tls://127.0.0.1:1 needs it, and tls.key");
    refuses(text_of("tls://127.0.0.1:1", OWN, ""),
            "configuration:1: listen: tls://127.0.0.1:1 would let in everybody: set "
            "auth.users, auth.token_file, or tls.clients = \"required\"");
    refuses(text_of("tls://127.0.0.1:1", OWN "ca = \"@/ca.pem\"; clients = \"optional\";", ""),
            "would let in everybody");
    refuses(text_of("tls://127.0.0.1:1?pin=sha256/"
                    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                    OWN, TOKEN),
            "pin is for clients");
    refuses("listen = ( \"tls://127.0.0.1:1\", \"tcp://127.0.0.1:1\" );",
            "tcp://127.0.0.1:1 is there twice");
}

static void test_wrong_files_are_told_by_key_and_name(void **state)
{
    (void)state;
    refuses(text_of("tls://127.0.0.1:1", "certificate = \"@/server.pem\";", TOKEN),
            "tls.key: is missing");
    refuses(text_of("tls://127.0.0.1:1", "certificate = \"@/server.pem\"; key = \"@/other.key\";",
                    TOKEN),
            "configuration:2: tls.key: ");
    refuses(text_of("tls://127.0.0.1:1", "certificate = \"@/server.pem\"; key = \"@/other.key\";",
                    TOKEN),
            "does not fit the certificate");
    refuses(text_of("tls://127.0.0.1:1", OWN "clients = \"required\";", ""), "tls.ca: is missing");
    refuses(text_of("tls://127.0.0.1:1", OWN "ca = \"@/none.pem\"; clients = \"required\";", ""),
            "none.pem cannot be read: No such file or directory");
    refuses(text_of("tls://127.0.0.1:1", OWN "clients = \"all\";", TOKEN), "tls.clients");
    refuses(text_of("tls://127.0.0.1:1", OWN "threads = 5;", TOKEN), "allowed a number, 1 to 4");
    /* Also where no listener uses them yet. */
    refuses(text_of("tcp://127.0.0.1:1", "certificate = \"@/none.pem\"; key = \"@/none.key\";", ""),
            "tls.certificate: ");
}

static void test_a_reload_sees_other_bytes_in_the_same_files(void **state)
{
    (void)state;
    char restart[200], live[200];
    struct amb_config *before = try_accept(text_of("tls://127.0.0.1:0", OWN, TOKEN));
    struct amb_config *same = try_accept(text_of("tls://127.0.0.1:0", OWN, TOKEN));
    amb_config_diff(before, same, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "");
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    struct amb_config *after = try_accept(text_of("tls://127.0.0.1:0", OWN, TOKEN));
    amb_config_diff(before, after, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "files of tls (configuration:2)");
    amb_config_destroy(&before);
    amb_config_destroy(&same);
    amb_config_destroy(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_make_a_context),
        cmocka_unit_test(test_an_encrypted_listener_needs_files_and_somebody_at_the_door),
        cmocka_unit_test(test_wrong_files_are_told_by_key_and_name),
        cmocka_unit_test(test_a_reload_sees_other_bytes_in_the_same_files),
    };
    return cmocka_run_group_tests_name("config_tls", tests, setup, teardown);
}
