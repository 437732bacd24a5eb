/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/bytes_json.h"

#include "tools/common/shown.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY_MAX 300u /* bytes of a name with its suffix */

static json_t *base64(const void *bytes, size_t len)
{
    char *text = malloc((len + 2) / 3 * 4 + 1);
    if (text == NULL) {
        return NULL;
    }
    int out = EVP_EncodeBlock((unsigned char *)text, bytes, (int)len);
    json_t *value = json_stringn(text, (size_t)out);
    free(text);
    return value;
}

bool amb_bytes_json(json_t *object, const char *name, const void *bytes, size_t len, size_t max)
{
    char key[KEY_MAX];
    max = max < AMB_BYTES_JSON_MAX ? max : AMB_BYTES_JSON_MAX;
    bool is_text = amb_shown_is_text(bytes, len);
    size_t part = is_text ? amb_shown_cut(bytes, len, max) : len < max ? len : max;
    (void)snprintf(key, sizeof(key), "%s%s", name, is_text ? "" : "_base64");
    json_t *value = is_text ? json_stringn_nocheck(bytes, part) : base64(bytes, part);
    if (json_object_set_new(object, key, value) != 0) {
        return false;
    }
    if (part == len) {
        return true;
    }
    (void)snprintf(key, sizeof(key), "%s_cut", name);
    return json_object_set_new(object, key, json_true()) == 0;
}
