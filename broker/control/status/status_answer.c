/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_answer.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/status/status.h"
#include "broker/control/status/status_private.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_PIECE 60000u /* bytes of JSON in one frame */
#define STATUS_MAX                                                                                 \
    ((unsigned)AMB_CLIENT_OUT_MAX / 8 * 7) /* the most that may be queued for a                    \
                                            * client */

static json_t *query_answer(struct amb_status_query *query, struct amb_control *control)
{
    json_t *answer = query->view->gather(query, control);
    return json_is_array(answer) ? json_pack("{s:o}", query->view->name, answer) : answer;
}

static void query_send(const struct amb_status_query *query, const char *text)
{
    size_t left = strlen(text);
    do {
        size_t piece = left < STATUS_PIECE ? left : STATUS_PIECE;
        Amb__Control__AdminReply reply = AMB__CONTROL__ADMIN_REPLY__INIT;
        reply.json.data = (uint8_t *)(uintptr_t)text;
        reply.json.len = piece;
        reply.last = piece == left;
        Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
        message.id = query->id;
        message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY;
        message.admin_reply = &reply;
        amb_client_send(query->client, &message, NULL, 0);
        text += piece;
        left -= piece;
    } while (left > 0 && query->client->state == AMB_CLIENT_LIVE);
}

/* The first `keep` rows. */
static void answer_cut(struct amb_status_query *query, json_t *answer, size_t keep)
{
    json_t *rows = json_object_get(answer, query->view->name);
    while (json_is_array(rows) && json_array_size(rows) > keep) {
        (void)json_array_remove(rows, json_array_size(rows) - 1);
        query->omitted++;
    }
    if (query->omitted > 0) {
        (void)json_object_set_new(answer, "not_shown",
                                  json_integer(amb_status_num(query->omitted)));
    }
}

/* NULL: no memory. Never longer than what may be queued: names may be long. */
static char *answer_text(struct amb_status_query *query, json_t *answer)
{
    answer_cut(query, answer, AMB_STATUS_ROWS_MAX);
    char *text = json_dumps(answer, JSON_COMPACT);
    size_t len = text == NULL ? 0 : strlen(text);
    if (len > STATUS_MAX) {
        size_t rows = json_array_size(json_object_get(answer, query->view->name));
        free(text);
        answer_cut(query, answer, rows * (STATUS_MAX / 4 * 3) / len);
        text = json_dumps(answer, JSON_COMPACT);
    }
    return text;
}

void amb_status_answer(struct amb_status_query *query, struct amb_control *control)
{
    struct amb_client *client = query->client;
    json_t *answer = query_answer(query, control);
    char *text = answer == NULL ? NULL : answer_text(query, answer);
    if (text == NULL) {
        amb_client_send_error(client, query->id, AMB_ENOMEM, "no memory for the answer");
    } else if (strlen(text) > STATUS_MAX) {
        amb_client_send_error(client, query->id, AMB_ETOOLARGE,
                              "the answer is larger than %u bytes", STATUS_MAX);
    } else {
        query_send(query, text);
    }
    free(text);
    json_decref(answer);
}
