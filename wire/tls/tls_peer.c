/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_peer.h"

#include "wire/base/text.h"
#include "wire/tls/tls_state.h"
#include "wire/tls/tls_verify.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#define NAME_MAX_BYTES 1000

static const X509 *peer_of(const struct amb_tls *tls)
{
    return tls->is_done && SSL_get_verify_result(tls->ssl) == X509_V_OK
               ? SSL_get0_peer_certificate(tls->ssl)
               : NULL;
}

bool amb_tls_peer_has_certificate(const struct amb_tls *tls)
{
    return peer_of(tls) != NULL;
}

bool amb_tls_peer_pin(const struct amb_tls *tls, char out[AMB_TLS_PIN_TEXT_MAX])
{
    uint8_t pin[AMB_TLS_PIN_SIZE];
    const X509 *certificate = peer_of(tls);
    if (certificate == NULL || !amb_tls_pin_of(certificate, pin)) {
        ERR_clear_error();
        return false;
    }
    amb_tls_pin_format(pin, out);
    return true;
}

static const char *kind_of(const GENERAL_NAME *name)
{
    return name->type == GEN_URI     ? "uri"
           : name->type == GEN_DNS   ? "dns"
           : name->type == GEN_EMAIL ? "email"
                                     : NULL;
}

/* False: no more are wanted. */
static bool tell(const GENERAL_NAME *name, bool (*fn)(const char *name, void *arg), void *arg)
{
    char text[NAME_MAX_BYTES + 16];
    const char *kind = kind_of(name);
    if (kind == NULL) {
        return true;
    }
    const unsigned char *bytes = ASN1_STRING_get0_data(name->d.ia5);
    int len = ASN1_STRING_length(name->d.ia5);
    /* A NUL, too: it would end the text before the name ends. */
    if (len < 1 || len > NAME_MAX_BYTES || !amb_text_is_visible(bytes, (size_t)len)) {
        return true;
    }
    (void)snprintf(text, sizeof(text), "%s=%.*s", kind, len, (const char *)bytes);
    return fn(text, arg);
}

void amb_tls_peer_names(const struct amb_tls *tls, bool (*fn)(const char *name, void *arg),
                        void *arg)
{
    const X509 *certificate = peer_of(tls);
    GENERAL_NAMES *names = certificate == NULL
                               ? NULL
                               : X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        if (!tell(sk_GENERAL_NAME_value(names, i), fn, arg)) {
            break;
        }
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
}
