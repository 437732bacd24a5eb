/* SPDX-License-Identifier: Apache-2.0 */
/* In place of http.c where the build has no HTTP (-DAMB_HTTP=OFF). */
#include "broker/config/config.h"
#include "broker/http/http.h"
#include "broker/http/http_change.h"

#include <stdio.h>

enum amb_status amb_http_create(const struct amb_config *config, struct amb_control *control,
                                const struct amb_counters *counters, struct amb_observer *observer,
                                char *error, size_t error_size, struct amb_http **out)
{
    (void)control;
    (void)counters;
    (void)observer;
    *out = NULL;
    if (config->http.doors.count == 0 || config->http.is_auto) {
        return AMB_OK;
    }
    (void)snprintf(error, error_size, "http.listen: this brokerd was built without HTTP");
    return AMB_EINVAL;
}

enum amb_status amb_http_prepare(const struct amb_http *http, const struct amb_config *config,
                                 char *error, size_t error_size, struct amb_http_change **out)
{
    (void)http;
    *out = NULL;
    if (config->http.doors.count == 0 || config->http.is_auto) {
        return AMB_OK;
    }
    (void)snprintf(error, error_size, "http.listen: this brokerd was built without HTTP");
    return AMB_EINVAL;
}

void amb_http_use(struct amb_http *http, struct amb_http_change **change)
{
    (void)http;
    *change = NULL;
}

void amb_http_drop(struct amb_http_change **change)
{
    *change = NULL;
}

const char *amb_http_urls(const struct amb_http *http)
{
    (void)http;
    return "";
}

void amb_http_destroy(struct amb_http **http)
{
    *http = NULL;
}
