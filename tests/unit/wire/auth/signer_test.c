/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of users: the text that is signed, signatures that fit and those that do not, PEM. */
#include "wire/auth/signer.h"

#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t nonce[AMB_LOGIN_NONCE_SIZE] = {1, 2, 3};
static const uint8_t exporter[AMB_LOGIN_EXPORTER_SIZE] = {9, 8, 7};
static const struct amb_login_facts facts = {nonce, 5, "broker", exporter};

static void test_the_text_has_all_facts(void **state)
{
    (void)state;
    uint8_t text[AMB_LOGIN_TEXT_MAX];
    size_t len = amb_login_text(&facts, text);
    assert_int_equal(len, 16 + 32 + 8 + 4 + 6 + 4 + 32);
    assert_memory_equal(text, "ambroker login 1", 16);
    assert_memory_equal(text + 16, nonce, 32);
    static const uint8_t epoch[8] = {5};
    assert_memory_equal(text + 48, epoch, 8);
    assert_memory_equal(text + 56, "\6\0\0\0broker", 10);
    assert_memory_equal(text + 66, "\x20\0\0\0", 4);
    assert_memory_equal(text + 70, exporter, 32);
    struct amb_login_facts plain = facts;
    plain.exporter = NULL;
    assert_int_equal(amb_login_text(&plain, text), 70);
    assert_memory_equal(text + 66, "\0\0\0\0", 4);
    char name[600];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    struct amb_login_facts longest = facts;
    longest.server = name;
    assert_int_equal(amb_login_text(&longest, text), 16 + 32 + 8 + 4 + 255 + 4 + 32);
}

static void test_a_signature_fits_its_text_and_key(void **state)
{
    (void)state;
    struct amb_signer *signer, *other;
    uint8_t text[AMB_LOGIN_TEXT_MAX], signature[AMB_SIGNATURE_SIZE];
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE], foreign[AMB_CREDENTIAL_KEY_SIZE];
    size_t len = amb_login_text(&facts, text);
    assert_int_equal(amb_signer_create(&signer), AMB_OK);
    assert_int_equal(amb_signer_create(&other), AMB_OK);
    amb_signer_public(signer, key);
    amb_signer_public(other, foreign);
    assert_memory_not_equal(key, foreign, sizeof(key));
    assert_true(amb_signer_sign(signer, text, len, signature));
    assert_true(amb_signature_verify(key, text, len, signature));
    assert_false(amb_signature_verify(foreign, text, len, signature));
    assert_false(amb_signature_verify(key, text, len - 1, signature));
    for (size_t i = 0; i < len; i++) {
        text[i] ^= 1;
        assert_false(amb_signature_verify(key, text, len, signature));
        text[i] ^= 1;
    }
    for (unsigned i = 0; i < sizeof(signature); i++) {
        signature[i] ^= 0x80;
        assert_false(amb_signature_verify(key, text, len, signature));
        signature[i] ^= 0x80;
    }
    static const uint8_t zeros[AMB_SIGNATURE_SIZE];
    assert_false(amb_signature_verify(key, text, len, zeros));
    amb_signer_free(&signer);
    assert_null(signer);
    amb_signer_free(&signer);
    amb_signer_free(&other);
}

/* RFC 8032, 7.1, test 2. */
static void test_it_is_ed25519(void **state)
{
    (void)state;
    static const uint8_t key[] = {0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a,
                                  0xa7, 0x4d, 0x1b, 0x7e, 0xbc, 0x9c, 0x98, 0x2c, 0xcf, 0x2e, 0xc4,
                                  0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c};
    static const uint8_t signature[] = {
        0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8, 0x72, 0x0e, 0x82, 0x0b, 0x5f,
        0x64, 0x25, 0x40, 0xa2, 0xb2, 0x7b, 0x54, 0x16, 0x50, 0x3f, 0x8f, 0xb3, 0x76,
        0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda, 0x08, 0x5a, 0xc1, 0xe4, 0x3e, 0x15, 0x99,
        0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c, 0x38, 0x7b, 0x2e, 0xae,
        0xb4, 0x30, 0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00};
    static const uint8_t text[] = {0x72};
    assert_true(amb_signature_verify(key, text, sizeof(text), signature));
}

static void test_pem_comes_back(void **state)
{
    (void)state;
    struct amb_signer *signer, *again = NULL;
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE], key_again[AMB_CREDENTIAL_KEY_SIZE];
    assert_int_equal(amb_signer_create(&signer), AMB_OK);
    char *pem = amb_signer_format(signer);
    assert_memory_equal(pem, "-----BEGIN PRIVATE KEY-----\n", 28);
    assert_int_equal(amb_signer_parse(pem, strlen(pem), &again), AMB_OK);
    amb_signer_public(signer, key);
    amb_signer_public(again, key_again);
    assert_memory_equal(key, key_again, sizeof(key));
    amb_signer_free(&again);
    assert_int_equal(amb_signer_parse(pem, strlen(pem) - 30, &again), AMB_EINVAL);
    assert_int_equal(amb_signer_parse("", 0, &again), AMB_EINVAL);
    free(pem);
    amb_signer_free(&signer);
    /* A key of another kind. */
    static const char other[] = "-----BEGIN PRIVATE KEY-----\n"
                                "MC4CAQAwBQYDK2VuBCIEIAgHBgUEAwIBAAECAwQFBgcIAQIDBAUGBwgBAgMEBQYH\n"
                                "-----END PRIVATE KEY-----\n"; /* X25519 */
    assert_int_equal(amb_signer_parse(other, sizeof(other) - 1, &again), AMB_EINVAL);
    assert_null(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_text_has_all_facts),
        cmocka_unit_test(test_a_signature_fits_its_text_and_key),
        cmocka_unit_test(test_it_is_ed25519),
        cmocka_unit_test(test_pem_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
