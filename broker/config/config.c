/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a configuration, lowest first, and the questions to the result. */
#include "broker/config/config.h"

#include "broker/auth/users.h"
#include "broker/config/config_check.h"
#include "broker/config/config_quick.h"
#include "broker/config/config_schema.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/cpus.h"
#include "wire/base/text.h"
#include "wire/codec/topic.h"
#include "wire/config/config_layers.h"
#include "wire/config/config_list.h"
#include "wire/config/config_spots.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ENV_PREFIX "AMBROKER_"
#define ENV_NAME_MAX (AMB_CONFIG_PATH_MAX + sizeof(ENV_PREFIX))
#define OPTION_NAME_MAX 96u

/* The rule of a topic that no rule covers. */
static const struct amb_topic_rule built_in_rule = {
    .match = ">",
    .full = AMB_FULL_BLOCK,
    .max_messages = 0,
    .max_bytes = UINT64_C(64) << 20,
    .slow = AMB_SLOW_BLOCK,
    .slow_block_ns = AMB_CONFIG_TIME_FOREVER,
    .spill_max = UINT64_C(64) << 20,
    .prefer = AMB_PREFER_CREDIT,
    .trust_group = AMB_TRUST_GROUP_DEFAULT,
    .ttl_ns = AMB_CONFIG_TIME_FOREVER,
};
/* Dead letters wait for somebody to look at them, and hold nobody up. */
static const struct amb_topic_rule dead_letter_rule = {
    .match = AMB_DEADLETTER_PATTERN,
    .full = AMB_FULL_DROP_OLDEST,
    .max_bytes = 64 * 1048576,
    .slow = AMB_SLOW_DROP_OLDEST,
    .spill_max = 64 * 1048576,
    .trust = AMB_TRUST_AUTO,
    .trust_group = AMB_TRUST_GROUP_DEFAULT,
    .retain = {.messages = 10000},
    .ttl_ns = AMB_CONFIG_TIME_FOREVER,
};

/* Of topics that begin with '$': no reader of the broker's events holds anything up. */
static const struct amb_topic_rule sys_rule = {
    .match = "$SYS.>",
    .full = AMB_FULL_DROP_OLDEST,
    .max_bytes = UINT64_C(4) << 20,
    .slow = AMB_SLOW_DROP_OLDEST,
    .spill_max = UINT64_C(4) << 20,
    .trust_group = AMB_TRUST_GROUP_DEFAULT,
    .ttl_ns = AMB_CONFIG_TIME_FOREVER,
};

void amb_config_where(const struct amb_config *config, const char *key, char *out, size_t size)
{
    amb_config_place_format(amb_config_place_of(config->store, key), out, size);
}

/* Room for messages of 512 MiB: at least 2 GiB, made only when used. */
static uint64_t dev_memory(uint64_t ram)
{
    uint64_t least = UINT64_C(2) << 30, most = UINT64_C(4) << 30;
    uint64_t half = (ram / 2) & ~((UINT64_C(1) << 20) - 1);
    return half < least ? least : half > most ? most : half;
}

static enum amb_status apply_dev(struct amb_config_build *build,
                                 const struct amb_config_source *source,
                                 const struct amb_config_machine *machine)
{
    static const struct amb_config_place place = {AMB_CONFIG_ORIGIN_DEV, NULL, 0};
    char url[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 32], size[AMB_TEXT_MAX];
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    enum amb_status status = AMB_OK;
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        if (keys[i].dev_text != NULL) {
            status = amb_config_text_set(build, keys[i].path, keys[i].dev_text, &place);
        }
    }
    amb_url_format_dev(amb_config_variable_find(source->environment, "XDG_RUNTIME_DIR"),
                       (unsigned)getuid(), url, sizeof(url));
    amb_text_format_size(dev_memory(machine->ram), size, sizeof(size));
    if (status == AMB_OK) {
        status = amb_config_text_set(build, "listen", url, &place);
    }
    return status == AMB_OK ? amb_config_text_set(build, "memory.host.size", size, &place) : status;
}

/* The row that a variable names; NULL: none. */
static const struct amb_config_key *find_by_variable(const char *name)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char env[ENV_NAME_MAX];
        amb_config_env_name(keys[i].path, env, sizeof(env));
        if (!keys[i].elsewhere && strcmp(env, name) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

/* A misspelt key of ours, and no variable of other programs with the same prefix? */
static bool is_in_our_sections(const char *name)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char env[ENV_NAME_MAX];
        amb_config_env_name(keys[i].path, env, sizeof(env));
        char *end = strchr(env + sizeof(ENV_PREFIX) - 1, '_');
        if (end != NULL && strncmp(env, name, (size_t)(end - env) + 1) == 0) {
            return true;
        }
    }
    return false;
}

static enum amb_status fail_variable(struct amb_config_build *build,
                                     const struct amb_config_place *place)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    const char *best = NULL;
    unsigned distance = 4;
    for (size_t i = 0; i < count; i++) {
        char env[ENV_NAME_MAX];
        amb_config_env_name(keys[i].path, env, sizeof(env));
        unsigned d = amb_text_distance(env, place->name, distance);
        if (d < distance) {
            distance = d;
            best = keys[i].path;
        }
    }
    char nearest[ENV_NAME_MAX] = "";
    if (best == NULL) {
        return amb_config_fail(build, place, NULL, "unknown key");
    }
    amb_config_env_name(best, nearest, sizeof(nearest));
    return amb_config_fail(build, place, NULL, "unknown key (did you mean %s?)", nearest);
}

static enum amb_status apply_variable(struct amb_config_build *build, const char *variable)
{
    const char *equals = strchr(variable, '=');
    if (equals == NULL || strncmp(variable, ENV_PREFIX, sizeof(ENV_PREFIX) - 1) != 0) {
        return AMB_OK;
    }
    char *name = amb_config_copy(build->store, variable);
    if (name == NULL) {
        return AMB_ENOMEM;
    }
    name[equals - variable] = '\0';
    struct amb_config_place place = {AMB_CONFIG_ORIGIN_ENVIRONMENT, name, 0};
    const struct amb_config_key *key = find_by_variable(name);
    if (key != NULL) {
        return amb_config_text_set(build, key->path, equals + 1, &place);
    }
    return is_in_our_sections(name) ? fail_variable(build, &place) : AMB_OK;
}

/* "key=value" */
static enum amb_status apply_option(struct amb_config_build *build, const char *option,
                                    enum amb_config_origin origin)
{
    char shown[OPTION_NAME_MAX], where[OPTION_NAME_MAX + 4];
    struct amb_config_place place = {origin, where, 0};
    const char *equals = strchr(option, '=');
    char *path = amb_config_copy(build->store, option);
    if (path == NULL) {
        return AMB_ENOMEM;
    }
    if (equals != NULL) {
        path[equals - option] = '\0';
    }
    (void)snprintf(where, sizeof(where), "-o %s", amb_text_show(path, shown, sizeof(shown)));
    if (equals == NULL) {
        return amb_config_fail(build, &place, NULL, "has no value (allowed -o key=value)");
    }
    place.name = amb_config_copy(build->store, where);
    if (place.name == NULL) {
        return AMB_ENOMEM;
    }
    static const char ucx[] = "transports.ucx.";
    if (strncmp(path, ucx, sizeof(ucx) - 1) == 0) {
        return amb_config_pair_put(build, "transports.ucx", path + sizeof(ucx) - 1, equals + 1,
                                   &place);
    }
    return amb_config_text_set(build, path, equals + 1, &place);
}

static enum amb_status apply_listen(struct amb_config_build *build,
                                    const struct amb_config_source *source)
{
    static const struct amb_config_place place = {AMB_CONFIG_ORIGIN_OPTION, "--listen", 0};
    return source->listen_count == 0
               ? AMB_OK
               : amb_config_urls_put(build, "listen", source->listen, source->listen_count, &place);
}

int64_t amb_config_modified_ns(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return 0;
    }
    return (int64_t)st.st_mtim.tv_sec * AMB_NS_PER_SEC + st.st_mtim.tv_nsec;
}

/* Before it is read: one that is written meanwhile counts as newer. */
static enum amb_status note_file(struct amb_config_build *build, const char *path)
{
    if (path == NULL) {
        return AMB_OK;
    }
    struct amb_config *config = build->config;
    config->file_ns = amb_config_modified_ns(path);
    config->file = amb_config_copy(build->store, path);
    return config->file != NULL ? AMB_OK : AMB_ENOMEM;
}

static enum amb_status apply_all(struct amb_config_build *build,
                                 const struct amb_config_source *source,
                                 const struct amb_config_machine *machine)
{
    enum amb_status status = amb_config_defaults_apply(build);
    if (status == AMB_OK && source->dev) {
        status = apply_dev(build, source, machine);
    }
    if (status == AMB_OK) {
        status = note_file(build, source->path);
    }
    if (status == AMB_OK) {
        status = amb_config_file_apply(build, source->path, source->text, source->text_len);
    }
    for (const char *const *v = source->environment;
         amb_config_goes_on(build, &status) && v != NULL && *v != NULL; v++) {
        status = apply_variable(build, *v);
    }
    for (size_t i = 0; amb_config_goes_on(build, &status) && i < source->option_count; i++) {
        status = apply_option(build, source->options[i], AMB_CONFIG_ORIGIN_OPTION);
    }
    if (status == AMB_OK) {
        status = apply_listen(build, source);
    }
    for (size_t i = 0; amb_config_goes_on(build, &status) && i < source->set_count; i++) {
        status = apply_option(build, source->set[i], AMB_CONFIG_ORIGIN_SET);
    }
    if (amb_config_faults_count(build) > 0) {
        return AMB_EINVAL; /* Rules over several keys need all of them. */
    }
    if (status == AMB_OK) {
        status = amb_config_quick_apply(build, source);
    }
    if (status == AMB_OK) {
        status = amb_config_finish(build, machine, source->former);
    }
    return status == AMB_OK && amb_config_faults_count(build) > 0 ? AMB_EINVAL : status;
}

enum amb_status amb_config_create(const struct amb_config_source *source, char *error,
                                  size_t error_size, struct amb_config **out)
{
    amb_assert(source != NULL && out != NULL && (error == NULL || error_size > 0));
    char unused[1];
    struct amb_config *config = calloc(1, sizeof(*config));
    struct amb_config_store *store = calloc(1, sizeof(*store));
    if (config == NULL || store == NULL) {
        free(config);
        free(store);
        if (error != NULL) {
            (void)snprintf(error, error_size, "no memory for the configuration");
        }
        return AMB_ENOMEM;
    }
    store->schema = &amb_broker_schema;
    config->store = store;
    struct amb_config_build build = {
        .store = store,
        .config = config,
        .error = error != NULL ? error : unused,
        .error_size = error != NULL ? error_size : sizeof(unused),
        .faults = source->faults,
    };
    struct amb_config_machine here;
    if (source->machine == NULL) {
        amb_config_machine_read(&here);
    }
    enum amb_status status =
        apply_all(&build, source, source->machine == NULL ? &here : source->machine);
    if (status != AMB_OK) {
        if (status == AMB_ENOMEM) {
            (void)snprintf(build.error, build.error_size, "no memory for the configuration");
        }
        if (status == AMB_EINVAL && source->faults != NULL) {
            amb_config_fault_keep(source->faults);
        }
        amb_config_destroy(&config);
        return status;
    }
    amb_config_spots_order(store);
    *out = config;
    return AMB_OK;
}

static struct amb_config *of_const(const struct amb_config *config)
{
    return (struct amb_config *)(uintptr_t)config; /* Only the count changes. */
}

const struct amb_config *amb_config_ref(const struct amb_config *config)
{
    (void)atomic_fetch_add_explicit(&of_const(config)->refs, 1, memory_order_relaxed);
    return config;
}

void amb_config_unref(const struct amb_config **config)
{
    struct amb_config *own = of_const(*config);
    *config = NULL;
    amb_config_destroy(&own);
}

void amb_config_destroy(struct amb_config **config)
{
    /* Acquire and release: the last one sees what all others have done with it. */
    if (*config == NULL ||
        atomic_fetch_sub_explicit(&(*config)->refs, 1, memory_order_acq_rel) != 0) {
        *config = NULL;
        return;
    }
    amb_tls_context_unref(&(*config)->tls.context);
    amb_auth_users_unref(&(*config)->auth.users);
    amb_auth_numbers_unref(&(*config)->auth.numbers);
    amb_config_store_fini((*config)->store);
    free((*config)->store);
    free(*config);
    *config = NULL;
}

void amb_config_forget_users(struct amb_config *config)
{
    amb_auth_users_unref(&config->auth.users);
}

const struct amb_topic_rule *amb_config_topic(const struct amb_config *config, const char *topic)
{
    size_t len = strlen(topic);
    for (size_t i = 0; i < config->topics.count; i++) {
        const struct amb_topic_rule *rule = &config->topics.items[i];
        if (amb_pattern_matches(rule->match, strlen(rule->match), topic, len)) {
            return rule;
        }
    }
    bool is_dead =
        amb_pattern_matches(dead_letter_rule.match, strlen(dead_letter_rule.match), topic, len);
    if (is_dead) {
        return &dead_letter_rule;
    }
    return amb_topic_is_reserved(topic, len) ? &sys_rule : &built_in_rule;
}

void amb_config_machine_read(struct amb_config_machine *out)
{
    struct rlimit files = {0, 0};
    memset(out, 0, sizeof(*out));
    (void)amb_cpus_allowed(&out->cpus);
    out->cores = amb_cpus_usable();
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    out->ram = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        out->descriptors = files.rlim_cur;
    }
    if (gethostname(out->host, sizeof(out->host) - 1) != 0 || out->host[0] == '\0') {
        (void)snprintf(out->host, sizeof(out->host), "broker");
    }
}
