/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/own.h"

#include "client/config/client_config.h"
#include "wire/auth/crypto.h"
#include "wire/tls/tls.h"
#include "wire/tls/tls_bind.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define WHERE_MAX 64u /* of a place in an error */

enum amb_status amb_own_read(struct amb_own *own, const struct amb_client_config *config,
                             struct amb_error *error)
{
    *own = (struct amb_own){.path = config->credentials};
    if (config->credentials[0] == '\0') {
        return AMB_OK;
    }
    bool is_file = false;
    enum amb_status status =
        amb_credentials_read(config->credentials, &own->credentials, &is_file, own->why);
    if (status == AMB_OK || (status == AMB_EINVAL && !is_file)) {
        return AMB_OK;
    }
    char where[WHERE_MAX];
    amb_client_config_place(config, "client.credentials", where, sizeof(where));
    error->status = status;
    (void)snprintf(error->text, sizeof(error->text), "%s: client.credentials: %.160s", where,
                   own->why);
    return status;
}

void amb_own_fini(struct amb_own *own)
{
    amb_credentials_fini(&own->credentials);
}

/* A proof is made with the nonce: it has to have the size that both ends know. */
static enum amb_status check_nonce(struct amb_dial *dial, const Amb__Control__Challenge *challenge)
{
    return challenge->nonce.len == AMB_LOGIN_NONCE_SIZE
               ? AMB_OK
               : amb_dial_fail(dial, AMB_EPROTO, "the broker's nonce does not have %u bytes",
                               AMB_LOGIN_NONCE_SIZE);
}

/* ---- a broker without users ---- */

static enum amb_status prove_by_hash(const struct amb_own *own, struct amb_dial *dial,
                                     const Amb__Control__Challenge *challenge,
                                     struct amb_own_answer *room, Amb__Control__Auth *auth)
{
    const char *token = own->credentials.token;
    uint8_t proof[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (own->path[0] == '\0') {
        return amb_dial_fail(dial, AMB_EAUTH,
                             "the broker wants a token: name its file in "
                             "options.credentials or AMB_CREDENTIALS");
    }
    if (token == NULL) {
        return amb_dial_fail(dial, AMB_EAUTH, "credentials: %.200s",
                             own->why[0] != '\0' ? own->why
                                                 : "the broker wants a token, and the file has a "
                                                   "user's key");
    }
    enum amb_status status = check_nonce(dial, challenge);
    if (status != AMB_OK) {
        return status;
    }
    if (!amb_crypto_begin()) {
        return amb_dial_fail(dial, AMB_ENOMEM, "no memory for libcrypto");
    }
    if (HMAC(EVP_sha256(), token, (int)strlen(token), challenge->nonce.data, challenge->nonce.len,
             proof, &len) == NULL ||
        len > sizeof(room->proof)) {
        return amb_dial_fail(dial, AMB_EINTERNAL, "HMAC-SHA256 is not available");
    }
    memcpy(room->proof, proof, len);
    auth->proof.data = room->proof;
    auth->proof.len = len;
    return AMB_OK;
}

static enum amb_status answer_without_users(const struct amb_own *own, struct amb_dial *dial,
                                            const Amb__Control__Challenge *challenge,
                                            struct amb_own_answer *room, Amb__Control__Auth *auth)
{
    if (strcmp(challenge->mechanism, "token") == 0) {
        return prove_by_hash(own, dial, challenge, room, auth);
    }
    if (strcmp(challenge->mechanism, "peer") == 0 || strcmp(challenge->mechanism, "none") == 0) {
        return AMB_OK;
    }
    return amb_dial_fail(dial, AMB_EAUTH,
                         "the broker asks for an authentication that this library does not know");
}

/* ---- one with users ---- */

static bool is_offered(const Amb__Control__Challenge *challenge, const char *mechanism)
{
    for (size_t i = 0; i < challenge->n_mechanisms; i++) {
        if (strcmp(challenge->mechanisms[i], mechanism) == 0) {
            return true;
        }
    }
    return false;
}

static enum amb_status prove_by_key(const struct amb_own *own, struct amb_dial *dial,
                                    const Amb__Control__Challenge *challenge,
                                    struct amb_own_answer *room, Amb__Control__Auth *auth)
{
    uint8_t exporter[AMB_TLS_EXPORTER_SIZE], text[AMB_LOGIN_TEXT_MAX];
    enum amb_status status = check_nonce(dial, challenge);
    if (status != AMB_OK) {
        return status;
    }
    if (dial->tls != NULL && !amb_tls_login_exporter(dial->tls, exporter)) {
        return amb_dial_fail(dial, AMB_EINTERNAL, "libssl has no exporter");
    }
    const struct amb_login_facts facts = {
        .nonce = challenge->nonce.data,
        .epoch = challenge->epoch,
        .server = challenge->server_name,
        .exporter = dial->tls == NULL ? NULL : exporter,
    };
    size_t len = amb_login_text(&facts, text);
    if (!amb_signer_sign(own->credentials.signer, text, len, room->proof)) {
        return amb_dial_fail(dial, AMB_EINTERNAL, "Ed25519 is not available");
    }
    amb_signer_public(own->credentials.signer, room->key);
    auth->proof.data = room->proof;
    auth->proof.len = sizeof(room->proof);
    auth->key.data = room->key;
    auth->key.len = sizeof(room->key);
    return AMB_OK;
}

static enum amb_status have_nothing(const struct amb_own *own, struct amb_dial *dial)
{
    if (own->why[0] != '\0') {
        return amb_dial_fail(dial, AMB_EAUTH, "credentials: %.200s", own->why);
    }
    if (own->credentials.token != NULL) {
        return amb_dial_fail(dial, AMB_EAUTH, "the broker takes a token by tls:// or unix:// only");
    }
    return amb_dial_fail(dial, AMB_EAUTH,
                         "the broker wants a user's credentials: name their file in "
                         "options.credentials or AMB_CREDENTIALS");
}

static enum amb_status answer_with_users(const struct amb_own *own, struct amb_dial *dial,
                                         bool is_unix, const Amb__Control__Challenge *challenge,
                                         struct amb_own_answer *room, Amb__Control__Auth *auth)
{
    static char key[] = "key", token[] = "token", cert[] = "cert", uid[] = "uid";
    const struct amb_credentials *credentials = &own->credentials;
    bool is_private = is_unix || dial->tls != NULL;
    auth->user = credentials->user != NULL ? credentials->user : auth->user;
    if (credentials->signer != NULL && is_offered(challenge, key)) {
        auth->mechanism = key;
        return prove_by_key(own, dial, challenge, room, auth);
    }
    if (credentials->token != NULL && is_private && is_offered(challenge, token)) {
        auth->mechanism = token;
        auth->proof.data = (uint8_t *)credentials->token;
        auth->proof.len = strlen(credentials->token);
        return AMB_OK;
    }
    if (credentials->token != NULL || own->why[0] != '\0') {
        return have_nothing(own, dial); /* It means to be somebody, and not whoever it may be. */
    }
    if (is_offered(challenge, cert)) {
        auth->mechanism = cert;
        return AMB_OK;
    }
    if (is_unix && is_offered(challenge, uid)) {
        auth->mechanism = uid;
        return AMB_OK;
    }
    return have_nothing(own, dial);
}

enum amb_status amb_own_answer(const struct amb_own *own, struct amb_dial *dial, bool is_unix,
                               const Amb__Control__Challenge *challenge,
                               struct amb_own_answer *room, Amb__Control__Auth *auth)
{
    return challenge->n_mechanisms == 0
               ? answer_without_users(own, dial, challenge, room, auth)
               : answer_with_users(own, dial, is_unix, challenge, room, auth);
}
