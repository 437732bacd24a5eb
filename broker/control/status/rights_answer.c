/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/rights_answer.h"

#include "broker/config/config_roles.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/login.h"
#include "wire/codec/topic.h"

#include <string.h>
#include <time.h>

#define WHERE_MAX 160u

/* A question, word by word, and its answer. */
struct question {
    char user[AMB_USER_NAME_MAX + 1];
    char verb[16];
    const char *what;
    const char *answer, *reason;
    const struct amb_right *by; /* NULL: no line */
    bool is_deny;
};

/* The word up to the next space, and the rest behind that. False: there is none, or it is too
 * long. */
static bool word_take(const char **words, char *out, size_t size)
{
    size_t len = strcspn(*words, " ");
    if (len == 0 || len >= size || (*words)[len] != ' ') {
        return false;
    }
    memcpy(out, *words, len);
    out[len] = '\0';
    *words += len + 1;
    return true;
}

static void answer(struct question *question, bool is_allowed, const struct amb_right *by,
                   const char *reason)
{
    question->answer = is_allowed ? "yes" : "no";
    question->reason = reason;
    question->by = by;
}

static const char *reason_of(bool is_allowed, const struct amb_right *by)
{
    return is_allowed ? "a role allows it" : by != NULL ? "a role denies it" : "no role allows it";
}

static void ask_publish(struct question *question, const struct amb_rights *rights)
{
    const char *topic = question->what;
    size_t len = strlen(topic);
    const struct amb_right *by = NULL;
    if (amb_topic_is_inbox(topic, len)) {
        answer(question, amb_rights_may_reply(rights), NULL, "it goes by reply of a role");
    } else if (amb_topic_is_reserved(topic, len)) {
        answer(question, false, NULL, "names that begin with '$' are the broker's");
    } else {
        bool is_allowed = amb_rights_publish(rights, topic, len, &by);
        question->is_deny = !is_allowed;
        answer(question, is_allowed, by, reason_of(is_allowed, by));
    }
}

static void ask_subscribe(struct question *question, const struct amb_rights *rights)
{
    const char *pattern = question->what;
    size_t len = strlen(pattern);
    const struct amb_right *by = NULL;
    struct amb_rights_cut cut;
    if (amb_pattern_is_inbox(pattern, len)) {
        answer(question, amb_rights_may_request(rights), NULL, "it goes by request of a role");
        return;
    }
    enum amb_rights_answer is = amb_rights_subscribe(rights, pattern, len, &cut, &by);
    question->is_deny = is != AMB_RIGHTS_WHOLE;
    answer(question, is != AMB_RIGHTS_NO, by, reason_of(is != AMB_RIGHTS_NO, by));
    if (is == AMB_RIGHTS_NARROWED) {
        question->answer = "narrowed";
        question->reason = "a role denies some of it; not with acks, groups, durable names";
    }
}

/* False: no such level, or "none". */
static bool ask_admin(struct question *question, const struct amb_rights *rights)
{
    enum amb_admin level;
    if (!amb_config_admin_level(question->what, &level) || level == AMB_ADMIN_NONE) {
        return false;
    }
    bool is_allowed = rights == NULL || rights->admin >= level;
    answer(question, is_allowed, NULL,
           is_allowed ? "a role has that level" : "no role has that level");
    return true;
}

/* NULL: it is answered. Else what is wrong with it. */
static const char *ask(struct question *question, const struct amb_rights *rights)
{
    const char *why = NULL;
    size_t len = strlen(question->what);
    if (strcmp(question->verb, "publish") == 0) {
        if (amb_topic_check(question->what, len, &why) != AMB_OK) {
            return why;
        }
        ask_publish(question, rights);
    } else if (strcmp(question->verb, "subscribe") == 0) {
        if (amb_pattern_check(question->what, len, &why) != AMB_OK) {
            return why;
        }
        ask_subscribe(question, rights);
    } else if (strcmp(question->verb, "admin") != 0 || !ask_admin(question, rights)) {
        return "publish TOPIC, subscribe PATTERN, or admin read|operate|admin";
    }
    return NULL;
}

static json_t *row_of(const struct question *question, const struct amb_auth_user *user,
                      bool is_blocked)
{
    char where[WHERE_MAX] = "";
    const struct amb_right *by = question->by;
    if (by != NULL) {
        amb_config_pattern_where(by->list, by->index, where, sizeof(where));
    }
    return json_pack("[{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}]", "user", user->name,
                     "tenant", user->tenant, "to", question->verb, "answer", question->answer,
                     "why", question->reason, "role", by == NULL ? "" : by->role->name, "list",
                     by == NULL          ? ""
                     : question->is_deny ? "deny"
                                         : "allow",
                     "pattern", by == NULL ? "" : by->list->items[by->index], "where", where,
                     "may_enter",
                     amb_auth_user_may_enter(user, (int64_t)time(NULL)) && !is_blocked);
}

enum amb_status amb_rights_answer(struct amb_control *control, uint32_t tenant, const char *words,
                                  json_t **out, const char **why)
{
    struct question question = {.answer = ""};
    struct amb_rights *rights = NULL;
    if (!word_take(&words, question.user, sizeof(question.user)) ||
        !word_take(&words, question.verb, sizeof(question.verb))) {
        *why = "user test NAME publish|subscribe|admin WHAT";
        return AMB_EINVAL;
    }
    question.what = words;
    const struct amb_auth_user *user =
        control->users == NULL ? NULL : amb_auth_users_find(control->users, question.user);
    if (user == NULL || (tenant != AMB_TENANT_ANY &&
                         strcmp(user->tenant, amb_tenants_name(&control->tenants, tenant)) != 0)) {
        *why = "there is no user of that name (auth.users)";
        return AMB_ENOTFOUND;
    }
    *why = "no memory";
    if (amb_login_rights(control, user, &rights) != AMB_OK) {
        return AMB_ENOMEM;
    }
    const char *wrong = ask(&question, rights);
    json_t *rows = wrong == NULL ? row_of(&question, user,
                                          amb_blocklist_find(&control->blocked, user->name) != NULL)
                                 : NULL; /* Lines are the rights'. */
    amb_rights_unref(&rights);
    if (wrong != NULL) {
        *why = wrong;
        return AMB_EINVAL;
    }
    *out = rows;
    return rows != NULL ? AMB_OK : AMB_ENOMEM;
}
