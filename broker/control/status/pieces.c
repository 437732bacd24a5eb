/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/pieces.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"

#include <string.h>

#define PIECE 60000u /* bytes of JSON in one frame */

void amb_pieces_send(struct amb_client *client, uint64_t id, const char *text, bool is_end)
{
    size_t left = strlen(text);
    do {
        size_t piece = left < PIECE ? left : PIECE;
        Amb__Control__AdminReply reply = AMB__CONTROL__ADMIN_REPLY__INIT;
        reply.json.data = (uint8_t *)(uintptr_t)text;
        reply.json.len = piece;
        reply.last = is_end && piece == left;
        Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
        message.id = id;
        message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY;
        message.admin_reply = &reply;
        amb_client_send(client, &message, NULL, 0);
        text += piece;
        left -= piece;
    } while (left > 0 && client->state == AMB_CLIENT_LIVE);
}
