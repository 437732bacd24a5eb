/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/record.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "wire/base/clock.h"

#include <stdio.h>
#include <string.h>

static void copy(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text == NULL ? "" : text);
}

void amb_record_fill(const struct amb_client *client, enum amb_audit_event event,
                     struct amb_audit_entry *out)
{
    *out = (struct amb_audit_entry){.event = event, .time_ns = amb_clock_realtime_ns()};
    if (client == NULL) {
        return;
    }
    out->client = client->id;
    copy(out->name, sizeof(out->name), client->name);
    copy(out->address, sizeof(out->address), client->address);
    /* Before its login nobody knows who it is. */
    if (client->state == AMB_CLIENT_HELLO || client->state == AMB_CLIENT_AUTH) {
        if (client->is_unix && client->login.user == NULL) {
            (void)snprintf(out->user, sizeof(out->user), "uid/%u", (unsigned)client->uid);
        }
        return;
    }
    const struct amb_auth_user *user = client->login.user;
    char text[AMB_AUTH_NAME_MAX];
    copy(out->user, sizeof(out->user), amb_login_user_text(client, text));
    copy(out->tenant, sizeof(out->tenant), user == NULL ? "" : user->tenant);
    out->by = amb_mechanism_name(client->login.mechanism);
}

void amb_record_note(struct amb_control *control, const struct amb_audit_entry *entry)
{
    if (control->audit != NULL) {
        (void)amb_audit_note(control->audit, entry, NULL);
    }
}

static void note(const struct amb_client *client, enum amb_audit_event event, const char *what,
                 const char *result, const char *why)
{
    struct amb_audit_entry entry;
    if (client->control->audit == NULL) {
        return;
    }
    amb_record_fill(client, event, &entry);
    copy(entry.what, sizeof(entry.what), what);
    copy(entry.why, sizeof(entry.why), why);
    entry.result = result;
    amb_record_note(client->control, &entry);
}

void amb_record_login(const struct amb_client *client)
{
    note(client, AMB_AUDIT_LOGIN, "login", "done", NULL);
}

void amb_record_refused(const struct amb_client *client, const char *what, const char *why)
{
    note(client, AMB_AUDIT_REFUSED, what, "refused", why);
}

void amb_record_view(const struct amb_client *client, const char *what)
{
    note(client, AMB_AUDIT_VIEW, what, "done", NULL);
}
