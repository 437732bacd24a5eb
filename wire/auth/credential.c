/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/credential.h"

#include "wire/auth/crypto.h"
#include "wire/base/text.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An Ed25519 SubjectPublicKeyInfo is these bytes, then the key (RFC 8410). */
static const uint8_t key_head[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                   0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

#define KEY_INFO_SIZE (sizeof(key_head) + AMB_CREDENTIAL_KEY_SIZE)
#define KEY_TEXT_LEN 60u /* base64 of 44 bytes */
#define PIN_TEXT_LEN 44u /* base64 of 32 bytes */
#define UID_NONE 4294967294u

static const char *const kinds[AMB_CREDENTIAL_KINDS] = {"key", "token", "cert", "uid"};

const char *amb_credential_kind_name(enum amb_credential_kind kind)
{
    return kinds[kind];
}

/* Exactly `len` characters, in the one spelling that those bytes have. */
static bool decode(const char *text, size_t len, uint8_t *out, size_t size)
{
    uint8_t bytes[64], again[96];
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    if (strlen(text) != len || strspn(text, digits) != len ||
        EVP_DecodeBlock(bytes, (const uint8_t *)text, (int)len) < (int)size) {
        return false;
    }
    bool is_canonical =
        EVP_EncodeBlock(again, bytes, (int)size) == (int)len && memcmp(again, text, len) == 0;
    if (is_canonical) {
        memcpy(out, bytes, size);
    }
    return is_canonical;
}

static const char *check_key(const char *text)
{
    uint8_t info[KEY_INFO_SIZE];
    if (!decode(text, KEY_TEXT_LEN, info, sizeof(info)) ||
        memcmp(info, key_head, sizeof(key_head)) != 0) {
        return "is no Ed25519 public key (allowed key/MCowBQYDK2VwAyEA and 44 more characters)";
    }
    return NULL;
}

static const char *check_token(const char *text)
{
    static const char head[] = "sha256-";
    const char *digits = text + sizeof(head) - 1;
    if (strncmp(text, head, sizeof(head) - 1) != 0 || strlen(digits) != 64 ||
        strspn(digits, "0123456789abcdef") != 64) {
        return "is no hash of a token (allowed token/sha256- and 64 digits of 0-9, a-f)";
    }
    return NULL;
}

static const char *check_cert(const char *text)
{
    static const char pin[] = "sha256/";
    static const char *const names[] = {"uri=", "dns=", "email="};
    uint8_t hash[AMB_CREDENTIAL_HASH_SIZE];
    if (strncmp(text, pin, sizeof(pin) - 1) == 0 &&
        decode(text + sizeof(pin) - 1, PIN_TEXT_LEN, hash, sizeof(hash))) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i]);
        if (strncmp(text, names[i], len) == 0 && text[len] != '\0') {
            return NULL;
        }
    }
    return "names no certificate (allowed cert/uri=, cert/dns=, cert/email=, cert/sha256/)";
}

static const char *check_uid(const char *text)
{
    size_t len = strlen(text);
    bool is_number =
        len >= 1 && len <= 10 && strspn(text, "0123456789") == len && (text[0] != '0' || len == 1);
    if (!is_number || strtoull(text, NULL, 10) >= UID_NONE) {
        return "is no uid (allowed uid/0 to uid/4294967293)";
    }
    return NULL;
}

const char *amb_credential_check(const char *text, enum amb_credential_kind *kind)
{
    static const char *(*const checks[AMB_CREDENTIAL_KINDS])(const char *) = {
        check_key, check_token, check_cert, check_uid};
    if (strlen(text) > AMB_CREDENTIAL_MAX) {
        return "is longer than 1,024 bytes";
    }
    for (unsigned i = 0; i < AMB_CREDENTIAL_KINDS; i++) {
        size_t len = strlen(kinds[i]);
        if (strncmp(text, kinds[i], len) == 0 && text[len] == '/') {
            *kind = (enum amb_credential_kind)i;
            return checks[i](text + len + 1);
        }
    }
    return "is no credential (allowed key/, token/, cert/, uid/)";
}

void amb_credential_of_key(const uint8_t key[AMB_CREDENTIAL_KEY_SIZE], char *out)
{
    uint8_t info[KEY_INFO_SIZE], text[KEY_TEXT_LEN + 1];
    memcpy(info, key_head, sizeof(key_head));
    memcpy(info + sizeof(key_head), key, AMB_CREDENTIAL_KEY_SIZE);
    (void)EVP_EncodeBlock(text, info, sizeof(info));
    (void)snprintf(out, AMB_CREDENTIAL_MAX + 1, "key/%s", (const char *)text);
}

void amb_credential_of_uid(uint32_t uid, char *out)
{
    (void)snprintf(out, AMB_CREDENTIAL_MAX + 1, "uid/%" PRIu32, uid);
}

bool amb_credential_of_token(const void *token, size_t len, char *out)
{
    static const char head[] = "token/sha256-";
    uint8_t hash[EVP_MAX_MD_SIZE];
    unsigned hash_len = 0;
    if (!amb_crypto_begin() || EVP_Digest(token, len, hash, &hash_len, EVP_sha256(), NULL) != 1 ||
        hash_len != AMB_CREDENTIAL_HASH_SIZE) {
        return false;
    }
    memcpy(out, head, sizeof(head));
    amb_text_format_hex(hash, hash_len, out + sizeof(head) - 1);
    return true;
}

bool amb_credential_of_cert(const char *name, char *out)
{
    int len = snprintf(out, AMB_CREDENTIAL_MAX + 1, "cert/%s", name);
    return len > 0 && (unsigned)len <= AMB_CREDENTIAL_MAX;
}

bool amb_credential_key(const char *text, uint8_t out[AMB_CREDENTIAL_KEY_SIZE])
{
    uint8_t info[KEY_INFO_SIZE];
    if (strncmp(text, "key/", 4) != 0 || check_key(text + 4) != NULL ||
        !decode(text + 4, KEY_TEXT_LEN, info, sizeof(info))) {
        return false;
    }
    memcpy(out, info + sizeof(key_head), AMB_CREDENTIAL_KEY_SIZE);
    return true;
}
