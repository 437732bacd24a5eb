/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_verify.h"

#include "wire/base/text.h"
#include "wire/tls/tls_load.h"
#include "wire/tls/tls_state.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define PIN_PREFIX "sha256/"
#define PIN_DIGITS 44u
#define NAMES_MAX 120u /* bytes of a certificate's names in a sentence */

/* ---- pins ---- */

bool amb_tls_pin_parse(const char *text, uint8_t out[AMB_TLS_PIN_SIZE])
{
    uint8_t bytes[AMB_TLS_PIN_SIZE + 1];
    size_t prefix = strlen(PIN_PREFIX);
    if (strncmp(text, PIN_PREFIX, prefix) != 0 || strlen(text) != prefix + PIN_DIGITS ||
        text[prefix + PIN_DIGITS - 1] != '=' || text[prefix + PIN_DIGITS - 2] == '=') {
        return false;
    }
    if (EVP_DecodeBlock(bytes, (const uint8_t *)text + prefix, (int)PIN_DIGITS) !=
        (int)sizeof(bytes)) {
        return false;
    }
    memcpy(out, bytes, AMB_TLS_PIN_SIZE);
    return true;
}

void amb_tls_pin_format(const uint8_t pin[AMB_TLS_PIN_SIZE], char *out)
{
    size_t prefix = strlen(PIN_PREFIX);
    memcpy(out, PIN_PREFIX, prefix);
    (void)EVP_EncodeBlock((uint8_t *)out + prefix, pin, (int)AMB_TLS_PIN_SIZE);
}

bool amb_tls_pin_of(const X509 *certificate, uint8_t out[AMB_TLS_PIN_SIZE])
{
    uint8_t *der = NULL;
    int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
    bool is_good = len > 0 && EVP_Digest(der, (size_t)len, out, NULL, EVP_sha256(), NULL) == 1;
    OPENSSL_free(der);
    return is_good;
}

static int check_pin(struct amb_tls *tls, X509_STORE_CTX *store)
{
    uint8_t pin[AMB_TLS_PIN_SIZE];
    const X509 *certificate = X509_STORE_CTX_get0_cert(store);
    if (certificate == NULL || !amb_tls_pin_of(certificate, pin)) {
        (void)snprintf(tls->why, sizeof(tls->why), "the broker's public key cannot be read");
        X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED);
        return 0;
    }
    if (memcmp(pin, tls->pin, sizeof(pin)) == 0) {
        X509_STORE_CTX_set_error(store, X509_V_OK);
        return 1;
    }
    char text[AMB_TLS_PIN_TEXT_MAX];
    amb_tls_pin_format(pin, text);
    (void)snprintf(tls->why, sizeof(tls->why),
                   "the broker has another public key than the pin says: its own is %s", text);
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

/* ---- names ---- */

static bool is_address(const char *name)
{
    struct in6_addr parsed;
    return inet_pton(AF_INET, name, &parsed) == 1 || inet_pton(AF_INET6, name, &parsed) == 1;
}

/* An address without the name of an interface behind it. */
static void copy_name(char *out, size_t size, const char *name)
{
    (void)snprintf(out, size, "%.*s", (int)strcspn(name, "%"), name);
}

enum amb_status amb_tls_verify_expect(struct amb_tls *tls, const char *name)
{
    if (strlen(name) > AMB_TLS_NAME_MAX) {
        return AMB_EINVAL;
    }
    copy_name(tls->name, sizeof(tls->name), name);
    /* To libcrypto a name that begins with a dot is all hosts below it, and no name is any host. */
    if (tls->name[0] == '\0' || tls->name[0] == '.') {
        return AMB_EINVAL;
    }
    X509_VERIFY_PARAM *param = SSL_get0_param(tls->ssl);
    if (is_address(tls->name)) {
        return X509_VERIFY_PARAM_set1_ip_asc(param, tls->name) == 1 ? AMB_OK : AMB_ENOMEM;
    }
    /* A subject is no name of a host, also where there is no other one. */
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    bool is_kept = X509_VERIFY_PARAM_set1_host(param, tls->name, 0) == 1 &&
                   SSL_set_tlsext_host_name(tls->ssl, tls->name) == 1;
    return is_kept ? AMB_OK : AMB_ENOMEM;
}

/* Bytes of a certificate, which may be anything. */
static void add_name(char *out, size_t size, const unsigned char *name, int name_len)
{
    char raw[NAMES_MAX], shown[NAMES_MAX];
    int most = name_len < (int)sizeof(raw) - 1 ? name_len : (int)sizeof(raw) - 1;
    size_t len = strlen(out);
    memcpy(raw, name, (size_t)most);
    raw[most] = '\0';
    (void)snprintf(out + len, size - len, "%s%s", len == 0 ? "" : ", ",
                   amb_text_show(raw, shown, sizeof(shown)));
}

static void add_address(char *out, size_t size, const ASN1_OCTET_STRING *address)
{
    char text[INET6_ADDRSTRLEN];
    int len = ASN1_STRING_length(address);
    int family = len == 4 ? AF_INET : AF_INET6;
    if ((len == 4 || len == 16) &&
        inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof(text)) != NULL) {
        add_name(out, size, (const unsigned char *)text, (int)strlen(text));
    }
}

void amb_tls_names_of(const X509 *certificate, char *out, size_t size)
{
    out[0] = '\0';
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS || name->type == GEN_URI) {
            add_name(out, size, ASN1_STRING_get0_data(name->d.ia5),
                     ASN1_STRING_length(name->d.ia5));
        } else if (name->type == GEN_IPADD) {
            add_address(out, size, name->d.iPAddress);
        }
    }
    GENERAL_NAMES_free(names);
    if (out[0] == '\0') {
        (void)snprintf(out, size, "no host");
    }
}

/* ---- sentences ---- */

static void tell_time(struct amb_tls *tls, const char *what, const ASN1_TIME *time)
{
    char date[AMB_TLS_DATE_MAX];
    (void)snprintf(tls->why, sizeof(tls->why), "the broker's certificate %s %s", what,
                   amb_tls_date(time, date));
}

static void tell(struct amb_tls *tls, X509_STORE_CTX *store)
{
    int error = X509_STORE_CTX_get_error(store);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    char names[NAMES_MAX];
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        tell_time(tls, "expired on", X509_get0_notAfter(certificate));
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        tell_time(tls, "is not valid before", X509_get0_notBefore(certificate));
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        amb_tls_names_of(certificate, names, sizeof(names));
        (void)snprintf(tls->why, sizeof(tls->why),
                       "the broker's certificate is for %s, and not for %.80s", names, tls->name);
        break;
    case X509_V_ERR_CERT_REVOKED:
        (void)snprintf(tls->why, sizeof(tls->why), "the broker's certificate is revoked");
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        (void)snprintf(tls->why, sizeof(tls->why),
                       "the broker's certificate is unknown: none of the authorities that are "
                       "trusted here has issued it (options.ca, AMB_CA, or ?pin=)");
        break;
    default:
        (void)snprintf(tls->why, sizeof(tls->why), "the broker's certificate does not do: %.120s",
                       X509_verify_cert_error_string(error));
        break;
    }
}

int amb_tls_verify_broker(X509_STORE_CTX *store, void *arg)
{
    (void)arg;
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct amb_tls *tls = SSL_get_app_data(ssl);
    if (tls->has_pin) {
        return check_pin(tls, store);
    }
    if (X509_verify_cert(store) == 1) {
        return 1;
    }
    tell(tls, store);
    return 0;
}
