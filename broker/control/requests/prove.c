/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/prove.h"

#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/control.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <unistd.h>

const char *amb_prove_mechanism(const struct amb_client *client)
{
    if (client->is_unix) {
        return "peer";
    }
    if (client->control->users != NULL) {
        return "users";
    }
    return client->control->config->auth.token[0] != '\0' ? "token" : "none";
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

/* ---- with one ---- */

/* Of all failures one text goes to the client: the reason is the log's alone. */
static bool fail(const struct amb_client *client, const char *why)
{
    amb_info("connection %" PRIu64 " (%s, uid %d): not authenticated: %s", client->id,
             client->address, (int)client->uid, why);
    return false;
}

static bool enter(struct amb_client *client, const struct amb_auth_user *user,
                  enum amb_mechanism mechanism, const char *credential)
{
    if (user == NULL) {
        return fail(client, "no user who may enter has its credential");
    }
    return amb_login_set(client, user, mechanism, credential) == AMB_OK ||
           fail(client, "no memory");
}

static bool uid_proves(struct amb_client *client)
{
    const struct amb_auth_users *users = client->control->users;
    char credential[AMB_CREDENTIAL_MAX + 1];
    if (!client->is_unix) {
        return fail(client, "uid, and not by a Unix socket");
    }
    if (client->user == AMB_USER_NOBODY) {
        return fail(client, "uid, and the kernel does not tell it (overflow uid)");
    }
    if (client->uid == 0 || client->uid == geteuid()) {
        return enter(client, amb_auth_users_local_admin(users), AMB_MECHANISM_UID, NULL);
    }
    amb_credential_of_uid(client->uid, credential);
    return enter(client, amb_login_find(users, credential), AMB_MECHANISM_UID, credential);
}

bool amb_prove(struct amb_client *client, const Amb__Control__Auth *auth)
{
    if (client->control->users != NULL) {
        return uid_proves(client);
    }
    if (strcmp(amb_prove_mechanism(client), "token") == 0) {
        client->login.mechanism = AMB_MECHANISM_TOKEN;
        return token_proves(client, &auth->proof);
    }
    client->login.mechanism = client->is_unix ? AMB_MECHANISM_UID : AMB_MECHANISM_NONE;
    return true;
}
