/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_rate.h"

#include "wire/base/clock.h"
#include "wire/tls/tls_state.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>

#define ROUNDS 3u
#define RECORDS 32u /* of a round: 512 KiB, as much as a core's own cache has */
#define NONCE_SIZE 12
#define FIRST_SUITE 0x1301u /* TLS_AES_128_GCM_SHA256 (RFC 8446, B.4) */

unsigned amb_tls_suite_index(const struct amb_tls *tls)
{
    const SSL_CIPHER *suite = SSL_get_current_cipher(tls->ssl);
    unsigned index = suite == NULL ? 0 : SSL_CIPHER_get_protocol_id(suite) - FIRST_SUITE;
    return index < AMB_TLS_SUITES ? index : 0;
}

/* One record, as libssl makes it: sealed in place under a nonce of its own. */
static bool seal(EVP_CIPHER_CTX *cipher, uint8_t *bytes, unsigned count)
{
    uint8_t nonce[NONCE_SIZE] = {(uint8_t)count}, tag[EVP_GCM_TLS_TAG_LEN];
    int len;
    return EVP_EncryptInit_ex(cipher, NULL, NULL, NULL, nonce) == 1 &&
           EVP_EncryptUpdate(cipher, bytes, &len, bytes, (int)TLS_RECORD) == 1 &&
           EVP_EncryptFinal_ex(cipher, bytes, &len) == 1 &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, sizeof(tag), tag) == 1;
}

/* Nanoseconds of the fastest round; 0: libcrypto has failed. */
static int64_t best_round_ns(EVP_CIPHER_CTX *cipher, uint8_t *bytes)
{
    int64_t best_ns = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        int64_t begin_ns = amb_clock_monotonic_ns();
        for (unsigned i = 0; i < RECORDS; i++) {
            if (!seal(cipher, bytes, i)) {
                return 0;
            }
        }
        int64_t ns = amb_clock_monotonic_ns() - begin_ns;
        best_ns = best_ns == 0 || ns < best_ns ? ns : best_ns;
    }
    return best_ns;
}

uint64_t amb_tls_measure(const struct amb_tls *tls)
{
    static const uint8_t key[EVP_MAX_KEY_LENGTH];
    const SSL_CIPHER *suite = SSL_get_current_cipher(tls->ssl);
    const EVP_CIPHER *kind =
        suite == NULL ? NULL : EVP_get_cipherbynid(SSL_CIPHER_get_cipher_nid(suite));
    EVP_CIPHER_CTX *cipher = kind == NULL ? NULL : EVP_CIPHER_CTX_new();
    uint8_t *bytes = calloc(1, TLS_RECORD);
    int64_t ns = 0;
    if (cipher != NULL && bytes != NULL && EVP_EncryptInit_ex(cipher, kind, NULL, key, NULL) == 1) {
        ns = best_round_ns(cipher, bytes);
    }
    ERR_clear_error();
    EVP_CIPHER_CTX_free(cipher);
    free(bytes);
    return ns <= 0 ? 0 : (uint64_t)((double)(RECORDS * TLS_RECORD) * 1e9 / (double)ns);
}
