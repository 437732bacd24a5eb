/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/prove: users of a users file at each door. Clients with a credential come in, by each
 * mechanism. Everybody else gets one and the same text, with somebody else's proof too, and as late
 * as any other.
 */
#include "broker/control/requests/prove.h"

#include "tests/support/door/door_harness.h"
#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/auth/signer.h"
#include "wire/base/clock.h"
#include "wire/tls/tls_bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN "a-token-of-web"
#define REPEATS 1000u
#define CROWD 200u /* at a time: of one beyond server.max_half_open the oldest goes, our victim */
#define RELAYS 200u
#define REFUSALS 40u
#define REFUSALS_MAX 10000u
#define PLANTED 40u
#define PLANTED_NS (2 * AMB_NS_PER_MS)
#define MEDIANS_FROM 1000u                 /* With fewer, medians are the scheduler's word. */
#define FIRST_ADDRESS UINT32_C(0x7f010001) /* 127.1.0.1 */

enum door_kind {
    UNIX,
    PLAIN,
    TLS,
    TLS_CERT,
    DOORS
};

static struct tls_made made;
static struct amb_tls_context *context, *with_cert, *unknown_cert, *middle;
static struct amb_signer *alice, *bob, *gone, *stranger;
static struct door door;

static const struct amb_tls_wish wish = {.alpn = AMB_TLS_ALPN_CONTROL, .name = "localhost"};

/* ---- a broker with users ---- */

static void write_line(FILE *file, const char *before, const struct amb_signer *signer,
                       const char *after)
{
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE];
    char text[AMB_CREDENTIAL_MAX + 1];
    amb_signer_public(signer, key);
    amb_credential_of_key(key, text);
    (void)fprintf(file, "%s%s%s\n", before, text, after);
}

static void write_users(const char *path)
{
    char token[AMB_CREDENTIAL_MAX + 1];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(amb_credential_of_token(TOKEN, strlen(TOKEN), token));
    write_line(file, "alice:plant:camera:-:-:", alice, "");
    write_line(file, "bob:plant:-:-:-:", bob, ",uid/4711");
    write_line(file, "gone:plant:-:-:until=2020-01-01:", gone, "");
    (void)fprintf(file, "web:plant:-:-:-:%s,cert/dns=visitor\n", token);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static int setup(void **state)
{
    (void)state;
    char options[4][320], error[512] = "";
    const char *users = tls_made_path(&made, "users");
    write_users(users);
    (void)snprintf(options[0], sizeof(options[0]), "auth.users=%s", users);
    (void)snprintf(options[1], sizeof(options[1]), "tls.certificate=%s",
                   tls_made_path(&made, "server.pem"));
    (void)snprintf(options[2], sizeof(options[2]), "tls.key=%s",
                   tls_made_path(&made, "server.key"));
    (void)snprintf(options[3], sizeof(options[3]), "tls.ca=%s", tls_made_path(&made, "ca.pem"));
    static const char *const urls[] = {"unix://%s/broker.sock", "tcp://127.0.0.1:0",
                                       "tls://127.0.0.1:0", NULL};
    const char *const all[] = {options[0],
                               options[1],
                               options[2],
                               options[3],
                               "tls.clients=optional",
                               "server.handshake_timeout=1m",
                               "roles=( { name = \"camera\"; publish = ( \"a.b\" ); } )",
                               NULL};
    if (door_try(&door, urls, all, error, sizeof(error)) != AMB_OK) {
        fail_msg("the broker does not start: %s", error);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    door_close(&door);
    return 0;
}

/* ---- a client, word by word ---- */

struct asked {
    struct door_client client;
    uint8_t nonce[AMB_LOGIN_NONCE_SIZE];
    uint64_t epoch;
    char server[64], offered[64], mechanism[16];
};

static void ask(struct asked *asked, enum door_kind kind, struct amb_tls_context *own)
{
    if (kind == UNIX) {
        door_connect_unix(&door, &asked->client);
    } else if (kind == PLAIN) {
        door_connect_tcp(&door, &asked->client);
    } else {
        door_connect_tls(&door, &asked->client, own, &wish);
    }
    door_send_hello(&asked->client, "stream");
    Amb__Control__Control *message =
        door_expect(&asked->client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    const Amb__Control__Challenge *challenge = message->challenge;
    memcpy(asked->nonce, challenge->nonce.data, sizeof(asked->nonce));
    asked->epoch = challenge->epoch;
    asked->offered[0] = '\0';
    for (size_t i = 0; i < challenge->n_mechanisms; i++) {
        size_t len = strlen(asked->offered);
        (void)snprintf(asked->offered + len, sizeof(asked->offered) - len, "%s%s",
                       i == 0 ? "" : " ", challenge->mechanisms[i]);
    }
    (void)snprintf(asked->server, sizeof(asked->server), "%s", challenge->server_name);
    (void)snprintf(asked->mechanism, sizeof(asked->mechanism), "%s", challenge->mechanism);
    amb_control_free(message);
}

/* An Auth, whose bytes are the caller's. */
struct words {
    const char *mechanism, *user;
    const uint8_t *proof, *key;
    size_t proof_len, key_len;
};

static void say(struct asked *asked, const struct words *words)
{
    Amb__Control__Control message;
    Amb__Control__Auth auth;
    amb__control__control__init(&message);
    amb__control__auth__init(&auth);
    auth.mechanism = (char *)(uintptr_t)words->mechanism;
    auth.user = (char *)(uintptr_t)(words->user == NULL ? "" : words->user);
    auth.proof.data = (uint8_t *)(uintptr_t)words->proof;
    auth.proof.len = words->proof_len;
    auth.key.data = (uint8_t *)(uintptr_t)words->key;
    auth.key.len = words->key_len;
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    door_send(&asked->client, &message);
}

/* Signs the login of that connection; tls NULL: without an exporter. */
static void sign_as(const struct asked *asked, const struct amb_signer *signer,
                    const struct amb_tls *tls, uint8_t signature[AMB_SIGNATURE_SIZE],
                    uint8_t key[AMB_CREDENTIAL_KEY_SIZE])
{
    uint8_t exporter[AMB_TLS_EXPORTER_SIZE], text[AMB_LOGIN_TEXT_MAX];
    if (tls != NULL) {
        assert_true(amb_tls_login_exporter(tls, exporter));
    }
    const struct amb_login_facts facts = {asked->nonce, asked->epoch, asked->server,
                                          tls == NULL ? NULL : exporter};
    size_t len = amb_login_text(&facts, text);
    assert_true(amb_signer_sign(signer, text, len, signature));
    amb_signer_public(signer, key);
}

static void say_key(struct asked *asked, const struct amb_signer *signer, const struct amb_tls *tls,
                    const char *user)
{
    uint8_t signature[AMB_SIGNATURE_SIZE], key[AMB_CREDENTIAL_KEY_SIZE];
    sign_as(asked, signer, tls, signature, key);
    say(asked, &(struct words){"key", user, signature, key, sizeof(signature), sizeof(key)});
}

static void say_token(struct asked *asked, const char *token)
{
    say(asked, &(struct words){.mechanism = "token",
                               .proof = (const uint8_t *)token,
                               .proof_len = strlen(token)});
}

static void welcome(struct asked *asked)
{
    amb_control_free(door_expect(&asked->client, AMB__CONTROL__CONTROL__BODY_WELCOME));
    door_disconnect(&asked->client);
}

/* ---- tests ---- */

static void test_each_door_offers_what_is_safe_there(void **state)
{
    (void)state;
    static const char *const offers[DOORS] = {"key token uid", "key", "key token",
                                              "key token cert"};
    for (unsigned i = 0; i < DOORS; i++) {
        struct asked asked;
        ask(&asked, (enum door_kind)i, i == TLS_CERT ? with_cert : context);
        assert_string_equal(asked.offered, offers[i]);
        assert_string_equal(asked.mechanism, i == UNIX ? "peer" : "users");
        assert_string_not_equal(asked.server, "");
        door_disconnect(&asked.client);
    }
}

static void test_who_has_a_credential_comes_in(void **state)
{
    (void)state;
    struct asked asked;
    for (unsigned i = 0; i < TLS_CERT; i++) {
        ask(&asked, (enum door_kind)i, context);
        say_key(&asked, alice, asked.client.tls, i == 0 ? "alice" : "");
        welcome(&asked);
    }
    ask(&asked, UNIX, NULL);
    say_token(&asked, TOKEN);
    welcome(&asked);
    ask(&asked, TLS, context);
    say_token(&asked, TOKEN);
    welcome(&asked);
    ask(&asked, TLS_CERT, with_cert);
    say(&asked, &(struct words){.mechanism = "cert", .user = "web"});
    welcome(&asked);
    /* The broker's own uid, by the new words and by those of older clients. */
    ask(&asked, UNIX, NULL);
    say(&asked, &(struct words){.mechanism = "uid"});
    welcome(&asked);
    ask(&asked, UNIX, NULL);
    say(&asked, &(struct words){.mechanism = ""});
    welcome(&asked);
}

static void test_the_session_is_its_users(void **state)
{
    (void)state;
    struct asked asked;
    ask(&asked, TLS, context);
    say_key(&asked, alice, asked.client.tls, "");
    amb_control_free(door_expect(&asked.client, AMB__CONTROL__CONTROL__BODY_WELCOME));
    struct door_client admin;
    door_login_unix(&door, &admin);
    char *rows = door_admin(&admin, "clients");
    assert_non_null(strstr(rows, "\"user\":\"alice\",\"tenant\":\"plant\",\"mechanism\":\"key\","
                                 "\"suite\":\"TLS_AES_128_GCM_SHA256\""));
    free(rows);
    door_disconnect(&admin);
    door_disconnect(&asked.client);
}

static void refuse_all(struct asked *asked, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        door_expect_error(&asked[i].client, 0, AMB_EAUTH, "not authenticated");
        door_expect_closed(&asked[i].client);
        door_disconnect(&asked[i].client);
    }
}

static struct asked *ask_next(struct asked *all, unsigned *count, enum door_kind kind,
                              struct amb_tls_context *own)
{
    struct asked *next = &all[(*count)++];
    ask(next, kind, own);
    return next;
}

/* All at once: from the third on the answer is a second late. */
static void test_everybody_else_gets_one_text(void **state)
{
    (void)state;
    enum {
        CASES = 20
    };
    static struct asked asked[CASES];
    unsigned n = 0;
    uint8_t signature[AMB_SIGNATURE_SIZE], key[AMB_CREDENTIAL_KEY_SIZE];
    struct asked *a;
    a = ask_next(asked, &n, TLS, context);
    say_key(a, stranger, a->client.tls, ""); /* unknown */
    a = ask_next(asked, &n, TLS, context);
    say_key(a, gone, a->client.tls, ""); /* expired */
    a = ask_next(asked, &n, TLS, context);
    say_key(a, alice, a->client.tls, "bob"); /* another name */
    a = ask_next(asked, &n, TLS, context);
    say_key(a, alice, NULL, ""); /* without the exporter */
    a = ask_next(asked, &n, PLAIN, NULL);
    say_key(a, stranger, NULL, "");
    a = ask_next(asked, &n, TLS, context);
    sign_as(a, alice, a->client.tls, signature, key);
    signature[7] ^= 1;
    say(a, &(struct words){"key", "", signature, key, sizeof(signature), sizeof(key)});
    a = ask_next(asked, &n, TLS, context);
    sign_as(a, alice, a->client.tls, signature, key);
    amb_signer_public(bob, key); /* alice's signature, bob's key */
    say(a, &(struct words){"key", "", signature, key, sizeof(signature), sizeof(key)});
    a = ask_next(asked, &n, TLS, context);
    sign_as(a, alice, a->client.tls, signature, key);
    say(a, &(struct words){"key", "", signature, key, sizeof(signature) - 1, sizeof(key)});
    a = ask_next(asked, &n, TLS, context);
    sign_as(a, alice, a->client.tls, signature, key);
    say(a, &(struct words){"key", "", signature, key, sizeof(signature), sizeof(key) - 1});
    a = ask_next(asked, &n, TLS, context);
    say(a, &(struct words){.mechanism = "key"});
    a = ask_next(asked, &n, TLS, context);
    say_token(a, "another");
    a = ask_next(asked, &n, UNIX, NULL);
    say_token(a, "");
    a = ask_next(asked, &n, PLAIN, NULL);
    say_token(a, TOKEN); /* right, and at a door where it is not offered */
    a = ask_next(asked, &n, TLS, context);
    say(a, &(struct words){.mechanism = "cert"});
    a = ask_next(asked, &n, TLS_CERT, unknown_cert);
    say(a, &(struct words){.mechanism = "cert"});
    a = ask_next(asked, &n, TLS_CERT, with_cert);
    say(a, &(struct words){.mechanism = "cert", .user = "alice"});
    a = ask_next(asked, &n, TLS, context);
    say(a, &(struct words){.mechanism = "uid"});
    a = ask_next(asked, &n, PLAIN, NULL);
    say(a, &(struct words){.mechanism = ""});
    a = ask_next(asked, &n, TLS, context);
    say(a, &(struct words){.mechanism = "none"});
    a = ask_next(asked, &n, UNIX, NULL);
    say(a, &(struct words){.mechanism = "uid", .user = "alice"});
    assert_int_equal(n, CASES);
    refuse_all(asked, n);
}

static unsigned sessions(void)
{
    struct door_client admin;
    unsigned count = 0;
    door_login_unix(&door, &admin);
    char *rows = door_admin(&admin, "clients");
    for (const char *at = rows; (at = strstr(at, "\"state\"")) != NULL; at++) {
        count++;
    }
    free(rows);
    door_disconnect(&admin);
    return count;
}

/* A proof that was seen once: on the same door, and on the others. */
static void test_a_proof_is_of_one_connection(void **state)
{
    (void)state;
    uint8_t signature[AMB_SIGNATURE_SIZE], key[AMB_CREDENTIAL_KEY_SIZE];
    struct asked victim;
    ask(&victim, TLS, context);
    sign_as(&victim, alice, victim.client.tls, signature, key);
    const struct words words = {"key", "", signature, key, sizeof(signature), sizeof(key)};
    const unsigned before = door_count_fds();
    for (unsigned i = 0; i < REPEATS; i++) {
        struct asked thief;
        ask(&thief, i % 5 == 0 ? TLS : i % 2 == 0 ? UNIX : PLAIN, context);
        say(&thief, &words);
        door_disconnect(&thief.client); /* The answer would be a second late. */
        if (i % CROWD == CROWD - 1) {
            door_await_fds(before);
        }
    }
    assert_int_equal(sessions(), 1); /* our own */
    say(&victim, &words);            /* It was a good one. */
    welcome(&victim);
}

/* AMB_RELAYS: more of them. */
static unsigned relays_to_try(void)
{
    const char *text = getenv("AMB_RELAYS");
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : RELAYS;
}

/* A broker in between passes on the question and the answer. */
static void test_a_broker_in_between_learns_nothing_of_use(void **state)
{
    (void)state;
    unsigned relays = relays_to_try();
    for (unsigned i = 0; i < relays; i++) {
        struct tls_two two; /* The victim's connection ends in the middle. */
        struct asked relayed;
        uint8_t signature[AMB_SIGNATURE_SIZE], key[AMB_CREDENTIAL_KEY_SIZE];
        tls_two_make(&two, middle, context, &wish);
        tls_two_shake(&two);
        assert_int_equal(two.client_status, AMB_OK);
        ask(&relayed, (enum door_kind)(i % TLS_CERT), context);
        sign_as(&relayed, alice, two.client, signature, key);
        say(&relayed, &(struct words){"key", "", signature, key, sizeof(signature), sizeof(key)});
        door_disconnect(&relayed.client);
        tls_two_fini(&two);
    }
    assert_int_equal(sessions(), 1);
    print_message("%u proofs replayed, %u relayed: 0 passed\n", REPEATS, relays);
}

/* ---- how late a refusal is ---- */

enum refusal {
    NO_MECHANISM,
    UNKNOWN_TOKEN,
    TOKEN_OF_ANOTHER_NAME,
    UNKNOWN_CERT,
    UNKNOWN_KEY,
    WRONG_SIGNATURE,
    KEY_OF_ANOTHER_NAME,
    EXPIRED_USER,
    BLOCKED_USER,
    KINDS,
    NO_KIND = KINDS
};

static const char *const refusal_names[KINDS] = {
    "no mechanism",        "unknown token", "token of another name",
    "unknown certificate", "unknown key",   "wrong signature",
    "key of another name", "expired user",  "blocked user",
};

static unsigned refusals_to_try(void)
{
    const char *text = getenv("AMB_REFUSALS");
    unsigned count = text != NULL ? (unsigned)strtoul(text, NULL, 10) : REFUSALS;
    assert_in_range(count, 1, REFUSALS_MAX);
    return count;
}

/* From the last byte of Auth to the whole answer. From an address of its own: the third refusal of
 * one would be a second late. late_ns: so much is added by us, however slow the answer is. */
static int64_t refusal_ns(enum refusal kind, int64_t late_ns)
{
    static const struct {
        const char *mechanism, *user, *token;
        struct amb_signer **signer;
    } all[KINDS] = {
        [NO_MECHANISM] = {"none", "", NULL, NULL},
        [UNKNOWN_TOKEN] = {"token", "", "another", NULL},
        [TOKEN_OF_ANOTHER_NAME] = {"token", "alice", TOKEN, NULL},
        [UNKNOWN_CERT] = {"cert", "", NULL, NULL},
        [UNKNOWN_KEY] = {"key", "", NULL, &stranger},
        [WRONG_SIGNATURE] = {"key", "", NULL, &alice},
        [KEY_OF_ANOTHER_NAME] = {"key", "bob", NULL, &alice},
        [EXPIRED_USER] = {"key", "", NULL, &gone},
        [BLOCKED_USER] = {"key", "", NULL, &bob},
    };
    struct asked asked;
    uint8_t signature[AMB_SIGNATURE_SIZE], key[AMB_CREDENTIAL_KEY_SIZE];
    door.from = door.from == 0 ? FIRST_ADDRESS : door.from + 1;
    ask(&asked, kind == UNKNOWN_CERT ? TLS_CERT : TLS,
        kind == UNKNOWN_CERT ? unknown_cert : context);
    struct words words = {.mechanism = all[kind].mechanism, .user = all[kind].user};
    if (all[kind].token != NULL) {
        words.proof = (const uint8_t *)all[kind].token;
        words.proof_len = strlen(all[kind].token);
    }
    if (all[kind].signer != NULL) {
        sign_as(&asked, *all[kind].signer, asked.client.tls, signature, key);
        signature[7] ^= kind == WRONG_SIGNATURE;
        words.proof = signature;
        words.proof_len = sizeof(signature);
        words.key = key;
        words.key_len = sizeof(key);
    }
    int64_t begin_ns = amb_clock_monotonic_ns();
    while (amb_clock_monotonic_ns() - begin_ns < late_ns) {
    }
    say(&asked, &words);
    door_expect_error(&asked.client, 0, AMB_EAUTH, "not authenticated");
    int64_t ns = amb_clock_monotonic_ns() - begin_ns;
    door_expect_closed(&asked.client);
    door_disconnect(&asked.client);
    return ns;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return one < other ? -1 : one > other;
}

/* The largest of them without the smallest. */
static int64_t spread_of(const int64_t ns[KINDS])
{
    int64_t least = ns[0], most = ns[0];
    for (unsigned kind = 1; kind < KINDS; kind++) {
        least = ns[kind] < least ? ns[kind] : least;
        most = ns[kind] > most ? ns[kind] : most;
    }
    return most - least;
}

/* Of each kind. */
struct lateness {
    int64_t fastest[KINDS], medians[KINDS];
    unsigned turns;
};

/* Kinds take turns, so that all of them have the same machine. The fastest answers of each are
 * compared. A machine that is short of cores has more turns for that. A kind that waits for
 * something else than a core is never fast. Of many turns medians are compared, too. */
static struct lateness measure(unsigned tries, enum refusal late)
{
    static int64_t ns[KINDS][REFUSALS_MAX];
    struct lateness out = {.turns = 0};
    unsigned most = 3 * tries < REFUSALS_MAX ? 3 * tries : REFUSALS_MAX;
    while (out.turns < tries || (spread_of(out.fastest) > AMB_NS_PER_MS && out.turns < most)) {
        for (unsigned kind = 0; kind < KINDS; kind++) {
            int64_t one = refusal_ns((enum refusal)kind, kind == (unsigned)late ? PLANTED_NS : 0);
            bool is_fastest = out.turns == 0 || one < out.fastest[kind];
            ns[kind][out.turns] = one;
            out.fastest[kind] = is_fastest ? one : out.fastest[kind];
        }
        out.turns++;
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        qsort(ns[kind], out.turns, sizeof(ns[kind][0]), compare_ns);
        out.medians[kind] = ns[kind][out.turns / 2];
    }
    return out;
}

static void block_bob(void)
{
    struct door_client admin;
    door_login_unix(&door, &admin);
    free(door_admin(&admin, "block bob"));
    door_disconnect(&admin);
}

static void test_all_refusals_come_at_the_same_time(void **state)
{
    (void)state;
    unsigned tries = refusals_to_try();
    block_bob();
    const struct lateness seen = measure(tries, NO_KIND);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        print_message("median of refusals, %-22s %4ld us; fastest %4ld us\n", refusal_names[kind],
                      (long)(seen.medians[kind] / 1000), (long)(seen.fastest[kind] / 1000));
    }
    print_message("%u refusals of each kind: the fastest are %ld us apart, medians %ld us\n",
                  seen.turns, (long)(spread_of(seen.fastest) / 1000),
                  (long)(spread_of(seen.medians) / 1000));
    assert_true(spread_of(seen.fastest) <= AMB_NS_PER_MS);
    assert_true(tries < MEDIANS_FROM || spread_of(seen.medians) <= AMB_NS_PER_MS);
}

static void test_a_kind_that_is_two_milliseconds_late_is_found(void **state)
{
    (void)state;
    block_bob();
    const struct lateness seen = measure(PLANTED, UNKNOWN_TOKEN);
    assert_true(spread_of(seen.fastest) > AMB_NS_PER_MS);
}

/* Nothing is read while a signature is checked, and nothing is lost. */
static void test_what_comes_behind_a_signature_waits_for_it(void **state)
{
    (void)state;
    struct asked asked;
    for (unsigned i = 0; i < TLS_CERT; i++) {
        ask(&asked, (enum door_kind)i, context);
        say_key(&asked, alice, asked.client.tls, "");
        door_disconnect(&asked.client); /* Gone before the answer. */
        ask(&asked, (enum door_kind)i, context);
        say_key(&asked, alice, asked.client.tls, "");
        say_key(&asked, alice, asked.client.tls, "");
        Amb__Control__Control *message = door_receive(&asked.client);
        assert_non_null(message);
        if (message->body_case == AMB__CONTROL__CONTROL__BODY_WELCOME) {
            amb_control_free(message);
            message = door_receive(&asked.client);
        }
        /* A second Auth is no message of a session, whether that is there already or not. */
        assert_int_equal(message->body_case, AMB__CONTROL__CONTROL__BODY_ERROR);
        amb_control_free(message);
        door_disconnect(&asked.client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_door_offers_what_is_safe_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_has_a_credential_comes_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_session_is_its_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_everybody_else_gets_one_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_proof_is_of_one_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_broker_in_between_learns_nothing_of_use, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_all_refusals_come_at_the_same_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_kind_that_is_two_milliseconds_late_is_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_comes_behind_a_signature_waits_for_it, setup,
                                        teardown),
    };
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    tls_made_plain(&made, "visitor", AMB_TLS_CLIENT, "visitor");
    tls_made_plain(&made, "unknown", AMB_TLS_CLIENT, "unknown");
    context = tls_made_client(&made, NULL);
    with_cert = tls_made_client(&made, "visitor");
    unknown_cert = tls_made_client(&made, "unknown");
    middle = tls_made_server(&made, "server", AMB_TLS_CLIENTS_NONE);
    struct amb_signer **const signers[] = {&alice, &bob, &gone, &stranger};
    int failed = 0;
    for (unsigned i = 0; i < 4; i++) {
        failed |= amb_signer_create(signers[i]) != AMB_OK;
    }
    failed |= cmocka_run_group_tests_name("prove", tests, NULL, NULL);
    for (unsigned i = 0; i < 4; i++) {
        amb_signer_free(signers[i]);
    }
    amb_tls_context_unref(&context);
    amb_tls_context_unref(&with_cert);
    amb_tls_context_unref(&unknown_cert);
    amb_tls_context_unref(&middle);
    tls_made_fini(&made);
    return failed;
}
