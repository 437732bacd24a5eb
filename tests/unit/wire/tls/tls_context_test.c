/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: which files make one, and the sentence for each that does not. */
#include "wire/tls/tls_context.h"

#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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

static enum amb_status create(const char *certificate, const char *key, const char *ca,
                              const char *crl, enum amb_tls_clients clients,
                              struct amb_tls_complaint *complaint)
{
    struct amb_tls_files files = {.certificate = certificate, .key = key, .ca = ca, .crl = crl};
    struct amb_tls_context *context = NULL;
    enum amb_status status = amb_tls_context_create_server(&files, clients, complaint, &context);
    assert_true((status == AMB_OK) == (context != NULL));
    amb_tls_context_unref(&context);
    return status;
}

/* A broker that asks for certificates of clients, with these files. */
static void refuses(const char *certificate, const char *key, const char *ca, const char *crl,
                    enum amb_tls_file file, const char *text)
{
    struct amb_tls_complaint complaint;
    assert_int_equal(create(certificate, key, ca, crl, AMB_TLS_CLIENTS_OPTIONAL, &complaint),
                     AMB_EINVAL);
    if (complaint.file != file || strstr(complaint.text, text) == NULL) {
        fail_msg("%s: %s, and not: %s", amb_tls_file_name(complaint.file), complaint.text, text);
    }
}

#define SERVER tls_made_path(&made, "server.pem")
#define KEY tls_made_path(&made, "server.key")
#define CA tls_made_path(&made, "ca.pem")

static void test_a_broker_needs_a_certificate_and_its_key(void **state)
{
    (void)state;
    struct amb_tls_complaint complaint;
    assert_int_equal(create(SERVER, KEY, NULL, NULL, AMB_TLS_CLIENTS_NONE, &complaint), AMB_OK);
    assert_int_equal(create(SERVER, KEY, CA, NULL, AMB_TLS_CLIENTS_REQUIRED, &complaint), AMB_OK);
    refuses(NULL, KEY, CA, NULL, AMB_TLS_CERTIFICATE, "is missing");
    refuses(SERVER, "", CA, NULL, AMB_TLS_KEY, "is missing");
    refuses(NULL, NULL, CA, NULL, AMB_TLS_CERTIFICATE, "is missing");
    refuses(SERVER, KEY, NULL, NULL, AMB_TLS_CA, "is missing: certificates of clients");
}

/* spoilt.key: the server's, whose private half has another digit, and whose public one is right. In
 * PKCS #8 the private half of a key of P-256 begins at byte 36. */
static void spoil_private_half(void)
{
    char text[1024];
    FILE *file = fopen(KEY, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    assert_int_equal(fclose(file), 0);
    text[length] = '\0';
    char *digit = strchr(text, '\n') + 1 + (36 + 6) / 3 * 4;
    *digit = *digit == 'A' ? 'B' : 'A';
    tls_made_write(&made, "spoilt.key", text, 0600);
}

static void test_files_that_are_not_there_or_not_what_they_should_be(void **state)
{
    (void)state;
    tls_made_write(&made, "empty", "", 0600);
    tls_made_write(&made, "text", "no PEM at all\n", 0600);
    tls_made_write(&made, "broken",
                   "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0644);
    /* libcrypto says nothing of these. */
    tls_made_write(&made, "colon", "-----BEGIN CERTIFICATE-----\nMI:B\n-----END CERTIFICATE-----\n",
                   0644);
    tls_made_write(&made, "colon.key",
                   "-----BEGIN PRIVATE KEY-----\nMI:B\n-----END PRIVATE KEY-----\n", 0600);
    tls_made_write(&made, "colon.crl", "-----BEGIN X509 CRL-----\nMI:B\n-----END X509 CRL-----\n",
                   0644);
    refuses(tls_made_path(&made, "colon"), KEY, CA, NULL, AMB_TLS_CERTIFICATE,
            "has no certificate in PEM");
    refuses(SERVER, tls_made_path(&made, "colon.key"), CA, NULL, AMB_TLS_KEY, "has no private key");
    refuses(SERVER, KEY, tls_made_path(&made, "colon"), NULL, AMB_TLS_CA, "has no certificate");
    refuses(SERVER, KEY, CA, tls_made_path(&made, "colon.crl"), AMB_TLS_CRL,
            "has no revocation list");
    spoil_private_half();
    refuses(SERVER, tls_made_path(&made, "spoilt.key"), CA, NULL, AMB_TLS_KEY,
            "does not fit its public one");
    refuses(tls_made_path(&made, "none"), KEY, CA, NULL, AMB_TLS_CERTIFICATE,
            "cannot be read: No such file");
    refuses(made.folder, KEY, CA, NULL, AMB_TLS_CERTIFICATE, "is not a regular file");
    refuses(tls_made_path(&made, "empty"), KEY, CA, NULL, AMB_TLS_CERTIFICATE,
            "has no certificate in PEM");
    refuses(tls_made_path(&made, "broken"), KEY, CA, NULL, AMB_TLS_CERTIFICATE,
            "has no certificate");
    refuses(SERVER, tls_made_path(&made, "text"), CA, NULL, AMB_TLS_KEY, "has no private key");
    refuses(SERVER, tls_made_path(&made, "server.pem"), CA, NULL, AMB_TLS_KEY,
            "can be read by others (got mode 0644");
    refuses(SERVER, KEY, tls_made_path(&made, "text"), NULL, AMB_TLS_CA, "has no certificate");
    refuses(SERVER, KEY, CA, tls_made_path(&made, "text"), AMB_TLS_CRL, "has no revocation list");
}

static void test_a_key_must_fit_and_be_its_owners_alone(void **state)
{
    (void)state;
    refuses(SERVER, tls_made_path(&made, "other.key"), CA, NULL, AMB_TLS_KEY,
            "does not fit the certificate");
    assert_int_equal(chmod(KEY, 0640), 0);
    refuses(SERVER, KEY, CA, NULL, AMB_TLS_KEY,
            "can be read by others (got mode 0640, allowed 0600 or stricter)");
    assert_int_equal(chmod(KEY, 0600), 0);
    assert_int_equal(chmod(SERVER, 0646), 0);
    refuses(SERVER, KEY, CA, NULL, AMB_TLS_CERTIFICATE, "can be written by everybody");
    assert_int_equal(chmod(SERVER, 0644), 0);
    tls_made_write(&made, "locked",
                   "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                   "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh5mnDDyoyTvgICCAAw\n"
                   "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEDlkqCDyvjHPoD0x6HPHWvQEgZCI\n"
                   "-----END ENCRYPTED PRIVATE KEY-----\n",
                   0600);
    refuses(SERVER, tls_made_path(&made, "locked"), CA, NULL, AMB_TLS_KEY, "locked has ");
}

static void test_times_of_certificates_and_lists(void **state)
{
    (void)state;
    struct amb_tls_complaint complaint;
    tls_made_issue(&made, made.ca, "old", AMB_TLS_SERVER, "localhost",
                   (struct tls_made_time){-2 * TLS_MADE_DAY, -TLS_MADE_DAY});
    tls_made_issue(&made, made.ca, "young", AMB_TLS_SERVER, "localhost",
                   (struct tls_made_time){TLS_MADE_DAY, 2 * TLS_MADE_DAY});
    refuses(tls_made_path(&made, "old.pem"), tls_made_path(&made, "old.key"), CA, NULL,
            AMB_TLS_CERTIFICATE, "has expired (it was valid until 20");
    refuses(tls_made_path(&made, "young.pem"), tls_made_path(&made, "young.key"), CA, NULL,
            AMB_TLS_CERTIFICATE, "is not valid yet (it is from 20");
    refuses(SERVER, KEY, tls_made_path(&made, "old.pem"), NULL, AMB_TLS_CA, "has expired");
    tls_made_revoke(&made, "now.crl", "other.pem",
                    (struct tls_made_time){-TLS_MADE_DAY, TLS_MADE_DAY});
    tls_made_revoke(&made, "past.crl", "other.pem",
                    (struct tls_made_time){-2 * TLS_MADE_DAY, -TLS_MADE_DAY});
    assert_int_equal(create(SERVER, KEY, CA, tls_made_path(&made, "now.crl"),
                            AMB_TLS_CLIENTS_REQUIRED, &complaint),
                     AMB_OK);
    refuses(SERVER, KEY, CA, tls_made_path(&made, "past.crl"), AMB_TLS_CRL,
            "has expired: a newer list was due");
    refuses(SERVER, KEY, SERVER, tls_made_path(&made, "now.crl"), AMB_TLS_CRL,
            "no authority of the ca file has signed");
}

/* Of authorities one is enough, and those whose time is over are no news. */
static void test_an_authority_that_has_expired_is_not_waited_for(void **state)
{
    (void)state;
    tls_made_issue(&made, NULL, "former", AMB_TLS_AUTHORITY, NULL,
                   (struct tls_made_time){-2 * TLS_MADE_DAY, -TLS_MADE_DAY});
    tls_made_join(&made, "authorities.pem", "former.pem", "ca.pem");
    struct amb_tls_files files = {.ca = tls_made_path(&made, "authorities.pem")};
    struct amb_tls_complaint complaint;
    struct amb_tls_context *context = NULL;
    assert_int_equal(amb_tls_context_create_client(&files, &complaint, &context), AMB_OK);
    int64_t left_s = amb_tls_context_used(context, AMB_TLS_CA)->expires_s - (int64_t)time(NULL);
    assert_in_range(left_s, 999 * TLS_MADE_DAY, 1001 * TLS_MADE_DAY);
    amb_tls_context_unref(&context);
}

static void test_contexts_of_the_same_bytes_are_the_same(void **state)
{
    (void)state;
    struct amb_tls_context *a = tls_made_server(&made, "server", AMB_TLS_CLIENTS_NONE);
    struct amb_tls_context *b = tls_made_server(&made, "server", AMB_TLS_CLIENTS_NONE);
    struct amb_tls_context *asks = tls_made_server(&made, "server", AMB_TLS_CLIENTS_OPTIONAL);
    struct amb_tls_context *other = tls_made_server(&made, "other", AMB_TLS_CLIENTS_NONE);
    assert_true(amb_tls_context_is_same(a, b));
    assert_false(amb_tls_context_is_same(a, asks));
    assert_false(amb_tls_context_is_same(a, other));
    assert_false(amb_tls_context_is_same(a, NULL));
    assert_true(amb_tls_context_is_same(NULL, NULL));
    const struct amb_tls_used *used = amb_tls_context_used(a, AMB_TLS_CERTIFICATE);
    struct stat st;
    assert_string_equal(used->path, SERVER);
    assert_int_equal(stat(SERVER, &st), 0);
    assert_int_equal(used->modified_ns, amb_tls_modified_ns(&st));
    assert_in_range(used->expires_s - st.st_mtime, 99 * TLS_MADE_DAY, 101 * TLS_MADE_DAY);
    assert_null(amb_tls_context_used(a, AMB_TLS_CRL));
    /* Written again, and with nothing new in it: it is what is in use once it has been read. */
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = st.st_mtime + 1}};
    assert_int_equal(utimensat(AT_FDCWD, SERVER, times, 0), 0);
    struct amb_tls_context *touched = tls_made_server(&made, "server", AMB_TLS_CLIENTS_NONE);
    assert_false(amb_tls_context_is_same(a, touched));
    amb_tls_context_unref(&touched);
    amb_tls_context_ref(a);
    struct amb_tls_context *again = a;
    amb_tls_context_unref(&again);
    assert_null(again);
    amb_tls_context_unref(&a);
    amb_tls_context_unref(&b);
    amb_tls_context_unref(&asks);
    amb_tls_context_unref(&other);
}

static void test_a_client_needs_nothing_and_may_have_all(void **state)
{
    (void)state;
    struct amb_tls_files none = {.ca = NULL};
    struct amb_tls_complaint complaint;
    struct amb_tls_context *context = NULL;
    assert_int_equal(amb_tls_context_create_client(&none, &complaint, &context), AMB_OK);
    amb_tls_context_unref(&context);
    struct amb_tls_files gone = {.ca = tls_made_path(&made, "none")};
    assert_int_equal(amb_tls_context_create_client(&gone, &complaint, &context), AMB_EINVAL);
    assert_int_equal(complaint.file, AMB_TLS_CA);
    assert_non_null(strstr(complaint.text, "cannot be read"));
    context = tls_made_client(&made, "other");
    amb_tls_context_unref(&context);
}

static unsigned failing_in; /* allocations of libcrypto until one fails; 0: none does */

static void *allocate(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return failing_in != 0 && --failing_in == 0 ? NULL : malloc(size);
}

static void *allocate_again(void *memory, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return failing_in != 0 && --failing_in == 0 ? NULL : realloc(memory, size);
}

static void give_back(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    free(memory);
}

static enum amb_status create_broker(struct amb_tls_complaint *complaint)
{
    return create(SERVER, KEY, CA, NULL, AMB_TLS_CLIENTS_REQUIRED, complaint);
}

static enum amb_status create_client(struct amb_tls_complaint *complaint)
{
    struct amb_tls_files files = {.ca = CA};
    struct amb_tls_context *context = NULL;
    enum amb_status status = amb_tls_context_create_client(&files, complaint, &context);
    amb_tls_context_unref(&context);
    return status;
}

/* Each allocation that step divides fails once. How many of these contexts could not be made? */
static unsigned lack_memory(enum amb_status (*make)(struct amb_tls_complaint *complaint),
                            unsigned step)
{
    struct amb_tls_complaint complaint;
    unsigned failures = 0;
    bool was_reached = true;
    for (unsigned at = step; was_reached; at += step) {
        failing_in = at;
        enum amb_status status = make(&complaint);
        was_reached = failing_in == 0;
        failing_in = 0;
        failures += status != AMB_OK;
        /* When it compares keys, libcrypto does not tell a lack of memory from a difference. */
        bool is_told = status == AMB_OK || status == AMB_ENOMEM ||
                       strstr(complaint.text, "does not fit") != NULL;
        if (!is_told) {
            fail_msg("without allocation %u: %s", at, complaint.text);
        }
    }
    return failures;
}

/* It is not the fault of a file, and a client tries again. */
static void test_a_lack_of_memory_is_told_as_one(void **state)
{
    (void)state;
    assert_true(lack_memory(create_broker, 3) > 150);
    assert_true(lack_memory(create_client, 1) > 200);
}

/* A session has all that it will be asked for, or it is not made. */
static void test_a_session_that_lacks_memory_is_not_made(void **state)
{
    (void)state;
    struct amb_tls_context *broker = tls_made_server(&made, "server", AMB_TLS_CLIENTS_NONE);
    struct amb_tls_context *client = tls_made_client(&made, NULL);
    const struct amb_tls_wish wish = {.name = "localhost"};
    unsigned failures = 0;
    bool was_reached = true;
    for (unsigned at = 1; was_reached; at++) {
        struct tls_two two = {.broker = NULL};
        tls_two_connect(&two);
        failing_in = at;
        enum amb_status status =
            amb_tls_create_connecting(client, two.client_fd, &wish, &two.client);
        was_reached = failing_in == 0;
        failing_in = 0;
        failures += status != AMB_OK;
        if (status == AMB_OK) {
            assert_int_equal(amb_tls_create_accepting(broker, two.broker_fd, &two.broker), AMB_OK);
            tls_two_shake(&two);
            assert_int_equal(two.client_status, AMB_OK);
            assert_int_equal(two.broker_status, AMB_OK);
        } else {
            assert_int_equal(status, AMB_ENOMEM);
        }
        tls_two_fini(&two);
    }
    assert_true(failures > 10);
    amb_tls_context_unref(&broker);
    amb_tls_context_unref(&client);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(allocate, allocate_again, give_back) != 1) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_broker_needs_a_certificate_and_its_key),
        cmocka_unit_test(test_files_that_are_not_there_or_not_what_they_should_be),
        cmocka_unit_test(test_a_key_must_fit_and_be_its_owners_alone),
        cmocka_unit_test(test_times_of_certificates_and_lists),
        cmocka_unit_test(test_an_authority_that_has_expired_is_not_waited_for),
        cmocka_unit_test(test_a_lack_of_memory_is_told_as_one),
        cmocka_unit_test(test_a_session_that_lacks_memory_is_not_made),
        cmocka_unit_test(test_contexts_of_the_same_bytes_are_the_same),
        cmocka_unit_test(test_a_client_needs_nothing_and_may_have_all),
    };
    return cmocka_run_group_tests_name("tls_context", tests, setup, teardown);
}
