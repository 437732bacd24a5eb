/* SPDX-License-Identifier: Apache-2.0 */
/* A client's credentials file: it is read, written, and read again as the same. A refusal has a
 * line. */
#include "tests/fuzz/fuzz.h"
#include "wire/auth/credentials_file.h"
#include "wire/base/assert.h"

static enum amb_status parse(const uint8_t *data, size_t len, struct amb_credentials *out,
                             char *why)
{
    char *text = fuzz_text(data, len);
    enum amb_status status = amb_credentials_parse(text, len, "file", out, why);
    free(text);
    return status;
}

static bool is_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[AMB_PRIVATE_WHY_MAX] = "";
    struct amb_credentials one, again;
    if (parse(data, len, &one, why) != AMB_OK) {
        amb_assert(one.token == NULL && one.url == NULL && one.user == NULL && one.ca == NULL &&
                   one.signer == NULL && strncmp(why, "file:", 5) == 0);
        return 0;
    }
    amb_assert(one.token == NULL || (one.url == NULL && one.ca == NULL && one.signer == NULL));
    if (one.token == NULL) {
        char *text = amb_credentials_format(&one);
        amb_assert(text != NULL &&
                   parse((const uint8_t *)text, strlen(text), &again, why) == AMB_OK);
        amb_assert(is_same(one.url, again.url) && is_same(one.user, again.user) &&
                   is_same(one.ca, again.ca) && (one.signer == NULL) == (again.signer == NULL));
        free(text);
        amb_credentials_fini(&again);
    }
    amb_credentials_fini(&one);
    return 0;
}
