/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tls/tls_made.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATHS 4u

const char *tls_made_path(const struct tls_made *made, const char *file)
{
    static char paths[PATHS][256];
    static unsigned next;
    char *path = paths[next++ % PATHS];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", made->folder, file);
    return path;
}

void tls_made_write(const struct tls_made *made, const char *file, const char *text, unsigned mode)
{
    const char *path = tls_made_path(made, file);
    (void)unlink(path);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    assert_int_equal(fchmod(fileno(out), (mode_t)mode), 0);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void write_pair(const struct tls_made *made, const char *base,
                       const struct amb_tls_pair *pair)
{
    char file[80];
    char *certificate = amb_tls_pair_certificate(pair), *key = amb_tls_pair_key(pair);
    assert_non_null(certificate);
    assert_non_null(key);
    (void)snprintf(file, sizeof(file), "%s.pem", base);
    tls_made_write(made, file, certificate, 0644);
    (void)snprintf(file, sizeof(file), "%s.key", base);
    tls_made_write(made, file, key, 0600);
    free(certificate);
    free(key);
}

static struct amb_tls_pair *issue(const struct amb_tls_pair *issuer, enum amb_tls_role role,
                                  const char *common, const char *name, struct tls_made_time when)
{
    int64_t now_s = (int64_t)time(NULL);
    struct amb_tls_request request = {.role = role,
                                      .name = common,
                                      .names = &name,
                                      .name_count = name == NULL ? 0 : 1,
                                      .from_s = now_s + when.from_s,
                                      .until_s = now_s + when.until_s};
    struct amb_tls_pair *pair = NULL;
    char error[200] = "";
    if (amb_tls_issue(&request, issuer, error, sizeof(error), &pair) != AMB_OK) {
        fail_msg("%s: %s", common, error);
    }
    return pair;
}

void tls_made_init(struct tls_made *made)
{
    (void)snprintf(made->folder, sizeof(made->folder), "/tmp/amb-tls.XXXXXX");
    assert_non_null(mkdtemp(made->folder));
    made->ca = issue(NULL, AMB_TLS_AUTHORITY, "test authority", NULL,
                     (struct tls_made_time){-TLS_MADE_DAY, 1000 * TLS_MADE_DAY});
    write_pair(made, "ca", made->ca);
}

void tls_made_fini(struct tls_made *made)
{
    char command[128];
    amb_tls_pair_free(&made->ca);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", made->folder);
    assert_int_equal(system(command), 0); /* NOLINT(concurrency-mt-unsafe,cert-env33-c) */
}

void tls_made_issue(const struct tls_made *made, const struct amb_tls_pair *issuer,
                    const char *base, enum amb_tls_role role, const char *name,
                    struct tls_made_time time)
{
    struct amb_tls_pair *pair = issue(issuer, role, base, name, time);
    write_pair(made, base, pair);
    amb_tls_pair_free(&pair);
}

void tls_made_plain(const struct tls_made *made, const char *base, enum amb_tls_role role,
                    const char *name)
{
    tls_made_issue(made, made->ca, base, role, name,
                   (struct tls_made_time){-TLS_MADE_DAY, 100 * TLS_MADE_DAY});
}

static X509 *read_certificate(const struct tls_made *made, const char *file)
{
    FILE *in = fopen(tls_made_path(made, file), "re");
    assert_non_null(in);
    X509 *certificate = PEM_read_X509(in, NULL, NULL, NULL);
    (void)fclose(in);
    assert_non_null(certificate);
    return certificate;
}

static EVP_PKEY *read_key(const struct tls_made *made, const char *file)
{
    FILE *in = fopen(tls_made_path(made, file), "re");
    assert_non_null(in);
    EVP_PKEY *key = PEM_read_PrivateKey(in, NULL, NULL, NULL);
    (void)fclose(in);
    assert_non_null(key);
    return key;
}

static void add_revoked(X509_CRL *crl, const X509 *certificate)
{
    X509_REVOKED *revoked = X509_REVOKED_new();
    ASN1_TIME *since = ASN1_TIME_set(NULL, time(NULL) - TLS_MADE_DAY);
    assert_int_equal(X509_REVOKED_set_serialNumber(
                         revoked, (ASN1_INTEGER *)(uintptr_t)X509_get0_serialNumber(certificate)),
                     1);
    assert_int_equal(X509_REVOKED_set_revocationDate(revoked, since), 1);
    assert_int_equal(X509_CRL_add0_revoked(crl, revoked), 1);
    ASN1_TIME_free(since);
}

void tls_made_revoke(const struct tls_made *made, const char *file, const char *revoked,
                     struct tls_made_time when)
{
    tls_made_revoke_by(made, "ca", file, revoked, when);
}

void tls_made_revoke_by(const struct tls_made *made, const char *by, const char *file,
                        const char *revoked, struct tls_made_time when)
{
    char name[80];
    (void)snprintf(name, sizeof(name), "%s.pem", by);
    X509 *ca = read_certificate(made, name);
    (void)snprintf(name, sizeof(name), "%s.key", by);
    EVP_PKEY *key = read_key(made, name);
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *from = ASN1_TIME_set(NULL, time(NULL) + when.from_s);
    ASN1_TIME *until = ASN1_TIME_set(NULL, time(NULL) + when.until_s);
    assert_int_equal(X509_CRL_set_version(crl, 1), 1);
    assert_int_equal(X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca)), 1);
    assert_int_equal(X509_CRL_set1_lastUpdate(crl, from), 1);
    assert_int_equal(X509_CRL_set1_nextUpdate(crl, until), 1);
    if (revoked != NULL) {
        X509 *gone = read_certificate(made, revoked);
        add_revoked(crl, gone);
        X509_free(gone);
    }
    assert_true(X509_CRL_sort(crl) == 1 && X509_CRL_sign(crl, key, EVP_sha256()) > 0);
    FILE *out = fopen(tls_made_path(made, file), "we");
    assert_non_null(out);
    assert_int_equal(PEM_write_X509_CRL(out, crl), 1);
    (void)fclose(out);
    assert_int_equal(chmod(tls_made_path(made, file), 0644), 0);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    X509_CRL_free(crl);
    EVP_PKEY_free(key);
    X509_free(ca);
}

static void append(FILE *out, const char *path)
{
    char bytes[4096];
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    size_t got = fread(bytes, 1, sizeof(bytes), in);
    assert_in_range(got, 1, sizeof(bytes) - 1); /* All of it. */
    assert_int_equal(fwrite(bytes, 1, got, out), got);
    (void)fclose(in);
}

void tls_made_join(const struct tls_made *made, const char *file, const char *first,
                   const char *second)
{
    FILE *out = fopen(tls_made_path(made, file), "we");
    assert_non_null(out);
    append(out, tls_made_path(made, first));
    append(out, tls_made_path(made, second));
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(tls_made_path(made, file), 0644), 0);
}

/* Threads make contexts, too: so each call has its own paths. */
struct paths {
    char certificate[256], key[256], ca[256];
};

static void fill_paths(const struct tls_made *made, const char *base, struct paths *out)
{
    (void)snprintf(out->certificate, sizeof(out->certificate), "%s/%s.pem", made->folder, base);
    (void)snprintf(out->key, sizeof(out->key), "%s/%s.key", made->folder, base);
    (void)snprintf(out->ca, sizeof(out->ca), "%s/ca.pem", made->folder);
}

struct amb_tls_pair *tls_made_read(const struct tls_made *made, const char *base)
{
    struct paths paths;
    struct amb_tls_pair *pair = NULL;
    char error[700] = "";
    fill_paths(made, base, &paths);
    if (amb_tls_pair_read(paths.certificate, paths.key, error, sizeof(error), &pair) != AMB_OK) {
        fail_msg("%s: %s", base, error);
    }
    return pair;
}

struct amb_tls_context *tls_made_server(const struct tls_made *made, const char *base,
                                        enum amb_tls_clients clients)
{
    struct paths paths;
    fill_paths(made, base, &paths);
    struct amb_tls_files files = {
        .certificate = paths.certificate, .key = paths.key, .ca = paths.ca};
    struct amb_tls_complaint complaint;
    struct amb_tls_context *context = NULL;
    if (amb_tls_context_create_server(&files, clients, &complaint, &context) != AMB_OK) {
        fail_msg("%s: %s", base, complaint.text);
    }
    return context;
}

struct amb_tls_context *tls_made_client(const struct tls_made *made, const char *base)
{
    struct paths paths;
    fill_paths(made, base == NULL ? "" : base, &paths);
    struct amb_tls_files files = {.certificate = base == NULL ? NULL : paths.certificate,
                                  .key = base == NULL ? NULL : paths.key,
                                  .ca = paths.ca};
    struct amb_tls_complaint complaint;
    struct amb_tls_context *context = NULL;
    if (amb_tls_context_create_client(&files, &complaint, &context) != AMB_OK) {
        fail_msg("%s", complaint.text);
    }
    return context;
}

void tls_made_ends(struct tls_made *made, const char *name, struct amb_tls_context **server,
                   struct amb_tls_context **client)
{
    tls_made_init(made);
    tls_made_plain(made, "server", AMB_TLS_SERVER, name);
    *server = tls_made_server(made, "server", AMB_TLS_CLIENTS_NONE);
    *client = tls_made_client(made, NULL);
}

void tls_made_ends_fini(struct tls_made *made, struct amb_tls_context **server,
                        struct amb_tls_context **client)
{
    amb_tls_context_unref(server);
    amb_tls_context_unref(client);
    tls_made_fini(made);
}
