/* SPDX-License-Identifier: Apache-2.0 */
/* A users file: each user of a set is found by name and by credential. Read again, it makes the
 * same set. A refusal has a line. */
#include "broker/auth/users.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"

static void check_user(const struct amb_auth_users *users, const struct amb_auth_user *user)
{
    enum amb_credential_kind kind;
    uint32_t number;
    char name[AMB_AUTH_NAME_MAX];
    amb_assert(amb_auth_users_find(users, user->name) == user);
    amb_assert(amb_user_name_is(user->name) && strpbrk(user->name, ".*>%:$") == NULL);
    amb_assert(strcmp(user->tenant, "$") == 0 || amb_user_name_is(user->tenant));
    for (unsigned i = 0; i < user->role_count; i++) {
        amb_assert(amb_user_name_is(user->roles[i]));
    }
    for (unsigned i = 0; i < user->credential_count; i++) {
        amb_assert(amb_credential_check(user->credentials[i], &kind) == NULL);
        amb_assert(amb_auth_users_by_credential(users, user->credentials[i]) == user);
        amb_assert(amb_auth_user_has(user, user->credentials[i]));
    }
    amb_assert(amb_auth_numbers_name(amb_auth_users_numbers(users), user->number, name));
    amb_assert(amb_auth_numbers_find(amb_auth_users_numbers(users), name, &number) &&
               number == user->number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[AMB_AUTH_WHY_MAX] = "";
    struct amb_auth_users *users = NULL, *again = NULL;
    char *text = fuzz_text(data, len);
    enum amb_status status =
        amb_auth_users_parse(text, len, "users", NULL, why, sizeof(why), &users);
    free(text);
    if (status != AMB_OK) {
        amb_assert(users == NULL && strncmp(why, "users:", 6) == 0);
        return 0;
    }
    text = fuzz_text(data, len);
    struct amb_auth_numbers *numbers = amb_auth_users_numbers(users);
    amb_assert(amb_auth_users_parse(text, len, "users", numbers, why, sizeof(why), &again) ==
               AMB_OK);
    free(text);
    amb_assert(amb_auth_users_is_same(users, again));
    for (size_t i = 0; i < amb_auth_users_count(users); i++) {
        const struct amb_auth_user *user = amb_auth_users_at(users, i);
        check_user(users, user);
        amb_assert(amb_auth_users_at(again, i)->number == user->number);
    }
    amb_auth_users_unref(&users);
    amb_auth_users_unref(&again);
    return 0;
}
