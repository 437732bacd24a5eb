/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A users file that is edited. The first byte chooses the edit: a user is added, or the n-th user
 * is changed or removed. All other lines stay as they were, and the new text is as good as the old
 * one. A user's line that is formatted again is the same user.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/auth/users_text.h"
#include "wire/base/assert.h"

#define ADDED "fuzzer_added:t:-:-:-:-"

struct chosen {
    unsigned left, count;
    char name[AMB_USER_NAME_MAX + 1];
    char line[AMB_USER_LINE_MAX + 1];
};

/* Is it the same user, in its one spelling? */
static void check_format(const struct amb_user_line *line)
{
    char once[AMB_USER_LINE_MAX + 1], copy[AMB_USER_LINE_MAX + 1], twice[AMB_USER_LINE_MAX + 1];
    char why[AMB_USER_LINE_WHY_MAX];
    struct amb_user_line again;
    amb_assert(amb_user_line_format(line, once));
    memcpy(copy, once, sizeof(copy));
    amb_assert(amb_user_line_parse(copy, strlen(copy), &again, why) == AMB_USER_LINE_USER);
    amb_assert(strcmp(again.name, line->name) == 0 && again.until_s == line->until_s &&
               again.is_off == line->is_off && again.role_count == line->role_count &&
               again.credential_count == line->credential_count);
    amb_assert(amb_user_line_format(&again, twice) && strcmp(once, twice) == 0);
}

static bool choose(const struct amb_user_line *line, const struct amb_users_place *place, void *arg)
{
    struct chosen *chosen = arg;
    amb_assert(place->number > 0);
    check_format(line);
    if (chosen->left-- == 0) {
        memcpy(chosen->name, line->name, strlen(line->name) + 1);
        amb_assert(amb_user_line_format(line, chosen->line));
    }
    chosen->count++;
    return true;
}

static bool count_only(const struct amb_user_line *line, const struct amb_users_place *place,
                       void *arg)
{
    (void)line;
    (void)place;
    (*(unsigned *)arg)++;
    return true;
}

/* Everything before and behind the place is as it was. */
static void check_rest(const char *text, size_t len, const struct amb_users_place *place,
                       const char *out, size_t out_len)
{
    size_t head = place->number == 0 ? len : place->at;
    size_t tail = place->number == 0 ? 0 : len - (place->at + place->len);
    tail -= tail > 0; /* The end of the line, which may have gone with it. */
    amb_assert(out_len >= head && memcmp(out, text, head) == 0);
    amb_assert(out_len >= tail && memcmp(out + out_len - tail, text + len - tail, tail) == 0);
}

static void edit(const char *text, size_t len, const struct chosen *chosen, unsigned how)
{
    char why[AMB_USERS_TEXT_WHY_MAX];
    struct amb_users_place place;
    bool is_new = chosen->name[0] == '\0' || how == 0;
    const char *name = is_new ? "fuzzer_added" : chosen->name;
    const char *line = is_new ? ADDED : how == 1 ? NULL : chosen->line;
    amb_assert(amb_users_text_find(text, len, "users", name, &place, why) == AMB_OK);
    if (is_new && place.number != 0) {
        return; /* It has found that name. */
    }
    amb_assert(is_new == (place.number == 0));
    size_t out_len;
    char *out = amb_users_text_put(text, len, &place, line, &out_len);
    amb_assert(out != NULL && out[out_len] == '\0');
    check_rest(text, len, &place, out, out_len);
    unsigned count = 0;
    amb_assert(amb_users_text_each(out, out_len, "users", count_only, &count, why) == AMB_OK);
    amb_assert(count == chosen->count + (is_new ? 1 : 0) - (line == NULL ? 1 : 0));
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[AMB_USERS_TEXT_WHY_MAX] = "";
    if (len == 0) {
        return 0;
    }
    struct chosen chosen = {.left = data[0] / 3};
    char *text = (char *)fuzz_copy(data + 1, len - 1); /* It needs no NUL. */
    if (amb_users_text_each(text, len - 1, "users", choose, &chosen, why) == AMB_OK) {
        edit(text, len - 1, &chosen, data[0] % 3);
    } else {
        amb_assert(strncmp(why, "users:", 6) == 0);
    }
    free(text);
    return 0;
}
