/* SPDX-License-Identifier: Apache-2.0 */
/* A client's credentials file: its parts, a token in its place, and all that may be wrong. */
#include "wire/auth/credentials_file.h"

#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST AMB_CREDENTIALS_FIRST "\n"
#define CERT "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"

static char *key_pem;
static char path[] = "/tmp/amb-credentials-XXXXXX";

static int setup(void **state)
{
    (void)state;
    struct amb_signer *signer;
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || amb_signer_create(&signer) != AMB_OK) {
        return -1;
    }
    key_pem = amb_signer_format(signer);
    amb_signer_free(&signer);
    return key_pem == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(key_pem);
    return unlink(path);
}

static enum amb_status parse(const char *text, size_t len, struct amb_credentials *out, char *why)
{
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    copy[len] = '\0';
    enum amb_status status = amb_credentials_parse(copy, len, "file", out, why);
    free(copy);
    return status;
}

static void takes(const char *text, struct amb_credentials *out)
{
    char why[AMB_PRIVATE_WHY_MAX] = "";
    if (parse(text, strlen(text), out, why) != AMB_OK) {
        fail_msg("refused: %s", why);
    }
}

static void refuses_bytes(const char *text, size_t len, const char *expected)
{
    struct amb_credentials out;
    char why[AMB_PRIVATE_WHY_MAX] = "";
    assert_int_equal(parse(text, len, &out, why), AMB_EINVAL);
    assert_true(out.token == NULL && out.url == NULL && out.ca == NULL && out.signer == NULL);
    if (strncmp(why, expected, strlen(expected)) != 0) {
        fail_msg("\"%s\" instead of \"%s\"", why, expected);
    }
}

static void refuses(const char *text, const char *expected)
{
    refuses_bytes(text, strlen(text), expected);
}

static void test_all_parts(void **state)
{
    (void)state;
    struct amb_credentials credentials;
    char text[2000];
    (void)snprintf(text, sizeof(text),
                   FIRST "# of cam7\nurl = tls://a:1,unix:///b\r\n\nuser=cam7\n" CERT "\n%s" CERT
                         "\n",
                   key_pem);
    takes(text, &credentials);
    assert_null(credentials.token);
    assert_string_equal(credentials.url, "tls://a:1,unix:///b");
    assert_string_equal(credentials.user, "cam7");
    assert_string_equal(credentials.ca, CERT "\n" CERT "\n");
    assert_non_null(credentials.signer);
    /* It is written, and read again. */
    char *written = amb_credentials_format(&credentials);
    struct amb_credentials again;
    takes(written, &again);
    assert_string_equal(again.url, credentials.url);
    assert_string_equal(again.user, credentials.user);
    assert_string_equal(again.ca, credentials.ca);
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE], key_again[AMB_CREDENTIAL_KEY_SIZE];
    amb_signer_public(credentials.signer, key);
    amb_signer_public(again.signer, key_again);
    assert_memory_equal(key, key_again, sizeof(key));
    free(written);
    amb_credentials_fini(&credentials);
    amb_credentials_fini(&credentials);
    amb_credentials_fini(&again);
    takes(AMB_CREDENTIALS_FIRST, &credentials);
    assert_true(credentials.url == NULL && credentials.signer == NULL);
    written = amb_credentials_format(&credentials);
    assert_string_equal(written, FIRST);
    free(written);
    amb_credentials_fini(&credentials);
}

static void test_another_first_line_is_a_token(void **state)
{
    (void)state;
    struct amb_credentials credentials;
    static const char *const tokens[][2] = {
        {"secret\nmore = x\n", "secret"},
        {"secret\r\n", "secret"},
        {"a b", "a b"},
        {"ambroker\nambroker credentials 1\n", "ambroker"},
        {"secret\na\1b", "secret"},
    };
    for (unsigned i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        takes(tokens[i][0], &credentials);
        assert_string_equal(credentials.token, tokens[i][1]);
        amb_credentials_fini(&credentials);
    }
    refuses("", "file:0: is no token");
    refuses("\nsecret", "file:1: is no token");
    char longest[AMB_CREDENTIALS_TOKEN_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    refuses_bytes(longest, AMB_CREDENTIALS_TOKEN_MAX + 1, "file:1: is no token (allowed 1 to 4095");
}

/* As a token it would be one that everybody can guess, and `key show` would print its hash. */
static void test_what_is_nearly_a_file_is_no_token(void **state)
{
    (void)state;
    static const char words[] = "file:1: is no first line of credentials, nor a token (allowed "
                                "\"ambroker credentials 1\")";
    char text[2000];
    refuses("ambroker credentials 2\n", words);
    refuses("ambroker credentials 1 \n", words);
    refuses(" ambroker credentials 1\n", words);
    refuses("\xef\xbb\xbf" FIRST "user = a\n", words);
    (void)snprintf(text, sizeof(text), "# of cam7\n" FIRST "%s", key_pem);
    refuses(text, words);
    refuses_bytes("sec\0ret\n", 8, "file:1: the token has a NUL");
    refuses_bytes("\0secret", 7, "file:1: the token has a NUL");
    refuses_bytes("secret\0\n", 8, "file:1: the token has a NUL");
}

static void test_wrong_lines_are_told_by_their_number(void **state)
{
    (void)state;
    char text[4000];
    refuses(FIRST "url = a\nurl = b\n", "file:3: a second url");
    refuses(FIRST "url =\n", "file:2: is no url");
    refuses(FIRST "url = a b\n", "file:2: is no url");
    refuses(FIRST "user = a.b\n", "file:2: is no user (got \"a.b\")");
    refuses(FIRST "user = a\nuser = a\n", "file:3: a second user");
    refuses(FIRST "pass = x\n", "file:2: unknown key");
    refuses(FIRST "secret\n", "file:2: is no line that is known");
    refuses(FIRST "-----BEGIN RSA PRIVATE KEY-----\n", "file:2: is no part that is known");
    refuses(FIRST "\n-----BEGIN CERTIFICATE-----\nAAAA\n",
            "file:3: -----BEGIN CERTIFICATE----- has no end");
    refuses(FIRST "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "file:4: is no Ed25519 key");
    (void)snprintf(text, sizeof(text), FIRST "%s%s", key_pem, key_pem);
    refuses(text, "file:7: a second private key");
    (void)snprintf(text, sizeof(text), FIRST CERT "\n" CERT "\nnonsense\n");
    refuses(text, "file:8: is no line that is known");
    refuses_bytes(FIRST "url = a\0b\n", sizeof(FIRST "url = a\0b\n") - 1,
                  "file:1: the file has a NUL");
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_others_may_not_read_it(void **state)
{
    (void)state;
    struct amb_credentials credentials;
    bool is_file;
    char why[AMB_PRIVATE_WHY_MAX] = "";
    write_file(FIRST "url = unix:///a\n", 0600);
    assert_int_equal(amb_credentials_read(path, &credentials, &is_file, why), AMB_OK);
    assert_string_equal(credentials.url, "unix:///a");
    amb_credentials_fini(&credentials);
    write_file(FIRST "url = unix:///a\n", 0640);
    assert_int_equal(amb_credentials_read(path, &credentials, &is_file, why), AMB_EINVAL);
    assert_non_null(strstr(why, "can be read by others (got mode 0640"));
    assert_true(is_file);
    write_file("secret\n", 0644); /* As before there were such files. */
    assert_int_equal(amb_credentials_read(path, &credentials, &is_file, why), AMB_OK);
    assert_string_equal(credentials.token, "secret");
    amb_credentials_fini(&credentials);
    assert_int_equal(amb_credentials_read("/nowhere", &credentials, &is_file, why), AMB_EINVAL);
    assert_false(is_file);
    assert_string_equal(why, "/nowhere cannot be read: No such file or directory");
}

/* A pipe that nobody writes to would hold a program up, and a folder has no bytes. */
static void test_what_is_no_regular_file_is_refused_at_once(void **state)
{
    (void)state;
    char pipe_path[64];
    (void)snprintf(pipe_path, sizeof(pipe_path), "%s.pipe", path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    const char *const paths[] = {pipe_path, "/tmp", "/dev/zero", "/dev/null"};
    int64_t since_ns = amb_clock_monotonic_ns();
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct amb_credentials credentials;
        bool is_file = true;
        char why[AMB_PRIVATE_WHY_MAX] = "", expected[AMB_PRIVATE_WHY_MAX];
        (void)snprintf(expected, sizeof(expected), "%s is not a regular file", paths[i]);
        assert_int_equal(amb_credentials_read(paths[i], &credentials, &is_file, why), AMB_EINVAL);
        assert_string_equal(why, expected);
        assert_false(is_file);
    }
    assert_true(amb_clock_monotonic_ns() - since_ns < 4 * AMB_NS_PER_SEC);
    assert_int_equal(unlink(pipe_path), 0);
}

static void test_a_file_has_a_size(void **state)
{
    (void)state;
    struct amb_credentials credentials;
    bool is_file;
    char why[AMB_PRIVATE_WHY_MAX] = "";
    char *text = malloc(AMB_CREDENTIALS_FILE_MAX + 100);
    assert_non_null(text);
    memset(text, '#', AMB_CREDENTIALS_FILE_MAX + 99);
    memcpy(text, FIRST, sizeof(FIRST) - 1);
    text[AMB_CREDENTIALS_FILE_MAX + 99] = '\0';
    write_file(text, 0600);
    assert_int_equal(amb_credentials_read(path, &credentials, &is_file, why), AMB_EINVAL);
    assert_non_null(strstr(why, "is too large (allowed 262144 bytes)"));
    text[AMB_CREDENTIALS_FILE_MAX] = '\0';
    write_file(text, 0600);
    assert_int_equal(amb_credentials_read(path, &credentials, &is_file, why), AMB_OK);
    amb_credentials_fini(&credentials);
    memcpy(text, "secret\n", 7); /* Of a token only the first line counts. */
    memset(text + AMB_CREDENTIALS_FILE_MAX, '#', 99);
    write_file(text, 0600);
    assert_int_equal(amb_credentials_read(path, &credentials, &is_file, why), AMB_OK);
    assert_string_equal(credentials.token, "secret");
    amb_credentials_fini(&credentials);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_parts),
        cmocka_unit_test(test_another_first_line_is_a_token),
        cmocka_unit_test(test_what_is_nearly_a_file_is_no_token),
        cmocka_unit_test(test_what_is_no_regular_file_is_refused_at_once),
        cmocka_unit_test(test_wrong_lines_are_told_by_their_number),
        cmocka_unit_test(test_others_may_not_read_it),
        cmocka_unit_test(test_a_file_has_a_size),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
