/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/again.h"

#include "client/config/client_config.h"
#include "wire/codec/control.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum amb_status amb_again_init(struct amb_reconnect *again, struct amb_client_config **config,
                               const char *name, const struct amb_options *options)
{
    if (options->reconnect_attempts == AMB_NONE) {
        return AMB_OK;
    }
    again->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (again->cancel_fd < 0) {
        return AMB_ENOMEM;
    }
    again->config = *config;
    *config = NULL;
    again->options = *options;
    again->options.name = name;
    again->options.error = NULL;
    /* Texts of the program's, which need not outlive amb_connect; config has copies. */
    again->options.credentials = again->options.trusted_network = again->options.config = NULL;
    again->options.ca = again->options.server_name = NULL;
    again->options.certificate = again->options.key = NULL;
    again->is_on = true;
    return AMB_OK;
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
    amb_client_config_destroy(&again->config);
}
