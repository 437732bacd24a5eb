/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client/own: a client's credentials file, and the answer to each kind of Challenge. A token is
 * told to nobody who asks for it by plain TCP.
 */
#include "client/session/own.h"

#include "client/config/client_config.h"

#include <openssl/crypto.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define AS_PROGRAM "program"
#define TORN_DOWN 9

extern char **environ;

static char path[] = "/tmp/amb-own-XXXXXX";
static char *key_file;

static int setup(void **state)
{
    (void)state;
    struct amb_credentials credentials = {.user = strdup("cam7")};
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || amb_signer_create(&credentials.signer) != AMB_OK) {
        return -1;
    }
    key_file = amb_credentials_format(&credentials);
    amb_credentials_fini(&credentials);
    return key_file == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(key_file);
    return unlink(path);
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static enum amb_status read_own(const char *file, struct amb_own *own, struct amb_error *error)
{
    struct amb_client_config config = {.credentials = file};
    const struct amb_client_option option = {"client.credentials", "options.credentials", file};
    const struct amb_client_source source = {.options = &option, .option_count = 1};
    struct amb_client_config *real = NULL;
    char why[200];
    assert_int_equal(amb_client_config_create(&source, why, sizeof(why), &real), AMB_OK);
    config.store = real->store;
    enum amb_status status = amb_own_read(own, &config, error);
    own->path = file;
    amb_client_config_destroy(&real);
    return status;
}

/* The answer to a Challenge with these mechanisms, or with `old` alone. */
static enum amb_status answer(const struct amb_own *own, bool is_unix, const char *old,
                              const char *list, struct amb_own_answer *room,
                              Amb__Control__Auth *auth, struct amb_error *error)
{
    static uint8_t nonce[AMB_LOGIN_NONCE_SIZE] = {7};
    char words[64], *items[8], *rest = NULL;
    struct amb_dial dial = {.fd = -1, .error = error};
    Amb__Control__Challenge challenge;
    amb__control__challenge__init(&challenge);
    *error = (struct amb_error){.status = AMB_OK};
    challenge.mechanism = (char *)(uintptr_t)old;
    challenge.nonce.data = nonce;
    challenge.nonce.len = sizeof(nonce);
    challenge.epoch = 5;
    challenge.server_name = (char *)(uintptr_t) "broker";
    challenge.mechanisms = items;
    (void)snprintf(words, sizeof(words), "%s", list);
    for (char *one = strtok_r(words, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest)) {
        items[challenge.n_mechanisms++] = one;
    }
    amb__control__auth__init(auth);
    return amb_own_answer(own, &dial, is_unix, &challenge, room, auth);
}

static void test_a_key_signs_the_login(void **state)
{
    (void)state;
    struct amb_own own;
    struct amb_own_answer room;
    struct amb_error error;
    Amb__Control__Auth auth;
    write_file(key_file, 0600);
    assert_int_equal(read_own(path, &own, &error), AMB_OK);
    assert_int_equal(answer(&own, false, "users", "key", &room, &auth, &error), AMB_OK);
    assert_string_equal(auth.mechanism, "key");
    assert_string_equal(auth.user, "cam7");
    assert_int_equal(auth.key.len, AMB_CREDENTIAL_KEY_SIZE);
    assert_int_equal(auth.proof.len, AMB_SIGNATURE_SIZE);
    static const uint8_t nonce[AMB_LOGIN_NONCE_SIZE] = {7};
    const struct amb_login_facts facts = {nonce, 5, "broker", NULL};
    uint8_t text[AMB_LOGIN_TEXT_MAX];
    size_t len = amb_login_text(&facts, text);
    assert_true(amb_signature_verify(auth.key.data, text, len, auth.proof.data));
    /* It is used before all else; and where it is not, the name is told all the same. */
    assert_int_equal(answer(&own, true, "peer", "token key uid", &room, &auth, &error), AMB_OK);
    assert_string_equal(auth.mechanism, "key");
    assert_int_equal(answer(&own, true, "peer", "uid", &room, &auth, &error), AMB_OK);
    assert_string_equal(auth.mechanism, "uid");
    assert_string_equal(auth.user, "cam7");
    /* A broker that wants the old kind of token. */
    assert_int_equal(answer(&own, false, "token", "", &room, &auth, &error), AMB_EAUTH);
    assert_non_null(strstr(error.text, "the file has a user's key"));
    assert_int_equal(answer(&own, true, "peer", "", &room, &auth, &error), AMB_OK);
    assert_int_equal(auth.proof.len, 0);
    amb_own_fini(&own);
}

static void test_a_token_stays_where_nobody_listens(void **state)
{
    (void)state;
    struct amb_own own;
    struct amb_own_answer room;
    struct amb_error error;
    Amb__Control__Auth auth;
    write_file("secret\n", 0644);
    assert_int_equal(read_own(path, &own, &error), AMB_OK);
    assert_int_equal(answer(&own, true, "peer", "token uid", &room, &auth, &error), AMB_OK);
    assert_string_equal(auth.mechanism, "token");
    assert_int_equal(auth.proof.len, 6);
    assert_memory_equal(auth.proof.data, "secret", 6);
    /* Plain TCP: somebody in between may have written the offer. */
    assert_int_equal(answer(&own, false, "users", "token", &room, &auth, &error), AMB_EAUTH);
    assert_string_equal(error.text, "the broker takes a token by tls:// or unix:// only");
    assert_int_equal(auth.proof.len, 0);
    /* It means to be somebody: its uid is not used in silence. */
    assert_int_equal(answer(&own, true, "peer", "uid", &room, &auth, &error), AMB_EAUTH);
    /* The old way, as it was: a keyed hash of it. */
    assert_int_equal(answer(&own, false, "token", "", &room, &auth, &error), AMB_OK);
    assert_int_equal(auth.proof.len, 32);
    assert_string_equal(auth.mechanism, "");
    amb_own_fini(&own);
}

static void test_without_credentials(void **state)
{
    (void)state;
    struct amb_own own;
    struct amb_own_answer room;
    struct amb_error error;
    Amb__Control__Auth auth;
    assert_int_equal(read_own("", &own, &error), AMB_OK);
    assert_int_equal(answer(&own, true, "peer", "key token uid", &room, &auth, &error), AMB_OK);
    assert_string_equal(auth.mechanism, "uid");
    assert_string_equal(auth.user, "");
    assert_int_equal(answer(&own, false, "users", "key token cert", &room, &auth, &error), AMB_OK);
    assert_string_equal(auth.mechanism, "cert");
    assert_int_equal(answer(&own, false, "users", "key uid", &room, &auth, &error), AMB_EAUTH);
    assert_non_null(strstr(error.text, "AMB_CREDENTIALS"));
    assert_int_equal(answer(&own, false, "users", "", &room, &auth, &error), AMB_EAUTH);
    assert_int_equal(answer(&own, false, "token", "", &room, &auth, &error), AMB_EAUTH);
    assert_non_null(strstr(error.text, "wants a token"));
    assert_int_equal(answer(&own, false, "none", "", &room, &auth, &error), AMB_OK);
    assert_int_equal(answer(&own, true, "peer", "", &room, &auth, &error), AMB_OK);
    amb_own_fini(&own);
}

static void test_wrong_files(void **state)
{
    (void)state;
    struct amb_own own;
    struct amb_own_answer room;
    struct amb_error error;
    Amb__Control__Auth auth;
    /* A file of credentials that is wrong: at once, whatever the broker wants. */
    write_file(key_file, 0644);
    assert_int_equal(read_own(path, &own, &error), AMB_EINVAL);
    assert_non_null(strstr(error.text, "options.credentials: client.credentials: "));
    assert_non_null(strstr(error.text, "can be read by others"));
    amb_own_fini(&own);
    write_file(AMB_CREDENTIALS_FIRST "\nnonsense\n", 0600);
    assert_int_equal(read_own(path, &own, &error), AMB_EINVAL);
    assert_non_null(strstr(error.text, ":2: is no line that is known"));
    amb_own_fini(&own);
    /* One that is missing, or empty: where it is asked for. */
    assert_int_equal(read_own("/nowhere", &own, &error), AMB_OK);
    assert_int_equal(answer(&own, true, "peer", "", &room, &auth, &error), AMB_OK);
    assert_int_equal(answer(&own, false, "token", "", &room, &auth, &error), AMB_EAUTH);
    assert_non_null(strstr(error.text, "/nowhere cannot be read: No such file"));
    assert_int_equal(answer(&own, true, "peer", "uid", &room, &auth, &error), AMB_EAUTH);
    assert_non_null(strstr(error.text, "/nowhere cannot be read: No such file"));
    amb_own_fini(&own);
    write_file("", 0600);
    assert_int_equal(read_own(path, &own, &error), AMB_OK);
    assert_int_equal(answer(&own, false, "token", "", &room, &auth, &error), AMB_EAUTH);
    assert_non_null(strstr(error.text, "is no token"));
    amb_own_fini(&own);
}

/* ---- a program of its own, which is this file again ---- */

static void torn_down(void)
{
    _exit(TORN_DOWN);
}

static int run_program(const char *file)
{
    struct amb_conn *conn = NULL;
    enum amb_status status =
        amb_connect("unix:///nowhere/broker.sock", AMB_OPTIONS(.credentials = file), &conn);
    return status == AMB_EUNREACHABLE && OPENSSL_atexit(torn_down) == 1 ? EXIT_SUCCESS
                                                                        : EXIT_FAILURE;
}

static void test_libcrypto_outlives_the_exit_of_a_program_with_a_key(void **state)
{
    (void)state;
    char program[] = "/proc/self/exe", role[] = AS_PROGRAM;
    char *arguments[] = {program, role, path, NULL};
    pid_t pid;
    int status;
    write_file(key_file, 0600);
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], AS_PROGRAM) == 0) {
        return run_program(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_signs_the_login),
        cmocka_unit_test(test_a_token_stays_where_nobody_listens),
        cmocka_unit_test(test_without_credentials),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_libcrypto_outlives_the_exit_of_a_program_with_a_key),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
