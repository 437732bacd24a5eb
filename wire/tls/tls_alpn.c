/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_alpn.h"

#include <string.h>

/* With its length in front, as it is on the wire; by enum amb_tls_alpn. */
static const char *const protocols[] = {"\x05" AMB_TLS_ALPN_CONTROL_NAME,
                                        "\x0a" AMB_TLS_ALPN_LINK_NAME};
_Static_assert(sizeof(AMB_TLS_ALPN_CONTROL_NAME) - 1 == 0x05, "its length");
_Static_assert(sizeof(AMB_TLS_ALPN_LINK_NAME) - 1 == 0x0a, "its length");

#define PROTOCOLS (sizeof(protocols) / sizeof(protocols[0]))

static bool is_one(const unsigned char *name, unsigned len, enum amb_tls_alpn *out)
{
    for (unsigned i = 0; i < PROTOCOLS; i++) {
        if (len == (unsigned)protocols[i][0] && memcmp(name, protocols[i] + 1, len) == 0) {
            *out = (enum amb_tls_alpn)i;
            return true;
        }
    }
    return false;
}

bool amb_tls_alpn_offer(SSL *ssl, enum amb_tls_alpn alpn)
{
    const char *wish = protocols[alpn];
    return SSL_set_alpn_protos(ssl, (const unsigned char *)wish, 1u + (unsigned)wish[0]) == 0;
}

/* libssl has checked that the lengths of the list add up. */
int amb_tls_alpn_select(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *in, unsigned in_len, void *arg)
{
    (void)ssl;
    (void)arg;
    enum amb_tls_alpn found;
    for (unsigned at = 0; at < in_len && at + 1 + in[at] <= in_len; at += 1u + in[at]) {
        if (is_one(in + at + 1, in[at], &found)) {
            *out = in + at + 1;
            *out_len = in[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool amb_tls_alpn_agreed(const SSL *ssl, enum amb_tls_alpn *out)
{
    const unsigned char *name = NULL;
    unsigned len = 0;
    SSL_get0_alpn_selected(ssl, &name, &len);
    return name != NULL && is_one(name, len, out);
}
