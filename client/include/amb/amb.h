/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <amb/amb.h>: libamb, the client library of Ambroker.
 *
 *     amb_connect ─► amb_pub_open ─► amb_pub_send ... ─► amb_pub_close ─► amb_close
 *                 └► amb_subscribe ─► amb_next, amb_msg_data, amb_msg_release ... ─► amb_sub_close
 *
 * Rules that hold for every call:
 *  - Threads: any thread may call on any handle, and two threads may share one. Once a close has
 *    returned, nobody may use that handle.
 *  - Waiting: timeouts are relative, in nanoseconds. AMB_NOWAIT answers AMB_EAGAIN where the call
 *    would wait, an elapsed timeout AMB_ETIMEDOUT. A call without a timeout does not block, except
 *    amb_connect, amb_pub_open and amb_subscribe, which options.connect_timeout_ns and
 *    options.timeout_ns bound.
 *  - A lost broker ends nothing: the library reconnects, handles stay, waits go on, see
 * amb_options. Where it must not, or gives up, every call and wait answers AMB_ELOST, or why it
 * gave up.
 *  - Callbacks: the library calls you only inside amb_poll, and inside a close for what is still
 *    outstanding. Callbacks may call anything but amb_close and amb_poll (AMB_ESTATE).
 *  - Memory: structs given to a call are read during that call only. A pointer that a getter
 * returns lives as long as the handle it was asked of. Every close and release takes NULL.
 *  - Failure: handle outputs become NULL, other outputs stay untouched.
 *  - After fork() every call in the child answers AMB_EFORKED; close and release only free.
 *  - No global state: many connections, each with its own everything.
 */
#ifndef AMB_AMB_H
#define AMB_AMB_H

#include <amb/cxx.h>
#include <amb/event.h>
#include <amb/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AMB_API __attribute__((visibility("default")))
#define AMB_CHECK AMB_API __attribute__((warn_unused_result))

/* Durations and times are int64_t nanoseconds. */
#define AMB_US INT64_C(1000)
#define AMB_MS INT64_C(1000000)
#define AMB_SEC INT64_C(1000000000)
#define AMB_NOWAIT INT64_C(0)
#define AMB_FOREVER INT64_MAX
#define AMB_NONE UINT32_MAX      /* in a uint32_t option: "not at all", where 0 is the default */
#define AMB_UNLIMITED UINT64_MAX /* in a uint64_t option: "no limit" */

struct amb_conn;   /* a connection to a broker */
struct amb_pub;    /* a publisher on one topic */
struct amb_sub;    /* a subscription to the topics of one pattern */
struct amb_msg;    /* a received message, shared by reference count */
struct amb_lease;  /* memory for one message, written in place */
struct amb_keep;   /* the memory of a lease, beyond its end */
struct amb_region; /* memory of the application's that it has registered */
struct amb_resource;

/* ---- errors ---- */

/* The last failure, in a sentence. text is NUL-terminated and empty if status is AMB_OK. */
struct amb_error {
    enum amb_status status;
    char text[252];
};

/* Static text, for any value. */
AMB_API const char *amb_strerror(enum amb_status status);
/* The scope of its harm: this call, a message, the session, the process. */
AMB_API enum amb_scope amb_status_scope(enum amb_status status);
/* A snapshot by value. EAGAIN and ETIMEDOUT never write it. NULL: EINVAL. */
AMB_API struct amb_error amb_last_error(const struct amb_conn *conn);
/* "0.1.0": of the library loaded. */
AMB_API const char *amb_version(void);

/* ---- options ----
 *
 * `size` comes first and is the struct's size as the program was compiled; the macros set it. 0 in
 * any field is its default. A field whose feature this release does not have answers AMB_ENOTSUP
 * unless it is 0, with a sentence that names it: these are marked (later).
 */

enum amb_progress {
    AMB_PROGRESS_THREAD, /* the library runs one thread for the connection */
    AMB_PROGRESS_POLL,   /* none: amb_poll and blocking calls do everything; poll at least every
                            heartbeat_ns, or the broker takes this client for dead. Threads come
                            and go for a reconnect, and for calls of a GPU's driver that wait */
};

typedef int (*amb_interrupted_fn)(void *arg);
#define AMB_SPIN_NEVER INT64_C(-1) /* amb_options.spin_ns: a call that waits sleeps at once */

struct amb_options {
    uint32_t size;
    enum amb_progress progress;
    const char *name;        /* how the broker shows this client; the program's name */
    const char *credentials; /* path of a user's credentials (docs/security.md), or of a file whose
                              * first line is a token; $AMB_CREDENTIALS */
    amb_event_fn on_event;
    void *event_arg;
    struct amb_error *error;    /* written when amb_connect fails */
    int64_t connect_timeout_ns; /* 10 s */
    int64_t timeout_ns;         /* 5 s: of a round trip to the broker */
    int64_t heartbeat_ns;       /* as the broker says; a smaller value is obeyed */
    /* A lost session is followed by attempts, host by host. They come after 50 ms, then twice as
     * long each time up to 5 s, a fifth more or less by chance. They go on for ever, unless there
     * is a number of them. AMB_NONE: by no attempt. Unsent messages stay, up to each publisher's
     * window. Those that may have been sent are settled with EUNKNOWN. Missed ones are told with
     * the next message. */
    int64_t reconnect_min_ns;
    int64_t reconnect_max_ns;
    uint32_t reconnect_attempts;
    uint32_t retry_first; /* 1: amb_connect tries again too, until connect_timeout_ns is over */
    uint64_t memory_max;  /* 1 GiB: host memory for messages received by copy; for sending below */
    const struct amb_resource *resources; /* (later) */
    uint32_t resource_count;              /* (later) */
    uint32_t detached;                    /* (later) */
    uint32_t ucx_am_id;                   /* (later) */
    uint32_t reserved;
    /* Interfaces on which this program lets UCX open a port ("lo", "eth0,ib0"), needed for
     * ?link=ucx; the RDMA device behind one is trusted with it. A peer that can reach that port
     * owns the process. $AMB_TRUSTED, or transports.trusted of the file; none. */
    const char *trusted_network;
    /* 128 MiB: the bytes of batches that are on their way and still in this process. They are there
     * because the link is full, or there is no session. Or they are of publishers with a name, and
     * not settled yet. They count as allocated. At the limit publishing waits as for a
     * window; a message larger than the rest passes when nothing is held. Beside it each publisher
     * has one batch, up to 200 KiB, and leases in private memory are bounded by window_bytes. */
    uint64_t send_memory_max;
    /* How long a call that waits looks for its message before it sleeps: latency for CPU time. Up
     * to 10 ms; AMB_SPIN_NEVER. 0: $AMB_SPIN ("0", "50us"), else 200 us. Where other threads want
     * the core the call sleeps at once, whatever is asked. */
    int64_t spin_ns;
    /* Path of a libconfig file whose section `client` has what is 0 here, and whose section
     * `transports` has what UCX may do; docs/config-client.md. Environment and options go first.
     * $AMB_CONFIG; none. It may be the broker's, too. EINVAL: options.error has file:line. ENOTSUP:
     * this machine has no libconfig to read it with. */
    const char *config;
    /* Of tls:// URLs, files in PEM, read at each attempt. The authorities that a broker's
     * certificate may be of: $AMB_CA, client.ca of the file, else the system's. A URL with ?pin=
     * needs none. */
    const char *ca;
    /* The certificate must be for this name: client.server_name, else the URL's host. */
    const char *server_name;
    /* This client's own, for brokers that ask for one: $AMB_CERTIFICATE and $AMB_KEY, else
     * client.certificate and client.key; none. The key's mode is 0600 or stricter. */
    const char *certificate;
    const char *key;
    /* 1 ends a call that waits, with AMB_ECANCELED. Asked on that thread, after a signal or while
     * the broker's answer is awaited; may block, and call amb_poll alone (docs/api.md).
     * While the link reads a payload where it lies, 1 has amb_close end the session. amb_pub_send
     * and amb_pub_copy leave a copy to the link then, and answer AMB_OK. On ucx 1 ends the session
     * there too, and the call still waits: UCX reads the bytes, and nothing takes that back. It has
     * them until they are through, or the link is forced to end. Where the broker stands still that
     * comes after 0.3 s and 10 ns a byte, so 10 s for 1 GB. With reconnecting it comes after 11 s
     * at most. */
    amb_interrupted_fn is_interrupted;
    void *interrupted_arg;
};

/* One run of consecutive messages of a publisher, settled alike. */
struct amb_settled {
    uint32_t size;
    enum amb_status status; /* AMB_OK: confirmed as asked */
    uint64_t first, last;   /* of this publisher's sequence, from 1, both included */
    uint64_t log_seq;       /* sequence of `first` in the topic; 0 if refused or not told */
    uint32_t matched;       /* subscriptions that matched, of the last batch in the run; of each
                               with confirm = DELIVERED, unless 64 runs waited to be told */
    uint32_t duplicates;    /* (later) */
    /* confirm = DELIVERED: of the run's messages, counted once for each subscription that matched
     * when they came (a group is one). Delivered ones were released, or acknowledged where the
     * subscription does that. Dropped ones were not, because of its policy, a time to live, its
     * end, or as dead letters. */
    uint64_t delivered, dropped;
};
typedef void (*amb_settled_fn)(struct amb_pub *pub, const struct amb_settled *settled, void *arg);

struct amb_pub_options {
    uint32_t size;
    /* ACCEPTED: settled when the broker has it; NONE too. DELIVERED: when each subscription that
     * matched then is done with it. DURABLE (later). */
    enum amb_confirm confirm;
    /* 1 to 64 bytes without white space, its user's own on this topic, one publisher at a time
     * (EBUSY). Messages that may be lost with a session are sent again, and come once. The next
     * life of the program goes on behind those that have come: amb_pub_info.posted tells, and the
     * next message is the one after. Leases are private memory. */
    const char *name;
    uint64_t window_msgs;   /* 64 Ki messages not yet settled */
    uint64_t window_bytes;  /* 64 MiB; the broker's window may be smaller */
    int64_t linger_ns;      /* 50 us: how long a message may wait for company in its batch */
    enum amb_mem lease_mem; /* HOST, PINNED or CUDA; see amb_lease. Not CUDA_MANAGED */
    int32_t device;         /* CUDA, PINNED: which, as the driver counts */
    amb_settled_fn on_settled;
    void *arg;
    /* NORMAL; of all its messages. Messages that wait for a subscription leave HIGH first, LOW
     * last, always: order is per publisher, not between priorities. ENOTSUP: the topic has none. */
    enum amb_priority priority;
};

/*
 * Where received payloads go instead: memory of the application's. Called on the thread that takes
 * a message or gives one back, or on one of the library's; must not block or call amb_. alloc
 * answers NULL for "not now": it is asked again after the next free, or a moment later. `device` is
 * -1 for host memory.
 */
struct amb_allocator {
    uint32_t size;
    enum amb_mem mem; /* HOST, PINNED, CUDA, CUDA_MANAGED; 0: what the subscription wants */
    void *(*alloc)(void *ctx, size_t len, size_t align, int device);
    void (*free)(void *ctx, void *ptr, size_t len, int device);
    void *ctx;
};

/*
 * The type of an array's bytes, in DLPack's numbers. All strides 0: C order. Else the payload
 * begins at the element of the lowest address. The one with all indices 0 lies behind it by
 * (shape[i] - 1) * -strides[i] elements of each dimension i whose stride is negative.
 */
struct amb_tensor {
    uint8_t code; /* kDLInt 0, kDLUInt 1, kDLFloat 2, ... */
    uint8_t bits;
    uint16_t lanes;
    uint32_t ndim;
    int64_t shape[8];
    int64_t strides[8]; /* in elements */
};

typedef void (*amb_msg_fn)(struct amb_msg *msg, void *arg);

struct amb_sub_options {
    uint32_t size;
    enum amb_mem mem;     /* HOST, PINNED, CUDA, CUDA_MANAGED; AS_SENT: where it lies */
    int32_t device;       /* all but HOST: which, as the driver counts */
    enum amb_lazy lazy;   /* 1 (ON): without payloads, which amb_msg_fetch brings; PIN, HEADERS */
    const char *group;    /* exactly one member of a group gets each message; NULL: none */
    const char *durable;  /* the place in the topics outlives this subscription; NULL: no */
    enum amb_start start; /* NEW; in each topic of the pattern on its own */
    enum amb_ack ack;     /* NONE: a delivered message is done with; see amb_msg_ack */
    uint64_t start_at;    /* LAST_N: messages; SEQ: the first; TIME: ns since 1970 */
    int64_t ack_wait_ns;  /* 30 s: unacknowledged for so long, a message comes again */
    const int64_t *backoff_ns; /* the pause before each redelivery, the last for all later ones */
    uint32_t backoff_count;    /* up to 16 of them; 0: no pause */
    uint32_t max_deliver;      /* deliveries before a message is a dead letter; 0: no limit */
    uint64_t credit_msgs;      /* 64 Ki delivered and not released, slow = LATEST: 1; one batch
                                  always passes, a second one beside it unless this is 1 */
    uint64_t credit_bytes;     /* 64 MiB; one message always passes, in shared memory two */
    enum amb_slow slow;        /* the topic's */
    uint32_t copy;             /* 1: always into memory of this process, never mapped in place */
    int64_t slow_block_ns;     /* 100 ms: BLOCK holds publishers back for so long, then drops */
    const struct amb_allocator *allocator; /* payloads into the application's own memory */
    const void *position;                  /* start = POSITION: from amb_sub_position */
    size_t position_len;                   /* else 0, whatever `position` is */
    /* Set: messages come here, inside amb_poll, and amb_next answers AMB_EINVAL. The message is
     * borrowed for the call: amb_msg_ref to keep it. */
    amb_msg_fn on_message;
    void *arg;
    /* Only messages whose properties pass, as "kind = 'trade' and (price > 100 or has urgent)";
     * others are not sent and not lost. NULL: all. docs/api.md has the language. EINVAL: it is
     * wrong, amb_last_error says where. Not with slow = LATEST. */
    const char *filter;
    /* At most so many messages, and bytes of payload, a second; 0: no limit. Messages that come
     * faster wait in the topics' logs, as slow says. These three: without acks, group and
     * durable. */
    uint64_t rate_msgs;
    uint64_t rate_bytes;
    enum amb_tempo replay; /* AT_ONCE; ORIGINAL: at the times at which it was published */
    /* With mem = AS_SENT: an allocator for each kind of memory, at most 4. A message goes to the
     * one of the kind that its publisher had it in, whatever way it came. Each names its `mem` and
     * has the same `size`; CUDA and CUDA_MANAGED ones are asked for memory on `device`. EINVAL: two
     * of one kind; a kind that never comes here, because this process has no CUDA driver. */
    enum amb_fallback fallback; /* of a kind without one */
    const struct amb_allocator *allocators;
    uint32_t allocator_count;
    uint32_t reserved;
};

struct amb_iov {
    const void *data;
    size_t len;
};

/* A property: name is NUL-terminated and does not begin with '$'; value is `len` bytes. */
struct amb_prop {
    const char *name;
    const void *value;
    size_t len;
};

/*
 * A message on its way out. One of data, iov, forward; none of them is an empty payload. data may
 * be GPU memory: this release copies it by way of the host before the call returns.
 */
struct amb_out {
    uint32_t size;
    enum amb_mem mem; /* of data; 0: detected. EKIND if it is other memory */
    const void *data;
    size_t len;
    const struct amb_iov *iov; /* instead of data: these pieces, one behind the other */
    struct amb_msg *forward;   /* instead of data: the payload of this received message */
    uint32_t iov_count;
    uint32_t prop_count;
    const struct amb_prop *props;
    const struct amb_tensor *tensor; /* the array that the payload is */
    const char *content_type;
    const char *key;
    /* CUstream: work on it so far comes first. NULL and 1 are the default stream of data's GPU, 2
     * is the thread's own. ESTATE: it captures a graph; or it is NULL or 1, and a stream that waits
     * for it captures. */
    void *stream;
    int64_t ttl_ns; /* 0: for ever. Rounded up to milliseconds */
    void *reserved;
    /* Compare and set: the sequence in its topic that this message must get, one more than the last
     * one there is. Else it is refused (settled with EREJECTED); 0: any. It leaves alone. */
    uint64_t expect_seq;
};

/*
 * AMB_SUB(.group = "g", .credit_msgs = 16): a pointer to options of which these are set. In C it
 * lives as long as a variable there would, in C++ until the call is over (<amb/cxx.h>).
 */
#ifndef __cplusplus
#define AMB_WITH(type, ...) (&(struct type){.size = sizeof(struct type), __VA_ARGS__})
_Static_assert(sizeof(enum amb_mem) == 4, "-fshort-enums changes the ABI of libamb");
/* struct amb_pub_info info = AMB_INIT(amb_pub_info); */
#define AMB_INIT(type)                                                                             \
    {                                                                                              \
        .size = sizeof(struct type)                                                                \
    }
/* { AMB_PROP("name", "text") } */
#define AMB_PROP(n, v)                                                                             \
    {                                                                                              \
        .name = (n), .value = (v), .len = sizeof(v) - 1                                            \
    }
#else
static_assert(sizeof(enum amb_mem) == 4, "-fshort-enums changes the ABI of libamb");
#endif
#define AMB_OPTIONS(...) AMB_WITH(amb_options, __VA_ARGS__)
#define AMB_PUB(...) AMB_WITH(amb_pub_options, __VA_ARGS__)
#define AMB_SUB(...) AMB_WITH(amb_sub_options, __VA_ARGS__)
#define AMB_OUT(...) AMB_WITH(amb_out, __VA_ARGS__)

/* ---- connection ---- */

#define AMB_ADDRESS_MAX 72 /* bytes that hold any address, with its NUL */

/*
 * An address of this machine that others can use, as it stands in a URL: "192.0.2.7" or
 * "[2001:db8::7]". It asks the kernel, and neither blocks nor needs a broker.
 *   interface  its name, as "ib0"; NULL: the first interface with such an address. A loopback
 *              interface is none, whatever addresses it has
 *   out        the text, with its NUL; AMB_ADDRESS_MAX bytes are enough
 *   error      NULL, or a sentence for a failure
 * IPv4 goes before IPv6. Link-local IPv6 addresses are left out: other machines need a scope of
 * their own for them. EINVAL: no such interface, or no such address; the sentence has the
 * interfaces that there are. ETOOLARGE: size is too small. ENOMEM, ELIMIT, EFORBIDDEN, EINTERNAL.
 */
AMB_CHECK enum amb_status amb_interface_address(const char *interface, char *out, size_t size,
                                                struct amb_error *error);

/*
 * Opens a session with a broker. Blocks up to options.connect_timeout_ns.
 *   url      NULL: $AMB_URL, else client.url of the configuration file, else
 *            unix:///run/ambroker/broker.sock. A comma list is tried in order.
 *            unix:///path, tcp://host:port; ?link=ring|stream|ucx insists on a link.
 *            tcp://host:port?interface=ib0 connects from an address of that interface.
 *            ?expect=ring|zero-copy|rdma|nvlink demands a way of payloads: EINVAL or ENOTSUP, with
 *            what is missing.
 *   options  NULL: all defaults
 *   out      the connection, to be given back to amb_close
 * EUNREACHABLE, EAUTH, EVERSION, EBUSY, EINVAL, ENOTSUP, ETIMEDOUT; options.error says more.
 * amb_connect reads AMB_* from the environment, and a reconnect does not again. Programs with
 * more rights than their user (set-user-ID, file capabilities) read none of them. With link=ucx UCX
 * reads UCX_*, also on libamb's thread at each reconnect. libamb sets no variable. A program calls
 * setenv or putenv only before its first amb_connect.
 */
AMB_CHECK enum amb_status amb_connect(const char *url, const struct amb_options *options,
                                      struct amb_conn **out);

/*
 * Flushes what was published, settles the rest with ECLOSED (callbacks run on this thread), closes
 * and frees publishers and subscriptions. The handle is gone whatever it answers. AMB_NOWAIT: does
 * not wait for the broker. Calls of other threads turn back first, and one that is inside the CUDA
 * driver when that has answered. Messages and leases still held stay valid; memory and session end
 * with the last one. A commit then answers ECLOSED.
 * The first failure of an earlier publish as amb_flush says it; ETIMEDOUT; ESTATE in a callback.
 */
AMB_API enum amb_status amb_close(struct amb_conn *conn, int64_t timeout_ns);

/*
 * Takes no new messages, and gives unfetched ones back. Waits until the held ones are released and
 * published ones are confirmed. ETIMEDOUT: amb_last_error says what is left.
 */
AMB_API enum amb_status amb_drain(struct amb_conn *conn, int64_t timeout_ns);

/* Waits until earlier publishes are confirmed; answers the first failure since the last flush. */
AMB_API enum amb_status amb_flush(struct amb_conn *conn, int64_t timeout_ns);

/* Async-signal-safe and for good: waiting and later amb_next and amb_poll answer AMB_ESTOPPED.
 * Publishing still works. */
AMB_API void amb_stop(struct amb_conn *conn);

/* For poll and epoll: readable (level-triggered) when amb_poll has something to do, until it has
 * done it. The library's own: do not read it, do not close it. -1 in a forked child. */
AMB_API int amb_fd(const struct amb_conn *conn);

/*
 * Runs the callbacks that are due, at most 256, and in POLL mode moves data first. Waits up to
 * timeout_ns if there is nothing to do. Several threads may poll; callbacks of one publisher or
 * subscription never overlap.
 * AMB_OK: at least one callback ran, or a message that amb_next gives now has arrived since the
 * last amb_poll. It is also the answer if nothing was due and the timeout is AMB_NOWAIT. ETIMEDOUT:
 * none of these. ESTOPPED, ELOST (once everything due was called), ESTATE in a callback, EINVAL: a
 * negative time.
 */
AMB_API enum amb_status amb_poll(struct amb_conn *conn, int64_t timeout_ns);

/*
 * Asks the broker: "status", "topics", "subs", "clients", "workers", "memory", "transports".
 * *out: a message whose payload is JSON. EFORBIDDEN, ENOTFOUND, ETIMEDOUT.
 */
AMB_CHECK enum amb_status amb_admin(struct amb_conn *conn, const char *query, int64_t timeout_ns,
                                    struct amb_msg **out);

/* ---- publish ---- */

/*
 * Publishes a copy of data[0..len) to a topic; the timeout is for room in the window. Publishers
 * are opened as needed and kept for the last 1,024 topics used; a first use is a round trip.
 * ETOPIC, EFORBIDDEN, ETOOLARGE, EAGAIN, ETIMEDOUT, ELOST.
 */
AMB_CHECK enum amb_status amb_publish(struct amb_conn *conn, const char *topic, const void *data,
                                      size_t len, int64_t timeout_ns);

/* A round trip to the broker: errors of topic and rights come here. ETOPIC, EFORBIDDEN, ELIMIT. */
AMB_CHECK enum amb_status amb_pub_open(struct amb_conn *conn, const char *topic,
                                       const struct amb_pub_options *options, struct amb_pub **out);

/*
 * The hot call: publishes a copy; the bytes are yours on return. Small messages leave together, at
 * the latest linger_ns after the first of them. The n-th message of a publisher has sequence n.
 * EAGAIN, ETIMEDOUT: no room (in the window, in options.send_memory_max), nothing was published;
 * after EAGAIN AMB_EVENT_ROOM tells when there may be some.
 * ETOOLARGE, ELOST.
 */
AMB_CHECK enum amb_status amb_pub_send(struct amb_pub *pub, const void *data, size_t len,
                                       int64_t timeout_ns);

/*
 * Publishes without copying where that helps. Payload bytes (data, or forward's) are borrowed until
 * *seq is settled (on_settled, amb_pub_flush); everything else is read during the call. seq may be
 * NULL. Errors as amb_pub_send, and EINVAL, ENOTSUP for fields of `message`.
 */
AMB_CHECK enum amb_status amb_pub_post(struct amb_pub *pub, const struct amb_out *message,
                                       int64_t timeout_ns, uint64_t *seq);

/*
 * amb_pub_post for bytes that are the caller's again on return, forward's message too: as
 * amb_pub_send, with all that `message` can say. The timeout is for room. Then a payload that is
 * too large for a batch is sent from where it lies, however long the link takes to read it. With
 * AMB_NOWAIT it is copied instead, so that nothing in host memory is waited for; EAGAIN where
 * options.send_memory_max has no room for the copy. Errors as amb_pub_post.
 */
AMB_CHECK enum amb_status amb_pub_copy(struct amb_pub *pub, const struct amb_out *message,
                                       int64_t timeout_ns, uint64_t *seq);

/*
 * Sends what waits for company and waits until all messages up to seq (0: all so far) are settled.
 * The first failure not yet reported is answered once, like fsync. AMB_NOWAIT only sends.
 */
AMB_CHECK enum amb_status amb_pub_flush(struct amb_pub *pub, uint64_t seq, int64_t timeout_ns);

/* Waits until at least `count` subscriptions match. Before a topic's first message the count may
 * lag by some hundred milliseconds. */
AMB_CHECK enum amb_status amb_pub_wait_subscribers(struct amb_pub *pub, uint32_t count,
                                                   int64_t timeout_ns);

/* Waits until the link has read all payloads that amb_pub_post has borrowed, as amb_pub_close does,
 * but with a timeout. EAGAIN, ETIMEDOUT, ECLOSED; ECANCELED by options.is_interrupted. */
AMB_CHECK enum amb_status amb_pub_wait_borrowed(struct amb_pub *pub, int64_t timeout_ns);

/* Set info->size (AMB_INIT). Asks nobody. */
AMB_API enum amb_status amb_pub_stat(const struct amb_pub *pub, struct amb_pub_info *info);

/* Flushes, then frees. AMB_NOWAIT cancels what has not left (settled with ECANCELED). Answers the
 * first failure not yet reported. No callback of it runs afterwards, and no event names it: one
 * that runs on another thread is waited for. So it is for amb_sub_close. */
AMB_API enum amb_status amb_pub_close(struct amb_pub *pub, int64_t timeout_ns);

/* ---- lease ----
 *
 * Memory for one message, written in place and handed over without a copy. On a ring it lies in
 * memory that the broker and local subscribers map. Elsewhere it is private and its bytes are
 * transferred when it is committed. The calls are the same.
 *
 * The memory stays writable for this process after the commit, and readers in place see later
 * writes. They have the publisher's word alone that it leaves the memory as it is. By default (the
 * topic's trust = "auto") only subscribers of the publisher's own user read in place, and all
 * others have the broker's copy. "verify" gives that to all, "publisher" to nobody. The same holds
 * for what amb_pub_send puts there by itself: 16 KiB and more on a ring.
 *
 * lease_mem = PINNED is such memory too, which the driver of `device` has pinned. Copy engines and
 * kernels write there at full rate, and the program goes on meanwhile. All others see plain host
 * memory. CUDA is the broker's memory on `device`. Managed memory is not leased: no other process
 * could read it in place, so amb_pub_post of memory of your own does the same.
 */

/*
 * len bytes (0 and up) for one message of this publisher. The timeout is for room: a free place, or
 * the first memory of that size, which takes a while. The content of the bytes before they are
 * written is not said.
 *   out  to be given to amb_lease_commit or amb_lease_abandon, by any thread
 * ETOOLARGE, EAGAIN (then AMB_EVENT_ROOM), ETIMEDOUT, ENOMEM; ECLOSED: the publisher is being
 * closed; ELOST. Of a GPU's: ENOTSUP, ENOTFOUND, EFORBIDDEN, ELIMIT, ECUDA; amb_last_error has the
 * sentence.
 */
AMB_CHECK enum amb_status amb_lease(struct amb_pub *pub, size_t len, int64_t timeout_ns,
                                    struct amb_lease **out);

/*
 * Where to write, aligned to 64 bytes; until it is committed or abandoned, whatever is closed or
 * lost meanwhile. NULL: lease is, it is GPU memory, or this is a forked child, where the memory is
 * not.
 */
AMB_API void *amb_lease_data(const struct amb_lease *lease);
/*
 * The same of GPU memory (lease_mem = CUDA), or of PINNED memory as GPUs see it. It is a device
 * address, for work put on `stream` (CUstream) from here on; aligned to 4096 bytes. NULL: it is
 * plain host memory. Commit it with that stream, or when the work that writes there has run;
 * abandon it only then.
 */
AMB_API void *amb_lease_data_on(const struct amb_lease *lease, void *stream);

/*
 * Publishes it, in the order of the calls on its publisher. Never blocks; consumes the lease, also
 * on failure: its bytes are not to be touched any more. Commits gather as small messages do.
 *   message  data, iov and forward unset; len: how many of its bytes (0: all). NULL: all of them,
 *            without properties. PINNED and CUDA: it leaves when what is on `stream` (NULL: the
 *            default one) so far has run
 *   seq      the message's sequence, as amb_pub_post has it; may be NULL
 * EINVAL, ENOTSUP, ETOOLARGE for fields of `message`; ENOMEM; ECLOSED: its publisher is closed;
 * ELOST. ESTATE: the stream captures a graph; the lease stays yours. A stream of another GPU is
 * waited for.
 */
AMB_API enum amb_status amb_lease_commit(struct amb_lease *lease, const struct amb_out *message,
                                         uint64_t *seq);

/* Gives it back unpublished. */
AMB_API void amb_lease_abandon(struct amb_lease *lease);

/*
 * Keeps the memory of a lease that is out. It stays where it is for this process, readable and
 * writable, and no other lease gets it. That holds whatever becomes of the lease, the publisher,
 * the connection and, of host memory, the broker. For a face whose users may hold views of it.
 * Never blocks. Until it is given back it counts as leased, and in GPU memory keeps the session
 * alive.
 *   out  to be given to amb_lease_unkeep, by any thread, at any time
 * ESTATE: it is kept already. ENOMEM, EFORKED.
 */
AMB_CHECK enum amb_status amb_lease_keep(struct amb_lease *lease, struct amb_keep **out);
/* Gives it back: no more access to it, and of a GPU's no work under way that has any. A lease that
 * is still out, and a message in it, go on without. NULL and a forked child are allowed. */
AMB_API void amb_lease_unkeep(struct amb_keep *keep);

/* ---- subscribe ---- */

/*
 * Subscribes to topics: "a.b", "a.*" (one token), "a.>" (one or more). Active at the broker when it
 * returns. ETOPIC, EFORBIDDEN, ELIMIT, ENOTSUP.
 */
AMB_CHECK enum amb_status amb_subscribe(struct amb_conn *conn, const char *pattern,
                                        const struct amb_sub_options *options,
                                        struct amb_sub **out);

/*
 * Takes the next message; you own one reference, to be given to amb_msg_release. Messages of one
 * subscription come in order to whoever asks first. ESTOPPED; ECLOSED: the subscription is being
 * closed; ELOST; EINVAL if on_message is set.
 */
AMB_CHECK enum amb_status amb_next(struct amb_sub *sub, int64_t timeout_ns, struct amb_msg **out);

/* Waits for one message, then takes what is there, up to max. out[0..*count) are yours. */
AMB_CHECK enum amb_status amb_next_many(struct amb_sub *sub, int64_t timeout_ns,
                                        struct amb_msg **out, size_t max, size_t *count);

struct amb_sub_info {
    uint32_t size;
    uint32_t narrowed; /* 1: roles of the user deny some topics of the pattern, which never come */
    uint64_t pending_msgs, pending_bytes; /* arrived and not yet taken */
    uint64_t held_msgs, held_bytes;       /* taken and not yet released; bytes of whole batches */
    uint64_t delivered, lost;             /* messages: taken; lost, as their successors told */
    uint64_t last_seq;                    /* of the message taken last */
    uint64_t staged_bytes;                /* written to GPU memory by way of the host */
    uint64_t credit_msgs, credit_bytes;   /* as asked for, or by default */
};
/* Set info->size (AMB_INIT). Asks nobody. */
AMB_API enum amb_status amb_sub_stat(const struct amb_sub *sub, struct amb_sub_info *info);

/*
 * The subscription's place in each topic that it has read, as opaque bytes. With them another one
 * (start = POSITION) goes on behind the last message that was taken here. Topics that are not among
 * them are read from when this one began.
 *   len  room at `position` (may be NULL if 0); then how many bytes it takes, also on failure
 * ETOOLARGE: more than there is room for, or more topics than a position can hold (32 KiB).
 */
AMB_CHECK enum amb_status amb_sub_position(struct amb_sub *sub, void *position, size_t *len);

/* Wakes waiters with ECLOSED, ends the subscription at the broker, frees. Messages taken stay
 * valid. No callback of it runs afterwards. */
AMB_API enum amb_status amb_sub_close(struct amb_sub *sub, int64_t timeout_ns);

/* ---- message ----
 *
 * Getters ask nobody and take any message you hold; any thread, also after amb_close.
 */

/* One more reference; returns msg. */
AMB_API struct amb_msg *amb_msg_ref(struct amb_msg *msg);
/* Gives a reference back. */
AMB_API void amb_msg_release(struct amb_msg *msg);

/* A copy that holds neither its batch nor credit, for amb_msg_release. Not to be acknowledged;
 * docs/api.md. ESTATE: the payload is on a GPU, or lazy and not fetched; ENOMEM, EFORKED. */
AMB_CHECK enum amb_status amb_msg_copy(const struct amb_msg *msg, struct amb_msg **out);

/* The payload, amb_msg_size bytes, read-only, aligned to 16 bytes. NULL only if the CPU cannot read
 * it: it is GPU memory, or lazy and not fetched; and not empty. */
AMB_API const void *amb_msg_data(const struct amb_msg *msg);
AMB_API size_t amb_msg_size(const struct amb_msg *msg);
AMB_API enum amb_mem amb_msg_mem(const struct amb_msg *msg);
/* The device its memory is on; -1: host. */
AMB_API int amb_msg_device(const struct amb_msg *msg);
/* How it came: "mapped", "ring", "tcp", "ucx", "cuda_ipc"; "staged": from the host to a GPU, or the
 * other way; "lazy": not yet. */
AMB_API const char *amb_msg_path(const struct amb_msg *msg);
/*
 * GPU memory (mem = CUDA) is given out for a stream, and back on one. This is the address of the
 * payload, for work put on `stream` (CUstream; NULL: the default one) from here on. PINNED and
 * CUDA_MANAGED memory are given out so, too, and amb_msg_data gives them to the CPU. NULL: it is
 * plain host memory.
 */
AMB_API const void *amb_msg_data_on(const struct amb_msg *msg, void *stream);
/*
 * amb_msg_release, when the work on the stream so far has run.
 *
 * The thread waits for that itself in three cases:
 *   - the payload is in host memory
 *   - the stream is of another GPU, or of another context than the GPU's primary one
 *   - no event can be had
 * Handles as at amb_out.stream. If the payload is in host memory, default streams are those of the
 * thread's context. A thread without one waits for those of all GPUs in use.
 *
 * ESTATE: the stream captures a graph, so nobody can say when its work has run. The message is not
 * released: it stays yours. No other error.
 */
AMB_API enum amb_status amb_msg_release_on(struct amb_msg *msg, void *stream);
/* The array that the payload is, as its publisher described it: all elements lie in the payload,
 * whatever shape and strides are. NULL: nothing, or nothing that can be, was said; or no memory. */
AMB_API const struct amb_tensor *amb_msg_tensor(const struct amb_msg *msg);

/*
 * Brings the payload of a lazy message: from then on amb_msg_data has it, until the message is
 * released. At once where it is here already.
 *
 *   ESTALE              the broker has it no more, or that session is over
 *   ESTATE              lazy = HEADERS
 *   ETIMEDOUT, EAGAIN   it did not come in time; the second with AMB_NOWAIT
 *   ENOMEM              options.memory_max, or with AMB_FOREVER the broker's
 *   ECUDA, ECLOSED, ELOST
 */
AMB_CHECK enum amb_status amb_msg_fetch(struct amb_msg *msg, int64_t timeout_ns);
/*
 * The payload's bytes offset .. offset+len-1 to dst, which may be GPU memory: of any message, and
 * of a lazy one without the rest. Errors as amb_msg_fetch, and EINVAL: it has no such bytes. On
 * failure some of them may have come.
 */
AMB_CHECK enum amb_status amb_msg_read(struct amb_msg *msg, uint64_t offset, void *dst, size_t len,
                                       int64_t timeout_ns);

struct DLManagedTensorVersioned; /* of <dlpack/dlpack.h>, version 1; amb brings one, see api.md */
/*
 * The payload as an array for other libraries, read-only and in place: of bytes where the publisher
 * named no tensor. It holds a reference of its own until its deleter is called, by any thread.
 * stream: as for amb_msg_data_on; it must live until then.
 * EINVAL: what the publisher said of it cannot be, or does not lie in the payload; ESTATE: a lazy
 * message without its payload; ENOMEM.
 */
AMB_CHECK enum amb_status amb_msg_dlpack(struct amb_msg *msg, void *stream,
                                         struct DLManagedTensorVersioned **out);
/*
 * Points `out` and *tensor to another library's array, a DLTensor: data, len, mem, tensor. Nothing
 * is copied, both must stay until the message is published. Strides of any sign go along, and so do
 * the bytes between the elements. Of some columns of a matrix all of its rows are sent.
 * EINVAL: no array, or more than 8 dimensions. EINVAL: elements of no whole bytes that are not in C
 * order, or one element that is all of them (strides 0). EKIND: another maker's memory.
 */
AMB_CHECK enum amb_status amb_out_dlpack(struct amb_out *out, struct amb_tensor *tensor,
                                         const void *dl_tensor);

/* ---- the application's memory ---- */

/*
 * Registers memory that an allocator gives pieces of, host or GPU memory, so that the library knows
 * what lies in it. In this release nothing is pinned. EINVAL: it overlaps another region of this
 * connection.
 */
AMB_CHECK enum amb_status amb_register(struct amb_conn *conn, void *memory, size_t len,
                                       struct amb_region **out);
/*
 * Waits until no message lies in it, then forgets it: the memory may be freed. EAGAIN, ETIMEDOUT:
 * one still does, and the region stays. Before amb_close, which forgets all of them. NULL is
 * allowed.
 */
AMB_API enum amb_status amb_unregister(struct amb_region *region, int64_t timeout_ns);

AMB_API const char *amb_msg_topic(const struct amb_msg *msg);
/* NULL: none. */
AMB_API const char *amb_msg_key(const struct amb_msg *msg);
AMB_API const char *amb_msg_content_type(const struct amb_msg *msg);
/* Its number in its topic; messages of other priorities are counted with it. */
AMB_API uint64_t amb_msg_seq(const struct amb_msg *msg);
AMB_API enum amb_priority amb_msg_priority(const struct amb_msg *msg);
/* When the broker took it, ns since 1970. */
AMB_API int64_t amb_msg_time(const struct amb_msg *msg);
/* How often it has been delivered, this time included. */
AMB_API uint32_t amb_msg_deliveries(const struct amb_msg *msg);
/* Messages that this subscription lost just before this one; why may be NULL. */
AMB_API uint64_t amb_msg_lost(const struct amb_msg *msg, enum amb_loss *why);
/* Is it a request? */
AMB_API bool amb_msg_wants_reply(const struct amb_msg *msg);
/* NULL for an answer of amb_admin. Valid until that subscription is closed. */
AMB_API struct amb_sub *amb_msg_sub(const struct amb_msg *msg);

/* The value of a property, NUL-terminated behind its *len bytes; NULL: it has none of that name. */
AMB_API const void *amb_msg_prop(const struct amb_msg *msg, const char *name, size_t *len);
/* Properties that the publisher set; key and content type are not among them. */
AMB_API size_t amb_msg_prop_count(const struct amb_msg *msg);
/* ENOTFOUND behind the last. */
AMB_API enum amb_status amb_msg_prop_at(const struct amb_msg *msg, size_t index,
                                        struct amb_prop *out);

/*
 * With amb_sub_options.ack: what became of the message. Queued, never waits for the broker; the
 * reference stays yours, and the message may be released before or after. After ack_wait the
 * message is somebody's again: then an ack settles it all the same, and the other three calls
 * change nothing. amb_flush waits until the broker has counted them all. ESTATE: the subscription
 * has no acks; ESTALE: its session was lost meanwhile; ECLOSED, ELOST.
 */
/* It is done with. CUMULATIVE: and all that came before it. */
AMB_API enum amb_status amb_msg_ack(struct amb_msg *msg);
/* It shall come again, after so long (0: as backoff_ns says, or at once), to whoever is free. */
AMB_API enum amb_status amb_msg_nak(struct amb_msg *msg, int64_t delay_ns);
/* Still at it: ack_wait begins anew. */
AMB_API enum amb_status amb_msg_in_progress(struct amb_msg *msg);
/* It shall never come again: to $DLQ.<topic>, with the reason (up to 255 bytes, or NULL). */
AMB_API enum amb_status amb_msg_term(struct amb_msg *msg, const char *reason);

/* ---- request and reply ----
 *
 * A request is a message whose publisher waits for one message back. A receiver may answer it: the
 * right to comes with it, and is worth nothing any more once the request is over.
 */

/* reply: borrowed for the call (amb_msg_ref to keep it), NULL unless status is AMB_OK. */
typedef void (*amb_reply_fn)(enum amb_status status, struct amb_msg *reply, void *arg);

/*
 * Publishes a request and waits for the first reply; you own one reference to it. timeout_ns, above
 * 0, is for both, and is the request's time to live.
 * ENORESPONDERS, at once: nobody reads that topic. ETIMEDOUT; EUNKNOWN: the broker was lost on the
 * way; ESTOPPED, ELIMIT, and the errors of amb_publish.
 */
AMB_CHECK enum amb_status amb_request(struct amb_conn *conn, const char *topic, const void *data,
                                      size_t len, int64_t timeout_ns, struct amb_msg **reply);

/*
 * The same without waiting for the reply: on_reply is called once, inside amb_poll or amb_close,
 * unless this call fails. The message is read during the call, which may wait for room. At most
 * 65,536 are open at a time: ELIMIT.
 */
AMB_CHECK enum amb_status amb_request_post(struct amb_conn *conn, const char *topic,
                                           const struct amb_out *message, int64_t timeout_ns,
                                           amb_reply_fn on_reply, void *arg);

/* Answers a request with a copy of the bytes; the timeout is for room. ESTATE unless
 * amb_msg_wants_reply; the errors of amb_publish. That it is too late is not told. */
AMB_API enum amb_status amb_reply(struct amb_msg *request, const void *data, size_t len,
                                  int64_t timeout_ns);

/* The same with properties and all; the message is read during the call. */
AMB_API enum amb_status amb_reply_post(struct amb_msg *request, const struct amb_out *message,
                                       int64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif
