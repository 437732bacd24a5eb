/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_schema.h"

#include "broker/config/config_quotas.h"
#include "broker/config/config_roles.h"
#include "broker/config/config_tenants.h"
#include "broker/config/config_trust.h"
#include "wire/base/clock.h"
#include "wire/codec/expect.h"
#include "wire/config/config_elements.h"
#include "wire/config/config_list.h"
#include "wire/config/config_words.h"

#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define MS ((uint64_t)AMB_NS_PER_MS)
#define SEC ((uint64_t)AMB_NS_PER_SEC)
#define HOUR (3600 * SEC)
#define FIELD(member) offsetof(struct amb_config, member)
#define RULE(member) offsetof(struct amb_topic_rule, member)

static const struct amb_config_word auto_words[] = {{"auto", 0, false}, {NULL, 0, false}};
static const struct amb_config_word net_devices_words[] = {
    {"auto", 0, false}, {AMB_NET_DEVICES_CLOSEST, 1, false}, {NULL, 0, false}};
static const struct amb_config_word spin_words[] = {{"auto", AMB_CONFIG_TIME_AUTO, false},
                                                    {NULL, 0, false}};
static const struct amb_config_word forever_words[] = {{"forever", AMB_CONFIG_TIME_FOREVER, false},
                                                       {NULL, 0, false}};
static const struct amb_config_word clients_words[] = {
    {"none", AMB_TLS_CLIENTS_NONE, false},
    {"optional", AMB_TLS_CLIENTS_OPTIONAL, false},
    {"required", AMB_TLS_CLIENTS_REQUIRED, false},
    {NULL, 0, false}};
static const struct amb_config_word switch_words[] = {{"auto", AMB_SWITCH_AUTO, false},
                                                      {"on", AMB_SWITCH_ON, false},
                                                      {"off", AMB_SWITCH_OFF, false},
                                                      {NULL, 0, false}};
static const struct amb_config_word full_words[] = {{"block", AMB_FULL_BLOCK, false},
                                                    {"drop-oldest", AMB_FULL_DROP_OLDEST, false},
                                                    {"reject", AMB_FULL_REJECT, false},
                                                    {NULL, 0, false}};
static const struct amb_config_word trust_words[] = {{"auto", AMB_TRUST_AUTO, false},
                                                     {"publisher", AMB_TRUST_PUBLISHER, false},
                                                     {"verify", AMB_TRUST_VERIFY, false},
                                                     {NULL, 0, false}};
static const struct amb_config_word topic_gpu_words[] = {{"stage", AMB_TOPIC_GPU_STAGE, false},
                                                         {"reject", AMB_TOPIC_GPU_REJECT, false},
                                                         {NULL, 0, false}};
static const struct amb_config_word prefer_words[] = {
    {"credit", AMB_PREFER_CREDIT, false}, {"near", AMB_PREFER_NEAR, false}, {NULL, 0, false}};
static const struct amb_config_word expect_words[] = {{"any", 0, false},
                                                      {"ring", AMB_EXPECT_RING, false},
                                                      {"zero-copy", AMB_EXPECT_ZERO_COPY, false},
                                                      {"rdma", AMB_EXPECT_RDMA, false},
                                                      {"nvlink", AMB_EXPECT_NVLINK, false},
                                                      {NULL, 0, false}};
static const struct amb_config_word gpu_trust_words[] = {{"user", AMB_GPU_TRUST_USER, false},
                                                         {"all", AMB_GPU_TRUST_ALL, false},
                                                         {"none", AMB_GPU_TRUST_NONE, false},
                                                         {NULL, 0, false}};
static const struct amb_config_word lease_words[] = {
    {"auto", INT64_C(-1) /* AMB_CONFIG_LEASED_AUTO */, false}, {NULL, 0, false}};
static const struct amb_config_word level_words[] = {
    {"error", AMB_LOG_ERROR, false}, {"warn", AMB_LOG_WARN, false},   {"info", AMB_LOG_INFO, false},
    {"debug", AMB_LOG_DEBUG, false}, {"trace", AMB_LOG_TRACE, false}, {NULL, 0, false}};

static const struct amb_config_word format_words[] = {{"auto", AMB_LOG_FORMAT_AUTO, false},
                                                      {"text", AMB_LOG_TEXT, false},
                                                      {"json", AMB_LOG_JSON, false},
                                                      {NULL, 0, false}};

static const struct amb_config_elements topics_kind = {
    .keys = amb_config_rule_keys,
    .size = sizeof(struct amb_topic_rule),
    .name = "match",
    .name_offset = RULE(match),
    .name_help = "a pattern as \"camera.>\"",
    .example = "{ match = \"a.>\"; }",
    .check = amb_config_trust_check,
};

/* Rows of one group stand together: the printers open and close groups as the paths change. */
static const struct amb_config_key keys[] = {
    {.path = "server.name",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(server.name),
     .default_text = "",
     .max = 63,
     .help = "Name in logs and in broker-ctl; empty means the name of the host."},
    {.path = "server.workers",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(server.workers),
     .default_text = "auto",
     .words = auto_words,
     .max = AMB_WORKERS_MAX,
     .help = "Threads that move messages; auto (or 0) is one less than the processors, 1 to 16. "
             "A quota of a container counts, too."},
    {.path = "server.cpus",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(server.cpus),
     .default_text = "auto",
     .max = 255,
     .help = "The processors of the workers, as \"0-3,8\": one for each, in that order. Auto "
             "leaves them to the system."},
    {.path = "server.spin",
     .type = AMB_CONFIG_TIME,
     .offset = FIELD(server.spin_ns),
     .default_text = "auto",
     .words = spin_words,
     .max = 10 * MS,
     .help = "How long an idle worker looks for work before it sleeps: latency for CPU time. "
             "It sleeps at once where others want its core. Auto is 200us, and 0 where workers "
             "are as many as processors."},
    {.path = "server.max_message",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(server.max_message),
     .default_text = "auto",
     .words = auto_words,
     .min = 4 * KIB,
     .max = 4 * GIB - 64 * KIB,
     .help = "Largest message; at most memory.host.size / 4, and auto is that, up to 1G."},
    {.path = "server.max_connections",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(server.max_connections),
     .default_text = "auto",
     .words = auto_words,
     .max = 100000,
     .help = "Clients at one time; auto (or 0) is what the descriptor limit (ulimit -n) allows."},
    {.path = "server.handshake_timeout",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(server.handshake_timeout_ns),
     .default_text = "5s",
     .min = 10 * MS,
     .max = 60 * SEC,
     .help = "A connection that has not introduced itself by then is closed."},
    {.path = "server.counters_file",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(server.counters_file),
     .default_text = "auto",
     .min = 1,
     .max = 1023,
     .help =
         "File of the counters, for broker-ctl --file, also after the broker's end: a path; auto "
         "is beside the first Unix socket, if that folder is in memory (tmpfs); none: private "
         "memory. The former one becomes PATH.old."},
    {.path = "server.counters_objects",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(server.counters_objects),
     .default_text = "16384",
     .min = 64,
     .max = 1 << 20,
     .help = "Topics, subscriptions, queues and clients together that the views show; each takes "
             "832 bytes at start. More are counted, and not shown."},
    {.path = "server.insecure",
     .type = AMB_CONFIG_BOOL,
     .offset = FIELD(server.insecure),
     .default_text = "false",
     .help = "Allows TCP listeners off loopback: nothing is encrypted. Only auth.token, or keys of "
             "auth.users, "
             "keep others out."},
    {.path = "listen",
     .type = AMB_CONFIG_URLS,
     .offset = FIELD(listen),
     .default_text = "unix:///run/ambroker/broker.sock",
     .min = 1,
     .max = 64,
     .help = "Where clients connect: unix:///path?mode=0660&group=NAME, tcp://host:port, or "
             "tcp://eth0:port: each address of an interface (port 0: any free one, named when "
             "ready); tls:// as tcp://, encrypted."},
    {.path = "tls.certificate",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(tls.certificate),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = 255,
     .help = "File of the broker's certificate in PEM, and behind it of those that issued it. Read "
             "again at each reload, as the other three."},
    {.path = "tls.key",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(tls.key),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = 255,
     .help = "File of its private key in PEM, without a passphrase; its mode must be 0600 or "
             "stricter."},
    {.path = "tls.ca",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(tls.ca),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = 255,
     .help = "File of the authorities that certificates of clients may be of."},
    {.path = "tls.crl",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(tls.crl),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = 255,
     .help = "File of their lists of revoked certificates; with one, each authority of a client's "
             "chain needs its own."},
    {.path = "tls.clients",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(tls.clients),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "none",
     .words = clients_words,
     .help = "Certificates of clients: not asked for, checked where there is one, or required."},
    {.path = "tls.threads",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(tls.threads),
     .default_text = "1",
     .min = 1,
     .max = 4,
     .help = "Threads for handshakes. Nobody else computes them, so a crowd at the door holds up "
             "neither messages nor heartbeats."},
    {.path = "transports.trusted",
     .type = AMB_CONFIG_STRINGS,
     .offset = FIELD(transports.trusted),
     .default_text = "",
     .dev_text = "lo",
     .max = 16,
     .help = "Network interfaces on which UCX may open ports: whoever reaches one owns this "
             "process. Empty: no ucx links."},
    {.path = "transports.tcp",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(transports.tcp),
     .default_text = "auto",
     .words = switch_words,
     .help = "The ucx link over TCP: auto is where a client's URL asks for it, on is preferred to "
             "the stream link, off is never."},
    {.path = "transports.nvlink",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(transports.nvlink),
     .default_text = "auto",
     .words = switch_words,
     .help = "GPU to GPU copies by CUDA IPC, over NVLink where there is one."},
    {.path = "transports.infiniband",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(transports.infiniband),
     .default_text = "auto",
     .words = switch_words,
     .help = "RDMA over InfiniBand or RoCE on trusted interfaces."},
    {.path = "transports.cuda_copy",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(transports.cuda_copy),
     .default_text = "auto",
     .words = switch_words,
     .help = "Copies between host and GPU memory by the GPU's copy engines."},
    {.path = "transports.rdmacm",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(transports.rdmacm),
     .default_text = "auto",
     .words = switch_words,
     .help = "Connection management by RDMA. There is nothing to manage, as UCX endpoints are made "
             "from worker addresses: on is refused, auto and off are the same."},
    {.path = "transports.library",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(transports.library),
     .default_text = "auto",
     .min = 1,
     .max = 255,
     .help = "The UCX to load: wheel (beside this program), system, the path of a libucp or of its "
             "folder; auto takes the system's where RDMA devices are trusted and it has their "
             "module, else one with CUDA. AMB_UCX_LIBRARY wins."},
    {.path = "transports.net_devices",
     .type = AMB_CONFIG_STRINGS,
     .offset = FIELD(transports.net_devices),
     .default_text = "auto",
     .words = net_devices_words,
     .max = 16,
     .help =
         "The trusted devices UCX uses (UCX's names, as mlx5_0:1); auto is all of them, closest "
         "those nearest to the GPUs in use (broker-ctl topo)."},
    {.path = "transports.rails",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(transports.rails),
     .default_text = "auto",
     .words = auto_words,
     .max = 4,
     .help = "Devices one large message is spread over; auto leaves it to UCX."},
    {.path = "transports.port_range",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(transports.port_range),
     .default_text = "",
     .max = 11,
     .help = "TCP ports UCX may open, as \"5000-5100\", for firewalls; empty: any."},
    {.path = "transports.share_process",
     .type = AMB_CONFIG_BOOL,
     .offset = FIELD(share_process),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "false",
     .help =
         "Several tenants, and a role with ucx: its users can harm the broker's process, and so "
         "the other tenants. Without this such a configuration is refused."},
    {.path = "transports.ring_size",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(transports.ring_size),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .power_of_two = true,
     .default_text = "1M",
     .min = 64 * KIB,
     .max = 64 * MIB,
     .help = "Bytes of each direction of a local client's ring."},
    {.path = "transports.ucx",
     .type = AMB_CONFIG_PAIRS,
     .offset = FIELD(transports.ucx),
     .default_text = "",
     .max = 64,
     .help = "Settings for UCX itself, names without UCX_: { RNDV_THRESH = \"192K\"; }."},
    {.path = "memory.host.size",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(memory.host.size),
     .default_text = "1G",
     .min = 4 * MIB,
     .max = 4 * TIB,
     .help = "Memory for messages, all segments together."},
    {.path = "memory.host.segment",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(memory.host.segment),
     .power_of_two = true,
     .default_text = "64M",
     .dev_text = "16M",
     .min = 2 * MIB,
     .max = GIB,
     .help = "Size of one segment, the unit in which memory is made and mapped by readers."},
    {.path = "memory.host.spare",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(memory.host.spare),
     .default_text = "1",
     .max = 64,
     .help = "Segments kept ready before they are needed."},
    {.path = "memory.host.grow_on_demand",
     .type = AMB_CONFIG_BOOL,
     .offset = FIELD(memory.host.grow_on_demand),
     .default_text = "false",
     .dev_text = "true",
     .help = "Makes segments when they are needed and not at start."},
    {.path = "memory.host.hugepages",
     .not_yet = true,
     .example_value = "\"auto\"",
     .help = "Segments of huge pages."},
    {.path = "memory.cuda.size",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(memory.cuda.size),
     .default_text = "0",
     .max = 4 * TIB,
     .help = "Memory for messages on each GPU, at least 2M, allocated once at start; 0: none, GPU "
             "payloads travel through host memory."},
    {.path = "memory.cuda.devices",
     .type = AMB_CONFIG_STRINGS,
     .item_fault = amb_config_gpu_fault,
     .offset = FIELD(memory.cuda.devices),
     .default_text = "auto",
     .words = auto_words,
     .max = 64,
     .help = "Which GPUs, by index, UUID (GPU-..., of a part MIG-...) or PCI address; auto is all "
             "that the driver shows."},
    {.path = "memory.cuda.trust",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(memory.cuda.trust),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "user",
     .words = gpu_trust_words,
     .help = "Which local clients may map it, writable and as a whole: user is the broker's own "
             "user and root, all is every one, none leaves copies only."},
    {.path = "topics",
     .type = AMB_CONFIG_ELEMENTS,
     .elements = &topics_kind,
     .offset = FIELD(topics),
     .default_text = "",
     .max = 1024,
     .help = "Rules for topics; the first whose pattern matches a topic holds for it."},
    {.path = "roles",
     .type = AMB_CONFIG_ELEMENTS,
     .elements = &amb_config_roles_kind,
     .offset = FIELD(roles),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_ROLES_MAX,
     .help = "What users with these roles may do; a user may do nothing else. Of all roles of a "
             "user the allows add up, and any deny wins."},
    {.path = "tenants",
     .type = AMB_CONFIG_ELEMENTS,
     .elements = &amb_config_tenants_kind,
     .offset = FIELD(tenants),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_CONFIG_TENANTS_MAX,
     .help = "Tenants that users may be of. Each has topics, names, views and events of its own. "
             "Empty: any that auth.users names. The tenant $ is the operators' and is always "
             "there."},
    {.path = "quotas",
     .type = AMB_CONFIG_ELEMENTS,
     .elements = &amb_config_quotas_kind,
     .offset = FIELD(quotas),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_CONFIG_QUOTAS_MAX,
     .help =
         "Limits of users and tenants, over all of their sessions. Those of a user and those of "
         "its tenant hold both."},
    {.path = "limits.max_topics",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(limits.max_topics),
     .default_text = "10000",
     .min = 1,
     .max = 1000000,
     .help = "Topics of the whole broker."},
    {.path = "limits.topic_idle",
     .type = AMB_CONFIG_TIME,
     .offset = FIELD(limits.topic_idle_ns),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "5m",
     .words = forever_words,
     .min = SEC,
     .max = 8760 * HOUR,
     .help = "A topic without publishers and literal subscriptions is forgotten after so long, or "
             "sooner where "
             "max_topics is reached; its numbers begin anew."},
    {.path = "limits.durable_expiry",
     .type = AMB_CONFIG_TIME,
     .offset = FIELD(limits.durable_expiry_ns),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "1d",
     .words = forever_words,
     .min = SEC,
     .max = 8760 * HOUR,
     .help = "A durable name that no subscription uses is forgotten after so long, with what waits "
             "for it."},
    {.path = "limits.max_subscriptions",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(limits.max_subscriptions),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "10000",
     .min = 1,
     .max = 1000000,
     .help = "Subscriptions of the whole broker."},
    {.path = "limits.max_pairs",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(limits.max_pairs),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "2000000",
     .min = 1,
     .max = 100000000,
     .help =
         "Pairs of a subscription with a wildcard and a topic that it reads and that has had a "
         "message, of the whole broker. A pair takes about 400 bytes. A user has its share of them "
         "(user_share), and a process half of what others leave."},
    {.path = "limits.max_pairs_per_client",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(limits.max_pairs_per_client),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "250000",
     .min = 1,
     .max = 100000000,
     .help = "The same of one client. A subscription that would exceed it is refused; a client "
             "that grows past it, because topics get their first message, is ended."},
    {.path = "limits.max_publishers",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(limits.max_publishers),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "1024",
     .min = 1,
     .max = 1024,
     .help = "Open publishers of one client."},
    {.path = "limits.user_share",
     .type = AMB_CONFIG_COUNT,
     .offset = FIELD(limits.user_share),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "90",
     .min = 1,
     .max = 100,
     .help = "Per cent of what others leave of a limit that is the whole broker's (connections, "
             "topics, subscriptions, pairs, durable names, publishers' names, leased memory) that "
             "one user may have. "
             "A user is a uid on Unix sockets; all TCP clients are one. Root and the "
             "broker's own user may have all."},
    {.path = "limits.max_mapped_per_session",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(limits.max_mapped_per_session),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "1G",
     .max = 4 * TIB,
     .help = "Message bytes one client may hold mapped; of host memory at most half of "
             "memory.host.size, whatever is said here. Past it, it is served by copies."},
    {.path = "limits.max_leased_per_session",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(limits.max_leased_per_session),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "auto",
     .words = lease_words,
     .max = 4 * TIB,
     .help = "Memory that one local client may write in place, all its lease segments; at most "
             "memory.host.size / 4, and auto is that, up to 1G. 0: none, everything is copied."},
    {.path = "limits.max_heap_per_session",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(limits.max_heap_per_session),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "64M",
     .min = 16 * MIB,
     .max = 4 * TIB,
     .help = "Heap that the broker may use for one client: its publishers and subscriptions, what "
             "it was given and did not give back, what it was told and does not read."},
    {.path = "limits.window",
     .type = AMB_CONFIG_SIZE,
     .offset = FIELD(limits.window),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "2M",
     .min = 64 * KIB,
     .max = GIB,
     .help =
         "Bytes a publisher may have under way in one topic; small keeps them in the caches; below "
         "160K full batches go one a round trip."},
    {.path = "limits.peer_timeout",
     .type = AMB_CONFIG_TIME,
     .offset = FIELD(limits.peer_timeout_ns),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "5s",
     .min = 100 * MS,
     .max = HOUR,
     .help = "A client silent for so long is dead."},
    {.path = "limits.heartbeat",
     .type = AMB_CONFIG_TIME,
     .offset = FIELD(limits.heartbeat_ns),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "1s",
     .min = 10 * MS,
     .max = HOUR / 2,
     .help = "How often a client says that it lives; at most half of peer_timeout."},
    {.path = "limits.drain_timeout",
     .type = AMB_CONFIG_TIME,
     .offset = FIELD(limits.drain_timeout_ns),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "30s",
     .max = HOUR,
     .help = "How long a graceful end waits for subscribers to take what is there."},
    {.path = "limits.resume_grace",
     .not_yet = true,
     .example_value = "\"10s\"",
     .help = "How long a lost client's session can be resumed."},
    {.path = "limits.dedup_window",
     .type = AMB_CONFIG_TIME,
     .offset = FIELD(limits.dedup_window_ns),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "2m",
     .max = HOUR,
     .help = "How long at least it is known what a named publisher has sent, after it has gone."},
    {.path = "auth.token",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(auth.token),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .secret = true,
     .default_text = "",
     .max = 255,
     .help = "Shared secret that TCP clients must know; empty: none. Better in token_file."},
    {.path = "auth.token_file",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(auth.token_file),
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .default_text = "",
     .max = 1023,
     .help = "File whose first line is the token; its mode must be 0600 or stricter."},
    {.path = "auth.users",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(auth.users_file),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = 1023,
     .help = "File of users, in place of a token: nobody else is let in but root and the broker's "
             "own user, on the Unix socket. Its mode must be 0600 or stricter. Read again at each "
             "reload."},
    {.path = "log.level",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(log.level),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "info",
     .words = level_words,
     .help = "The least important lines that are written."},
    {.path = "log.audit",
     .type = AMB_CONFIG_TEXT,
     .offset = FIELD(log.audit),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = 1023,
     .help =
         "File of JSON lines that tells of logins, refusals, commands and reloads. Commands that "
         "cannot be recorded in it are refused. USR1 opens it again."},
    {.path = "log.format",
     .type = AMB_CONFIG_WORD,
     .offset = FIELD(log.format),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "auto",
     .words = format_words,
     .help = "Lines as text with a time, or one JSON object each. Auto is text; in systemd's "
             "journal, lines with its priorities."},
    {.path = "metrics",
     .not_yet = true,
     .example_value = "{ listen = \"127.0.0.1:8733\"; }",
     .help = "HTTP endpoint with metrics and health."},
    {.path = "client",
     .elsewhere = true,
     .example_value = "{ url = \"tcp://broker:4733\"; }",
     .help = "Of programs that use libamb, which read this file, too."},
    {.path = "cluster",
     .not_yet = true,
     .example_value = "{ engine = \"none\"; }",
     .help = "Several brokers as one."},
};

static const struct amb_config_key rule_keys[] = {
    {.path = "match",
     .type = AMB_CONFIG_TEXT,
     .offset = RULE(match),
     .example_value = "\"camera.>\"",
     .min = 1,
     .max = 255,
     .help = "Pattern of the topics: * is one token, > one or more at the end."},
    {.path = "full",
     .type = AMB_CONFIG_WORD,
     .offset = RULE(full),
     .default_text = "block",
     .words = full_words,
     .help = "What happens when the topic's log is full."},
    {.path = "max_messages",
     .type = AMB_CONFIG_COUNT,
     .offset = RULE(max_messages),
     .default_text = "0",
     .max = 1U << 31,
     .help = "Messages the log holds; 0: max_bytes alone limits it."},
    {.path = "max_bytes",
     .type = AMB_CONFIG_SIZE,
     .offset = RULE(max_bytes),
     .default_text = "64M",
     .min = 64 * KIB,
     .max = 4 * TIB,
     .help = "Bytes the log holds; one message always fits, however large."},
    {.path = "slow",
     .type = AMB_CONFIG_WORD,
     .offset = RULE(slow),
     .default_text = "block",
     .words = amb_config_slow_words,
     .help = "What happens to a subscriber that does not keep up and does not say itself."},
    {.path = "slow_block",
     .type = AMB_CONFIG_TIME,
     .offset = RULE(slow_block_ns),
     .default_text = "forever",
     .words = forever_words,
     .max = 24 * HOUR,
     .help = "How long slow = \"block\" holds publishers back before the oldest are dropped."},
    {.path = "spill_max",
     .type = AMB_CONFIG_SIZE,
     .offset = RULE(spill_max),
     .default_text = "64M",
     .max = 4 * TIB,
     .help = "Bytes that wait in host memory for subscribers with slow = \"spill\" alone, beside "
             "max_bytes, on each worker; then these lose their oldest."},
    {.path = "trust",
     .type = AMB_CONFIG_WORD,
     .offset = RULE(trust),
     .default_text = "auto",
     .words = trust_words,
     .help =
         "Leased batches are read in memory that their publisher can still write: publisher, by "
         "all; auto, by subscribers of its own user, and copied once another user's could map "
         "them; verify, by nobody, and copied when they come."},
    {.path = "trust_group",
     .type = AMB_CONFIG_TEXT,
     .offset = RULE(trust_group),
     .default_text = AMB_TRUST_GROUP_DEFAULT,
     .min = 1,
     .max = AMB_TRUST_GROUP_NAME_MAX,
     .help =
         "Topics whose messages share memory. A subscriber maps that memory only if its user may "
         "read all topics of the group; others get copies. Topics without this key are one "
         "group. There are at most 64."},
    {.path = "gpu",
     .type = AMB_CONFIG_WORD,
     .offset = RULE(gpu),
     .default_text = "stage",
     .words = topic_gpu_words,
     .help = "What is published from a GPU and cannot stay on it (no pool, no trust, another host) "
             "goes by host memory, or is rejected."},
    {.path = "prefer",
     .type = AMB_CONFIG_WORD,
     .offset = RULE(prefer),
     .default_text = "credit",
     .words = prefer_words,
     .help = "Which member of a group gets a message without a key: credit, the one with the most "
             "credit left; near, of those with half of their credit left the one nearest to the "
             "payload: in place on its GPU, then on this host (ring, Unix socket), then by TCP or "
             "UCX."},
    {.path = "expect",
     .type = AMB_CONFIG_WORD,
     .offset = RULE(expect),
     .default_text = "any",
     .words = expect_words,
     .help = "The way that payloads take, or a publisher or subscription is refused with what is "
             "missing: ring, shared memory; zero-copy, read and written in place; rdma, InfiniBand "
             "or RoCE; nvlink, from GPU to GPU, and gpu is reject then."},
    {.path = "retain.messages",
     .type = AMB_CONFIG_COUNT,
     .offset = RULE(retain.messages),
     .default_text = "0",
     .max = 1U << 31,
     .help =
         "History kept for readers to come: the newest so many messages; 0: no such limit. With "
         "none of the three nothing is kept. History gives way where the log or the memory is "
         "full."},
    {.path = "retain.bytes",
     .type = AMB_CONFIG_SIZE,
     .offset = RULE(retain.bytes),
     .default_text = "0",
     .max = 4 * TIB,
     .help = "... the newest so many bytes, whole batches; 0: no such limit."},
    {.path = "retain.age",
     .type = AMB_CONFIG_TIME,
     .offset = RULE(retain.age_ns),
     .default_text = "0",
     .max = 8760 * HOUR,
     .help = "... what came within so long; 0: no such limit."},
    {.path = "retain.keys",
     .type = AMB_CONFIG_COUNT,
     .offset = RULE(retain.keys),
     .default_text = "0",
     .max = AMB_KEYS_MAX,
     .help = "Beside that the newest message of each key, of so many keys at most, in max_bytes: "
             "start = last then gives these, and slow = latest leaves out what has a newer one of "
             "its key. 0: none."},
    {.path = "ttl",
     .type = AMB_CONFIG_TIME,
     .offset = RULE(ttl_ns),
     .default_text = "forever",
     .words = forever_words,
     .min = MS,
     .max = 8760 * HOUR,
     .help = "How old a message may become and still be delivered; its publisher may say less."},
    {.path = "durable",
     .not_yet = true,
     .example_value = "true",
     .help = "Messages survive the broker."},
};

_Static_assert(sizeof(keys) / sizeof(keys[0]) <= AMB_CONFIG_KEYS_MAX, "origins are kept per row");

const struct amb_config_schema amb_broker_schema = {
    .keys = keys, .count = sizeof(keys) / sizeof(keys[0]), .listing = "brokerd --print-config"};

static const struct {
    const char *group, *help;
} groups[] = {
    {"server", "The daemon itself."},
    {"tls", "Encrypted listeners, tls://host:port."},
    {"transports", "How bytes travel. auto uses what works here, on insists, off forbids."},
    {"memory", "Memory that messages live in, made at start and shared with local readers."},
    {"memory.host", "Main memory."},
    {"memory.cuda", "Memory of GPUs, mapped by local publishers and readers."},
    {"limits", "What clients may take."},
    {"auth", "Who may connect. Without users, Unix sockets are guarded by their mode and group."},
    {"log", "Log lines, on standard error."},
};

const struct amb_config_key *amb_config_keys(size_t *count)
{
    *count = sizeof(keys) / sizeof(keys[0]);
    return keys;
}

const struct amb_config_key *amb_config_rule_keys(size_t *count)
{
    *count = sizeof(rule_keys) / sizeof(rule_keys[0]);
    return rule_keys;
}

const char *amb_config_group_help(const char *group)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (strcmp(groups[i].group, group) == 0) {
            return groups[i].help;
        }
    }
    return "";
}
