/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_bio.h"

#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method; /* for as long as the process lives */

static int pipe_read(BIO *bio, char *out, size_t size, size_t *got)
{
    struct amb_tls_pipe *pipe = BIO_get_data(bio);
    size_t len = amb_tls_buffer_len(&pipe->in);
    BIO_clear_retry_flags(bio);
    *got = 0;
    if (len == 0) {
        if (!pipe->has_ended) {
            BIO_set_retry_read(bio);
        }
        return 0;
    }
    len = len < size ? len : size;
    memcpy(out, pipe->in.bytes + pipe->in.start, len);
    amb_tls_buffer_consume(&pipe->in, len);
    *got = len;
    return 1;
}

/* All or nothing: the connection sees to it that records have room. */
static int pipe_write(BIO *bio, const char *bytes, size_t len, size_t *written)
{
    struct amb_tls_pipe *pipe = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *written = 0;
    if (!amb_tls_buffer_reserve(&pipe->out, len, &pipe->charge)) {
        BIO_set_retry_write(bio);
        return 0;
    }
    memcpy(pipe->out.bytes + pipe->out.end, bytes, len);
    pipe->out.end += len;
    *written = len;
    return 1;
}

static long pipe_ctrl(BIO *bio, int command, long number, void *pointer)
{
    const struct amb_tls_pipe *pipe = BIO_get_data(bio);
    (void)number;
    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return pipe->has_ended && amb_tls_buffer_len(&pipe->in) == 0;
    case BIO_CTRL_PENDING:
        return (long)amb_tls_buffer_len(&pipe->in);
    case BIO_CTRL_WPENDING:
        return (long)amb_tls_buffer_len(&pipe->out);
    default:
        return 0;
    }
}

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ambroker");
    if (method != NULL) {
        (void)BIO_meth_set_read_ex(method, pipe_read);
        (void)BIO_meth_set_write_ex(method, pipe_write);
        (void)BIO_meth_set_ctrl(method, pipe_ctrl);
    }
}

BIO *amb_tls_bio_new(struct amb_tls_pipe *pipe)
{
    (void)pthread_once(&once, make_method);
    BIO *bio = method == NULL ? NULL : BIO_new(method);
    if (bio != NULL) {
        BIO_set_data(bio, pipe);
        BIO_set_init(bio, 1);
    }
    return bio;
}
