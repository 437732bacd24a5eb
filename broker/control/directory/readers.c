/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/readers.h"

void amb_readers_add(struct amb_readers *readers, uint32_t user)
{
    uint32_t free_at = AMB_READERS_USERS;
    for (uint32_t i = 0; i < AMB_READERS_USERS; i++) {
        if (readers->count[i] == 0) {
            free_at = i < free_at ? i : free_at;
        } else if (readers->user[i] == user) {
            readers->count[i]++;
            return;
        }
    }
    if (free_at == AMB_READERS_USERS) {
        readers->others++;
        return;
    }
    readers->user[free_at] = user;
    readers->count[free_at] = 1;
}

void amb_readers_remove(struct amb_readers *readers, uint32_t user)
{
    for (uint32_t i = 0; i < AMB_READERS_USERS; i++) {
        if (readers->count[i] > 0 && readers->user[i] == user) {
            readers->count[i]--;
            return;
        }
    }
    readers->others -= readers->others > 0;
}

void amb_readers_merge(struct amb_readers *readers, const struct amb_readers *more)
{
    for (uint32_t i = 0; i < AMB_READERS_USERS; i++) {
        if (more->count[i] > 0) {
            amb_readers_add(readers, more->user[i]);
        }
    }
    readers->others += more->others;
}

bool amb_readers_have_foreign(const struct amb_readers *readers, uint32_t user)
{
    if (readers->others > 0) {
        return true;
    }
    for (uint32_t i = 0; i < AMB_READERS_USERS; i++) {
        if (readers->count[i] > 0 && !amb_user_is_same(readers->user[i], user)) {
            return true;
        }
    }
    return false;
}
