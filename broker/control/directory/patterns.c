/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/patterns.h"

#include "broker/base/tenant.h"
#include "broker/control/directory/tenant_key.h"
#include "wire/base/hash.h"
#include "wire/codec/topic.h"

#include <stdlib.h>
#include <string.h>

/* A token of patterns, behind those of the branches above it. */
struct amb_pattern_branch {
    struct amb_pattern_branch *above;
    struct amb_pattern_branch *any; /* below: the token "*" */
    struct amb_pattern *end;        /* patterns that end here, */
    struct amb_pattern *rest;       /* ... or with ">" behind it */
    uint32_t below;                 /* branches, that of "*" too */
    uint32_t len;
    char token[];
};

enum amb_status amb_patterns_init(struct amb_patterns *patterns)
{
    *patterns = (struct amb_patterns){.root = calloc(1, sizeof(struct amb_pattern_branch)),
                                      .tenants = calloc(1, sizeof(struct amb_pattern_branch))};
    if (patterns->root == NULL || patterns->tenants == NULL ||
        amb_map_create(&patterns->names) != AMB_OK ||
        amb_map_create(&patterns->branches) != AMB_OK) {
        amb_patterns_fini(patterns);
        return AMB_ENOMEM;
    }
    return AMB_OK;
}

static bool name_free(const char *key, void *value, void *arg)
{
    (void)key;
    (void)arg;
    free(value);
    return true;
}

/* Frees this branch and its two patterns, no branch below. */
static void branch_free(struct amb_pattern_branch *branch)
{
    free(branch->end);
    free(branch->rest);
    free(branch);
}

static bool branch_each_free(const char *key, void *value, void *arg)
{
    (void)key;
    (void)arg;
    branch_free(value);
    return true;
}

void amb_patterns_fini(struct amb_patterns *patterns)
{
    if (patterns->names != NULL) {
        amb_map_each(patterns->names, name_free, NULL);
        amb_map_destroy(&patterns->names);
    }
    if (patterns->branches != NULL) {
        amb_map_each(patterns->branches, branch_each_free, NULL);
        amb_map_destroy(&patterns->branches);
    }
    if (patterns->root != NULL) {
        branch_free(patterns->root);
    }
    free(patterns->tenants); /* No pattern ends there. */
    patterns->root = patterns->tenants = NULL;
}

/* Tokens -------------------------------------------------------------------------------------- */

struct token {
    const char *text;
    size_t len;
};

/* Cuts the first one off *rest. */
static struct token token_next(struct token *rest)
{
    const char *dot = memchr(rest->text, '.', rest->len);
    size_t len = dot == NULL ? rest->len : (size_t)(dot - rest->text);
    struct token token = {rest->text, len};
    size_t cut = dot == NULL ? len : len + 1;
    rest->text += cut;
    rest->len -= cut;
    return token;
}

static bool token_is(const struct token *token, char wildcard)
{
    return token->len == 1 && token->text[0] == wildcard;
}

/* Branches ------------------------------------------------------------------------------------ */

struct branch_key {
    const struct amb_pattern_branch *above;
    char token[AMB_TOPIC_MAX];
};

static size_t branch_key_make(struct branch_key *key, const struct amb_pattern_branch *above,
                              const struct token *token)
{
    key->above = above;
    memcpy(key->token, token->text, token->len);
    return offsetof(struct branch_key, token) + token->len;
}

/* "*" is a token like any other here, and is found faster where it stands for any. */
static struct amb_pattern_branch *branch_below(const struct amb_patterns *patterns,
                                               const struct amb_pattern_branch *above,
                                               const struct token *token)
{
    if (token_is(token, '*')) {
        return above->any;
    }
    struct branch_key key;
    size_t len = branch_key_make(&key, above, token);
    return above->below == 0 ? NULL : amb_map_get(patterns->branches, (const char *)&key, len);
}

static struct amb_pattern_branch *branch_make(struct amb_patterns *patterns,
                                              struct amb_pattern_branch *above,
                                              const struct token *token)
{
    struct amb_pattern_branch *branch = calloc(1, sizeof(*branch) + token->len);
    struct branch_key key;
    size_t len = branch_key_make(&key, above, token);
    if (branch == NULL ||
        amb_map_put(patterns->branches, (const char *)&key, len, branch) != AMB_OK) {
        free(branch);
        return NULL;
    }
    branch->above = above;
    branch->len = (uint32_t)token->len;
    memcpy(branch->token, token->text, token->len);
    above->below++;
    if (token_is(token, '*')) {
        above->any = branch;
    }
    return branch;
}

/* It and those above it go, as far as nothing needs them. */
static void branch_prune(struct amb_patterns *patterns, struct amb_pattern_branch *branch)
{
    while (branch->above != NULL && branch->below == 0 && branch->end == NULL &&
           branch->rest == NULL) {
        struct amb_pattern_branch *above = branch->above;
        struct token token = {branch->token, branch->len};
        struct branch_key key;
        size_t len = branch_key_make(&key, above, &token);
        (void)amb_map_remove(patterns->branches, (const char *)&key, len);
        above->below--;
        above->any = above->any == branch ? NULL : above->any;
        free(branch);
        branch = above;
    }
}

/* A tenant's root is a branch whose token is the number. It goes with its last pattern. */
static struct token tenant_token(const uint32_t *tenant)
{
    return (struct token){(const char *)tenant, sizeof(*tenant)};
}

/* NULL: the tenant has no pattern with a wildcard. */
static struct amb_pattern_branch *root_find(const struct amb_patterns *patterns, uint32_t tenant)
{
    struct token token = tenant_token(&tenant);
    return tenant == AMB_TENANT_OPERATORS ? patterns->root
                                          : branch_below(patterns, patterns->tenants, &token);
}

/* Made if there is none. NULL: no memory. */
static struct amb_pattern_branch *root_get(struct amb_patterns *patterns, uint32_t tenant)
{
    struct amb_pattern_branch *root = root_find(patterns, tenant);
    struct token token = tenant_token(&tenant);
    return root != NULL ? root : branch_make(patterns, patterns->tenants, &token);
}

/* Patterns ------------------------------------------------------------------------------------ */

static struct amb_pattern *pattern_make(uint32_t tenant, const char *text, size_t len)
{
    struct amb_pattern *pattern = calloc(1, sizeof(*pattern) + len + 1);
    if (pattern != NULL) {
        amb_list_init(&pattern->subs);
        pattern->tenant = tenant;
        pattern->len = (uint32_t)len;
        memcpy(pattern->text, text, len);
    }
    return pattern;
}

static struct amb_pattern *name_get(struct amb_patterns *patterns, uint32_t tenant,
                                    const char *text, size_t len)
{
    char key[AMB_TENANT_KEY_MAX];
    size_t key_len = amb_tenant_key(key, tenant, text, len);
    struct amb_pattern *pattern = amb_map_get(patterns->names, key, key_len);
    if (pattern == NULL && (pattern = pattern_make(tenant, text, len)) != NULL &&
        amb_map_put(patterns->names, key, key_len, pattern) != AMB_OK) {
        free(pattern);
        return NULL;
    }
    return pattern;
}

/* That pattern, made if there is none. NULL: no memory. */
static struct amb_pattern *pattern_get(struct amb_patterns *patterns, uint32_t tenant,
                                       const char *text, size_t len)
{
    if (amb_pattern_is_literal(text, len)) {
        return name_get(patterns, tenant, text, len);
    }
    struct amb_pattern_branch *branch = root_get(patterns, tenant);
    struct token rest = {text, len};
    bool takes_rest = false;
    while (branch != NULL && rest.len > 0 && !takes_rest) {
        struct token token = token_next(&rest);
        takes_rest = token_is(&token, '>');
        if (!takes_rest) {
            struct amb_pattern_branch *below = branch_below(patterns, branch, &token);
            below = below != NULL ? below : branch_make(patterns, branch, &token);
            if (below == NULL) {
                branch_prune(patterns, branch);
                return NULL;
            }
            branch = below;
        }
    }
    if (branch == NULL) {
        return NULL;
    }
    struct amb_pattern **place = takes_rest ? &branch->rest : &branch->end;
    if (*place == NULL && (*place = pattern_make(tenant, text, len)) == NULL) {
        branch_prune(patterns, branch);
        return NULL;
    }
    (*place)->branch = branch;
    return *place;
}

struct amb_pattern *amb_patterns_add(struct amb_patterns *patterns, uint32_t tenant,
                                     const char *text, size_t len, struct amb_list_node *sub,
                                     const uint32_t *reader)
{
    struct amb_pattern *pattern = pattern_get(patterns, tenant, text, len);
    if (pattern != NULL) {
        patterns->generation += pattern->branch != NULL;
        pattern->count++;
        amb_list_push_back(&pattern->subs, sub);
        if (reader != NULL) {
            amb_readers_add(&pattern->readers, *reader);
        }
    }
    return pattern;
}

void amb_patterns_remove(struct amb_patterns *patterns, struct amb_pattern **pattern,
                         struct amb_list_node *sub, const uint32_t *reader)
{
    struct amb_pattern *p = *pattern;
    *pattern = NULL;
    if (p == NULL) {
        return;
    }
    patterns->generation += p->branch != NULL;
    amb_list_remove(sub);
    if (reader != NULL) {
        amb_readers_remove(&p->readers, *reader);
    }
    if (--p->count > 0) {
        return;
    }
    if (p->branch == NULL) {
        char key[AMB_TENANT_KEY_MAX];
        size_t len = amb_tenant_key(key, p->tenant, p->text, p->len);
        (void)amb_map_remove(patterns->names, key, len);
    } else {
        struct amb_pattern **place = p->branch->rest == p ? &p->branch->rest : &p->branch->end;
        *place = NULL;
        branch_prune(patterns, p->branch);
    }
    free(p);
}

struct amb_pattern *amb_patterns_name(const struct amb_patterns *patterns, uint32_t tenant,
                                      const char *topic, size_t len)
{
    char key[AMB_TENANT_KEY_MAX];
    size_t key_len = amb_tenant_key(key, tenant, topic, len);
    return amb_map_get(patterns->names, key, key_len);
}

struct match {
    const struct amb_patterns *patterns;
    uint32_t *steps;
    amb_pattern_fn fn;
    void *arg;
};

/* As deep as a topic has tokens: AMB_TOPIC_TOKENS_MAX. may_any: a wildcard may stand for the next
 * token. False: fn has seen enough, or the steps are used up. */
static bool match_below(const struct match *match, struct amb_pattern_branch *branch,
                        struct token rest, bool may_any)
{
    if (*match->steps == 0) {
        return false;
    }
    --*match->steps;
    if (rest.len == 0) {
        return branch->end == NULL || match->fn(branch->end, match->arg);
    }
    if (may_any && branch->rest != NULL && !match->fn(branch->rest, match->arg)) {
        return false;
    }
    struct token token = token_next(&rest);
    struct amb_pattern_branch *below = branch_below(match->patterns, branch, &token);
    if (below != NULL && !match_below(match, below, rest, true)) {
        return false;
    }
    return !may_any || branch->any == NULL || match_below(match, branch->any, rest, true);
}

bool amb_patterns_match(const struct amb_patterns *patterns, uint32_t tenant, const char *topic,
                        size_t len, uint32_t *steps, amb_pattern_fn fn, void *arg)
{
    const struct match match = {patterns, steps, fn, arg};
    struct amb_pattern_branch *root = root_find(patterns, tenant);
    if (root != NULL) {
        (void)match_below(&match, root, (struct token){topic, len},
                          !amb_topic_is_reserved(topic, len));
    }
    return *steps > 0;
}
