/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/table.h"

#include "wire/base/clock.h"
#include "wire/base/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool amb_tables_has(const char *view)
{
    return strcmp(view, "transports") == 0 || strcmp(view, "paths") == 0;
}

static void wake(struct amb_table *table)
{
    unsigned count = table->count;
    table->count = 0; /* Their handlers are called again, and may wait once more. */
    for (unsigned i = 0; i < count; i++) {
        MHD_resume_connection(table->waiting[i]);
    }
}

static void answer_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_table *table = AMB_CONTAINER_OF(mail, struct amb_table, ask.mail);
    (void)owner;
    table->is_asked = false;
    table->came_ns = amb_clock_monotonic_ns();
    wake(table);
}

/* Its place, or a free one, or that of the oldest answer; NULL: all are asked. */
static struct amb_table *place_of(struct amb_tables *tables, const char *query)
{
    struct amb_table *oldest = NULL;
    for (unsigned i = 0; i < AMB_TABLES; i++) {
        struct amb_table *table = &tables->of[i];
        if (strcmp(table->ask.query, query) == 0) {
            return table;
        }
        if (!table->is_asked && table->count == 0 &&
            (oldest == NULL || table->came_ns < oldest->came_ns)) {
            oldest = table;
        }
    }
    return oldest;
}

static void ask(struct amb_tables *tables, struct amb_table *table, const char *query,
                int64_t now_ns)
{
    free(table->ask.text);
    table->ask.text = NULL;
    if (query != table->ask.query) {
        (void)snprintf(table->ask.query, sizeof(table->ask.query), "%s", query);
    }
    table->ask.to = tables->inbox;
    table->ask.done = answer_arrived;
    table->is_asked = true;
    table->asked_ns = now_ns;
    amb_status_ask(tables->control, &table->ask);
}

enum amb_status amb_tables_ask(struct amb_tables *tables, const char *query,
                               struct MHD_Connection *connection, int64_t now_ns, const char **text)
{
    struct amb_table *table = place_of(tables, query);
    if (table == NULL || tables->is_over || tables->inbox->owner == NULL) {
        return AMB_EBUSY; /* Or nobody reads answers: the observer's thread was not started. */
    }
    bool is_this = strcmp(table->ask.query, query) == 0;
    bool is_kept = is_this && table->came_ns != 0 && now_ns - table->came_ns < AMB_TABLE_KEPT_NS;
    if (!table->is_asked && is_kept) {
        *text = table->ask.text;
        return *text == NULL ? AMB_ENOMEM : AMB_OK;
    }
    if (table->is_asked && now_ns - table->asked_ns >= AMB_TABLE_WAIT_NS) {
        return AMB_ETIMEDOUT;
    }
    if (table->count == AMB_TABLE_REQUESTS) {
        return AMB_EBUSY;
    }
    if (!table->is_asked) {
        ask(tables, table, query, now_ns);
    }
    table->waiting[table->count++] = connection;
    MHD_suspend_connection(connection);
    return AMB_EAGAIN;
}

const char *amb_tables_why(enum amb_status status)
{
    return status == AMB_ETIMEDOUT ? "the control thread does not answer"
           : status == AMB_ENOMEM  ? "no memory for the answer"
                                   : "too many such questions; ask later";
}

void amb_tables_tick(struct amb_tables *tables, int64_t now_ns)
{
    for (unsigned i = 0; i < AMB_TABLES; i++) {
        struct amb_table *table = &tables->of[i];
        if (table->is_asked && now_ns - table->asked_ns >= AMB_TABLE_WAIT_NS) {
            wake(table);
        }
    }
}

void amb_tables_end(struct amb_tables *tables)
{
    tables->is_over = true;
    for (unsigned i = 0; i < AMB_TABLES; i++) {
        wake(&tables->of[i]);
        /* One that is asked has no text: nobody answers any more. */
        free(tables->of[i].ask.text);
        tables->of[i].ask.text = NULL;
    }
}
