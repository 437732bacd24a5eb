/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of one broker: an immutable struct, made once at start. Its layers are, lowest
 * first: built-in defaults, the --dev profile, a libconfig file, the environment
 * (AMBROKER_SECTION_KEY), and the command line (-o key=value, --listen). Every key is one row of
 * the table in broker/config/config_schema.c; parser, --print-config, docs/config.md and
 * etc/broker.conf come from it. Values are checked and resolved: "auto" workers, connections and
 * message size are numbers here. Threads: any, after creation (nothing changes). Memory:
 * references; all strings belong to it.
 */
#pragma once

#include "broker/base/account.h"
#include "broker/base/trust_group.h"
#include "wire/base/cpus.h"
#include "wire/base/log.h"
#include "wire/base/status.h"
#include "wire/config/config_faults.h"
#include "wire/config/config_types.h"
#include "wire/config/transports.h"
#include "wire/tls/tls_context.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define AMB_CONFIG_TIME_AUTO INT64_C(-1)
#define AMB_CONFIG_LEASED_AUTO UINT64_MAX
#define AMB_LOG_FORMAT_AUTO (-1) /* for the journal, if standard error is that; else text */
#define AMB_KEYS_MAX (1U << 16)  /* retain.keys of one topic */
#define AMB_WORKERS_MAX 64u
#define AMB_HALF_OPEN_MAX 512u      /* connections that have not said who they are */
#define AMB_CLOSING_MAX 512u        /* connections that wait to be closed */
#define AMB_CONFIG_LEASES_LEAST 32u /* of the whole broker, beside server.max_leases */
#define AMB_CONFIG_DOORS_MAX 64u
#define AMB_DOOR_MODE 0660 /* of a Unix socket whose URL has no mode */

/* The policy of a topic whose log is full. */
enum amb_topic_full {
    AMB_FULL_BLOCK,       /* publishers get no window */
    AMB_FULL_DROP_OLDEST, /* the oldest entries go; subscribers count the loss */
    AMB_FULL_REJECT,      /* the publisher is told AMB_EREJECTED */
};

/* The member of a group that gets a batch without keys. */
enum amb_topic_prefer {
    AMB_PREFER_CREDIT, /* the one with the most credit left */
    AMB_PREFER_NEAR,   /* the nearest of those with half of their credit left */
};

/* The party whose word the bytes of a leased batch are. */
enum amb_topic_trust {
    AMB_TRUST_AUTO,      /* read in place by its publisher's own user; else as VERIFY */
    AMB_TRUST_PUBLISHER, /* readers see the memory that their publisher can still write */
    AMB_TRUST_VERIFY,    /* the broker's: it copies them when they are committed */
};

/* The place of GPU memory that cannot stay on its GPU: no pool there, no trust, no way. */
enum amb_topic_gpu {
    AMB_TOPIC_GPU_STAGE,  /* its publisher brings it to host memory */
    AMB_TOPIC_GPU_REJECT, /* its publisher is told AMB_EKIND */
};

/* The clients that may map the pools of GPU memory. */
enum amb_gpu_trust {
    AMB_GPU_TRUST_USER, /* the broker's own user, and root */
    AMB_GPU_TRUST_ALL,
    AMB_GPU_TRUST_NONE,
};

#define AMB_TRUST_GROUP_DEFAULT "default"
#define AMB_DEADLETTER_PATTERN "$DLQ.>"

/* Settings of the topics that `match` covers. */
struct amb_topic_rule {
    const char *match; /* a pattern */
    enum amb_topic_full full;
    uint32_t max_messages; /* 0: bytes alone limit the log */
    uint64_t max_bytes;
    enum amb_slow slow;    /* of subscriptions that ask for AMB_SLOW_DEFAULT */
    int64_t slow_block_ns; /* how long BLOCK holds publishers back, then it drops the oldest;
                              AMB_CONFIG_TIME_FOREVER */
    uint64_t spill_max;    /* bytes that wait for readers that SPILL alone, beside max_bytes */
    enum amb_topic_trust trust;
    const char *trust_group; /* its name */
    uint32_t group;          /* ... and index in config->trust_groups */
    enum amb_topic_gpu gpu;
    enum amb_topic_prefer prefer;
    uint32_t expect; /* enum amb_expect: the way that payloads take, or nobody opens it; 0: any */
    /* History kept for readers to come; each limit that is not 0 holds. All 0: none is kept. */
    struct {
        uint32_t messages;
        uint64_t bytes;
        int64_t age_ns;
        uint32_t keys; /* the newest message of each of so many, beside those */
    } retain;
    int64_t ttl_ns; /* how long messages are worth something; AMB_CONFIG_TIME_FOREVER */
};

static inline bool amb_topic_rule_retains(const struct amb_topic_rule *rule)
{
    return rule->retain.messages != 0 || rule->retain.bytes != 0 || rule->retain.age_ns != 0 ||
           rule->retain.keys != 0;
}

struct amb_topic_rules {
    struct amb_topic_rule *items;
    size_t count;
};

#define AMB_ROLES_MAX 1024u
#define AMB_ROLE_PATTERNS_MAX 128u /* of a user: all lists of all its roles */
#define AMB_ROLE_NAME_MAX 64u      /* of roles, and of the users and tenants in patterns */

/* Levels of administration: each has those below it. */
enum amb_admin {
    AMB_ADMIN_NONE,
    AMB_ADMIN_READ,    /* views of its own tenant */
    AMB_ADMIN_OPERATE, /* kick, block, remove durable names, reload, drain */
    AMB_ADMIN_ADMIN,   /* of all tenants */
};

/*
 * Patterns of topics. A token "%u" is the name of the user, "%t" that of its tenant. Of `allow` of
 * subscribe one that begins with '=' is for names alone: no pattern with a wildcard lies within it.
 */
struct amb_role_patterns {
    struct amb_config_strings allow, deny;
};

/* Rights that users have by its name. Nothing is allowed that is not listed. */
struct amb_role {
    const char *name;
    struct amb_role_patterns publish, subscribe;
    struct amb_config_strings shared; /* names that belong to the tenant, not to the user */
    bool request;                     /* it has inboxes */
    bool reply;                       /* it may publish to those that it is told */
    enum amb_admin admin;
    bool ucx; /* it may have links that are no security boundary */
};

struct amb_roles {
    struct amb_role *items; /* by name */
    size_t count;
};

#define AMB_CONFIG_TENANTS_MAX 1024u

/* A tenant that is named. Without any of them, tenants are those of the users file. */
struct amb_config_tenant {
    const char *name;
    const char *quota; /* of all its users together; "": none */
};

struct amb_config_tenants {
    struct amb_config_tenant *items; /* by name */
    size_t count;
};

#define AMB_CONFIG_QUOTAS_MAX 1024u
#define AMB_NAMES_MAX 65536u /* publishers' names of the whole broker: identity.h */

/* Limits of a user, or of a tenant, over all of its sessions: config_quotas.h. */
struct amb_config_quota {
    const char *name;
    uint64_t limit[AMB_QUOTA_COUNT];
};

struct amb_config_quotas {
    struct amb_config_quota *items; /* by name */
    size_t count;
};

struct amb_config_server {
    const char *name;
    uint32_t workers; /* 1..AMB_WORKERS_MAX, resolved */
    const char *cpus; /* as it was written */
    uint32_t bound;   /* workers that have a processor of their own: all of them, or 0 */
    uint16_t cpu[AMB_WORKERS_MAX]; /* ... and which */
    int64_t spin_ns;               /* AMB_CONFIG_TIME_AUTO, 0 = never, at most 10 ms */
    uint64_t max_message;     /* data + meta of one message, resolved, <= memory.host.size / 4 */
    uint32_t max_connections; /* resolved by the descriptor formula, */
    uint32_t max_leases;      /* ... as are this and the next two, which no setting names */
    uint32_t max_half_open;   /* 8 to AMB_HALF_OPEN_MAX */
    uint32_t max_closing;     /* 4 to AMB_CLOSING_MAX */
    int64_t handshake_timeout_ns;
    const char *counters_file; /* "auto", "none" or a path */
    uint32_t counters_objects;
    bool insecure;  /* TCP listeners off loopback are allowed */
    uint32_t cores; /* of the machine that this process may use */
};

struct amb_config_tls {
    const char *certificate, *key, *ca, *crl; /* files; "": none */
    enum amb_tls_clients clients;
    uint32_t threads;
    struct amb_tls_context *context; /* made of these files, as they were then; NULL: no files */
};

struct amb_config_host_memory {
    uint64_t size;       /* of all segments together */
    uint64_t segment;    /* a power of two */
    uint32_t spare;      /* segments kept ready */
    bool grow_on_demand; /* segments are made when needed, not at start */
};

struct amb_config_cuda_memory {
    uint64_t size;                     /* on each device; 0: none */
    struct amb_config_strings devices; /* empty: all */
    enum amb_gpu_trust trust;
};

struct amb_config_limits {
    uint32_t max_topics;
    int64_t topic_idle_ns;      /* INT64_MAX: for ever */
    int64_t durable_expiry_ns;  /* INT64_MAX: for ever */
    uint32_t max_subscriptions; /* of the whole broker */
    uint32_t max_pairs;         /* of the whole broker: directory.h says what a pair is */
    uint32_t max_pairs_per_client;
    uint32_t max_publishers; /* of one session, <= AMB_HANDLES_MAX */
    uint32_t user_share;     /* per cent: party.h */
    uint64_t max_mapped_per_session;
    uint64_t max_leased_per_session; /* resolved; 0: no leases */
    uint64_t max_heap_per_session;
    uint64_t window; /* bytes a publisher may have under way in one topic */
    int64_t peer_timeout_ns;
    int64_t heartbeat_ns; /* at most half of peer_timeout_ns */
    int64_t drain_timeout_ns;
    int64_t dedup_window_ns;
};

#define AMB_CONFIG_HTTP_AUTO "auto"
#define AMB_HTTP_SUFFIX ".http" /* behind the name of the socket that it lies beside */
#define AMB_HTTP_LISTENERS_MAX 8u
/* Connections of HTTP at one time, and descriptors beside them. */
#define AMB_HTTP_CONNECTIONS 64u
#define AMB_HTTP_DESCRIPTORS 16u

struct amb_config_http {
    struct amb_config_strings listen; /* as they were written */
    struct amb_config_urls doors;     /* unix and tcp; none: there is no HTTP */
    bool is_auto;                     /* nobody asked for it: it is there where it can be */
    struct amb_config_strings hosts;
    const char *token_file; /* "": none */
    const char *token;      /* of it: names of objects are shown on TCP to those who know it; "" */
    bool insecure;
    uint32_t objects; /* of one answer; 0: none */
};

struct amb_auth_numbers;
struct amb_auth_users;
struct amb_config_store;

struct amb_config {
    struct amb_config_server server;
    struct amb_config_urls listen; /* at least one, as they were written */
    struct amb_config_urls doors;  /* the same, with addresses for the names of interfaces */
    struct amb_config_tls tls;
    struct amb_config_transports transports;
    bool share_process; /* transports.share_process: tenants that may harm each other by UCX */
    struct {
        struct amb_config_host_memory host;
        struct amb_config_cuda_memory cuda;
    } memory;
    struct amb_topic_rules topics;
    struct {
        const char *names[AMB_TRUST_GROUPS_MAX]; /* [0]: AMB_TRUST_GROUP_DEFAULT */
        uint32_t count;
    } trust_groups; /* those of the rules, in their order */
    struct amb_roles roles;
    struct amb_config_tenants tenants;
    struct amb_config_quotas quotas;
    struct amb_config_limits limits;
    struct {
        const char *token; /* "": none asked for. From token or token_file */
        const char *token_file;
        const char *users_file;       /* "": users are uids, and one for all of TCP */
        struct amb_auth_users *users; /* as they were in it then; NULL: no file */
        /* Of users since the broker began, also while it has no file: what belongs to a user must
         * never be another one's. NULL: it has had none. */
        struct amb_auth_numbers *numbers;
    } auth;
    struct {
        enum amb_log_level level;
        int format;        /* enum amb_log_format, or AMB_LOG_FORMAT_AUTO */
        const char *audit; /* a file; "": none */
    } log;
    struct amb_config_http http;
    const char *file;               /* that it was read from; NULL: from none */
    int64_t file_ns;                /* ... its time then: amb_config_modified_ns */
    struct amb_config_store *store; /* origins and memory, for broker/config alone */
    _Atomic uint32_t refs;          /* beside its creator's: amb_config_ref */
};

/* The machine that the defaults depend on. */
struct amb_config_machine {
    uint32_t cores;       /* that this process can keep busy: quotas count */
    struct amb_cpus cpus; /* that it may run on */
    uint64_t ram;         /* bytes */
    uint64_t descriptors; /* RLIMIT_NOFILE now */
    char host[256];
    const struct amb_interfaces *interfaces; /* NULL: they are read where a listener needs them */
    int (*resolve)(const char *host);        /* 0, or EAI_; NULL: getaddrinfo */
};

#define AMB_CONFIG_QUICK_WHY_MAX 400u

/* Files of a quick start: config_quick.h. */
struct amb_config_quick {
    char certificate[216], key[216], users[216];
};

/* Finds or makes them for that listener. Else `why` has a sentence. */
typedef enum amb_status (*amb_config_quick_fn)(const struct amb_url *door,
                                               const char *const *environment,
                                               struct amb_config_quick *out,
                                               char why[AMB_CONFIG_QUICK_WHY_MAX]);

/* Where a configuration comes from. All zero: built-in defaults alone. */
struct amb_config_source {
    bool dev;         /* the --dev profile below the file */
    const char *path; /* a file, or NULL */
    const char *text; /* the file's content where there is no path (tests); @include is refused */
    size_t text_len;
    const char *const *environment; /* like environ, or NULL; only AMBROKER_... is looked at */
    const char *const *options;     /* "key=value" */
    size_t option_count;
    const char *const *listen; /* URLs; replace those of the layers below */
    size_t listen_count;
    const char *const *set; /* "key=value": of `config set`, above all others */
    size_t set_count;
    const struct amb_config_machine *machine; /* NULL: this one */
    const struct amb_config *former;          /* of a reload: the one in force; else NULL */
    amb_config_quick_fn quick;                /* NULL: there is no quick start */
    struct amb_config_faults *faults;         /* of EINVAL, all that can be told; or NULL */
};

/*
 * Reads, checks, resolves; opens nothing but configuration files. The resolver is asked for the
 * host of a listener that could be the name of an interface, and is none. A reload does not ask it,
 * since that may take long: the former configuration tells. EINVAL: error holds
 * "file:line: key: reason (got X, allowed Y)". The variable's or the option's name stands in place
 * of file:line where the value came from there. ENOTSUP: a text in libconfig's syntax, and no
 * libconfig. error may be NULL, else AMB_CONFIG_ERROR_MAX bytes fit any text. ENOMEM.
 */
AMB_MUST_CHECK enum amb_status amb_config_create(const struct amb_config_source *source,
                                                 char *error, size_t error_size,
                                                 struct amb_config **out);
/* The creator's reference ends; the last one frees it. NULL is allowed; sets *config to NULL. */
void amb_config_destroy(struct amb_config **config);
/* Another one who reads it, also when a reload has put another configuration in its place. Any
 * thread, and the last reference may end on any. */
const struct amb_config *amb_config_ref(const struct amb_config *config);
/* NULL is allowed; sets *config to NULL. */
void amb_config_unref(const struct amb_config **config);
/* Another one is in force, and its users are not kept any longer. Readers of the set have
 * references of their own. */
void amb_config_forget_users(struct amb_config *config);

/* The first rule whose pattern covers the topic, else a built-in one: for dead letters (the oldest
 * go, 10,000 are kept), for all others (">": block). Never NULL. */
const struct amb_topic_rule *amb_config_topic(const struct amb_config *config, const char *topic);

/* "file:line", "environment NAME", "-o key", "default": for messages about a key of the schema. */
void amb_config_where(const struct amb_config *config, const char *key, char *out, size_t size);

/* When a file was written last, in ns since 1970; 0: it is not there. */
int64_t amb_config_modified_ns(const char *path);

/* This machine's figures. */
void amb_config_machine_read(struct amb_config_machine *out);
