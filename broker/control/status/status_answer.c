/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_answer.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/status/pieces.h"
#include "broker/control/status/status.h"
#include "broker/control/status/status_private.h"
#include "broker/control/status/status_units.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_MAX                                                                                 \
    ((unsigned)AMB_CLIENT_OUT_MAX / 8 * 7) /* the most that may be queued for a                    \
                                            * client */

static json_t *query_answer(struct amb_status_query *query, struct amb_control *control)
{
    json_t *answer = query->view->gather(query, control);
    return json_is_array(answer) ? json_pack("{s:o}", query->view->name, answer) : answer;
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

char *amb_status_answer_text(struct amb_status_query *query, struct amb_control *control)
{
    json_t *answer = query_answer(query, control);
    char *text = answer == NULL ? NULL : answer_text(query, answer);
    json_decref(answer);
    return text;
}

void amb_status_answer(struct amb_status_query *query, struct amb_control *control)
{
    struct amb_client *client = query->client;
    json_t *answer = query_answer(query, control);
    if (json_is_object(answer)) {
        json_t *rows = json_object_get(answer, query->view->name);
        amb_status_units_add(answer, json_is_array(rows) ? rows : NULL);
    }
    char *text = answer == NULL ? NULL : answer_text(query, answer);
    if (text == NULL) {
        amb_client_send_error(client, query->id, AMB_ENOMEM, "no memory for the answer");
    } else if (strlen(text) > STATUS_MAX) {
        amb_client_send_error(client, query->id, AMB_ETOOLARGE,
                              "the answer is larger than %u bytes", STATUS_MAX);
    } else {
        amb_pieces_send(client, query->id, text, true);
    }
    free(text);
    json_decref(answer);
}
