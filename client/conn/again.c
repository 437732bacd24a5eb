/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/again.h"

#include "wire/codec/control.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static bool copy_string(const char *from, char **out)
{
    *out = from != NULL ? strdup(from) : NULL;
    return from == NULL || *out != NULL;
}

enum amb_status amb_again_init(struct amb_reconnect *again, const char *urls, const char *name,
                               const struct amb_options *options)
{
    if (options->reconnect_attempts == AMB_NONE) {
        return AMB_OK;
    }
    again->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool is_good = again->cancel_fd >= 0;
    is_good = copy_string(urls, &again->urls) && is_good;
    is_good = copy_string(options->credentials, &again->credentials) && is_good;
    is_good = copy_string(options->trusted_network, &again->trusted) && is_good;
    again->options = *options;
    again->options.credentials = again->credentials;
    again->options.trusted_network = again->trusted;
    again->options.name = name;
    again->options.error = NULL;
    again->is_on = is_good;
    return is_good ? AMB_OK : AMB_ENOMEM;
}

enum amb_status amb_again_keep(const struct amb_reconnect *again, const ProtobufCMessage *message,
                               uint8_t **out, size_t *len)
{
    if (!again->is_on) {
        return AMB_OK;
    }
    *len = protobuf_c_message_get_packed_size(message);
    *out = malloc(*len != 0 ? *len : 1);
    if (*out == NULL) {
        return AMB_ENOMEM;
    }
    (void)protobuf_c_message_pack(message, *out);
    return AMB_OK;
}

void amb_again_fini(struct amb_reconnect *again)
{
    if (again->cancel_fd >= 0) {
        (void)close(again->cancel_fd);
        again->cancel_fd = -1;
    }
    free(again->urls);
    free(again->credentials);
    free(again->trusted);
    again->urls = again->credentials = again->trusted = NULL;
}
