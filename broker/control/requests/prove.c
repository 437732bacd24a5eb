/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/prove.h"

#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_session.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/record.h"
#include "broker/tls/handshaker.h"
#include "broker/tls/verify.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/tls/tls_bind.h"
#include "wire/tls/tls_peer.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the question ---- */

static const char *mechanism_of(const struct amb_client *client)
{
    if (client->is_unix) {
        return "peer";
    }
    if (client->control->users != NULL) {
        return "users";
    }
    return client->control->config->auth.token[0] != '\0' ? "token" : "none";
}

/* May the client prove itself so, on such a connection? */
static bool is_offered(const struct amb_client *client, enum amb_mechanism mechanism)
{
    switch (mechanism) {
    case AMB_MECHANISM_KEY:
        return client->control->handshakers != NULL;
    case AMB_MECHANISM_TOKEN:
        return client->is_unix || client->tls != NULL;
    case AMB_MECHANISM_CERT:
        return client->tls != NULL && amb_tls_peer_has_certificate(client->tls);
    case AMB_MECHANISM_UID:
        return client->is_unix;
    case AMB_MECHANISM_NONE:
    case AMB_MECHANISMS:
        break;
    }
    return false;
}

void amb_prove_ask(const struct amb_client *client, Amb__Control__Challenge *challenge,
                   char *mechanisms[AMB_MECHANISMS])
{
    challenge->mechanism = (char *)(uintptr_t)mechanism_of(client);
    challenge->server_name = (char *)(uintptr_t)client->control->config->server.name;
    challenge->mechanisms = mechanisms;
    for (unsigned i = 0; client->control->users != NULL && i < AMB_MECHANISMS; i++) {
        if (is_offered(client, (enum amb_mechanism)i)) {
            mechanisms[challenge->n_mechanisms++] =
                (char *)(uintptr_t)amb_mechanism_name((enum amb_mechanism)i);
        }
    }
}

/* ---- answers ---- */

/* Of all failures one text goes to the client: the reason is the log's alone. A crowd at the door
 * does not fill the log. */
static enum amb_proof fail(const struct amb_client *client, const char *why)
{
    struct amb_control *control = client->control;
    amb_record_refused(client, "login", why);
    bool is_first = control->refusal_logged_ns == 0 ||
                    control->now_ns - control->refusal_logged_ns >= AMB_NS_PER_SEC;
    if (is_first) {
        control->refusal_logged_ns = control->now_ns;
        amb_info("connection %" PRIu64 " (%s, uid %d): not authenticated: %s", client->id,
                 client->address, (int)client->uid, why);
    } else {
        amb_debug("connection %" PRIu64 " (%s): not authenticated: %s", client->id, client->address,
                  why);
    }
    return AMB_PROOF_BAD;
}

/* wanted: the user's name that the client has told; "": none. */
static enum amb_proof enter(struct amb_client *client, const struct amb_auth_user *user,
                            const char *wanted, enum amb_mechanism mechanism,
                            const char *credential)
{
    if (user == NULL) {
        return fail(client, "no user who may enter has its credential");
    }
    if (wanted[0] != '\0' && strcmp(wanted, user->name) != 0) {
        return fail(client, "its credential is not of the user that it names");
    }
    if (!user->is_local_admin &&
        amb_blocklist_find(&client->control->blocked, user->name) != NULL) {
        return fail(client, "its user is blocked");
    }
    return amb_login_set(client, user, mechanism, credential) == AMB_OK ? AMB_PROOF_GOOD
                                                                        : fail(client, "no memory");
}

/* ---- without a users file ---- */

static bool token_proves(const struct amb_client *client, const ProtobufCBinaryData *proof)
{
    const char *token = client->control->config->auth.token;
    uint8_t expected[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (HMAC(EVP_sha256(), token, (int)strlen(token), client->nonce, sizeof(client->nonce),
             expected, &len) == NULL) {
        return false;
    }
    return proof->len == len && CRYPTO_memcmp(proof->data, expected, len) == 0;
}

/* By its uid, or all of TCP. */
static bool is_blocked(const struct amb_client *client)
{
    char text[AMB_AUTH_NAME_MAX];
    return amb_blocklist_find(&client->control->blocked, amb_login_user_text(client, text)) != NULL;
}

static enum amb_proof prove_without_users(struct amb_client *client, const Amb__Control__Auth *auth)
{
    if (strcmp(mechanism_of(client), "token") != 0) {
        client->login.mechanism = client->is_unix ? AMB_MECHANISM_UID : AMB_MECHANISM_NONE;
    } else {
        client->login.mechanism = AMB_MECHANISM_TOKEN;
        if (!token_proves(client, &auth->proof)) {
            return fail(client, "another token than auth.token");
        }
    }
    return is_blocked(client) ? fail(client, "its user is blocked") : AMB_PROOF_GOOD;
}

/* ---- uid ---- */

static enum amb_proof prove_uid(struct amb_client *client, const Amb__Control__Auth *auth)
{
    const struct amb_auth_users *users = client->control->users;
    char credential[AMB_CREDENTIAL_MAX + 1];
    if (client->user == AMB_USER_NOBODY) {
        return fail(client, "uid, and the kernel does not tell it (overflow uid)");
    }
    if (client->uid == 0 || client->uid == geteuid()) {
        return enter(client, amb_auth_users_local_admin(users), auth->user, AMB_MECHANISM_UID,
                     NULL);
    }
    amb_credential_of_uid(client->uid, credential);
    return enter(client, amb_login_find(users, credential), auth->user, AMB_MECHANISM_UID,
                 credential);
}

/* ---- token ---- */

/* The time of a search tells nothing. The table's own keys are random (wire/base/hash.h). A token
 * that is wrong by a byte has a hash that has nothing in common with the right one. */
static enum amb_proof prove_token(struct amb_client *client, const Amb__Control__Auth *auth)
{
    char credential[AMB_CREDENTIAL_MAX + 1];
    if (auth->proof.len == 0 || auth->proof.len > AMB_CREDENTIAL_TOKEN_MAX ||
        !amb_credential_of_token(auth->proof.data, auth->proof.len, credential)) {
        return fail(client, "token, and it has none");
    }
    return enter(client, amb_login_find(client->control->users, credential), auth->user,
                 AMB_MECHANISM_TOKEN, credential);
}

/* ---- cert ---- */

/* The first name of the certificate that a user has, who is the wanted one if there is one. */
struct search {
    const struct amb_auth_users *users;
    const char *wanted;
    const struct amb_auth_user *user;
    char credential[AMB_CREDENTIAL_MAX + 1];
};

/* False: found. */
static bool look_for(const char *name, void *arg)
{
    struct search *search = arg;
    if (!amb_credential_of_cert(name, search->credential)) {
        return true;
    }
    search->user = amb_login_find(search->users, search->credential);
    if (search->user != NULL && search->wanted[0] != '\0' &&
        strcmp(search->wanted, search->user->name) != 0) {
        search->user = NULL;
    }
    return search->user == NULL;
}

static enum amb_proof prove_cert(struct amb_client *client, const Amb__Control__Auth *auth)
{
    char pin[AMB_TLS_PIN_TEXT_MAX];
    struct search search = {.users = client->control->users, .wanted = auth->user};
    if (amb_tls_peer_pin(client->tls, pin) && look_for(pin, &search)) {
        amb_tls_peer_names(client->tls, look_for, &search);
    }
    return enter(client, search.user, auth->user, AMB_MECHANISM_CERT, search.credential);
}

/* ---- key ---- */

/* A signature that a handshaker has. */
struct signed_login {
    struct amb_verify verify;
    struct amb_client *client; /* held */
    amb_proved_fn on_proved;
    char user[AMB_USER_NAME_MAX + 1];
};

static enum amb_proof enter_by_key(const struct signed_login *login)
{
    struct amb_client *client = login->client;
    char credential[AMB_CREDENTIAL_MAX + 1];
    if (!login->verify.is_good) {
        return fail(client, "key, and the signature is not of it and this connection");
    }
    if (client->control->users == NULL) {
        return fail(client, "key, and there are no users any more");
    }
    amb_credential_of_key(login->verify.key, credential);
    return enter(client, amb_login_find(client->control->users, credential), login->user,
                 AMB_MECHANISM_KEY, credential);
}

static void verified(struct amb_mail *mail, void *owner)
{
    (void)owner;
    struct signed_login *login = AMB_CONTAINER_OF(AMB_CONTAINER_OF(mail, struct amb_verify, mail),
                                                  struct signed_login, verify);
    struct amb_client *client = login->client;
    client->control->proofs--;
    if (client->control->is_over) {
        amb_client_end(client, "the broker ends"); /* Workers make no sessions any more. */
    } else if (client->state == AMB_CLIENT_AUTH) {
        login->on_proved(client, enter_by_key(login) == AMB_PROOF_GOOD);
    }
    free(login);
    amb_client_release(client);
}

static enum amb_proof prove_key(struct amb_client *client, const Amb__Control__Auth *auth,
                                amb_proved_fn on_proved)
{
    struct amb_control *control = client->control;
    uint8_t exporter[AMB_TLS_EXPORTER_SIZE];
    _Static_assert(AMB_TLS_EXPORTER_SIZE == AMB_LOGIN_EXPORTER_SIZE, "one exporter");
    _Static_assert(AMB_NONCE_SIZE == AMB_LOGIN_NONCE_SIZE, "one nonce");
    if (auth->key.len != AMB_CREDENTIAL_KEY_SIZE || auth->proof.len != AMB_SIGNATURE_SIZE ||
        strlen(auth->user) > AMB_USER_NAME_MAX) {
        return fail(client, "key, and no key and signature of Ed25519");
    }
    if (client->tls != NULL && !amb_tls_login_exporter(client->tls, exporter)) {
        return fail(client, "key, and libssl has no exporter");
    }
    struct signed_login *login = calloc(1, sizeof(*login));
    if (login == NULL) {
        return fail(client, "no memory");
    }
    const struct amb_login_facts facts = {
        .nonce = client->nonce,
        .epoch = control->epoch,
        .server = control->config->server.name,
        .exporter = client->tls == NULL ? NULL : exporter,
    };
    login->client = client;
    login->on_proved = on_proved;
    (void)snprintf(login->user, sizeof(login->user), "%s", auth->user);
    login->verify.control = &control->inbox;
    login->verify.on_done = verified;
    login->verify.text_len = amb_login_text(&facts, login->verify.text);
    memcpy(login->verify.key, auth->key.data, auth->key.len);
    memcpy(login->verify.signature, auth->proof.data, auth->proof.len);
    amb_client_hold(client);
    control->proofs++;
    amb_verify_post(&login->verify, control->handshakers);
    return AMB_PROOF_LATER;
}

/* ---- all of them ---- */

static enum amb_mechanism find_mechanism(const char *name)
{
    for (unsigned i = 0; i < AMB_MECHANISMS; i++) {
        if (strcmp(name, amb_mechanism_name((enum amb_mechanism)i)) == 0) {
            return (enum amb_mechanism)i;
        }
    }
    return AMB_MECHANISM_NONE;
}

enum amb_proof amb_prove(struct amb_client *client, const Amb__Control__Auth *auth,
                         amb_proved_fn on_proved)
{
    if (client->control->users == NULL) {
        return prove_without_users(client, auth);
    }
    enum amb_mechanism mechanism = auth->mechanism[0] == '\0' && client->is_unix
                                       ? AMB_MECHANISM_UID
                                       : find_mechanism(auth->mechanism);
    if (!is_offered(client, mechanism)) {
        return fail(client, "by no mechanism that it was offered");
    }
    switch (mechanism) {
    case AMB_MECHANISM_KEY:
        return prove_key(client, auth, on_proved);
    case AMB_MECHANISM_TOKEN:
        return prove_token(client, auth);
    case AMB_MECHANISM_CERT:
        return prove_cert(client, auth);
    case AMB_MECHANISM_UID:
    case AMB_MECHANISM_NONE:
    case AMB_MECHANISMS:
        break;
    }
    return prove_uid(client, auth);
}
