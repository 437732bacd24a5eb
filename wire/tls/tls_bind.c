/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_bind.h"

#include "wire/tls/tls_state.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define ATTACH_LABEL "EXPORTER-ambroker-attach-1"
#define LOGIN_LABEL "EXPORTER-ambroker-login-1"
#define BINDING_LABEL "EXPORTER-Channel-Binding" /* RFC 9266 */

bool amb_tls_bind(struct amb_tls *control, struct amb_tls *link, uint32_t session,
                  uint32_t generation, uint8_t out[AMB_TLS_PROOF_SIZE])
{
    uint8_t key[AMB_TLS_PROOF_SIZE], binding[AMB_TLS_PROOF_SIZE], context[8];
    const uint32_t words[2] = {htole32(session), htole32(generation)};
    memcpy(context, words, sizeof(context));
    unsigned len = 0;
    bool is_good =
        SSL_export_keying_material(control->ssl, key, sizeof(key), ATTACH_LABEL,
                                   strlen(ATTACH_LABEL), context, sizeof(context), 1) == 1 &&
        SSL_export_keying_material(link->ssl, binding, sizeof(binding), BINDING_LABEL,
                                   strlen(BINDING_LABEL), NULL, 0, 1) == 1 &&
        HMAC(EVP_sha256(), key, (int)sizeof(key), binding, sizeof(binding), out, &len) != NULL &&
        len == AMB_TLS_PROOF_SIZE;
    OPENSSL_cleanse(key, sizeof(key));
    OPENSSL_cleanse(binding, sizeof(binding));
    return is_good;
}

bool amb_tls_login_exporter(const struct amb_tls *tls, uint8_t out[AMB_TLS_EXPORTER_SIZE])
{
    return SSL_export_keying_material(tls->ssl, out, AMB_TLS_EXPORTER_SIZE, LOGIN_LABEL,
                                      strlen(LOGIN_LABEL), NULL, 0, 1) == 1;
}

bool amb_tls_proof_is(const uint8_t *proof, size_t len, const uint8_t expected[AMB_TLS_PROOF_SIZE])
{
    return len == AMB_TLS_PROOF_SIZE && CRYPTO_memcmp(proof, expected, len) == 0;
}
