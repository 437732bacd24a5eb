/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_context.h"

#include "wire/tls/tls_alpn.h"
#include "wire/tls/tls_context_private.h"
#include "wire/tls/tls_load.h"
#include "wire/tls/tls_verify.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS "X25519:P-256"
#define HYBRIDS "X25519MLKEM768:SecP256r1MLKEM768:"
#define SECURITY_LEVEL 2  /* 112 bits: RSA from 2048, no SHA-1 */
#define CHAIN_DEPTH_MAX 6 /* authorities between a certificate and one that is known */
#define NS_PER_S INT64_C(1000000000)
#define CHAIN_BYTES_MAX (32L << 10) /* of a peer */

/* All that is loaded, until the SSL_CTX has it. */
struct loaded {
    X509 *certificate;
    STACK_OF(X509) * chain, *authorities;
    EVP_PKEY *key;
    STACK_OF(X509_CRL) * crls;
};

static void loaded_fini(struct loaded *loaded)
{
    X509_free(loaded->certificate);
    sk_X509_pop_free(loaded->chain, X509_free);
    sk_X509_pop_free(loaded->authorities, X509_free);
    EVP_PKEY_free(loaded->key);
    sk_X509_CRL_pop_free(loaded->crls, X509_CRL_free);
}

static bool is_given(const char *path)
{
    return path != NULL && path[0] != '\0';
}

const char *amb_tls_file_name(enum amb_tls_file file)
{
    static const char *const names[] = {"certificate", "key", "ca", "crl"};
    return file < AMB_TLS_FILES ? names[file] : "?";
}

static enum amb_status complain(struct amb_tls_complaint *complaint, enum amb_tls_file file,
                                const char *text)
{
    complaint->file = file;
    if (amb_tls_is_out_of_memory()) {
        return amb_tls_out_of_memory(complaint);
    }
    (void)snprintf(complaint->text, sizeof(complaint->text), "%s", text);
    ERR_clear_error();
    return AMB_EINVAL;
}

/* ---- files ---- */

int64_t amb_tls_modified_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
}

/* Before it is read: a file that is replaced meanwhile counts as newer than what is in use. */
static void note_file(struct amb_tls_context *context, enum amb_tls_file file, const char *path)
{
    struct amb_tls_used *used = &context->used[file];
    struct stat st = {.st_size = 0};
    (void)stat(path, &st);
    (void)snprintf(used->path, sizeof(used->path), "%s", path);
    used->modified_ns = amb_tls_modified_ns(&st);
    used->expires_s = INT64_MAX;
}

static void note_end(struct amb_tls_used *used, const ASN1_TIME *end)
{
    int64_t seconds = amb_tls_seconds(end);
    used->expires_s = seconds < used->expires_s ? seconds : used->expires_s;
}

static void note_ends(struct amb_tls_used *used, const STACK_OF(X509) * certificates)
{
    for (int i = 0; i < sk_X509_num(certificates); i++) {
        note_end(used, X509_get0_notAfter(sk_X509_value(certificates, i)));
    }
}

/* One that has expired already is in use no more; there is another. */
static void note_authorities(struct amb_tls_used *used, const STACK_OF(X509) * authorities)
{
    for (int i = 0; i < sk_X509_num(authorities); i++) {
        const ASN1_TIME *end = X509_get0_notAfter(sk_X509_value(authorities, i));
        if (X509_cmp_current_time(end) > 0) {
            note_end(used, end);
        }
    }
}

static enum amb_status load_own(struct amb_tls_context *context, const struct amb_tls_files *files,
                                struct loaded *loaded, struct amb_tls_complaint *complaint)
{
    complaint->file = AMB_TLS_CERTIFICATE;
    if (!is_given(files->certificate)) {
        return is_given(files->key)
                   ? complain(complaint, AMB_TLS_CERTIFICATE, "is missing: there is a key for it")
                   : AMB_OK;
    }
    if (!is_given(files->key)) {
        return complain(complaint, AMB_TLS_KEY, "is missing: the certificate needs its own");
    }
    note_file(context, AMB_TLS_CERTIFICATE, files->certificate);
    enum amb_status status = amb_tls_load_certificate(files->certificate, complaint,
                                                      &loaded->certificate, &loaded->chain);
    if (status == AMB_OK) {
        status = amb_tls_check_time(loaded->certificate, files->certificate, complaint);
    }
    if (status == AMB_OK) {
        struct amb_tls_used *used = &context->used[AMB_TLS_CERTIFICATE];
        note_end(used, X509_get0_notAfter(loaded->certificate));
        note_ends(used, loaded->chain);
        complaint->file = AMB_TLS_KEY;
        note_file(context, AMB_TLS_KEY, files->key);
        status = amb_tls_load_key(files->key, complaint, &loaded->key);
    }
    if (status == AMB_OK && X509_check_private_key(loaded->certificate, loaded->key) != 1) {
        char text[sizeof(complaint->text)];
        (void)snprintf(text, sizeof(text), "%.160s does not fit the certificate %.160s", files->key,
                       files->certificate);
        return complain(complaint, AMB_TLS_KEY, text);
    }
    return status;
}

static enum amb_status load_others(struct amb_tls_context *context,
                                   const struct amb_tls_files *files, struct loaded *loaded,
                                   struct amb_tls_complaint *complaint)
{
    complaint->file = AMB_TLS_CA;
    if (!is_given(files->ca)) {
        if (context->is_server && context->clients != AMB_TLS_CLIENTS_NONE) {
            return complain(complaint, AMB_TLS_CA,
                            "is missing: certificates of clients are checked by it");
        }
        return is_given(files->crl) ? complain(complaint, AMB_TLS_CRL, "needs a ca beside it")
                                    : AMB_OK;
    }
    note_file(context, AMB_TLS_CA, files->ca);
    enum amb_status status =
        amb_tls_load_authorities(files->ca, files->ca_text, complaint, &loaded->authorities);
    if (status != AMB_OK) {
        return status;
    }
    note_authorities(&context->used[AMB_TLS_CA], loaded->authorities);
    if (!is_given(files->crl)) {
        return AMB_OK;
    }
    complaint->file = AMB_TLS_CRL;
    note_file(context, AMB_TLS_CRL, files->crl);
    status = amb_tls_load_crls(files->crl, loaded->authorities, complaint, &loaded->crls);
    for (int i = 0; status == AMB_OK && i < sk_X509_CRL_num(loaded->crls); i++) {
        note_end(&context->used[AMB_TLS_CRL],
                 X509_CRL_get0_nextUpdate(sk_X509_CRL_value(loaded->crls, i)));
    }
    return status;
}

/* ---- digest ---- */

static bool digest_certificates(EVP_MD_CTX *md, const STACK_OF(X509) * certificates)
{
    bool is_good = EVP_DigestUpdate(md, "chain", 5) == 1;
    for (int i = 0; is_good && i < sk_X509_num(certificates); i++) {
        uint8_t one[EVP_MAX_MD_SIZE];
        unsigned len = 0;
        is_good = X509_digest(sk_X509_value(certificates, i), EVP_sha256(), one, &len) == 1 &&
                  EVP_DigestUpdate(md, one, len) == 1;
    }
    return is_good;
}

static bool digest_crls(EVP_MD_CTX *md, const STACK_OF(X509_CRL) * crls)
{
    bool is_good = EVP_DigestUpdate(md, "lists", 5) == 1;
    for (int i = 0; is_good && i < sk_X509_CRL_num(crls); i++) {
        uint8_t one[EVP_MAX_MD_SIZE];
        unsigned len = 0;
        is_good = X509_CRL_digest(sk_X509_CRL_value(crls, i), EVP_sha256(), one, &len) == 1 &&
                  EVP_DigestUpdate(md, one, len) == 1;
    }
    return is_good;
}

/* The key is not in it: it fits one certificate alone. */
static bool digest_all(struct amb_tls_context *context, const struct loaded *loaded)
{
    uint8_t own[EVP_MAX_MD_SIZE];
    const uint8_t rules[2] = {(uint8_t)context->is_server, (uint8_t)context->clients};
    unsigned len = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool is_good = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
                   EVP_DigestUpdate(md, rules, sizeof(rules)) == 1;
    if (is_good && loaded->certificate != NULL) {
        is_good = X509_digest(loaded->certificate, EVP_sha256(), own, &len) == 1 &&
                  EVP_DigestUpdate(md, own, len) == 1;
    }
    is_good = is_good && digest_certificates(md, loaded->chain) &&
              digest_certificates(md, loaded->authorities) && digest_crls(md, loaded->crls) &&
              EVP_DigestFinal_ex(md, context->digest, NULL) == 1;
    EVP_MD_CTX_free(md);
    return is_good;
}

/* ---- the SSL_CTX ---- */

static bool set_rules(SSL_CTX *ctx)
{
    SSL_CTX_set_security_level(ctx, SECURITY_LEVEL);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_mode(ctx,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Each record that is no data gives us back the word: a flood of them is seen. */
    (void)SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(ctx, CHAIN_BYTES_MAX);
    SSL_CTX_set_verify_depth(ctx, CHAIN_DEPTH_MAX);
    bool has_groups = SSL_CTX_set1_groups_list(ctx, HYBRIDS GROUPS) == 1;
    if (!has_groups && !amb_tls_is_out_of_memory()) {
        ERR_clear_error(); /* A library without hybrids says so. */
        has_groups = SSL_CTX_set1_groups_list(ctx, GROUPS) == 1;
    }
    return has_groups && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, SUITES) == 1 && SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
           SSL_CTX_set_max_early_data(ctx, 0) == 1 && SSL_CTX_set_recv_max_early_data(ctx, 0) == 1;
}

static bool use_own(SSL_CTX *ctx, const struct loaded *loaded)
{
    return loaded->certificate == NULL ||
           SSL_CTX_use_cert_and_key(ctx, loaded->certificate, loaded->key, loaded->chain, 1) == 1;
}

static bool use_authorities(SSL_CTX *ctx, const struct loaded *loaded, bool is_server)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    for (int i = 0; i < sk_X509_num(loaded->authorities); i++) {
        X509 *authority = sk_X509_value(loaded->authorities, i);
        if (X509_STORE_add_cert(store, authority) != 1 ||
            (is_server && SSL_CTX_add_client_CA(ctx, authority) != 1)) {
            return false;
        }
    }
    for (int i = 0; i < sk_X509_CRL_num(loaded->crls); i++) {
        if (X509_STORE_add_crl(store, sk_X509_CRL_value(loaded->crls, i)) != 1) {
            return false;
        }
    }
    /* Of all of a chain: an authority may be revoked, too. */
    return loaded->crls == NULL ||
           X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) == 1;
}

static bool use_all(struct amb_tls_context *context, const struct loaded *loaded)
{
    SSL_CTX *ctx = context->ctx;
    if (!use_own(ctx, loaded) || !use_authorities(ctx, loaded, context->is_server)) {
        return false;
    }
    if (!context->is_server) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(ctx, amb_tls_verify_broker, NULL);
        return loaded->authorities != NULL || SSL_CTX_set_default_verify_paths(ctx) == 1;
    }
    SSL_CTX_set_alpn_select_cb(ctx, amb_tls_alpn_select, NULL);
    if (context->clients != AMB_TLS_CLIENTS_NONE) {
        SSL_CTX_set_verify(ctx,
                           context->clients == AMB_TLS_CLIENTS_REQUIRED
                               ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                               : SSL_VERIFY_PEER,
                           NULL);
    }
    return true;
}

/* A key whose size libcrypto had no memory to look up has no bits of security. */
static bool is_weighed(const X509 *certificate)
{
    EVP_PKEY *key = X509_get0_pubkey(certificate);
    return key != NULL && EVP_PKEY_get_security_bits(key) > 0;
}

/* Why is there no SSL_CTX of what was loaded? Where libssl gives no reason, it had no memory. */
static enum amb_status explain_refusal(const struct loaded *loaded,
                                       struct amb_tls_complaint *complaint)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    bool is_memory =
        error == 0 || (loaded->certificate != NULL && !is_weighed(loaded->certificate));
    for (int i = 0; !is_memory && i < sk_X509_num(loaded->chain); i++) {
        is_memory = !is_weighed(sk_X509_value(loaded->chain, i));
    }
    if (is_memory) {
        return amb_tls_out_of_memory(complaint);
    }
    char text[sizeof(complaint->text)];
    (void)snprintf(text, sizeof(text), "libssl does not take it: %.200s",
                   reason == NULL ? "no reason is known" : reason);
    return complain(complaint, AMB_TLS_CERTIFICATE, text);
}

/* ---- life ---- */

static enum amb_status build(struct amb_tls_context *context, const struct amb_tls_files *files,
                             struct amb_tls_complaint *complaint)
{
    struct loaded loaded = {.certificate = NULL};
    enum amb_status status = load_own(context, files, &loaded, complaint);
    if (status == AMB_OK && context->is_server && loaded.certificate == NULL) {
        status = complain(complaint, AMB_TLS_CERTIFICATE, "is missing");
    }
    if (status == AMB_OK) {
        status = load_others(context, files, &loaded, complaint);
    }
    /* No file is in the rules. A group that libssl had no memory to look up is not there later. */
    if (status == AMB_OK && !set_rules(context->ctx)) {
        status = amb_tls_out_of_memory(complaint);
    }
    if (status == AMB_OK && !use_all(context, &loaded)) {
        status = explain_refusal(&loaded, complaint);
    }
    if (status == AMB_OK && !digest_all(context, &loaded)) {
        status = amb_tls_out_of_memory(complaint);
    }
    loaded_fini(&loaded);
    return status;
}

static enum amb_status create(bool is_server, enum amb_tls_clients clients,
                              const struct amb_tls_files *files,
                              struct amb_tls_complaint *complaint, struct amb_tls_context **out)
{
    complaint->file = AMB_TLS_CERTIFICATE;
    complaint->text[0] = '\0';
    struct amb_tls_context *context = calloc(1, sizeof(*context));
    if (context == NULL) {
        return AMB_ENOMEM;
    }
    atomic_init(&context->refs, 1);
    context->is_server = is_server;
    context->clients = clients;
    context->ctx = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    enum amb_status status = context->ctx == NULL ? AMB_ENOMEM : build(context, files, complaint);
    if (status != AMB_OK) {
        amb_tls_context_unref(&context);
        return status;
    }
    *out = context;
    return AMB_OK;
}

enum amb_status amb_tls_context_create_server(const struct amb_tls_files *files,
                                              enum amb_tls_clients clients,
                                              struct amb_tls_complaint *complaint,
                                              struct amb_tls_context **out)
{
    return create(true, clients, files, complaint, out);
}

enum amb_status amb_tls_context_create_client(const struct amb_tls_files *files,
                                              struct amb_tls_complaint *complaint,
                                              struct amb_tls_context **out)
{
    return create(false, AMB_TLS_CLIENTS_NONE, files, complaint, out);
}

void amb_tls_outlive_exit(void)
{
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

void amb_tls_context_ref(struct amb_tls_context *context)
{
    atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed);
}

void amb_tls_context_unref(struct amb_tls_context **context)
{
    struct amb_tls_context *gone = *context;
    *context = NULL;
    if (gone != NULL && atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1) {
        SSL_CTX_free(gone->ctx);
        free(gone);
    }
}

bool amb_tls_context_is_same(const struct amb_tls_context *a, const struct amb_tls_context *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    bool is_same = memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
    for (unsigned i = 0; i < AMB_TLS_FILES; i++) {
        is_same = is_same && a->used[i].modified_ns == b->used[i].modified_ns;
    }
    return is_same;
}

const struct amb_tls_used *amb_tls_context_used(const struct amb_tls_context *context,
                                                enum amb_tls_file file)
{
    const struct amb_tls_used *used =
        context == NULL || file >= AMB_TLS_FILES ? NULL : &context->used[file];
    return used == NULL || used->path[0] == '\0' ? NULL : used;
}
