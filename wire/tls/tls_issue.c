/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_issue.h"

#include "wire/base/text.h"
#include "wire/tls/tls_load.h"
#include "wire/tls/tls_verify.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURVE "P-256"
#define SERIAL_BYTES 16
#define VERSION_3 2
#define SHOWN_MAX 64u
#define HOST_MAX 253u
#define URI_PREFIX "spiffe://"
#define URI_MAX 2048u

struct amb_tls_pair {
    X509 *certificate;
    EVP_PKEY *key;
};

static enum amb_status failed(char *error, size_t error_size)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    (void)snprintf(error, error_size, "libcrypto: %s", reason == NULL ? "no memory" : reason);
    ERR_clear_error();
    return AMB_EINTERNAL;
}

/* ---- names ---- */

static bool is_host(const char *name)
{
    const char *rest = strncmp(name, "*.", 2) == 0 ? name + 2 : name;
    size_t len = strlen(rest);
    for (size_t i = 0; i < len; i++) {
        char c = rest[i];
        bool is_inside = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
        if (!is_inside) {
            return false;
        }
    }
    return len > 0 && len <= HOST_MAX && rest[0] != '-' && rest[0] != '.';
}

static bool is_uri(const char *name)
{
    size_t len = strlen(name);
    return amb_text_is_visible(name, len) && strncmp(name, URI_PREFIX, strlen(URI_PREFIX)) == 0 &&
           len <= URI_MAX;
}

static GENERAL_NAME *make_text_name(int type, const char *text)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *value = name == NULL ? NULL : ASN1_IA5STRING_new();
    if (value == NULL || ASN1_STRING_set(value, text, (int)strlen(text)) != 1) {
        ASN1_IA5STRING_free(value);
        GENERAL_NAME_free(name);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, type, value);
    return name;
}

/* NULL: it is no name; or no memory. */
static GENERAL_NAME *make_name(const char *text)
{
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(text);
    ERR_clear_error();
    if (address != NULL) {
        GENERAL_NAME *name = GENERAL_NAME_new();
        if (name == NULL) {
            ASN1_OCTET_STRING_free(address);
            return NULL;
        }
        GENERAL_NAME_set0_value(name, GEN_IPADD, address);
        return name;
    }
    if (is_uri(text)) {
        return make_text_name(GEN_URI, text);
    }
    return is_host(text) ? make_text_name(GEN_DNS, text) : NULL;
}

static enum amb_status add_names(X509 *certificate, const struct amb_tls_request *request,
                                 char *error, size_t error_size)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    enum amb_status status = names == NULL ? AMB_ENOMEM : AMB_OK;
    for (size_t i = 0; status == AMB_OK && i < request->name_count; i++) {
        GENERAL_NAME *name = make_name(request->names[i]);
        char shown[SHOWN_MAX];
        if (name == NULL || sk_GENERAL_NAME_push(names, name) == 0) {
            GENERAL_NAME_free(name);
            (void)snprintf(error, error_size, "\"%s\" is no host's name, address or spiffe:// name",
                           amb_text_show(request->names[i], shown, sizeof(shown)));
            status = AMB_EINVAL;
        }
    }
    if (status == AMB_OK && request->name_count != 0 &&
        X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1) {
        status = failed(error, error_size);
    }
    GENERAL_NAMES_free(names);
    return status;
}

/* ---- certificates ---- */

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool is_good = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_good;
}

static bool add_extensions(X509 *certificate, X509 *issuer, enum amb_tls_role role)
{
    bool is_authority = role == AMB_TLS_AUTHORITY;
    return add_extension(certificate, issuer, NID_basic_constraints,
                         is_authority ? "critical,CA:TRUE" : "critical,CA:FALSE") &&
           add_extension(certificate, issuer, NID_key_usage,
                         is_authority ? "critical,keyCertSign,cRLSign"
                                      : "critical,digitalSignature") &&
           (is_authority || add_extension(certificate, issuer, NID_ext_key_usage,
                                          role == AMB_TLS_SERVER ? "serverAuth" : "clientAuth")) &&
           add_extension(certificate, issuer, NID_subject_key_identifier, "hash") &&
           add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always");
}

static bool set_serial(X509 *certificate)
{
    uint8_t bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
        return false;
    }
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* positive, and never short */
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool is_good =
        number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return is_good;
}

static bool set_subject(X509 *certificate, const char *name)
{
    X509_NAME *subject = X509_NAME_new();
    bool is_good = subject != NULL &&
                   X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                              (const unsigned char *)name, -1, -1, 0) == 1 &&
                   X509_set_subject_name(certificate, subject) == 1;
    X509_NAME_free(subject);
    return is_good;
}

static bool set_time(X509 *certificate, int64_t from_s, int64_t until_s)
{
    return ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)from_s) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)until_s) != NULL;
}

/* The one that it has may name the key of another issuer. */
static bool set_issuer_key(X509 *certificate, X509 *issuer)
{
    int at = X509_get_ext_by_NID(certificate, NID_authority_key_identifier, -1);
    if (at >= 0) {
        X509_EXTENSION_free(X509_delete_ext(certificate, at));
    }
    return add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always");
}

/* Signs by the issuer's key, or by its own. */
static bool sign(struct amb_tls_pair *pair, const struct amb_tls_pair *issuer)
{
    const X509 *by = issuer == NULL ? pair->certificate : issuer->certificate;
    EVP_PKEY *key = issuer == NULL ? pair->key : issuer->key;
    const EVP_MD *digest = EVP_PKEY_is_a(key, "ED25519") ? NULL : EVP_sha256();
    return X509_set_issuer_name(pair->certificate, X509_get_subject_name(by)) == 1 &&
           X509_sign(pair->certificate, key, digest) > 0;
}

static enum amb_status fill(struct amb_tls_pair *pair, const struct amb_tls_request *request,
                            const struct amb_tls_pair *issuer, char *error, size_t error_size)
{
    X509 *certificate = pair->certificate;
    if (X509_set_version(certificate, VERSION_3) != 1 || !set_serial(certificate) ||
        !set_subject(certificate, request->name) ||
        !set_time(certificate, request->from_s, request->until_s) ||
        X509_set_pubkey(certificate, pair->key) != 1 ||
        !add_extensions(certificate, issuer == NULL ? certificate : issuer->certificate,
                        request->role)) {
        return failed(error, error_size);
    }
    enum amb_status status = add_names(certificate, request, error, error_size);
    if (status == AMB_OK && !sign(pair, issuer)) {
        status = failed(error, error_size);
    }
    return status;
}

static struct amb_tls_pair *make_pair(X509 *certificate, EVP_PKEY *key)
{
    struct amb_tls_pair *pair = malloc(sizeof(*pair));
    if (pair == NULL || certificate == NULL || key == NULL) {
        X509_free(certificate);
        EVP_PKEY_free(key);
        free(pair);
        return NULL;
    }
    *pair = (struct amb_tls_pair){.certificate = certificate, .key = key};
    return pair;
}

enum amb_status amb_tls_issue(const struct amb_tls_request *request,
                              const struct amb_tls_pair *issuer, char *error, size_t error_size,
                              struct amb_tls_pair **out)
{
    if (request->name[0] == '\0' || strlen(request->name) > AMB_TLS_COMMON_NAME_MAX ||
        request->name_count > AMB_TLS_NAMES_MAX || request->from_s >= request->until_s) {
        (void)snprintf(error, error_size,
                       "a certificate has a name of 1 to 64 bytes, at most 64 hosts, and an end "
                       "behind its beginning");
        return AMB_EINVAL;
    }
    struct amb_tls_pair *pair = make_pair(X509_new(), EVP_EC_gen(CURVE));
    if (pair == NULL) {
        return failed(error, error_size);
    }
    enum amb_status status = fill(pair, request, issuer, error, error_size);
    if (status != AMB_OK) {
        amb_tls_pair_free(&pair);
        return status;
    }
    *out = pair;
    return AMB_OK;
}

enum amb_status amb_tls_renew(const struct amb_tls_pair *old, const struct amb_tls_pair *issuer,
                              int64_t from_s, int64_t until_s, char *error, size_t error_size,
                              struct amb_tls_pair **out)
{
    X509 *certificate = X509_dup(old->certificate);
    struct amb_tls_pair *pair =
        make_pair(certificate, EVP_PKEY_up_ref(old->key) == 1 ? old->key : NULL);
    if (pair == NULL) {
        return failed(error, error_size);
    }
    if (!set_serial(certificate) || !set_time(certificate, from_s, until_s) ||
        !set_issuer_key(certificate, issuer == NULL ? certificate : issuer->certificate) ||
        !sign(pair, issuer)) {
        amb_tls_pair_free(&pair);
        return failed(error, error_size);
    }
    *out = pair;
    return AMB_OK;
}

/* ---- files ---- */

enum amb_status amb_tls_pair_read(const char *certificate, const char *key, char *error,
                                  size_t error_size, struct amb_tls_pair **out)
{
    struct amb_tls_complaint complaint = {.text = ""};
    X509 *one = NULL;
    STACK_OF(X509) *chain = NULL;
    EVP_PKEY *own = NULL;
    enum amb_status status = amb_tls_load_certificate(certificate, &complaint, &one, &chain);
    if (status == AMB_OK) {
        sk_X509_pop_free(chain, X509_free);
        status = amb_tls_load_key(key, &complaint, &own);
    }
    if (status != AMB_OK) {
        X509_free(one);
        (void)snprintf(error, error_size, "%s", complaint.text);
        return status;
    }
    if (X509_check_private_key(one, own) != 1) {
        ERR_clear_error();
        X509_free(one);
        EVP_PKEY_free(own);
        (void)snprintf(error, error_size, "%s does not fit %s", key, certificate);
        return AMB_EINVAL;
    }
    *out = make_pair(one, own);
    return *out == NULL ? AMB_ENOMEM : AMB_OK;
}

/* The bytes of a BIO as a string of the heap; frees the BIO. */
static char *take_text(BIO *bio, bool is_good)
{
    char *bytes = NULL;
    long len = bio == NULL || !is_good ? 0 : BIO_get_mem_data(bio, &bytes);
    char *text = len <= 0 ? NULL : malloc((size_t)len + 1);
    if (text != NULL) {
        memcpy(text, bytes, (size_t)len);
        text[len] = '\0';
    }
    (void)BIO_free(bio);
    return text;
}

char *amb_tls_pair_certificate(const struct amb_tls_pair *pair)
{
    BIO *bio = BIO_new(BIO_s_mem());
    return take_text(bio, bio != NULL && PEM_write_bio_X509(bio, pair->certificate) == 1);
}

char *amb_tls_pair_key(const struct amb_tls_pair *pair)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    return take_text(bio, bio != NULL && PEM_write_bio_PKCS8PrivateKey(bio, pair->key, NULL, NULL,
                                                                       0, NULL, NULL) == 1);
}

bool amb_tls_pair_pin(const struct amb_tls_pair *pair, char *out, size_t size)
{
    uint8_t pin[AMB_TLS_PIN_SIZE];
    if (size < AMB_TLS_PIN_TEXT_MAX || !amb_tls_pin_of(pair->certificate, pin)) {
        return false;
    }
    amb_tls_pin_format(pin, out);
    return true;
}

int64_t amb_tls_pair_until_s(const struct amb_tls_pair *pair)
{
    return amb_tls_seconds(X509_get0_notAfter(pair->certificate));
}

void amb_tls_pair_names(const struct amb_tls_pair *pair, char *out, size_t size)
{
    amb_tls_names_of(pair->certificate, out, size);
}

void amb_tls_pair_free(struct amb_tls_pair **pair)
{
    struct amb_tls_pair *gone = *pair;
    *pair = NULL;
    if (gone != NULL) {
        X509_free(gone->certificate);
        EVP_PKEY_free(gone->key);
        free(gone);
    }
}
