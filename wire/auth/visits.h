/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits of a browser to a page: a key that works once, and the cookie that it is turned into.
 *
 * A key stands in an address that somebody opens; 16 may be out at a time, each for a minute. A
 * cookie is signed and not kept, so there is no number of them to bound: it says until when it
 * holds. Its secret comes from a token, so that it outlives the program, or is of this life alone.
 *
 * Threads: one. Memory: embedded.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_VISITS_KEYS 16u
#define AMB_VISITS_KEY_SIZE 33u /* 128 bits as text, with its NUL */
#define AMB_VISITS_KEY_S 60
#define AMB_VISITS_COOKIE_S INT64_C(43200)
#define AMB_VISITS_NAME_SIZE 24u
#define AMB_VISITS_COOKIE_SIZE 192u

struct amb_visits {
    uint8_t secret[32];
    char name[AMB_VISITS_NAME_SIZE]; /* of its cookies: brokers of one host have different ones */
    struct {
        char text[AMB_VISITS_KEY_SIZE];
        int64_t until_ns; /* 0: free */
    } keys[AMB_VISITS_KEYS];
};

/* token: "" makes a secret of this life. EINTERNAL: no memory for HMAC. */
AMB_MUST_CHECK enum amb_status amb_visits_init(struct amb_visits *visits, const char *token);
/* A new key; the oldest one goes where there are AMB_VISITS_KEYS. now_ns: of any clock that only
 * grows. */
void amb_visits_key(struct amb_visits *visits, int64_t now_ns, char out[AMB_VISITS_KEY_SIZE]);
/* Is that a key that is out? It is not afterwards. All of them are compared, in constant time. */
bool amb_visits_take(struct amb_visits *visits, const char *text, int64_t now_ns);
/* The value of Set-Cookie. now_s: since 1970. EINTERNAL. */
AMB_MUST_CHECK enum amb_status amb_visits_cookie(const struct amb_visits *visits, int64_t now_s,
                                                 char out[AMB_VISITS_COOKIE_SIZE]);
/* Has the value of Cookie (NULL: there is none) one that holds? */
bool amb_visits_has(const struct amb_visits *visits, const char *cookies, int64_t now_s);
