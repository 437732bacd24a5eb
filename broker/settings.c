/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/settings.h"

#include "broker/broker.h"
#include "broker/config/config_schema.h"
#include "broker/config/print/config_changes.h"
#include "broker/config/print/config_print.h"
#include "wire/auth/crypto.h"
#include "wire/base/log.h"
#include "wire/base/memstream.h"
#include "wire/config/config_format.h"
#include "wire/config/transports.h"

#include <stdlib.h>
#include <string.h>

#define DIFF_MAX 2048u /* bytes of the changes in a line */
#define ROWS_MAX 1000u
#define STAYS ", the configuration in force stays"

/* ---- reading ---- */

static enum amb_status load(const struct amb_config_source *source, char *error, size_t error_size,
                            struct amb_config **out)
{
    struct amb_config *config = NULL;
    if (!amb_crypto_begin()) {
        (void)snprintf(error, error_size, "no memory for libcrypto");
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_config_create(source, error, error_size, &config);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_transports transports;
    status = amb_transports_init(&transports, &config->transports, config->store, "", error,
                                 error_size, source->faults);
    if (status != AMB_OK) {
        amb_config_destroy(&config);
        return status;
    }
    *out = config;
    return AMB_OK;
}

enum amb_status amb_settings_load(struct amb_settings *settings, char *error, size_t error_size)
{
    return load(&settings->source, error, error_size, &settings->config);
}

void amb_settings_use_format(const struct amb_config *config)
{
    int format = config->log.format;
    if (format == AMB_LOG_FORMAT_AUTO) {
        format = amb_log_is_journal(getenv("JOURNAL_STREAM")) ? AMB_LOG_JOURNAL : AMB_LOG_TEXT;
    }
    amb_log_set_format((enum amb_log_format)format);
}

/* ---- rows ---- */

static void add_row(json_t *rows, json_t *row)
{
    if (row != NULL && json_array_size(rows) < ROWS_MAX) {
        (void)json_array_append_new(rows, row);
    } else {
        json_decref(row);
    }
}

/* JSON is UTF-8, and a file may be in something else. */
static const char *shown(const char *text)
{
    json_t *string = text == NULL ? NULL : json_string(text);
    json_decref(string);
    return string != NULL ? text : text == NULL ? "not shown" : "no UTF-8";
}

/* Changes, as rows. */
struct changes {
    json_t *rows;
    size_t count; /* of all, also of those that have no room */
    bool are_restarts;
};

static void add_change(void *arg, const struct amb_config_change *change)
{
    struct changes *changes = arg;
    if (!changes->are_restarts) {
        changes->count++;
        add_row(changes->rows,
                json_pack("{s:s, s:s, s:s, s:s, s:s}", "key", shown(change->key), "was",
                          shown(change->before), "becomes", shown(change->after), "applies",
                          amb_config_apply_name(change->apply), "place", shown(change->place)));
    } else if (change->apply == AMB_CONFIG_RESTART) {
        changes->count++;
        add_row(changes->rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "place", shown(change->place),
                                         "key", shown(change->key), "why", "needs a restart", "was",
                                         shown(change->before), "becomes", shown(change->after)));
    }
}

/* Rows of the changes; of too many the last row says how many there are beside. Returns how many
 * there are. */
static size_t add_changes(json_t *rows, const struct amb_config *before,
                          const struct amb_config *after, bool are_restarts)
{
    struct changes changes = {.rows = rows, .are_restarts = are_restarts};
    char more[64];
    amb_config_changes(before, after, add_change, &changes);
    if (changes.count > ROWS_MAX) {
        (void)snprintf(more, sizeof(more), "and %zu more", changes.count - ROWS_MAX);
        json_t *row = are_restarts
                          ? json_pack("{s:s, s:s, s:s, s:s, s:s}", "place", "", "key", more, "why",
                                      "needs a restart", "was", "", "becomes", "")
                          : json_pack("{s:s, s:s, s:s, s:s, s:s}", "key", more, "was", "",
                                      "becomes", "", "applies", "", "place", "");
        if (row != NULL) {
            (void)json_array_append_new(rows, row);
        }
    }
    return changes.count;
}

/* The value in force; "": there is none of that key alone. Heap, or NULL. */
static char *value_in_force(const struct amb_config *config, const char *path)
{
    size_t count, size;
    const struct amb_config_key *keys = amb_config_keys(&count);
    const struct amb_config_key *key = amb_config_key_find(keys, count, path);
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return NULL;
    }
    if (config != NULL && key != NULL && amb_config_has_field(key) && !key->secret &&
        key->type != AMB_CONFIG_ELEMENTS && strcmp(key->path, path) == 0) {
        amb_config_value_print(key, config, stream);
    }
    return amb_memstream_end(stream, &text) ? text : NULL;
}

static void add_fault(json_t *rows, const struct amb_config *config,
                      const struct amb_config_fault *fault)
{
    char *was = value_in_force(config, fault->key);
    add_row(rows, json_pack("{s:s, s:s, s:s, s:s}", "place", shown(fault->where), "key",
                            shown(fault->key), "why", shown(fault->reason), "was", shown(was)));
    free(was);
}

static void refuse(struct amb_settings_result *out, const char *how, const char *why)
{
    out->is_good = false;
    (void)snprintf(out->text, sizeof(out->text), "reload refused%s: %s", how, why);
}

/* Another configuration from this source. NULL: its faults are told. */
static struct amb_config *try_source(const struct amb_settings *settings,
                                     const struct amb_config_source *source, bool is_reload,
                                     struct amb_settings_result *out)
{
    char error[AMB_CONFIG_ERROR_MAX] = "", more[32] = "";
    struct amb_config *config = NULL;
    struct amb_config_source own = *source;
    own.former = settings->config;
    own.quick = NULL;
    own.faults = calloc(1, sizeof(*own.faults)); /* Without memory the first one is told alone. */
    enum amb_status status = load(&own, error, sizeof(error), &config);
    unsigned count = own.faults == NULL ? 0 : own.faults->count + own.faults->more;
    if (status != AMB_OK && count > 1) {
        (void)snprintf(more, sizeof(more), " (and %u more)", count - 1);
    }
    for (unsigned i = 0; status != AMB_OK && i < count && i < AMB_CONFIG_FAULTS_MAX; i++) {
        add_fault(out->rows, settings->config, &own.faults->items[i]);
    }
    if (status != AMB_OK && count == 0) {
        add_row(out->rows,
                json_pack("{s:s, s:s, s:s}", "place", "", "key", "", "why", shown(error)));
    }
    if (status != AMB_OK) {
        out->is_good = false;
        (void)snprintf(out->text, sizeof(out->text), "%s%s%s",
                       is_reload ? "reload refused" STAYS ": " : "", error, more);
    }
    free(own.faults);
    return config;
}

static bool begin(struct amb_settings_result *out)
{
    out->is_good = true;
    out->text[0] = '\0';
    out->rows = json_array();
    return out->rows != NULL;
}

/* ---- what is in force ---- */

/* The broker reads what only a restart changes in its first configuration. Of each other it has
 * references, and the last one frees it. */
static bool adopt(struct amb_settings *settings, struct amb_broker *broker,
                  struct amb_config *config, struct amb_settings_result *out)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    if (amb_broker_reload(broker, config, error, sizeof(error)) != AMB_OK) {
        add_row(out->rows,
                json_pack("{s:s, s:s, s:s}", "place", "", "key", "", "why", shown(error)));
        refuse(out, STAYS, error);
        return false;
    }
    if (settings->first == NULL) {
        settings->first = settings->config;
        amb_config_forget_users(settings->first);
    } else {
        amb_config_destroy(&settings->config);
    }
    settings->config = config;
    amb_settings_use_format(config);
    return true;
}

/* Puts it in force, if all of its changes are live. False: it is not, and is freed. */
static bool use(struct amb_settings *settings, struct amb_broker *broker, struct amb_config *config,
                struct amb_settings_result *out)
{
    char restart[DIFF_MAX], live[DIFF_MAX];
    bool is_adopted = false;
    amb_config_diff(settings->config, config, restart, sizeof(restart), live, sizeof(live));
    if (restart[0] != '\0') {
        (void)add_changes(out->rows, settings->config, config, true);
        refuse(out, " as a whole, these need a restart", restart);
    } else if (live[0] == '\0') {
        (void)snprintf(out->text, sizeof(out->text),
                       "reload: the configuration is valid and unchanged");
    } else {
        json_t *changes = json_array();
        if (changes != NULL) {
            (void)add_changes(changes, settings->config, config, false);
        }
        is_adopted = adopt(settings, broker, config, out);
        if (is_adopted) {
            (void)json_array_extend(out->rows, changes);
            (void)snprintf(out->text, sizeof(out->text), "reload: in force from now on: %s", live);
        }
        json_decref(changes);
    }
    if (!is_adopted) {
        amb_config_destroy(&config);
    }
    return out->is_good;
}

void amb_settings_reload(struct amb_settings *settings, struct amb_broker *broker,
                         struct amb_settings_result *out)
{
    if (!begin(out)) {
        refuse(out, STAYS, "no memory");
        return;
    }
    struct amb_config *config = try_source(settings, &settings->source, true, out);
    if (config != NULL && use(settings, broker, config, out)) {
        amb_info("%s", out->text);
    }
}

/* ---- trying and setting ---- */

void amb_settings_compare(const struct amb_settings *settings, const char *path, bool is_test,
                          struct amb_settings_result *out)
{
    struct amb_config_source source = settings->source;
    if (!begin(out)) {
        refuse(out, "", "no memory");
        return;
    }
    source.path = path;
    source.text = NULL;
    struct amb_config *config = try_source(settings, &source, false, out);
    if (config == NULL) {
        return;
    }
    if (is_test) {
        (void)snprintf(out->text, sizeof(out->text), "the configuration is valid");
    } else {
        size_t count = add_changes(out->rows, settings->config, config, false);
        (void)snprintf(out->text, sizeof(out->text), "%zu change%s", count, count == 1 ? "" : "s");
    }
    amb_config_destroy(&config);
}

static bool is_of_key(const char *set, const char *key, size_t len)
{
    return strncmp(set, key, len) == 0 && set[len] == '=';
}

/* Its place in settings->set: that of the same key, or a new one; AMB_SETTINGS_SET_MAX: none. */
static size_t place_of(const struct amb_settings *settings, const char *text)
{
    size_t len = strcspn(text, "="), i = 0;
    while (i < settings->set_count && !is_of_key(settings->set[i], text, len)) {
        i++;
    }
    return i;
}

/* NULL: such a key can be set. */
static const char *set_fault(const char *text)
{
    size_t count, len = strcspn(text, "=");
    const struct amb_config_key *keys = amb_config_keys(&count);
    char path[AMB_CONFIG_PATH_MAX];
    if (text[len] == '\0') {
        return "has no value (allowed KEY=VALUE)";
    }
    if (len >= sizeof(path)) {
        return NULL; /* An unknown one, and its fault is told by the schema. */
    }
    memcpy(path, text, len);
    path[len] = '\0';
    const struct amb_config_key *key = amb_config_key_find(keys, count, path);
    return key == NULL || !amb_config_has_field(key) || key->apply != AMB_CONFIG_RESTART
               ? NULL
               : "is not live: it needs a restart";
}

void amb_settings_set(struct amb_settings *settings, struct amb_broker *broker, const char *text,
                      struct amb_settings_result *out)
{
    const char *fault = set_fault(text);
    size_t place = place_of(settings, text);
    char *own = strdup(text);
    if (!begin(out) || own == NULL) {
        refuse(out, "", "no memory");
        free(own);
        return;
    }
    if (fault == NULL && place == AMB_SETTINGS_SET_MAX) {
        fault = "is one too many (allowed 64 keys)";
    }
    if (fault != NULL) {
        char key[AMB_CONFIG_PATH_MAX];
        (void)snprintf(key, sizeof(key), "%.*s", (int)strcspn(text, "="), text);
        add_row(out->rows,
                json_pack("{s:s, s:s, s:s}", "place", "set", "key", shown(key), "why", fault));
        out->is_good = false;
        (void)snprintf(out->text, sizeof(out->text), "set: %s: %s", key, fault);
        free(own);
        return;
    }
    size_t former_count = settings->set_count;
    char *former = place < former_count ? settings->set[place] : NULL;
    settings->set[place] = own;
    settings->set_count += former == NULL;
    settings->source.set = (const char *const *)settings->set;
    settings->source.set_count = settings->set_count;
    struct amb_config *config = try_source(settings, &settings->source, true, out);
    if (config != NULL && use(settings, broker, config, out)) {
        amb_info("%s", out->text);
        free(former);
        return;
    }
    settings->set[place] = former; /* As if it had not been. */
    settings->set_count = former_count;
    settings->source.set_count = former_count;
    free(own);
}

/* ---- showing ---- */

static void show_key(json_t *rows, const struct amb_config_key *key,
                     const struct amb_config *config)
{
    char where[AMB_CONFIG_ERROR_MAX / 4], *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return;
    }
    amb_config_value_print(key, config, stream);
    bool is_whole = amb_memstream_end(stream, &text);
    amb_config_where(config, key->path, where, sizeof(where));
    add_row(rows, json_pack("{s:s, s:s, s:s}", "key", key->path, "value",
                            shown(is_whole ? text : NULL), "origin", shown(where)));
    free(text);
}

void amb_settings_show(const struct amb_settings *settings, bool are_defaults,
                       struct amb_settings_result *out)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    const struct amb_config_source none = {.machine = &settings->machine};
    struct amb_config *defaults = NULL;
    if (!begin(out)) {
        refuse(out, "", "no memory");
        return;
    }
    if (are_defaults && load(&none, error, sizeof(error), &defaults) != AMB_OK) {
        refuse(out, "", error);
        return;
    }
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (amb_config_has_field(&keys[i])) {
            show_key(out->rows, &keys[i], are_defaults ? defaults : settings->config);
        }
    }
    amb_config_destroy(&defaults);
}

void amb_settings_fini(struct amb_settings *settings)
{
    for (size_t i = 0; i < settings->set_count; i++) {
        free(settings->set[i]);
    }
    settings->set_count = 0;
    amb_config_destroy(&settings->config);
    amb_config_destroy(&settings->first);
}
