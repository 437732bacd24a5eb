/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every setting that is ours. How releases differ is ucx_release.c's.
 *
 * A key comes from one of four places; the first that speaks wins:
 *   forced     TLS, NET_DEVICES, the TCP segment sizes: safety rests on them
 *   the user's amb_ucx_options.settings
 *   UCX_*      variables of the environment (and ucx.conf, for keys that have no default of ours)
 *   ours       the table below
 *
 * Keys of transports are not UCP's own. ucp_config_modify keeps them aside, and UCX tries them on
 * each transport when a worker is made. It does so without a prefix below 1.17, with it (TCP_)
 * since. Before 1.20.1 a key that nothing takes is dropped without an error. It wins over the
 * environment. That they have really arrived is proved by experiment (amb_ucx_context_prove),
 * because ends that differ in TCP_RX_SEG_SIZE crash.
 *
 * UCX's configuration and the environment are the process's: one lock here guards both. A program
 * that calls setenv or putenv meanwhile is not held back by it; amb.h tells it so.
 */
#include "wire/link/ucxlib/ucx_settings.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"
#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_lanes.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_release.h"
#include "wire/link/ucxlib/ucx_settings_private.h"

#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of one TCP fragment. Frozen: both ends of a connection must use the same. */
#define TX_SEG (256u * 1024u)
#define RX_SEG (1024u * 1024u)

/* Lanes there may be. posix, sysv, cma and xpmem are never among them. They write into memory of
 * other processes, fail between users, and leave receives open for ever when a peer dies. */
#define DEFAULT_TLS "tcp,self,rc,dc,ud,cuda_copy,cuda_ipc,gdr_copy"
static const char *const allowed_tls[] = {
    "tcp",  "self",     "rc",      "rc_v", "rc_x", "rc_verbs", "rc_mlx5",   "ud",       "ud_v",
    "ud_x", "ud_verbs", "ud_mlx5", "dc",   "dc_x", "dc_mlx5",  "cuda_copy", "cuda_ipc", "gdr_copy",
};

enum key_level {
    KEY_UCP,    /* of the context: ucp_config_modify */
    KEY_TCP,    /* the same, of contexts without an RDMA device */
    KEY_IPC,    /* of contexts with cuda_ipc, in programs of ours; not missed where UCX has none */
    KEY_GLOBAL, /* of the process: only in programs of ours */
};

static const struct ours {
    const char *name, *value;
    enum key_level level;
} ours[] = {
    /* Protocols v2 abort 1.13 and are slower over TCP on 1.22 (1 MiB relayed: 2227 against 2086
     * MB/s after tuning, 807 before). */
    {"PROTO_ENABLE", "n", KEY_UCP},
    {"KEEPALIVE_INTERVAL", "1s", KEY_UCP}, /* 20 s until a death shows on idle lanes */
    /* A connect that blocks holds the whole worker up while a peer's host does not answer. One that
     * is refused at once, its peer having died, leaves a socket behind. In UCX 1.13 to 1.22,
     * uct_tcp_ep_create drops its endpoint without closing it. */
    {"TCP_CONN_NB", "y", KEY_UCP},
    {"MAX_RNDV_RAILS", "1", KEY_UCP},
    /* Over TCP both ways copy as often, and a rendezvous asks first. With 64 KiB it relays 1301 to
     * 1412 MB/s against 1476. From 256 KiB on it is the faster one. */
    {"RNDV_THRESH", "192K", KEY_TCP},
    /* UCX keeps a peer's memory open until this process ends, also when that peer has died, and so
     * the memory stays taken. These bound it for each client of a broker. A program publishes from
     * few allocations in turns, and a connection of ours caches as many bytes. An allocation in use
     * stays, and so does the last one. UCX takes the least that any context of the process has
     * said. So libamb says nothing: it opens the pools of its broker alone, and its program may
     * have a UCX of its own. */
    {"CUDA_IPC_CACHE_MAX_REGIONS", "16", KEY_IPC},
    {"CUDA_IPC_CACHE_MAX_SIZE", "256M", KEY_IPC},
    {"WARN_INVALID_CONFIG", "n", KEY_UCP}, /* lanes of DEFAULT_TLS that this host lacks */
    {"LOG_LEVEL", "error", KEY_GLOBAL},
    {"HANDLE_ERRORS", "none", KEY_GLOBAL},
    {"ERROR_SIGNALS", "", KEY_GLOBAL},
    {"WARN_UNUSED_ENV_VARS", "n", KEY_GLOBAL},
    {"MEMTYPE_CACHE", "n", KEY_GLOBAL}, /* memory types are passed with each call */
};

enum forced_key {
    FORCED_TLS,
    FORCED_NET_DEVICES,
    FORCED_TX_SEG,
    FORCED_RX_SEG,
    FORCED_PORT_RANGE,
    FORCED_COUNT,
};
static const char *const forced_names[FORCED_COUNT] = {
    [FORCED_TLS] = "TLS",
    [FORCED_NET_DEVICES] = "NET_DEVICES",
    [FORCED_TX_SEG] = "TCP_TX_SEG_SIZE",
    [FORCED_RX_SEG] = "TCP_RX_SEG_SIZE",
    [FORCED_PORT_RANGE] = "TCP_PORT_RANGE",
};

/* Prefixes of transports' keys. */
static const char *const transport_prefixes[] = {
    "TCP_", "RC_", "UD_", "DC_", "IB_", "CUDA_COPY_", "CUDA_IPC_", "GDR_COPY_", "SELF_",
};

/*
 * In 1.22.0 the end of a cuda_ipc endpoint unmaps all that this process has mapped of the peer's,
 * also under transfers of another connection. Upstream took it back (openucx/ucx#11744, #11777). On
 * one host GPU memory goes our own way, so little is lost without this lane.
 */
static const char unmaps[] = "UCX 1.22.0 without cuda_ipc: that release unmaps GPU memory in use "
                             "when another connection ends (openucx/ucx#11744)";

static pthread_mutex_t process = PTHREAD_MUTEX_INITIALIZER;

void amb_ucx_process_lock(void)
{
    amb_assert(pthread_mutex_lock(&process) == 0);
}

void amb_ucx_process_unlock(void)
{
    amb_assert(pthread_mutex_unlock(&process) == 0);
}

void amb_ucx_segment_sizes(uint32_t *tx_seg, uint32_t *rx_seg)
{
    *tx_seg = TX_SEG;
    *rx_seg = RX_SEG;
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A comma list of lanes has that one. A list that begins with ^ has none: it names what is not
 * wanted. */
static bool has_lane(const char *tls, const char *lane)
{
    return tls != NULL && tls[0] != '^' && amb_text_list_has(tls, lane);
}

/* Under the lock. */
static const char *choose_lanes(const struct amb_ucx_options *options, uint32_t release,
                                char out[AMB_UCX_TLS_MAX])
{
    const char *tls = options->tls != NULL ? options->tls : DEFAULT_TLS;
    const char *user = getenv("UCX_TLS"); /* It is forced, but may say that cuda_ipc is wanted. */
    bool leaves = amb_ucx_release_unmaps(release) && !options->wants_cuda_ipc &&
                  has_lane(tls, "cuda_ipc") && !has_lane(user, "cuda_ipc");
    size_t used = 0;
    out[0] = '\0';
    amb_assert(strlen(tls) < AMB_UCX_TLS_MAX); /* check_tls */
    for (const char *at = tls; *at != '\0';) {
        size_t len = strcspn(at, ",");
        bool is_left_out = leaves && strncmp(at, "cuda_ipc,", len + (at[len] == ',')) == 0;
        if (!is_left_out) {
            used += (size_t)snprintf(out + used, AMB_UCX_TLS_MAX - used, "%s%.*s",
                                     used == 0 ? "" : ",", (int)len, at);
        }
        at += len + (at[len] == ',');
    }
    return leaves ? unmaps : NULL;
}

const char *amb_ucx_lanes(const struct amb_ucx_options *options, uint32_t release,
                          char out[AMB_UCX_TLS_MAX])
{
    amb_ucx_process_lock();
    const char *why = choose_lanes(options, release, out);
    amb_ucx_process_unlock();
    return why;
}

static bool has_environment(const char *name)
{
    char variable[128];
    (void)snprintf(variable, sizeof(variable), "UCX_%s", name);
    return getenv(variable) != NULL;
}

static void set_environment(const char *name, const char *value, bool overwrite)
{
    char variable[128];
    (void)snprintf(variable, sizeof(variable), "UCX_%s", name);
    (void)setenv(variable, value, overwrite ? 1 : 0);
}

static bool is_transport_key(const char *name)
{
    for (size_t i = 0; i < sizeof(transport_prefixes) / sizeof(transport_prefixes[0]); i++) {
        if (strncmp(name, transport_prefixes[i], strlen(transport_prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The form in which ucp_config_modify takes a key here. */
static const char *key_form(const char *name)
{
    if (amb_ucx_release_wants_prefix(amb_ucx_release())) {
        return name;
    }
    for (size_t i = 0; i < sizeof(transport_prefixes) / sizeof(transport_prefixes[0]); i++) {
        size_t len = strlen(transport_prefixes[i]);
        if (strncmp(name, transport_prefixes[i], len) == 0) {
            return name + len;
        }
    }
    return name;
}

/* One key into config; EUCX with a sentence if UCX says no. */
static enum amb_status modify(ucp_config_t *config, const char *name, const char *value,
                              char *error, size_t error_size)
{
    ucs_status_t ucs = amb_ucx_api.ucp_config_modify(config, key_form(name), value);
    if (ucs != UCS_OK) {
        (void)snprintf(error, error_size, "UCX does not take %s=%s: %s", name, value,
                       amb_ucx_api.ucs_status_string(ucs));
        return AMB_EUCX;
    }
    return AMB_OK;
}

/* ---- checking what was asked for ---- */

static enum amb_status check_tls(const char *tls, char *error, size_t error_size)
{
    char copy[AMB_UCX_TLS_MAX];
    if (strlen(tls) >= sizeof(copy)) {
        (void)snprintf(error, error_size, "the list of UCX transports is too long");
        return AMB_EINVAL;
    }
    (void)snprintf(copy, sizeof(copy), "%s", tls);
    char *rest = NULL;
    for (char *token = strtok_r(copy, ",", &rest); token != NULL;
         token = strtok_r(NULL, ",", &rest)) {
        if (!is_one_of(token, allowed_tls, sizeof(allowed_tls) / sizeof(allowed_tls[0]))) {
            (void)snprintf(error, error_size,
                           "UCX transport '%s' is not one that may be used (tcp, self, rc, ud, dc, "
                           "cuda_copy, cuda_ipc, gdr_copy)",
                           token);
            return AMB_EINVAL;
        }
    }
    return AMB_OK;
}

/* `config` is a fresh one: before 1.20.1 only it knows which names exist. */
static bool is_ucp_key(const ucp_config_t *config, const char *name)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return true;
    }
    amb_ucx_api.ucp_config_print(config, stream, "",
                                 UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN);
    if (fclose(stream) != 0 || text == NULL) {
        free(text);
        return true; /* No memory: ucp_config_modify may say more. */
    }
    char line[128];
    int len = snprintf(line, sizeof(line), "UCX_%s=", name);
    const char *found = len > 0 ? strstr(text, line) : NULL;
    bool is_known = found != NULL && (found == text || found[-1] == '\n');
    free(text);
    return is_known;
}

/* With the transport's prefix, or without. */
static bool is_forced(const char *name)
{
    for (size_t i = 0; i < FORCED_COUNT; i++) {
        const char *forced = forced_names[i];
        if (strcmp(name, forced) == 0 ||
            (strncmp(forced, "TCP_", 4) == 0 && strcmp(name, forced + 4) == 0)) {
            return true;
        }
    }
    return false;
}

static enum amb_status check_setting(const ucp_config_t *config, const struct amb_ucx_setting *own,
                                     char *error, size_t error_size)
{
    if (is_forced(own->name)) {
        (void)snprintf(error, error_size, "UCX setting %s is not free to choose", own->name);
        return AMB_EINVAL;
    }
    if (strlen(own->name) > 64 || strncmp(own->name, "UCX_", 4) == 0 ||
        (!is_transport_key(own->name) && !is_ucp_key(config, own->name))) {
        (void)snprintf(error, error_size, "UCX %u.%u has no setting '%.64s'",
                       amb_ucx_release() >> 16, (amb_ucx_release() >> 8) & 0xffu, own->name);
        return AMB_EINVAL;
    }
    if (strcmp(own->name, "PROTO_ENABLE") == 0 && own->value[0] != 'n' &&
        !amb_ucx_release_has_protocols(amb_ucx_release())) {
        (void)snprintf(error, error_size, "UCX below 1.16 aborts with PROTO_ENABLE=%s", own->value);
        return AMB_EINVAL;
    }
    return AMB_OK;
}

/* UCX takes any name and then has no lanes. Names are "eth0", "mlx5_0:1". */
static enum amb_status check_devices(const char *devices, char *error, size_t error_size,
                                     bool *has_rdma)
{
    char copy[256];
    char *rest = NULL;
    bool has_any = false;
    (void)snprintf(copy, sizeof(copy), "%s", devices);
    for (char *token = strtok_r(copy, ",", &rest); token != NULL;
         token = strtok_r(NULL, ",", &rest)) {
        bool is_rdma = amb_ucx_has_rdma("", token);
        token[strcspn(token, ":")] = '\0';
        if (!is_rdma && if_nametoindex(token) == 0) {
            (void)snprintf(error, error_size, "there is no network device '%s' for UCX", token);
            return AMB_EINVAL;
        }
        has_any = has_any || is_rdma;
    }
    *has_rdma = has_any;
    return AMB_OK;
}

static enum amb_status check_options(const struct amb_ucx_options *options, char *error,
                                     size_t error_size, bool *has_rdma)
{
    if (options->net_devices == NULL || options->net_devices[0] == '\0' ||
        strlen(options->net_devices) >= AMB_UCX_DEVICES_MAX ||
        strcmp(options->net_devices, "all") == 0 || strchr(options->net_devices, '^') != NULL) {
        (void)snprintf(error, error_size,
                       "UCX runs on interfaces named as trusted only, and none is named");
        return AMB_EINVAL;
    }
    enum amb_status status = check_devices(options->net_devices, error, error_size, has_rdma);
    if (status == AMB_OK && options->tls != NULL) {
        status = check_tls(options->tls, error, error_size);
    }
    return status;
}

/* ---- applying it ---- */

static void apply_globals(void)
{
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (ours[i].level == KEY_GLOBAL && !has_environment(ours[i].name)) {
            /* UCX has read the environment when it was loaded; this is for its children, and
             * the call below for it. Names that a release does not know are not missed. */
            set_environment(ours[i].name, ours[i].value, false);
            (void)amb_ucx_api.ucs_global_opts_set_value(ours[i].name, ours[i].value);
        }
    }
}

/* The facts by which some of our keys are meant, and others not. */
struct circumstances {
    bool has_rdma;
    bool bounds_ipc;
};

static bool is_meant(enum key_level level, const struct circumstances *here)
{
    return level == KEY_UCP || (level == KEY_TCP && !here->has_rdma) ||
           (level == KEY_IPC && here->bounds_ipc);
}

static enum amb_status apply_ours(const struct circumstances *here, ucp_config_t *config,
                                  char *error, size_t error_size)
{
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (!is_meant(ours[i].level, here) || has_environment(ours[i].name)) {
            continue;
        }
        enum amb_status status = modify(config, ours[i].name, ours[i].value, error, error_size);
        if (status != AMB_OK && ours[i].level != KEY_IPC) {
            return status;
        }
    }
    if (!amb_ucx_release_has_protocols(
            amb_ucx_release())) { /* fixed, whatever the environment says */
        return modify(config, "PROTO_ENABLE", "n", error, error_size);
    }
    return AMB_OK;
}

static enum amb_status apply_own(const struct amb_ucx_options *options, ucp_config_t *config,
                                 char *error, size_t error_size)
{
    for (size_t i = 0; i < options->setting_count; i++) {
        const struct amb_ucx_setting *own = &options->settings[i];
        enum amb_status status = check_setting(config, own, error, error_size);
        if (status == AMB_OK) {
            status = modify(config, own->name, own->value, error, error_size);
        }
        if (status != AMB_OK) {
            return status;
        }
    }
    return AMB_OK;
}

/* NULL: that key is UCX's own. */
static enum amb_status apply_forced(const char *const values[FORCED_COUNT], ucp_config_t *config,
                                    char *error, size_t error_size)
{
    enum amb_status status = AMB_OK;
    for (size_t i = 0; i < FORCED_COUNT && status == AMB_OK; i++) {
        if (values[i] != NULL) {
            status = modify(config, forced_names[i], values[i], error, error_size);
        }
    }
    return status;
}

static enum amb_status read_config(char *error, size_t error_size, ucp_config_t **out)
{
    ucs_status_t ucs = amb_ucx_api.ucp_config_read(NULL, NULL, out);
    if (ucs != UCS_OK) {
        (void)snprintf(error, error_size, "UCX cannot read its configuration: %s",
                       amb_ucx_api.ucs_status_string(ucs));
        return AMB_EUCX;
    }
    return AMB_OK;
}

enum amb_status amb_ucx_config_open(const struct amb_ucx_options *options, char *error,
                                    size_t error_size, ucp_config_t **out)
{
    bool has_rdma = false;
    enum amb_status status = check_options(options, error, error_size, &has_rdma);
    if (status != AMB_OK) {
        return status;
    }
    char tx_seg[16];
    char rx_seg[16];
    char tls[AMB_UCX_TLS_MAX];
    (void)choose_lanes(options, amb_ucx_release(), tls);
    (void)snprintf(tx_seg, sizeof(tx_seg), "%u", options->tx_seg);
    (void)snprintf(rx_seg, sizeof(rx_seg), "%u", options->rx_seg);
    const char *const forced[FORCED_COUNT] = {
        [FORCED_TLS] = tls,
        [FORCED_NET_DEVICES] = options->net_devices,
        [FORCED_TX_SEG] = tx_seg,
        [FORCED_RX_SEG] = rx_seg,
        [FORCED_PORT_RANGE] = options->port_range,
    };
    if (options->use_environment) {
        apply_globals();
        for (size_t i = 0; i < FORCED_COUNT; i++) {
            if (forced[i] != NULL) {
                set_environment(forced_names[i], forced[i], true);
            }
        }
    }
    ucp_config_t *config = NULL;
    status = read_config(error, error_size, &config);
    if (status != AMB_OK) {
        return status;
    }
    const struct circumstances here = {
        .has_rdma = has_rdma,
        .bounds_ipc = options->use_environment && has_lane(tls, "cuda_ipc") &&
                      amb_ucx_release_bounds_ipc(amb_ucx_release()),
    };
    status = apply_ours(&here, config, error, error_size);
    if (status == AMB_OK) {
        status = apply_own(options, config, error, error_size);
    }
    if (status == AMB_OK) {
        status = apply_forced(forced, config, error, error_size);
    }
    if (status != AMB_OK) {
        amb_ucx_api.ucp_config_release(config);
        return status;
    }
    *out = config;
    return AMB_OK;
}

/* ---- lanes ---- */

bool amb_ucx_lanes_reach_gpus(const char *lanes)
{
    static const char *const names[] = {"rc", "dc", "cuda_ipc"}; /* ud has neither GET nor PUT. */
    for (const char *at = lanes; *at != '\0'; at += strspn(at, " ")) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            size_t len = strlen(names[i]);
            if (strncmp(at, names[i], len) == 0 && (at[len] == '_' || at[len] == '/')) {
                return true;
            }
        }
        at += strcspn(at, " ");
    }
    return false;
}

/* Appends " name" unless it is there; name is len bytes. */
static void add_lane(char *out, size_t size, const char *name, size_t len)
{
    char lane[64];
    if (len >= sizeof(lane)) {
        return;
    }
    memcpy(lane, name, len);
    lane[len] = '\0';
    size_t used = strlen(out);
    if (strstr(out, lane) == NULL && used < size) {
        (void)snprintf(out + used, size - used, "%s%s", used == 0 ? "" : " ", lane);
    }
}

/* From lines like "#  lane[0]:  1:tcp/lo.0 md[1] -> ...", the only source before 1.14. */
static void parse_lanes(ucp_ep_h ep, char *out, size_t size)
{
    char *text = NULL;
    size_t text_size = 0;
    FILE *stream = open_memstream(&text, &text_size);
    if (stream == NULL) {
        return;
    }
    amb_ucx_api.ucp_ep_print_info(ep, stream);
    if (fclose(stream) != 0 || text == NULL) {
        free(text);
        return;
    }
    for (const char *at = strstr(text, "lane["); at != NULL; at = strstr(at, "lane[")) {
        at += strcspn(at, ":\n");
        if (*at != ':') {
            continue;
        }
        at++;
        at += strspn(at, " ");
        at += strspn(at, "0123456789");
        if (*at == ':') {
            at++;
            add_lane(out, size, at, strcspn(at, ". \n"));
        }
    }
    free(text);
}

#if UCP_API_VERSION >= UCP_VERSION(1, 14)
static void query_lanes(ucp_ep_h ep, char *out, size_t size)
{
    ucp_transport_entry_t entries[16];
    memset(entries, 0, sizeof(entries));
    ucp_ep_attr_t attr = {.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS};
    attr.transports.entries = entries;
    attr.transports.num_entries = sizeof(entries) / sizeof(entries[0]);
    attr.transports.entry_size = sizeof(entries[0]);
    if (!amb_ucx_release_tells_lanes(amb_ucx_release()) ||
        amb_ucx_api.ucp_ep_query(ep, &attr) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < attr.transports.num_entries; i++) {
        char lane[64];
        int len = snprintf(lane, sizeof(lane), "%s/%s",
                           entries[i].transport_name != NULL ? entries[i].transport_name : "?",
                           entries[i].device_name != NULL ? entries[i].device_name : "?");
        if (len > 0) {
            add_lane(out, size, lane, (size_t)len);
        }
    }
}
#else
static void query_lanes(ucp_ep_h ep, char *out, size_t size)
{
    (void)ep;
    (void)out;
    (void)size;
}
#endif

void amb_ucx_ep_lanes(ucp_ep_h ep, char *out, size_t size)
{
    out[0] = '\0';
    query_lanes(ep, out, size);
    if (out[0] == '\0') {
        parse_lanes(ep, out, size);
    }
}
