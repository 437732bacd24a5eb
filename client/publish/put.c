/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/put.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/options.h"
#include "client/message/side.h"
#include "client/message/tensor.h"
#include "wire/base/copy.h"
#include "wire/codec/props.h"
#include "wire/mem/cuda.h"

#include <string.h>

enum amb_status amb_put_read(struct amb_conn *conn, const struct amb_out *from, struct amb_out *to)
{
    struct amb_complaint complaint;
    enum amb_status status = amb_out_read(from, to, &complaint);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "%s", complaint.text);
    }
    if (to->forward != NULL && amb_msg_size(to->forward) != 0 && amb_msg_device(to->forward) < 0 &&
        amb_msg_data(to->forward) == NULL) {
        return amb_conn_fail(conn, AMB_ESTATE,
                             "amb_out.forward: a lazy message without its payload: amb_msg_fetch");
    }
    return AMB_OK;
}

/* FNV-1a, never 0. */
static uint32_t hash_key(const char *key)
{
    uint32_t hash = UINT32_C(2166136261);
    for (; *key != '\0'; key++) {
        hash = (hash ^ (uint8_t)*key) * UINT32_C(16777619);
    }
    return hash != 0 ? hash : 1;
}

/* Writes key, content type and properties of a message as one blob. */
static enum amb_status write_props(struct amb_conn *conn, const struct amb_out *message,
                                   uint8_t *blob, struct amb_put *put)
{
    if (message->key == NULL && message->content_type == NULL && message->tensor == NULL &&
        message->prop_count == 0) {
        return AMB_OK;
    }
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, AMB_PROPS_MAX);
    enum amb_status status = AMB_OK;
    if (message->key != NULL) {
        status = amb_props_add(&writer, AMB_PROP_KEY, message->key, strlen(message->key));
        put->key_hash = hash_key(message->key);
    }
    if (status == AMB_OK && message->content_type != NULL) {
        status = amb_props_add(&writer, AMB_PROP_CONTENT_TYPE, message->content_type,
                               strlen(message->content_type));
    }
    if (status == AMB_OK && message->tensor != NULL) {
        uint8_t tensor[AMB_TENSOR_BYTES];
        size_t len;
        if (amb_tensor_write(message->tensor, tensor, &len) != AMB_OK) {
            return amb_conn_fail(conn, AMB_EINVAL,
                                 "amb_out.tensor: no bits, a negative dimension, "
                                 "or more than %u of them",
                                 AMB_TENSOR_DIMS);
        }
        status = amb_props_add(&writer, AMB_PROP_TENSOR, tensor, len);
    }
    for (uint32_t i = 0; status == AMB_OK && i < message->prop_count; i++) {
        const struct amb_prop *prop = &message->props[i];
        if (prop->name == NULL || prop->name[0] == '$' || (prop->value == NULL && prop->len != 0)) {
            return amb_conn_fail(conn, AMB_EINVAL,
                                 "property %u: its name is empty or begins with "
                                 "'$', or its value is missing",
                                 i);
        }
        status = amb_props_add(&writer, prop->name, prop->value, prop->len);
    }
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status,
                             status == AMB_ETOOLARGE
                                 ? "key, content type and properties exceed %u bytes"
                                 : "a property's name is longer than 255 bytes or malformed",
                             AMB_PROPS_MAX);
    }
    put->blob = blob;
    put->blob_len = (uint32_t)writer.len;
    return AMB_OK;
}

enum amb_status amb_put_props(struct amb_conn *conn, const struct amb_out *message, uint8_t *blob,
                              struct amb_put *put)
{
    int64_t ttl_ms = message->ttl_ns / AMB_MS + (message->ttl_ns % AMB_MS != 0);
    put->ttl_ms = ttl_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ttl_ms;
    return write_props(conn, message, blob, put);
}

enum amb_status amb_put_payload(const struct amb_out *message, struct amb_put *put)
{
    if (message->forward != NULL) {
        put->data = amb_msg_bytes(message->forward);
        put->len = amb_msg_size(message->forward);
    } else if (message->iov != NULL) {
        put->iov = message->iov;
        put->iov_count = message->iov_count;
        for (uint32_t i = 0; i < message->iov_count; i++) {
            if ((message->iov[i].data == NULL && message->iov[i].len != 0) ||
                message->iov[i].len > UINT64_MAX - put->len) {
                return AMB_EINVAL;
            }
            put->len += message->iov[i].len;
        }
    } else {
        put->data = message->data;
        put->len = message->len;
    }
    return AMB_OK;
}

enum amb_mem amb_put_mem(const struct amb_out *message, const struct amb_mem_place *place)
{
    if (message->forward != NULL) {
        return amb_msg_mem(message->forward);
    }
    if (message->data == NULL) {
        return AMB_MEM_HOST;
    }
    return message->mem != AMB_MEM_DEFAULT ? message->mem : place->mem;
}

void amb_put_gather(uint8_t *to, const struct amb_put *put)
{
    for (uint32_t i = 0; i < put->iov_count; i++) {
        if (put->iov[i].len != 0) {
            amb_copy(to, put->iov[i].data, put->iov[i].len);
            to += put->iov[i].len;
        }
    }
}

enum amb_status amb_put_too_large(struct amb_conn *conn, uint64_t len)
{
    return amb_conn_fail(conn, AMB_ETOOLARGE, "%llu bytes, and the broker takes up to %llu",
                         (unsigned long long)len, (unsigned long long)conn->session.max_message);
}
