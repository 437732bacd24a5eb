/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/page.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HASH 32u
#define HASH_TEXT 45u /* base64, with its NUL */

/* Adds " 'sha256-...'" of each element of that name. False: no room, or no memory. */
static bool add_hashes(const char *html, size_t len, const char *name, char *out, size_t size)
{
    char open[16], close[16];
    const char *end = html + len;
    size_t open_len = (size_t)snprintf(open, sizeof(open), "<%s>", name);
    size_t close_len = (size_t)snprintf(close, sizeof(close), "</%s>", name);
    const char *at = html;
    while ((at = memmem(at, (size_t)(end - at), open, open_len)) != NULL) {
        at += open_len;
        const char *until = memmem(at, (size_t)(end - at), close, close_len);
        unsigned char hash[HASH], text[HASH_TEXT];
        size_t used = strlen(out);
        if (until == NULL ||
            EVP_Digest(at, (size_t)(until - at), hash, NULL, EVP_sha256(), NULL) != 1) {
            return false;
        }
        (void)EVP_EncodeBlock(text, hash, HASH);
        int more = snprintf(out + used, size - used, " 'sha256-%s'", (const char *)text);
        if (more < 0 || (size_t)more >= size - used) {
            return false;
        }
        at = until + close_len;
    }
    return true;
}

static bool add(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);
    return (size_t)snprintf(out + used, size - used, "%s", text) < size - used;
}

bool amb_http_page_policy(const char *html, size_t len, char *out, size_t size)
{
    out[0] = '\0';
    return add(out, size, "default-src 'none'; connect-src 'self'; img-src data:; script-src") &&
           add_hashes(html, len, "script", out, size) && add(out, size, "; style-src") &&
           add_hashes(html, len, "style", out, size) &&
           add(out, size, "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

enum amb_status amb_http_page_init(struct amb_http_page *page)
{
    page->policy[0] = '\0';
    if (amb_http_page_html_len == 0) {
        return AMB_OK;
    }
    return amb_http_page_policy((const char *)amb_http_page_html, amb_http_page_html_len,
                                page->policy, sizeof(page->policy))
               ? AMB_OK
               : AMB_EINTERNAL;
}

struct MHD_Response *amb_http_page_response(const struct amb_http_page *page, bool is_gzip)
{
    if (page->policy[0] == '\0') {
        return NULL;
    }
    /* It is not written to; the library takes no pointer to constant bytes. */
    const unsigned char *bytes = is_gzip ? amb_http_page_gzip : amb_http_page_html;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(is_gzip ? amb_http_page_gzip_len : amb_http_page_html_len,
                                        (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);
    if (response != NULL && is_gzip &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip") != MHD_YES) {
        MHD_destroy_response(response);
        return NULL;
    }
    return response;
}
