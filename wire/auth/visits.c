/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/visits.h"

#include "wire/base/clock.h"
#include "wire/base/hash.h"
#include "wire/base/text.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define HASH 32u
#define UNTIL_DIGITS 16u
#define VALUE_LEN (UNTIL_DIGITS + 2 * HASH)

static bool sign(const void *key, size_t key_len, const char *text, uint8_t out[HASH])
{
    unsigned len = 0;
    return HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), out,
                &len) != NULL &&
           len == HASH;
}

enum amb_status amb_visits_init(struct amb_visits *visits, const char *token)
{
    uint8_t hash[HASH];
    char digits[9];
    *visits = (struct amb_visits){0};
    bool is_good = true;
    if (token[0] == '\0') {
        amb_random_bytes(visits->secret, sizeof(visits->secret));
    } else {
        is_good = sign(token, strlen(token), "ambroker page", visits->secret);
    }
    if (!is_good || !sign(visits->secret, sizeof(visits->secret), "name", hash)) {
        return AMB_EINTERNAL;
    }
    amb_text_format_hex(hash, 4, digits);
    (void)snprintf(visits->name, sizeof(visits->name), "ambroker-%s", digits);
    return AMB_OK;
}

void amb_visits_key(struct amb_visits *visits, int64_t now_ns, char out[AMB_VISITS_KEY_SIZE])
{
    uint8_t bytes[(AMB_VISITS_KEY_SIZE - 1) / 2];
    size_t oldest = 0;
    amb_random_bytes(bytes, sizeof(bytes));
    for (size_t i = 1; i < AMB_VISITS_KEYS; i++) {
        oldest = visits->keys[i].until_ns < visits->keys[oldest].until_ns ? i : oldest;
    }
    amb_text_format_hex(bytes, sizeof(bytes), visits->keys[oldest].text);
    visits->keys[oldest].until_ns = now_ns + AMB_VISITS_KEY_S * AMB_NS_PER_SEC;
    memcpy(out, visits->keys[oldest].text, AMB_VISITS_KEY_SIZE);
}

bool amb_visits_take(struct amb_visits *visits, const char *text, int64_t now_ns)
{
    bool is_found = false;
    if (strlen(text) != AMB_VISITS_KEY_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < AMB_VISITS_KEYS; i++) {
        bool is_this = CRYPTO_memcmp(visits->keys[i].text, text, AMB_VISITS_KEY_SIZE) == 0 &&
                       now_ns < visits->keys[i].until_ns;
        if (is_this) {
            visits->keys[i].until_ns = 0;
            visits->keys[i].text[0] = '\0';
        }
        is_found = is_found || is_this;
    }
    return is_found;
}

/* The value of a cookie that holds until then. */
static bool write_value(const struct amb_visits *visits, uint64_t until_s, char out[VALUE_LEN + 1])
{
    uint8_t hash[HASH];
    char text[32];
    (void)snprintf(text, sizeof(text), "cookie %016" PRIx64, until_s);
    if (!sign(visits->secret, sizeof(visits->secret), text, hash)) {
        return false;
    }
    memcpy(out, text + sizeof("cookie ") - 1, UNTIL_DIGITS);
    amb_text_format_hex(hash, HASH, out + UNTIL_DIGITS);
    return true;
}

enum amb_status amb_visits_cookie(const struct amb_visits *visits, int64_t now_s,
                                  char out[AMB_VISITS_COOKIE_SIZE])
{
    char value[VALUE_LEN + 1];
    if (!write_value(visits, (uint64_t)(now_s + AMB_VISITS_COOKIE_S), value)) {
        return AMB_EINTERNAL;
    }
    (void)snprintf(out, AMB_VISITS_COOKIE_SIZE,
                   "%s=%s; Path=/; Max-Age=%" PRId64 "; HttpOnly; SameSite=Strict", visits->name,
                   value, AMB_VISITS_COOKIE_S);
    return AMB_OK;
}

static bool is_ours(const struct amb_visits *visits, const char *value, int64_t now_s)
{
    char own[VALUE_LEN + 1];
    uint64_t until_s = 0;
    for (size_t i = 0; i < UNTIL_DIGITS; i++) {
        bool is_digit = value[i] >= '0' && value[i] <= '9';
        if (!is_digit && (value[i] < 'a' || value[i] > 'f')) {
            return false;
        }
        until_s = until_s * 16 + (uint64_t)(is_digit ? value[i] - '0' : value[i] - 'a' + 10);
    }
    return write_value(visits, until_s, own) && CRYPTO_memcmp(own, value, VALUE_LEN) == 0 &&
           now_s >= 0 && until_s > (uint64_t)now_s;
}

bool amb_visits_has(const struct amb_visits *visits, const char *cookies, int64_t now_s)
{
    size_t name_len = strlen(visits->name);
    while (cookies != NULL && *cookies != '\0') {
        cookies += strspn(cookies, " ;");
        size_t len = strcspn(cookies, ";");
        if (len == name_len + 1 + VALUE_LEN && memcmp(cookies, visits->name, name_len) == 0 &&
            cookies[name_len] == '=' && is_ours(visits, cookies + name_len + 1, now_s)) {
            return true;
        }
        cookies += len;
    }
    return false;
}
