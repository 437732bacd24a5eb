/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/paths.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/expected.h"
#include "broker/control/status/status_private.h"
#include "broker/control/status/why.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/link/link.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LANES_MAX 256u
#define TEXT_MAX 320u
#define LARGE_BYTES (UINT64_C(1) << 20) /* of a large message, where UCX is asked for its rate */

/* ---- on the worker ---- */

static json_t *counts_of(const struct amb_paths *paths, unsigned class)
{
    const struct amb_path *path = &paths->of[class];
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:i}", "in_place",
                     amb_status_num(path->msgs[AMB_PATH_IN_PLACE]), "copied",
                     amb_status_num(path->msgs[AMB_PATH_COPIED]), "staged",
                     amb_status_num(path->msgs[AMB_PATH_STAGED]), "bytes",
                     amb_status_num(amb_path_bytes(path)), "rate", amb_status_num(path->rate),
                     "way", (int)paths->way[class], "why", (int)paths->not_best[class]);
}

static json_t *direction_of(const struct amb_paths *paths, int64_t now_ns)
{
    struct amb_paths now = *paths; /* A question does not end the window. */
    json_t *list = json_array();
    amb_paths_measure(&now, now_ns, false);
    for (unsigned class = 0; class < AMB_PATH_CLASSES; class ++) {
        (void)json_array_append_new(list, counts_of(&now, class));
    }
    return list;
}

json_t *amb_paths_of(const struct amb_session *session)
{
    int64_t now_ns = session->shard->now_ns;
    const struct amb_link *link = session->link;
    char lanes[LANES_MAX] = "none";
    if (link != NULL) {
        amb_link_describe(link, lanes, sizeof(lanes));
    }
    return json_pack(
        "{s:s, s:b, s:I, s:I, s:o, s:o}", "lanes", lanes, "takes_cuda",
        link != NULL && link->takes_cuda && link->device_min != UINT64_MAX, "ucx_small",
        amb_status_num(link == NULL ? 0 : amb_link_rate(link, AMB_BATCH_BYTES)), "ucx_large",
        amb_status_num(link == NULL ? 0 : amb_link_rate(link, LARGE_BYTES)), "publish",
        direction_of(&session->paths.in, now_ns), "deliver",
        direction_of(&session->paths.out, now_ns));
}

/* ---- on the control thread ---- */

/* One row under way. */
struct row {
    const struct amb_client *client;
    const json_t *session; /* counts; or NULL */
    const char *lanes;
    bool is_publish;
    enum amb_path_class class;
    uint64_t msgs[AMB_PATH_WAYS], bytes, rate;
    enum amb_path_way way; /* of the last batch, or of the next */
    enum amb_path_why why;
    bool has_gone; /* something has come or gone */
};

static uint64_t number(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static uint64_t row_msgs(const struct row *row)
{
    return row->msgs[AMB_PATH_IN_PLACE] + row->msgs[AMB_PATH_COPIED] + row->msgs[AMB_PATH_STAGED];
}

static void row_read(struct row *row)
{
    const json_t *list = json_object_get(row->session, row->is_publish ? "publish" : "deliver");
    const json_t *counts = json_array_get(list, row->class);
    row->msgs[AMB_PATH_IN_PLACE] = number(counts, "in_place");
    row->msgs[AMB_PATH_COPIED] = number(counts, "copied");
    row->msgs[AMB_PATH_STAGED] = number(counts, "staged");
    row->bytes = number(counts, "bytes");
    row->rate = number(counts, "rate");
    row->way = (enum amb_path_way)number(counts, "way");
    row->why = (enum amb_path_why)number(counts, "why");
    row->has_gone = row_msgs(row) != 0;
}

/* GPU memory that came by way of the host: the client alone knows, and is believed. */
static void row_add_staged(struct row *row)
{
    const struct amb_client *client = row->client;
    uint64_t bytes = row->is_publish ? client->staged_in : client->staged_out;
    if (row->class != AMB_PATH_GPU || bytes == 0 || (!row->is_publish && row->has_gone)) {
        return;
    }
    row->msgs[AMB_PATH_STAGED] +=
        row->is_publish ? client->staged_in_msgs : client->staged_out_msgs;
    row->bytes += bytes;
    if (!row->has_gone) {
        row->way = AMB_PATH_STAGED;
        row->why = AMB_PATH_LINK;
    }
    row->has_gone = true;
}

static void row_foresee(struct row *row)
{
    const struct amb_client *client = row->client;
    bool may_map = amb_client_may_map(client);
    bool by_link =
        row->class == AMB_PATH_GPU && json_is_true(json_object_get(row->session, "takes_cuda"));
    if (row->class == AMB_PATH_GPU) {
        bool is_near = client->link == AMB_LINK_RING && amb_why_no_nvlink(client) == NULL;
        row->way = is_near ? AMB_PATH_IN_PLACE : by_link ? AMB_PATH_COPIED : AMB_PATH_STAGED;
        row->why = is_near ? AMB_PATH_BEST : by_link ? AMB_PATH_BY_LINK : AMB_PATH_LINK;
    } else if (!may_map) {
        row->way = AMB_PATH_COPIED;
        row->why = AMB_PATH_LINK;
    } else if (row->is_publish && row->class == AMB_PATH_SMALL) {
        row->way = AMB_PATH_COPIED;
        row->why = AMB_PATH_BATCH;
    } else if (row->is_publish && client->control->config->limits.max_leased_per_session == 0) {
        row->way = AMB_PATH_COPIED;
        row->why = AMB_PATH_UNLEASED;
    } else {
        row->way = AMB_PATH_IN_PLACE;
        row->why = AMB_PATH_BEST;
    }
}

/* Of GPU memory that a client does not reach in the broker's, or the broker in the client's. */
static const char *gpu_reason(const struct row *row)
{
    const struct amb_client *client = row->client;
    if (client->link == AMB_LINK_UCX) {
        return amb_why_no_gpu_lane(client);
    }
    if (row->why == AMB_PATH_REFUSED && client->gpu_reason[0] != '\0') {
        return client->gpu_reason;
    }
    const char *why = amb_client_gpu_obstacle(client);
    why = why == NULL ? amb_why_no_nvlink(client) : why;
    return why == NULL && client->staged_why[0] != '\0' ? client->staged_why : why;
}

/* The reason that is the row's, in words. */
static void row_reason(const struct row *row, char out[AMB_WHY_MAX])
{
    const struct amb_client *client = row->client;
    bool is_gpu = row->class == AMB_PATH_GPU;
    const char *why = NULL;
    if (row->why == AMB_PATH_LINK && !is_gpu) {
        amb_why_link(client, row->lanes, out);
        if (out[0] != '\0') {
            return;
        }
    }
    if (is_gpu && (row->why == AMB_PATH_LINK || row->why == AMB_PATH_REFUSED)) {
        why = gpu_reason(row);
    }
    (void)snprintf(out, AMB_WHY_MAX, "%s", why != NULL ? why : amb_path_why_text(row->why));
}

/* Why not a better way; of a row whose last batch went in place, why some others did not. */
static void row_why(const struct row *row, char out[TEXT_MAX])
{
    char reason[AMB_WHY_MAX] = "";
    uint64_t others = row->msgs[AMB_PATH_COPIED] + row->msgs[AMB_PATH_STAGED];
    out[0] = '\0';
    if (row->way == AMB_PATH_IN_PLACE && others == 0) {
        return;
    }
    row_reason(row, reason);
    if (row->way == AMB_PATH_IN_PLACE) {
        (void)snprintf(out, TEXT_MAX, "%" PRIu64 " by copy: %s", others, reason);
    } else {
        (void)snprintf(out, TEXT_MAX, "%s", reason);
    }
}

static uint64_t row_expected(const struct row *row, char by[AMB_EXPECTED_TEXT_MAX])
{
    const char *key = row->class == AMB_PATH_SMALL ? "ucx_small" : "ucx_large";
    bool is_gpu = row->class == AMB_PATH_GPU;
    if (row->way == AMB_PATH_IN_PLACE) {
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "nothing is copied");
        return 0;
    }
    if (row->way == AMB_PATH_STAGED || (is_gpu && row->client->link != AMB_LINK_UCX)) {
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "unknown: between a GPU and the host");
        return 0;
    }
    return amb_expected_rate(row->client, number(row->session, key), by);
}

static json_t *number_or_null(uint64_t value)
{
    return value == 0 ? json_null() : json_integer(amb_status_num(value));
}

static json_t *row_json(const struct row *row)
{
    char why[TEXT_MAX], by[AMB_EXPECTED_TEXT_MAX] = "";
    uint64_t expected = row_expected(row, by);
    row_why(row, why);
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:s, s:o, s:s}", "id",
        amb_status_num(row->client->id), "name", row->client->name, "direction",
        row->is_publish ? "publish" : "deliver", "class", amb_path_class_name(row->class), "link",
        amb_link_kind_name(row->client->link), "lanes", row->lanes, "way",
        amb_path_way_name(row->way), "messages", amb_status_num(row_msgs(row)), "bytes",
        amb_status_num(row->bytes), "in_place", amb_status_num(row->msgs[AMB_PATH_IN_PLACE]),
        "copied", amb_status_num(row->msgs[AMB_PATH_COPIED]), "staged",
        amb_status_num(row->msgs[AMB_PATH_STAGED]), "measured_rate_bytes",
        number_or_null(row->rate), "expected_by", by, "expected_rate_bytes",
        number_or_null(expected), "why", why);
}

void amb_paths_add(json_t *rows, const struct amb_client *client, const json_t *counts)
{
    const char *lanes = json_string_value(json_object_get(counts, "lanes"));
    for (unsigned i = 0; i < 2 * AMB_PATH_CLASSES; i++) {
        struct row row = {
            .client = client,
            .session = counts,
            .lanes = lanes != NULL ? lanes : "none",
            .is_publish = i < AMB_PATH_CLASSES,
            .class = (enum amb_path_class)(i % AMB_PATH_CLASSES),
        };
        row_read(&row);
        row_add_staged(&row);
        if (!row.has_gone) {
            row_foresee(&row);
        }
        (void)json_array_append_new(rows, row_json(&row));
    }
}
