/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/counters/exposition.h"

#include "wire/base/memstream.h"
#include "wire/base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define TOTAL "_total"
#define SECONDS "_seconds"
#define SUM "_sum" SECONDS

const struct amb_exposition_extra amb_exposition_extras[AMB_EXPOSITION_EXTRAS] = {
    {"ambroker_build_info", "The broker: its name, its release, and the UCX that it has loaded.",
     true},
    {"ambroker_start_time_seconds", "When it has begun, since 1970.", false},
};

struct exposition {
    const struct amb_counters_image *image;
    FILE *out;
    uint64_t now_ns;
    bool is_open; /* OpenMetrics */
};

const char *amb_exposition_type(enum amb_exposition_form form)
{
    return form == AMB_EXPOSITION_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

/* Of a help text or, with quotes, a label's value. Bytes that are no UTF-8 would spoil the rest. */
void amb_exposition_escape(FILE *out, const char *text, bool has_quotes)
{
    uint32_t code = 0;
    while (*text != '\0') {
        size_t len = amb_utf8_decode(text, AMB_UTF8_MAX, &code);
        if (len == 0) {
            (void)fputs("\xef\xbf\xbd", out);
        } else if (*text == '\n') {
            (void)fputs("\\n", out);
        } else {
            bool is_escaped = *text == '\\' || (has_quotes && *text == '"');
            (void)fprintf(out, "%s%.*s", is_escaped ? "\\" : "", (int)len, text);
        }
        text += len == 0 ? 1 : len;
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

/* A table of another release may have anything; a name that is none would spoil all others. */
static bool is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return text[0] != '\0' && (text[0] < '0' || text[0] > '9') &&
           strspn(text, letters) == strlen(text);
}

static const char *type_of(const struct amb_counters_metric *metric)
{
    switch (metric->kind) {
    case AMB_COUNTERS_COUNTER:
        return ends_with(metric->name, TOTAL) ? "counter" : NULL;
    case AMB_COUNTERS_HISTOGRAM:
        return "histogram";
    case AMB_COUNTERS_GAUGE:
    case AMB_COUNTERS_RECENT:
    case AMB_COUNTERS_FLAG:
        return "gauge";
    default:
        return NULL;
    }
}

/* The lines before the samples of a family. OpenMetrics names it without _total, and wants the unit
 * where the name ends with it. */
void amb_exposition_head(FILE *out, const char *name, const char *type, const char *help,
                         bool is_open)
{
    char family[sizeof(((struct amb_counters_metric *)NULL)->name)];
    (void)snprintf(family, sizeof(family), "%s", name);
    if (is_open && (strcmp(type, "counter") == 0 || strcmp(type, "info") == 0)) {
        *strrchr(family, '_') = '\0';
    }
    (void)fprintf(out, "# HELP %s ", family);
    amb_exposition_escape(out, help, is_open);
    (void)fprintf(out, "\n# TYPE %s %s\n", family, type);
    if (is_open && ends_with(family, SECONDS)) {
        (void)fprintf(out, "# UNIT %s seconds\n", family);
    } else if (is_open && ends_with(family, "_bytes")) {
        (void)fprintf(out, "# UNIT %s bytes\n", family);
    }
}

static void put_seconds(FILE *out, uint64_t ns)
{
    (void)fprintf(out, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_SEC, ns % NS_PER_SEC);
}

static void put_value(const struct exposition *e, const struct amb_counters_metric *metric,
                      uint64_t value)
{
    (void)fputc(' ', e->out);
    if (strcmp(metric->unit, "ns") == 0) {
        put_seconds(e->out, value);
    } else {
        (void)fprintf(e->out, "%" PRIu64, value);
    }
    (void)fputc('\n', e->out);
}

/* NULL: there is no such row. */
static const struct amb_counters_metric *find(const struct exposition *e, const char *name)
{
    for (uint32_t i = 0; i < e->image->header->metric_count; i++) {
        if (strcmp(e->image->metrics[i].name, name) == 0) {
            return &e->image->metrics[i];
        }
    }
    return NULL;
}

/* The row that is the sum of a histogram. */
static const struct amb_counters_metric *sum_of(const struct exposition *e,
                                                const struct amb_counters_metric *histogram)
{
    char name[sizeof(histogram->name) + sizeof(SUM)];
    size_t len = strlen(histogram->name);
    if (!ends_with(histogram->name, SECONDS)) {
        return NULL;
    }
    (void)snprintf(name, sizeof(name), "%.*s" SUM, (int)(len - strlen(SECONDS)), histogram->name);
    return find(e, name);
}

/* Bucket i has what took less than 2^(AMB_DELAY_SHIFT + i) ns, the last one the rest, too. */
static void put_histogram(const struct exposition *e, const struct amb_counters_metric *metric,
                          uint32_t block)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < metric->words; i++) {
        count += amb_counters_word(e->image, block, metric->at + i);
        (void)fprintf(e->out, "%s_bucket{worker=\"%u\",le=\"", metric->name, block - 1);
        if (i + 1 == metric->words || AMB_DELAY_SHIFT + i >= 63) {
            (void)fputs("+Inf", e->out);
            i = metric->words;
        } else {
            put_seconds(e->out, UINT64_C(1) << (AMB_DELAY_SHIFT + i));
        }
        (void)fprintf(e->out, "\"} %" PRIu64 "\n", count);
    }
    const struct amb_counters_metric *sum = sum_of(e, metric);
    (void)fprintf(e->out, "%s_count{worker=\"%u\"} %" PRIu64 "\n", metric->name, block - 1, count);
    if (sum != NULL) {
        (void)fprintf(e->out, "%s_sum{worker=\"%u\"}", metric->name, block - 1);
        put_value(e, sum, amb_counters_word(e->image, block, sum->at));
    }
}

static void put_sample(const struct exposition *e, const struct amb_counters_metric *metric,
                       uint32_t block)
{
    if (metric->kind == AMB_COUNTERS_HISTOGRAM) {
        put_histogram(e, metric, block);
        return;
    }
    (void)fputs(metric->name, e->out);
    if (block > 0) {
        (void)fprintf(e->out, "{worker=\"%u\"}", block - 1);
    }
    put_value(e, metric, amb_counters_figure(e->image, block, metric, e->now_ns));
}

static void put_family(const struct exposition *e, const struct amb_counters_metric *metric)
{
    const char *type = type_of(metric);
    bool is_broker = metric->scope == AMB_COUNTERS_BROKER;
    if (type == NULL || !is_name(metric->name) ||
        (!is_broker && metric->scope != AMB_COUNTERS_WORKER)) {
        return;
    }
    amb_exposition_head(e->out, metric->name, type, metric->help, e->is_open);
    uint32_t block = is_broker ? 0 : 1;
    uint32_t end = is_broker ? 1 : e->image->header->block_count;
    for (; block < end; block++) {
        put_sample(e, metric, block);
    }
}

static void put_extras(const struct exposition *e)
{
    const struct amb_counters_header *header = e->image->header;
    const struct {
        const char *label, *value;
    } labels[] = {
        {"{name=\"", header->name}, {"\",version=\"", header->version}, {"\",ucx=\"", header->ucx}};
    const struct amb_exposition_extra *build = &amb_exposition_extras[0],
                                      *start = &amb_exposition_extras[1];
    amb_exposition_head(e->out, build->name, e->is_open ? "info" : "gauge", build->help,
                        e->is_open);
    (void)fputs(build->name, e->out);
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        (void)fputs(labels[i].label, e->out);
        amb_exposition_escape(e->out, labels[i].value, true);
    }
    (void)fputs("\"} 1\n", e->out);
    amb_exposition_head(e->out, start->name, "gauge", start->help, e->is_open);
    (void)fprintf(e->out, "%s ", start->name);
    put_seconds(e->out, (uint64_t)header->started_real_ns);
    (void)fputc('\n', e->out);
}

char *amb_exposition(const struct amb_counters_image *image, enum amb_exposition_form form,
                     uint64_t now_ns, size_t *len_out)
{
    char *text = NULL;
    struct exposition e = {
        .image = image, .now_ns = now_ns, .is_open = form == AMB_EXPOSITION_OPENMETRICS};
    e.out = open_memstream(&text, len_out);
    if (e.out == NULL) {
        return NULL;
    }
    put_extras(&e);
    for (uint32_t i = 0; i < image->header->metric_count; i++) {
        put_family(&e, &image->metrics[i]);
    }
    if (e.is_open) {
        (void)fputs("# EOF\n", e.out);
    }
    return amb_memstream_end(e.out, &text) ? text : NULL;
}
