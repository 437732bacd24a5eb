/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials as text: the spellings that count, all others refused, and texts made of bytes. */
#include "wire/auth/credential.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define KEY "key/MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define HASH "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define PIN "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

static void test_each_kind_has_one_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum amb_credential_kind kind;
    } good[] = {
        {KEY, AMB_CREDENTIAL_KEY},
        {"token/sha256-" HASH, AMB_CREDENTIAL_TOKEN},
        {"cert/uri=spiffe://plant/web", AMB_CREDENTIAL_CERT},
        {"cert/dns=cam7.plant", AMB_CREDENTIAL_CERT},
        {"cert/email=op@plant", AMB_CREDENTIAL_CERT},
        {"cert/sha256/" PIN, AMB_CREDENTIAL_CERT},
        {"uid/0", AMB_CREDENTIAL_UID},
        {"uid/4294967293", AMB_CREDENTIAL_UID},
    };
    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        enum amb_credential_kind kind = AMB_CREDENTIAL_KINDS;
        assert_null(amb_credential_check(good[i].text, &kind));
        assert_int_equal(kind, good[i].kind);
    }
    assert_string_equal(amb_credential_kind_name(AMB_CREDENTIAL_CERT), "cert");
}

static void test_others_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "key",
        "key/",
        "KEY/x",
        "password/x",
        /* A length too short and too long, another algorithm, no base64, a bit in the padding. */
        "key/MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        KEY "A",
        "key/MCowBQYDK2VuAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "key/MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwd!h8=",
        "key/MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=",
        "key/MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
        "token/" HASH,
        "token/sha256-9f86",
        "token/sha256-9F86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "token/sha256-" HASH "0",
        "cert/",
        "cert/uri=",
        "cert/ip=192.0.2.1",
        "cert/cn=web",
        "cert/sha256/" HASH,
        "uid/",
        "uid/-1",
        "uid/01",
        "uid/ 1",
        "uid/1000x",
        "uid/4294967294",
        "uid/4294967295",
        "uid/99999999999",
    };
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        enum amb_credential_kind kind;
        if (amb_credential_check(wrong[i], &kind) == NULL) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
    char text[AMB_CREDENTIAL_MAX + 2] = "cert/uri=";
    memset(text + 9, 'a', sizeof(text) - 10);
    text[sizeof(text) - 1] = '\0';
    enum amb_credential_kind kind;
    assert_non_null(strstr(amb_credential_check(text, &kind), "1,024"));
    text[sizeof(text) - 2] = '\0';
    assert_null(amb_credential_check(text, &kind));
}

static void test_texts_are_made_of_bytes(void **state)
{
    (void)state;
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE], again[AMB_CREDENTIAL_KEY_SIZE];
    char text[AMB_CREDENTIAL_MAX + 1];
    for (unsigned i = 0; i < sizeof(key); i++) {
        key[i] = (uint8_t)i;
    }
    amb_credential_of_key(key, text);
    assert_string_equal(text, KEY);
    assert_true(amb_credential_key(text, again));
    assert_memory_equal(key, again, sizeof(key));
    assert_false(amb_credential_key("uid/0", again));
    assert_false(amb_credential_key("key/MCow", again));
    assert_true(amb_credential_of_token("test", 4, text));
    assert_string_equal(text, "token/sha256-" HASH);
    amb_credential_of_uid(4294967293u, text);
    assert_string_equal(text, "uid/4294967293");
    assert_true(amb_credential_of_cert("uri=spiffe://plant/web", text));
    assert_string_equal(text, "cert/uri=spiffe://plant/web");
    char long_name[AMB_CREDENTIAL_MAX];
    memset(long_name, 'a', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    assert_false(amb_credential_of_cert(long_name, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_has_one_spelling),
        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_texts_are_made_of_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
