/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that are issued: their names, their times, what another one of them keeps. */
#include "wire/tls/tls_issue.h"

#include "tests/support/tls/tls_made.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct tls_made made;

static int setup(void **state)
{
    (void)state;
    tls_made_init(&made);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_made_fini(&made);
    return 0;
}

static enum amb_status issue(const char *name, const char *const *names, size_t count,
                             char error[200], struct amb_tls_pair **out)
{
    int64_t now_s = (int64_t)time(NULL);
    struct amb_tls_request request = {.role = AMB_TLS_SERVER,
                                      .name = name,
                                      .names = names,
                                      .name_count = count,
                                      .from_s = now_s - 10,
                                      .until_s = now_s + 1000};
    return amb_tls_issue(&request, made.ca, error, 200, out);
}

static void test_hosts_addresses_and_uris_are_names(void **state)
{
    (void)state;
    static const char *const names[] = {"a.example", "*.b.example", "192.0.2.1", "2001:db8::1",
                                        "spiffe://plant/web"};
    char error[200] = "", text[200];
    struct amb_tls_pair *pair = NULL;
    assert_int_equal(issue("a", names, 5, error, &pair), AMB_OK);
    amb_tls_pair_names(pair, text, sizeof(text));
    assert_string_equal(text, "a.example, *.b.example, 192.0.2.1, 2001:db8::1, spiffe://plant/web");
    assert_in_range(amb_tls_pair_until_s(pair) - (int64_t)time(NULL), 900, 1000);
    amb_tls_pair_free(&pair);
    assert_null(pair);
}

static void test_names_that_are_none_are_told(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "a b", "-a", "a/b", "http://a", "spiffe://a b", ".a"};
    struct amb_tls_pair *pair = NULL;
    char error[200];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(issue("a", &wrong[i], 1, error, &pair), AMB_EINVAL);
        assert_non_null(strstr(error, "is no host's name"));
    }
    assert_int_equal(issue("", NULL, 0, error, &pair), AMB_EINVAL);
    char long_name[AMB_TLS_COMMON_NAME_MAX + 2];
    memset(long_name, 'a', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    assert_int_equal(issue(long_name, NULL, 0, error, &pair), AMB_EINVAL);
    assert_null(pair);
}

static void test_another_one_keeps_key_and_names(void **state)
{
    (void)state;
    int64_t now_s = (int64_t)time(NULL);
    char error[200] = "", pins[2][AMB_TLS_PIN_TEXT_MAX], text[100];
    struct amb_tls_pair *young = NULL;
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "a.example");
    struct amb_tls_pair *old = tls_made_read(&made, "server");
    assert_int_equal(amb_tls_renew(old, made.ca, now_s, now_s + 5000, error, sizeof(error), &young),
                     AMB_OK);
    amb_tls_pair_names(young, text, sizeof(text));
    assert_string_equal(text, "a.example");
    assert_int_equal(amb_tls_pair_until_s(young), now_s + 5000);
    assert_true(amb_tls_pair_pin(old, pins[0], sizeof(pins[0])));
    assert_true(amb_tls_pair_pin(young, pins[1], sizeof(pins[1])));
    assert_string_equal(pins[0], pins[1]);
    assert_int_equal(strncmp(pins[0], "sha256/", 7), 0);
    assert_int_equal(strlen(pins[0]), AMB_TLS_PIN_TEXT_MAX - 1);
    amb_tls_pair_free(&old);
    amb_tls_pair_free(&young);
}

static X509 *certificate_of(const struct amb_tls_pair *pair)
{
    char *text = amb_tls_pair_certificate(pair);
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    assert_non_null(certificate);
    (void)BIO_free(bio);
    free(text);
    return certificate;
}

/* They are renewed too late sometimes. */
static void test_one_that_has_expired_can_be_renewed(void **state)
{
    (void)state;
    int64_t now_s = (int64_t)time(NULL);
    char error[200] = "";
    struct amb_tls_pair *young = NULL;
    tls_made_issue(&made, made.ca, "late", AMB_TLS_SERVER, "a.example",
                   (struct tls_made_time){-2 * TLS_MADE_DAY, -TLS_MADE_DAY});
    struct amb_tls_pair *old = tls_made_read(&made, "late");
    assert_true(amb_tls_pair_until_s(old) < now_s);
    assert_int_equal(amb_tls_renew(old, made.ca, now_s, now_s + 5000, error, sizeof(error), &young),
                     AMB_OK);
    amb_tls_pair_free(&old);
    amb_tls_pair_free(&young);
}

static void test_another_authority_may_renew_one(void **state)
{
    (void)state;
    int64_t now_s = (int64_t)time(NULL);
    char error[200] = "";
    struct amb_tls_pair *young = NULL;
    tls_made_plain(&made, "moved", AMB_TLS_SERVER, "a.example");
    tls_made_issue(&made, NULL, "second", AMB_TLS_AUTHORITY, NULL,
                   (struct tls_made_time){-TLS_MADE_DAY, TLS_MADE_DAY});
    struct amb_tls_pair *old = tls_made_read(&made, "moved"),
                        *second = tls_made_read(&made, "second");
    assert_int_equal(amb_tls_renew(old, second, now_s, now_s + 5000, error, sizeof(error), &young),
                     AMB_OK);
    X509 *issuer = certificate_of(second), *issued = certificate_of(young);
    assert_int_equal(X509_check_issued(issuer, issued), X509_V_OK);
    X509_free(issuer);
    X509_free(issued);
    amb_tls_pair_free(&old);
    amb_tls_pair_free(&second);
    amb_tls_pair_free(&young);
}

static void test_files_that_do_not_belong_together_are_no_pair(void **state)
{
    (void)state;
    struct amb_tls_pair *pair = NULL;
    char error[700] = "";
    tls_made_plain(&made, "one", AMB_TLS_CLIENT, NULL);
    tls_made_plain(&made, "two", AMB_TLS_CLIENT, NULL);
    assert_int_equal(amb_tls_pair_read(tls_made_path(&made, "one.pem"),
                                       tls_made_path(&made, "two.key"), error, sizeof(error),
                                       &pair),
                     AMB_EINVAL);
    assert_non_null(strstr(error, "does not fit"));
    assert_int_equal(amb_tls_pair_read(tls_made_path(&made, "three.pem"),
                                       tls_made_path(&made, "two.key"), error, sizeof(error),
                                       &pair),
                     AMB_EINVAL);
    assert_non_null(strstr(error, "cannot be read"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_addresses_and_uris_are_names),
        cmocka_unit_test(test_names_that_are_none_are_told),
        cmocka_unit_test(test_another_one_keeps_key_and_names),
        cmocka_unit_test(test_one_that_has_expired_can_be_renewed),
        cmocka_unit_test(test_another_authority_may_renew_one),
        cmocka_unit_test(test_files_that_do_not_belong_together_are_no_pair),
    };
    return cmocka_run_group_tests_name("tls_issue", tests, setup, teardown);
}
