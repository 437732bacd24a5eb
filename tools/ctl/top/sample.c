/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/sample.h"

#include "wire/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* status, workers, the view, and two that it needs. */
enum {
    ASK_STATUS,
    ASK_WORKERS,
    ASK_VIEW,
    ASK_ALSO,
    ASK_MAX = ASK_ALSO + 2,
};
#define QUERY_MAX 1024u

static void release(json_t *answers[ASK_MAX])
{
    for (size_t i = 0; i < ASK_MAX; i++) {
        json_decref(answers[i]);
    }
}

/* Is it another broker, or another life of it? */
static bool is_other(const json_t *status, const struct amb_top_sample *before)
{
    const char *epoch = json_string_value(json_object_get(status, "epoch"));
    const char *past =
        before == NULL ? NULL : json_string_value(json_object_get(before->status, "epoch"));
    return epoch != NULL && past != NULL && strcmp(epoch, past) != 0;
}

static bool fill(struct amb_top_sample *sample, const struct amb_top_lens *lens,
                 json_t *answers[ASK_MAX], const struct amb_top_sample *before)
{
    sample->status = json_incref(answers[ASK_STATUS]);
    sample->has_restarted = is_other(sample->status, before);
    const struct amb_top_sample *past = sample->has_restarted ? NULL : before;
    bool is_same = past != NULL && past->table != NULL && past->table->lens == lens;
    json_t *const own[3] = {answers[ASK_VIEW], answers[ASK_ALSO], answers[ASK_ALSO + 1]};
    json_t *const workers[3] = {answers[ASK_WORKERS], NULL, NULL};
    sample->workers = amb_top_table_make(amb_top_lens(AMB_TOP_WORKERS), workers, sample->at_ns,
                                         past == NULL ? NULL : past->workers);
    sample->table = amb_top_table_make(lens, own, sample->at_ns, is_same ? past->table : NULL);
    return sample->workers != NULL && sample->table != NULL;
}

enum amb_status amb_top_sample_take(amb_top_ask ask, void *arg, enum amb_top_view view,
                                    const char *match, const struct amb_top_sample *before,
                                    struct amb_top_sample **out, char note[AMB_TOP_NOTE_MAX])
{
    const struct amb_top_lens *lens = amb_top_lens(view);
    char query[QUERY_MAX];
    bool has_match = match != NULL && lens->has_match;
    (void)snprintf(query, sizeof(query), "%s%s%s", lens->query, has_match ? " match=" : "",
                   has_match ? match : "");
    const char *queries[ASK_MAX] = {"status", "workers", query};
    json_t *answers[ASK_MAX] = {NULL};
    size_t count = ASK_ALSO;
    for (size_t i = 0; i < 2 && lens->also[i] != NULL; i++) {
        queries[count++] = lens->also[i];
    }
    note[0] = '\0';
    enum amb_status status = ask(arg, queries, count, answers, note);
    if (status != AMB_OK) {
        release(answers);
        return status;
    }
    struct amb_top_sample *sample = calloc(1, sizeof(*sample));
    if (sample != NULL) {
        sample->at_ns = amb_clock_monotonic_ns();
        sample->real_ns = amb_clock_realtime_ns();
        (void)snprintf(sample->note, sizeof(sample->note), "%s", note);
    }
    if (sample == NULL || !fill(sample, lens, answers, before)) {
        amb_top_sample_free(&sample);
        status = AMB_ENOMEM;
    }
    release(answers);
    *out = sample;
    return status;
}

void amb_top_sample_free(struct amb_top_sample **sample)
{
    if (*sample != NULL) {
        json_decref((*sample)->status);
        amb_top_table_free(&(*sample)->workers);
        amb_top_table_free(&(*sample)->table);
        free(*sample);
        *sample = NULL;
    }
}

bool amb_top_sample_sum(const struct amb_top_table *table, const char *title, double *out)
{
    size_t column = amb_top_column(table->lens, title);
    bool is_known = false;
    *out = 0;
    for (size_t i = 0; i < table->count && column < table->lens->count; i++) {
        if ((table->rows[i].known >> column & 1u) != 0) {
            *out += table->rows[i].value[column];
            is_known = true;
        }
    }
    return is_known;
}
