/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/signer.h"

#include "wire/auth/crypto.h"
#include "wire/base/passphrase.h"

#include <endian.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "ambroker login 1"

struct amb_signer {
    EVP_PKEY *key;
};

/* ---- the text ---- */

static uint8_t *put(uint8_t *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static uint8_t *put_counted(uint8_t *at, const void *bytes, size_t len)
{
    uint32_t count = htole32((uint32_t)len);
    at = put(at, &count, sizeof(count));
    return len == 0 ? at : put(at, bytes, len);
}

size_t amb_login_text(const struct amb_login_facts *facts, uint8_t out[AMB_LOGIN_TEXT_MAX])
{
    _Static_assert(sizeof(MAGIC) + AMB_LOGIN_NONCE_SIZE + sizeof(uint64_t) + 2 * sizeof(uint32_t) +
                           AMB_LOGIN_SERVER_MAX + AMB_LOGIN_EXPORTER_SIZE <=
                       AMB_LOGIN_TEXT_MAX,
                   "all of it fits");
    uint64_t epoch = htole64(facts->epoch);
    uint8_t *at = put(out, MAGIC, sizeof(MAGIC) - 1);
    at = put(at, facts->nonce, AMB_LOGIN_NONCE_SIZE);
    at = put(at, &epoch, sizeof(epoch));
    at = put_counted(at, facts->server, strnlen(facts->server, AMB_LOGIN_SERVER_MAX));
    at = put_counted(at, facts->exporter, facts->exporter == NULL ? 0 : AMB_LOGIN_EXPORTER_SIZE);
    return (size_t)(at - out);
}

/* ---- keys ---- */

static enum amb_status wrap(EVP_PKEY *key, struct amb_signer **out)
{
    struct amb_signer *signer = malloc(sizeof(*signer));
    if (signer == NULL) {
        EVP_PKEY_free(key);
        return AMB_ENOMEM;
    }
    signer->key = key;
    *out = signer;
    return AMB_OK;
}

enum amb_status amb_signer_create(struct amb_signer **out)
{
    if (!amb_crypto_begin()) {
        return AMB_ENOMEM;
    }
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    ERR_clear_error();
    return key == NULL ? AMB_EINTERNAL : wrap(key, out);
}

enum amb_status amb_signer_parse(const char *pem, size_t len, struct amb_signer **out)
{
    BIO *bio = len > INT32_MAX || !amb_crypto_begin() ? NULL : BIO_new_mem_buf(pem, (int)len);
    if (bio == NULL) {
        return AMB_ENOMEM;
    }
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, amb_no_passphrase, NULL);
    (void)BIO_free(bio);
    ERR_clear_error();
    if (key == NULL || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(key);
        return AMB_EINVAL;
    }
    return wrap(key, out);
}

void amb_signer_free(struct amb_signer **signer)
{
    if (*signer != NULL) {
        EVP_PKEY_free((*signer)->key);
        free(*signer);
        *signer = NULL;
    }
}

void amb_signer_public(const struct amb_signer *signer, uint8_t out[AMB_CREDENTIAL_KEY_SIZE])
{
    size_t len = AMB_CREDENTIAL_KEY_SIZE;
    if (EVP_PKEY_get_raw_public_key(signer->key, out, &len) != 1 ||
        len != AMB_CREDENTIAL_KEY_SIZE) {
        memset(out, 0, AMB_CREDENTIAL_KEY_SIZE); /* It has one: it was made, or parsed. */
    }
}

char *amb_signer_format(const struct amb_signer *signer)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    char *bytes, *text = NULL;
    if (bio != NULL && PEM_write_bio_PKCS8PrivateKey(bio, signer->key, NULL, NULL, 0, NULL, NULL)) {
        long len = BIO_get_mem_data(bio, &bytes);
        text = len > 0 ? strndup(bytes, (size_t)len) : NULL;
    }
    (void)BIO_free(bio);
    ERR_clear_error();
    return text;
}

bool amb_signer_sign(const struct amb_signer *signer, const uint8_t *text, size_t len,
                     uint8_t out[AMB_SIGNATURE_SIZE])
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    size_t out_len = AMB_SIGNATURE_SIZE;
    bool is_good = md != NULL && EVP_DigestSignInit(md, NULL, NULL, NULL, signer->key) == 1 &&
                   EVP_DigestSign(md, out, &out_len, text, len) == 1 &&
                   out_len == AMB_SIGNATURE_SIZE;
    EVP_MD_CTX_free(md);
    ERR_clear_error();
    return is_good;
}

bool amb_signature_verify(const uint8_t key[AMB_CREDENTIAL_KEY_SIZE], const uint8_t *text,
                          size_t len, const uint8_t signature[AMB_SIGNATURE_SIZE])
{
    EVP_PKEY *public =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, AMB_CREDENTIAL_KEY_SIZE);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool is_good = public != NULL && md != NULL &&
                   EVP_DigestVerifyInit(md, NULL, NULL, NULL, public) == 1 &&
                   EVP_DigestVerify(md, signature, AMB_SIGNATURE_SIZE, text, len) == 1;
    EVP_MD_CTX_free(md);
    EVP_PKEY_free(public);
    ERR_clear_error();
    return is_good;
}
