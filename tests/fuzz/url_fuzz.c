/* SPDX-License-Identifier: Apache-2.0 */
/* A URL that is parsed formats to a text that parses to the same. */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/url.h"

static void check_round_trip(const struct amb_url *url)
{
    char text[600], again_text[600], error[1];
    amb_url_format(url, text, sizeof(text));
    struct amb_url again;
    amb_assert(amb_url_parse(text, &again, error, sizeof(error)) == AMB_OK);
    amb_assert(again.scheme == url->scheme && again.link == url->link && again.port == url->port &&
               again.mode == url->mode && strcmp(again.path, url->path) == 0 &&
               strcmp(again.host, url->host) == 0 && strcmp(again.group, url->group) == 0 &&
               strcmp(again.interface, url->interface) == 0);
    amb_url_format(&again, again_text, sizeof(again_text));
    amb_assert(strcmp(text, again_text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = fuzz_text(data, len);
    /* A room for the error between one byte and more than enough. */
    size_t error_size = 1 + (len > 0 ? data[len - 1] : 0);
    char *error = malloc(error_size);
    if (error == NULL) {
        abort();
    }
    memset(error, 'x', error_size);
    struct amb_url url;
    if (amb_url_parse(text, &url, error, error_size) == AMB_OK) {
        check_round_trip(&url);
    } else {
        amb_assert(memchr(error, '\0', error_size) != NULL);
    }
    free(error);
    free(text);
    return 0;
}
