/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/counters/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct amb_counters_source sources[] = {
    {"status", 0, NULL, NULL, NULL},
    {"metrics", 0, NULL, NULL, NULL},
    {"workers", AMB_COUNTERS_WORKER, NULL, NULL, NULL},
    {"topics", AMB_COUNTERS_TOPIC, "unlisted_topics", "ambroker_topic_tenant_number", NULL},
    {"subs", AMB_COUNTERS_SUBSCRIPTION, "unlisted_subscriptions",
     "ambroker_subscription_tenant_number", NULL},
    {"queues", AMB_COUNTERS_QUEUE, "unlisted_queues", "ambroker_queue_tenant_number", NULL},
    {"clients", AMB_COUNTERS_CLIENT, "unlisted_clients", "ambroker_client_tenant_number", NULL},
    {"closed", AMB_COUNTERS_CLOSED, NULL, "ambroker_closed_tenant_number", "number"},
    {"errors", AMB_COUNTERS_LINE, NULL, NULL, "last_s"},
    {"loss", AMB_COUNTERS_LOSS, NULL, "ambroker_loss_tenant_number", "last_s"},
};

const struct amb_counters_source *amb_counters_source_find(const char *query)
{
    size_t len = strcspn(query, " ");
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (strlen(sources[i].name) == len && memcmp(sources[i].name, query, len) == 0) {
            return &sources[i];
        }
    }
    return NULL;
}

bool amb_counters_query_is(const char *query)
{
    return amb_counters_source_find(query) != NULL;
}

enum amb_counters_scope amb_counters_query_scope(const char *query)
{
    const struct amb_counters_source *source = amb_counters_source_find(query);
    return source == NULL ? 0 : source->scope;
}

static enum amb_status set_match(struct amb_counters_query *query, const char *pattern,
                                 char why[AMB_COUNTERS_REFUSAL_MAX])
{
    const char *reason = "is too long";
    size_t len = strlen(pattern);
    if (len > AMB_TOPIC_MAX || amb_pattern_check(pattern, len, &reason) != AMB_OK) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "the pattern %s", reason);
        return AMB_EINVAL;
    }
    memcpy(query->match, pattern, len + 1);
    query->match_len = len;
    return AMB_OK;
}

/* NULL: there is no such column. */
static const struct amb_counters_metric *
column_of(const struct amb_counters_image *image, enum amb_counters_scope scope, const char *column)
{
    for (uint32_t i = 0; i < image->header->metric_count && column[0] != '\0'; i++) {
        const struct amb_counters_metric *metric = &image->metrics[i];
        if (metric->scope == scope && strcmp(metric->column, column) == 0) {
            return metric;
        }
    }
    return NULL;
}

static enum amb_status set_sort(const struct amb_counters_image *image,
                                struct amb_counters_query *query, const char *column,
                                char why[AMB_COUNTERS_REFUSAL_MAX])
{
    query->sort = column_of(image, query->source->scope, column);
    if (query->sort != NULL) {
        return AMB_OK;
    }
    size_t used = (size_t)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "%s has no column '%.40s', only",
                                   query->source->name, column);
    for (uint32_t i = 0; i < image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &image->metrics[i];
        if (metric->scope == query->source->scope && metric->column[0] != '\0' &&
            used < AMB_COUNTERS_REFUSAL_MAX) {
            used += (size_t)snprintf(why + used, AMB_COUNTERS_REFUSAL_MAX - used, " %s",
                                     metric->column);
        }
    }
    return AMB_EINVAL;
}

static enum amb_status set_top(struct amb_counters_query *query, const char *digits,
                               char why[AMB_COUNTERS_REFUSAL_MAX])
{
    char *end;
    errno = 0;
    unsigned long long top = strtoull(digits, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || errno != 0 || top == 0) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "top: '%.40s' is no number of rows", digits);
        return AMB_EINVAL;
    }
    query->top = top;
    return AMB_OK;
}

static const char *behind(const char *word, const char *key)
{
    size_t len = strlen(key);
    return strncmp(word, key, len) == 0 ? word + len : NULL;
}

static enum amb_status take_word(const struct amb_counters_image *image,
                                 struct amb_counters_query *query, const char *word, bool is_first,
                                 char why[AMB_COUNTERS_REFUSAL_MAX])
{
    const char *match = behind(word, "match="), *sort = behind(word, "sort="),
               *top = behind(word, "top=");
    if (match != NULL) {
        return set_match(query, match, why);
    }
    if (sort != NULL) {
        return set_sort(image, query, sort, why);
    }
    if (top != NULL) {
        return set_top(query, top, why);
    }
    if (is_first) {
        return set_match(query, word, why);
    }
    (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "'%.40s' is no match=, sort= or top=", word);
    return AMB_EINVAL;
}

enum amb_status amb_counters_query_parse(const struct amb_counters_image *image, const char *text,
                                         struct amb_counters_query *out,
                                         char why[AMB_COUNTERS_REFUSAL_MAX])
{
    *out = (struct amb_counters_query){.source = amb_counters_source_find(text), .top = UINT64_MAX};
    if (out->source == NULL || strlen(text) >= AMB_COUNTERS_QUERY_MAX) {
        (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "no such query");
        return AMB_EINVAL;
    }
    if (out->source->sort != NULL) {
        out->sort = column_of(image, out->source->scope, out->source->sort);
    }
    char words[AMB_COUNTERS_QUERY_MAX], *save = NULL;
    (void)snprintf(words, sizeof(words), "%s", text);
    (void)strtok_r(words, " ", &save); /* its name */
    bool is_first = true;
    for (char *word; (word = strtok_r(NULL, " ", &save)) != NULL; is_first = false) {
        if (out->source->scope < AMB_COUNTERS_WORKER) {
            (void)snprintf(why, AMB_COUNTERS_REFUSAL_MAX, "%s takes no '%.40s'", out->source->name,
                           word);
            return AMB_EINVAL;
        }
        enum amb_status status = take_word(image, out, word, is_first, why);
        if (status != AMB_OK) {
            return status;
        }
    }
    return AMB_OK;
}
