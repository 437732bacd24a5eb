/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/visit.h"

#include "broker/http/access.h"
#include "wire/base/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define URL_MAX 640u

/* The first listener of that kind; NULL: none. */
static const struct amb_url *listener(const struct amb_http *http, bool is_unix)
{
    for (unsigned i = 0; i < http->listener_count; i++) {
        const struct amb_url *url = &http->listeners[i].url;
        if ((url->scheme == AMB_URL_UNIX) == is_unix) {
            return url;
        }
    }
    return NULL;
}

enum amb_status amb_http_visit(void *arg, char **text, char why[AMB_COUNTERS_REFUSAL_MAX])
{
    struct amb_http *http = arg;
    char url[URL_MAX] = "", key[AMB_VISITS_KEY_SIZE];
    const struct amb_url *tcp = listener(http, false), *local = listener(http, true);
    if (http->page.policy[0] == '\0') {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "this broker was built without the page");
        return AMB_EINVAL;
    }
    if (tcp != NULL && amb_http_names_on_tcp(http)) {
        bool is_v6 = strchr(tcp->host, ':') != NULL;
        amb_visits_key(&http->visits, amb_clock_monotonic_ns(), key);
        (void)snprintf(url, sizeof(url), "http://%s%s%s:%u/?key=%s", is_v6 ? "[" : "", tcp->host,
                       is_v6 ? "]" : "", (unsigned)tcp->port, key);
    }
    if (http->listener_count == 0) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX,
                       "no listener for the page: http.listen has none, or none could be opened "
                       "(the log says why)");
        return AMB_EINVAL;
    }
    if (url[0] == '\0' && local == NULL) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX,
                       "with http.insecure or users the page is on a Unix socket alone: add one to "
                       "http.listen");
        return AMB_EINVAL;
    }
    json_t *answer = json_pack("[{s:s, s:s, s:i}]", "url", url, "socket",
                               local == NULL ? "" : local->path, "expires_s", AMB_VISITS_KEY_S);
    *text = answer == NULL ? NULL : json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    return *text == NULL ? AMB_ENOMEM : AMB_OK;
}
