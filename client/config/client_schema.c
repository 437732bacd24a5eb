/* SPDX-License-Identifier: Apache-2.0 */
#include "client/config/client_schema.h"

#include "client/config/client_config.h"
#include "wire/base/clock.h"
#include "wire/link/ucxlib/ucx_choose.h"

#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define TIB (UINT64_C(1) << 40)
#define MS ((uint64_t)AMB_NS_PER_MS)
#define SEC ((uint64_t)AMB_NS_PER_SEC)
#define HOUR (3600 * SEC)
#define BROKERS "The broker's."
#define FIELD(member) offsetof(struct amb_client_config, member)

static const struct amb_config_word auto_words[] = {{"auto", 0, false}, {NULL, 0, false}};
static const struct amb_config_word net_devices_words[] = {
    {"auto", 0, false}, {AMB_NET_DEVICES_CLOSEST, 1, false}, {NULL, 0, false}};
static const struct amb_config_word spin_words[] = {{"auto", AMB_CLIENT_SPIN_AUTO, false},
                                                    {NULL, 0, false}};
static const struct amb_config_word forever_words[] = {{"forever", AMB_CLIENT_FOREVER, false},
                                                       {NULL, 0, false}};
static const struct amb_config_word link_words[] = {{"auto", AMB_LINK_ANY, false},
                                                    {"ring", AMB_LINK_RING, false},
                                                    {"stream", AMB_LINK_STREAM, false},
                                                    {"ucx", AMB_LINK_UCX, false},
                                                    {NULL, 0, false}};
static const struct amb_config_word switch_words[] = {{"auto", AMB_SWITCH_AUTO, false},
                                                      {"on", AMB_SWITCH_ON, false},
                                                      {"off", AMB_SWITCH_OFF, false},
                                                      {NULL, 0, false}};

/* The rows of transports are the broker's own, with the same meaning on this side; those that only
 * a broker has are at the end. Rows of one group stand together. */
static const struct amb_config_key keys[] = {
    {.path = "client.url",
     .type = AMB_CONFIG_TEXT,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(url),
     .default_text = "unix:///run/ambroker/broker.sock",
     .min = 1,
     .max = AMB_CLIENT_URLS_MAX,
     .help = "The broker, or a comma list of them that is tried in order. The argument of "
             "amb_connect and $AMB_URL go first."},
    {.path = "client.link",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(link),
     .default_text = "auto",
     .words = link_words,
     .help =
         "The link of URLs that have no ?link=; auto leaves it to the broker, all else insists. "
         "ring is for unix:// alone, and ucx for tcp:// alone."},
    {.path = "client.name",
     .type = AMB_CONFIG_TEXT,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(name),
     .default_text = "",
     .max = 63,
     .help = "How the broker shows this client; empty: the program's name."},
    {.path = "client.credentials",
     .type = AMB_CONFIG_TEXT,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(credentials),
     .default_text = "",
     .max = 4095,
     .help = "File whose first line is the token for a TCP listener; $AMB_CREDENTIALS."},
    {.path = "client.connect_timeout",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(connect_timeout_ns),
     .default_text = "10s",
     .min = MS,
     .max = 24 * HOUR,
     .help = "How long amb_connect may take."},
    {.path = "client.timeout",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(timeout_ns),
     .default_text = "5s",
     .min = MS,
     .max = 24 * HOUR,
     .help = "How long a round trip to the broker may take, as amb_subscribe makes one."},
    {.path = "client.heartbeat",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(heartbeat_ns),
     .default_text = "auto",
     .words = auto_words,
     .min = 10 * MS,
     .max = HOUR,
     .help = "How often this client says that it lives; auto is as the broker says, and a smaller "
             "value is obeyed."},
    {.path = "client.reconnect.min",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(reconnect.min_ns),
     .default_text = "50ms",
     .min = MS,
     .max = HOUR,
     .help = "The pause before the first attempt to reconnect; each later one doubles."},
    {.path = "client.reconnect.max",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(reconnect.max_ns),
     .default_text = "5s",
     .min = MS,
     .max = HOUR,
     .help = "The longest pause between attempts."},
    {.path = "client.reconnect.attempts",
     .type = AMB_CONFIG_COUNT,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(reconnect.attempts),
     .default_text = "forever",
     .words = forever_words,
     .max = 1000000,
     .help = "Attempts before a lost session is over for good; 0: none."},
    {.path = "client.retry_first",
     .type = AMB_CONFIG_BOOL,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(retry_first),
     .default_text = "false",
     .help = "amb_connect tries again, too, until connect_timeout is over."},
    {.path = "client.memory_max",
     .type = AMB_CONFIG_SIZE,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(memory_max),
     .default_text = "1G",
     .min = 64 * KIB,
     .max = 4 * TIB,
     .help = "Host memory for messages that are received by copy."},
    {.path = "client.send_memory_max",
     .type = AMB_CONFIG_SIZE,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(send_memory_max),
     .default_text = "128M",
     .min = 64 * KIB,
     .max = 4 * TIB,
     .help = "Bytes of batches that are on their way and still in this process."},
    {.path = "client.spin",
     .type = AMB_CONFIG_TIME,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(spin_ns),
     .default_text = "auto",
     .words = spin_words,
     .max = (uint64_t)AMB_CLIENT_SPIN_MAX_NS,
     .help = "How long a call that waits looks for its message before it sleeps; auto is 200us, "
             "and 0 where there is one processor; $AMB_SPIN."},
    {.path = "transports.trusted",
     .type = AMB_CONFIG_STRINGS,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.trusted),
     .default_text = "",
     .max = 16,
     .help = "Network interfaces on which UCX may open ports: whoever reaches one owns this "
             "process. Empty: no ucx links; $AMB_TRUSTED."},
    {.path = "transports.tcp",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.tcp),
     .default_text = "auto",
     .words = switch_words,
     .help = "The ucx link over TCP: on is an error where it cannot work, off is never."},
    {.path = "transports.nvlink",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.nvlink),
     .default_text = "auto",
     .words = switch_words,
     .help = "GPU to GPU copies by CUDA IPC, over NVLink where there is one."},
    {.path = "transports.infiniband",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.infiniband),
     .default_text = "auto",
     .words = switch_words,
     .help = "RDMA over InfiniBand or RoCE on trusted interfaces."},
    {.path = "transports.cuda_copy",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.cuda_copy),
     .default_text = "auto",
     .words = switch_words,
     .help = "Copies between host and GPU memory by the GPU's copy engines."},
    {.path = "transports.rdmacm",
     .type = AMB_CONFIG_WORD,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.rdmacm),
     .default_text = "auto",
     .words = switch_words,
     .help = "Connection management by RDMA, of which there is none to do: on is refused."},
    {.path = "transports.library",
     .type = AMB_CONFIG_TEXT,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.library),
     .default_text = "auto",
     .min = 1,
     .max = 255,
     .help = "The UCX to load: wheel (beside libamb), system, the path of a libucp or of its "
             "folder; auto takes one that fits the broker's; $AMB_UCX_LIBRARY."},
    {.path = "transports.net_devices",
     .type = AMB_CONFIG_STRINGS,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.net_devices),
     .default_text = "auto",
     .words = net_devices_words,
     .max = 16,
     .help = "The trusted devices UCX uses (UCX's names, as mlx5_0:1); auto is all of them, and so "
             "is closest, which is for brokers."},
    {.path = "transports.rails",
     .type = AMB_CONFIG_COUNT,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.rails),
     .default_text = "auto",
     .words = auto_words,
     .max = 4,
     .help = "Devices one large message is spread over; auto leaves it to UCX."},
    {.path = "transports.port_range",
     .type = AMB_CONFIG_TEXT,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.port_range),
     .default_text = "",
     .max = 11,
     .help = "TCP ports UCX may open, as \"5000-5100\", for firewalls; empty: any."},
    {.path = "transports.ucx",
     .type = AMB_CONFIG_PAIRS,
     .apply = AMB_CONFIG_NEW_SESSIONS,
     .offset = FIELD(transports.ucx),
     .default_text = "",
     .max = 64,
     .help = "Settings for UCX itself, names without UCX_: { RNDV_THRESH = \"192K\"; }."},
    {.path = "transports.ring_size", .elsewhere = true, .help = BROKERS},
    {.path = "server", .elsewhere = true, .help = BROKERS},
    {.path = "listen", .elsewhere = true, .help = BROKERS},
    {.path = "tls", .elsewhere = true, .help = BROKERS},
    {.path = "memory", .elsewhere = true, .help = BROKERS},
    {.path = "topics", .elsewhere = true, .help = BROKERS},
    {.path = "limits", .elsewhere = true, .help = BROKERS},
    {.path = "auth", .elsewhere = true, .help = BROKERS},
    {.path = "log", .elsewhere = true, .help = BROKERS},
    {.path = "metrics", .elsewhere = true, .help = BROKERS},
    {.path = "cluster", .elsewhere = true, .help = BROKERS},
};

_Static_assert(sizeof(keys) / sizeof(keys[0]) <= AMB_CONFIG_KEYS_MAX, "origins are kept per row");

const struct amb_config_schema amb_client_schema = {
    .keys = keys,
    .count = sizeof(keys) / sizeof(keys[0]),
    .listing = "broker-ctl config --role client",
};

const char *amb_client_variable(const char *path)
{
    static const struct {
        const char *path, *variable;
    } variables[] = {
        {"client.url", "AMB_URL"},
        {"client.credentials", "AMB_CREDENTIALS"},
        {"client.spin", "AMB_SPIN"},
        {"transports.trusted", "AMB_TRUSTED"},
        {"transports.library", AMB_UCX_LIBRARY_ENV},
    };
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (strcmp(variables[i].path, path) == 0) {
            return variables[i].variable;
        }
    }
    return NULL;
}
