/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_load.h"

#include "wire/base/passphrase.h"
#include "wire/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)4 << 20) /* a system's list of authorities is far smaller */
#define TRIES 2u                         /* at a file that ends in silence */
#define SHOWN_MAX 160u                   /* bytes of a path in a complaint */

bool amb_tls_is_out_of_memory(void)
{
    /* Marked so is what has nothing to do with an input. */
    return ERR_FATAL_ERROR(ERR_peek_error()) != 0 || ERR_FATAL_ERROR(ERR_peek_last_error()) != 0;
}

enum amb_status amb_tls_out_of_memory(struct amb_tls_complaint *complaint)
{
    (void)snprintf(complaint->text, sizeof(complaint->text), "no memory");
    ERR_clear_error();
    return AMB_ENOMEM;
}

/* Writes "PATH ..." and returns EINVAL; ENOMEM, if that is why libcrypto did not like it. */
static enum amb_status complain(struct amb_tls_complaint *complaint, const char *path,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum amb_status complain(struct amb_tls_complaint *complaint, const char *path,
                                const char *format, ...)
{
    char shown[SHOWN_MAX];
    if (amb_tls_is_out_of_memory()) {
        return amb_tls_out_of_memory(complaint);
    }
    int len = snprintf(complaint->text, sizeof(complaint->text), "%s ",
                       amb_text_show(path, shown, sizeof(shown)));
    va_list args;
    va_start(args, format);
    (void)vsnprintf(complaint->text + len, sizeof(complaint->text) - (size_t)len, format, args);
    va_end(args);
    ERR_clear_error();
    return AMB_EINVAL;
}

/* ---- dates ---- */

int64_t amb_tls_seconds(const ASN1_TIME *time)
{
    struct tm tm;
    return time != NULL && ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : INT64_MAX;
}

const char *amb_tls_date(const ASN1_TIME *time, char *out)
{
    struct tm tm;
    if (time == NULL || ASN1_TIME_to_tm(time, &tm) != 1 ||
        strftime(out, AMB_TLS_DATE_MAX, "%Y-%m-%d", &tm) == 0) {
        (void)snprintf(out, AMB_TLS_DATE_MAX, "?");
    }
    return out;
}

/* ---- files ---- */

/* Of a secret: nobody else may read or write it. Of all else: not everybody may write it. */
static enum amb_status check_mode(const char *path, const struct stat *st, bool is_secret,
                                  struct amb_tls_complaint *complaint)
{
    if (!S_ISREG(st->st_mode)) {
        return complain(complaint, path, "is not a regular file");
    }
    if ((uint64_t)st->st_size > FILE_BYTES_MAX) {
        return complain(complaint, path, "is too large (allowed 4 MiB)");
    }
    if (is_secret && (st->st_mode & 0077) != 0) {
        return complain(complaint, path,
                        "can be read by others (got mode %04o, allowed 0600 or stricter)",
                        (unsigned)st->st_mode & 07777);
    }
    if ((st->st_mode & 0002) != 0) {
        return complain(complaint, path, "can be written by everybody (got mode %04o)",
                        (unsigned)st->st_mode & 07777);
    }
    return AMB_OK;
}

/* *out: a BIO that owns a copy of the file's bytes. */
static enum amb_status read_file(const char *path, bool is_secret,
                                 struct amb_tls_complaint *complaint, BIO **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        int why = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return complain(complaint, path, "cannot be read: %s", strerrordesc_np(why));
    }
    enum amb_status status = check_mode(path, &st, is_secret, complaint);
    BIO *bio = status == AMB_OK ? BIO_new(is_secret ? BIO_s_secmem() : BIO_s_mem()) : NULL;
    char bytes[4096];
    ssize_t got = 0;
    for (size_t all = 0; bio != NULL && all <= FILE_BYTES_MAX; all += (size_t)got) {
        got = read(fd, bytes, sizeof(bytes));
        if (got <= 0 || BIO_write(bio, bytes, (int)got) != got) {
            break;
        }
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    int why = errno;
    (void)close(fd);
    if (status != AMB_OK) {
        return status;
    }
    if (bio == NULL || got > 0) {
        (void)BIO_free(bio);
        return amb_tls_out_of_memory(complaint);
    }
    if (got < 0) {
        (void)BIO_free(bio);
        return complain(complaint, path, "cannot be read: %s", strerrordesc_np(why));
    }
    (void)BIO_set_mem_eof_return(bio, 0);
    *out = bio;
    return AMB_OK;
}

/* Why no other object came. */
enum ending {
    WHOLE,
    BROKEN,
    NO_MEMORY,
    SILENT, /* No error is left. So it is where some memory lacks, and where a text is no base64. */
};

static enum ending ending_of(void)
{
    unsigned long error = ERR_peek_last_error();
    bool is_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
    enum ending ending = error == 0                   ? SILENT
                         : amb_tls_is_out_of_memory() ? NO_MEMORY
                         : is_end                     ? WHOLE
                                                      : BROKEN;
    ERR_clear_error();
    return ending;
}

/* A file that seemed to end early would have fewer authorities, or revoke fewer certificates. So it
 * is read once more. It is broken if it ends in silence twice. */
static bool is_read_again(enum ending *ending, unsigned tries)
{
    if (*ending == SILENT && tries == TRIES) {
        *ending = BROKEN;
    }
    return *ending == SILENT;
}

/* ---- certificates ---- */

enum amb_status amb_tls_check_time(const X509 *certificate, const char *path,
                                   struct amb_tls_complaint *complaint)
{
    char date[AMB_TLS_DATE_MAX];
    if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
        return complain(complaint, path, "has expired (it was valid until %s)",
                        amb_tls_date(X509_get0_notAfter(certificate), date));
    }
    if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
        return complain(complaint, path, "is not valid yet (it is from %s on)",
                        amb_tls_date(X509_get0_notBefore(certificate), date));
    }
    return AMB_OK;
}

static enum amb_status open_text(const char *text, struct amb_tls_complaint *complaint, BIO **out)
{
    *out = BIO_new_mem_buf(text, -1);
    return *out == NULL ? amb_tls_out_of_memory(complaint) : AMB_OK;
}

static enum ending read_certificates(BIO *bio, STACK_OF(X509) * *out)
{
    STACK_OF(X509) *all = sk_X509_new_null();
    X509 *one = NULL;
    ERR_clear_error();
    while (all != NULL && (one = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(all, one) == 0) {
            X509_free(one);
            break;
        }
    }
    *out = all;
    return all == NULL || one != NULL ? NO_MEMORY : ending_of();
}

/* All certificates of a file, or of its text where that is not NULL; at least one. */
static enum amb_status load_all(const char *path, const char *text,
                                struct amb_tls_complaint *complaint, STACK_OF(X509) * *out)
{
    STACK_OF(X509) *all = NULL;
    enum ending ending = SILENT;
    for (unsigned tries = 0; is_read_again(&ending, tries); tries++) {
        BIO *bio;
        enum amb_status status = text != NULL ? open_text(text, complaint, &bio)
                                              : read_file(path, false, complaint, &bio);
        sk_X509_pop_free(all, X509_free);
        if (status != AMB_OK) {
            return status;
        }
        ending = read_certificates(bio, &all);
        (void)BIO_free(bio);
    }
    if (ending == NO_MEMORY) {
        sk_X509_pop_free(all, X509_free);
        return amb_tls_out_of_memory(complaint);
    }
    if (ending == BROKEN || sk_X509_num(all) == 0) {
        bool is_empty = sk_X509_num(all) == 0;
        sk_X509_pop_free(all, X509_free);
        return complain(complaint, path,
                        is_empty ? "has no certificate in PEM"
                                 : "has a certificate that cannot be read");
    }
    *out = all;
    return AMB_OK;
}

enum amb_status amb_tls_load_certificate(const char *path, struct amb_tls_complaint *complaint,
                                         X509 **certificate, STACK_OF(X509) * *chain)
{
    STACK_OF(X509) * all;
    enum amb_status status = load_all(path, NULL, complaint, &all);
    if (status != AMB_OK) {
        return status;
    }
    *certificate = sk_X509_shift(all);
    *chain = all;
    return AMB_OK;
}

enum amb_status amb_tls_load_authorities(const char *path, const char *text,
                                         struct amb_tls_complaint *complaint, STACK_OF(X509) * *out)
{
    STACK_OF(X509) * all;
    enum amb_status status = load_all(path, text, complaint, &all);
    if (status != AMB_OK) {
        return status;
    }
    status = AMB_EINVAL;
    for (int i = sk_X509_num(all); i > 0 && status != AMB_OK; i--) {
        status = amb_tls_check_time(sk_X509_value(all, i - 1), path, complaint);
    }
    if (status != AMB_OK) {
        sk_X509_pop_free(all, X509_free);
        return status;
    }
    *out = all;
    return AMB_OK;
}

/* ---- keys ---- */

/* A file has both halves of a key. The public one alone is compared with the certificate's, so a
 * private one that is spoilt would only be found by peers. Not every kind of key can be checked. */
static enum amb_status check_halves(EVP_PKEY *key, const char *path,
                                    struct amb_tls_complaint *complaint)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    if (context == NULL) {
        return amb_tls_out_of_memory(complaint);
    }
    ERR_clear_error();
    int fits = EVP_PKEY_pairwise_check(context);
    bool lacks_memory = amb_tls_is_out_of_memory();
    ERR_clear_error();
    EVP_PKEY_CTX_free(context);
    if (fits == 1 || fits == -2) {
        return AMB_OK;
    }
    return lacks_memory
               ? amb_tls_out_of_memory(complaint)
               : complain(complaint, path, "has a private key that does not fit its public one");
}

enum amb_status amb_tls_load_key(const char *path, struct amb_tls_complaint *complaint,
                                 EVP_PKEY **out)
{
    bool is_encrypted = false;
    EVP_PKEY *key = NULL;
    enum ending ending = SILENT;
    for (unsigned tries = 0; is_read_again(&ending, tries); tries++) {
        BIO *bio;
        enum amb_status status = read_file(path, true, complaint, &bio);
        if (status != AMB_OK) {
            return status;
        }
        ERR_clear_error();
        key = PEM_read_bio_PrivateKey(bio, NULL, amb_no_passphrase, &is_encrypted);
        (void)BIO_free(bio);
        ending = key != NULL ? WHOLE : ERR_peek_error() == 0 ? SILENT : BROKEN;
    }
    if (key == NULL) {
        return complain(complaint, path,
                        is_encrypted ? "has a passphrase, and there is nobody to ask for it"
                                     : "has no private key in PEM");
    }
    ERR_clear_error();
    enum amb_status status = check_halves(key, path, complaint);
    if (status != AMB_OK) {
        EVP_PKEY_free(key);
        return status;
    }
    *out = key;
    return AMB_OK;
}

/* ---- revocation lists ---- */

static enum amb_status check_crl(X509_CRL *crl, const STACK_OF(X509) * authorities,
                                 const char *path, struct amb_tls_complaint *complaint)
{
    char date[AMB_TLS_DATE_MAX];
    const ASN1_TIME *next = X509_CRL_get0_nextUpdate(crl);
    if (next != NULL && X509_cmp_current_time(next) < 0) {
        return complain(complaint, path, "has expired: a newer list was due on %s",
                        amb_tls_date(next, date));
    }
    for (int i = 0; i < sk_X509_num(authorities); i++) {
        const X509 *authority = sk_X509_value(authorities, i);
        if (X509_NAME_cmp(X509_CRL_get_issuer(crl), X509_get_subject_name(authority)) == 0 &&
            X509_CRL_verify(crl, X509_get0_pubkey(authority)) == 1) {
            return AMB_OK;
        }
    }
    return complain(complaint, path, "has a list that no authority of the ca file has signed");
}

static enum amb_status read_crls(BIO *bio, const char *path, const STACK_OF(X509) * authorities,
                                 struct amb_tls_complaint *complaint, STACK_OF(X509_CRL) * *out,
                                 enum ending *ending)
{
    STACK_OF(X509_CRL) *all = sk_X509_CRL_new_null();
    X509_CRL *one = NULL;
    enum amb_status status = AMB_OK;
    ERR_clear_error();
    while (all != NULL && status == AMB_OK &&
           (one = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
        status = check_crl(one, authorities, path, complaint);
        if (sk_X509_CRL_push(all, one) == 0) {
            X509_CRL_free(one);
            status = amb_tls_out_of_memory(complaint);
        }
    }
    *out = all;
    *ending = all == NULL ? NO_MEMORY : one != NULL ? WHOLE : ending_of();
    return status;
}

enum amb_status amb_tls_load_crls(const char *path, const STACK_OF(X509) * authorities,
                                  struct amb_tls_complaint *complaint, STACK_OF(X509_CRL) * *out)
{
    STACK_OF(X509_CRL) *all = NULL;
    enum amb_status status = AMB_OK;
    enum ending ending = SILENT;
    for (unsigned tries = 0; status == AMB_OK && is_read_again(&ending, tries); tries++) {
        BIO *bio;
        sk_X509_CRL_pop_free(all, X509_CRL_free);
        all = NULL;
        status = read_file(path, false, complaint, &bio);
        if (status == AMB_OK) {
            status = read_crls(bio, path, authorities, complaint, &all, &ending);
            (void)BIO_free(bio);
        }
    }
    if (status == AMB_OK && ending == NO_MEMORY) {
        status = amb_tls_out_of_memory(complaint);
    } else if (status == AMB_OK && (ending == BROKEN || sk_X509_CRL_num(all) == 0)) {
        status = complain(complaint, path, "has no revocation list in PEM");
    }
    if (status != AMB_OK) {
        sk_X509_CRL_pop_free(all, X509_CRL_free);
        return status;
    }
    *out = all;
    return AMB_OK;
}
