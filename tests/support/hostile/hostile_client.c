/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/hostile/hostile_client.h"

#include "wire/base/clock.h"
#include "wire/link/stream/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_MS 30000
#define BODY_MAX (UINT64_C(64) << 20)

static const char *attack_name = "start";
static uint64_t attack_seed;

void hostile_name(const char *attack, uint64_t seed)
{
    attack_name = attack;
    attack_seed = seed;
}

void hostile_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "FAIL %s (seed %llu): ", attack_name, (unsigned long long)attack_seed);
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    _exit(EXIT_FAILURE);
}

/* Dice ------------------------------------------------------------------------------------------
 */

void hostile_init(struct hostile *h, const char *unix_path, uint16_t tcp_port, uint64_t seed)
{
    memset(h, 0, sizeof(*h));
    h->unix_path = unix_path;
    h->tcp_port = tcp_port;
    h->dice = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    h->control = -1;
    h->ring = (struct amb_ring_fds){-1, -1};
    h->lease.fd = -1;
    amb_control_reader_init(&h->reader);
}

uint64_t hostile_random(struct hostile *h)
{
    h->dice += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = h->dice;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t hostile_below(struct hostile *h, uint64_t limit)
{
    return hostile_random(h) % limit;
}

uint64_t hostile_edge(struct hostile *h)
{
    uint64_t near = hostile_below(h, 5) - 2;
    switch (hostile_below(h, 4)) {
    case 0:
        return hostile_below(h, 70);
    case 1:
        return (UINT64_C(1) << hostile_below(h, 64)) + near;
    case 2:
        return near;
    default:
        return hostile_random(h);
    }
}

void hostile_bytes(struct hostile *h, void *to, size_t len)
{
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t word = hostile_random(h);
        memcpy((uint8_t *)to + at, &word, len - at < sizeof(word) ? len - at : sizeof(word));
    }
}

/* Control connection ----------------------------------------------------------------------------
 */

int hostile_connect(const struct hostile *h, bool is_unix)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    (void)snprintf(local.sun_path, sizeof(local.sun_path), "%s", h->unix_path);
    struct sockaddr_in remote = {
        .sin_family = AF_INET,
        .sin_port = htons(h->tcp_port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = is_unix ? connect(fd, (const struct sockaddr *)&local, sizeof(local))
                         : connect(fd, (const struct sockaddr *)&remote, sizeof(remote));
    if (failed != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

bool hostile_send_bytes(struct hostile *h, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_MS * AMB_NS_PER_MS;
    while (len > 0) {
        ssize_t sent = send(h->control, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            from += sent;
            len -= (size_t)sent;
        } else if (errno != EAGAIN || h->is_over) {
            return false;
        } else if (amb_clock_monotonic_ns() > deadline_ns) {
            hostile_fail("the broker does not read its control connection");
        } else {
            hostile_hear(h, 1);
        }
    }
    return true;
}

bool hostile_send(struct hostile *h, const Amb__Control__Control *message)
{
    uint8_t bytes[AMB_CONTROL_MAX + AMB_CONTROL_PREFIX_SIZE];
    size_t len = amb_control_packed_size(message);
    if (len == 0) {
        return true;
    }
    amb_control_pack(message, bytes);
    return hostile_send_bytes(h, bytes, len);
}

bool hostile_send_fds(struct hostile *h, const Amb__Control__Control *message, const int *fds,
                      unsigned count)
{
    uint8_t bytes[4096];
    size_t len = amb_control_packed_size(message);
    union {
        char bytes[CMSG_SPACE(sizeof(int) * HOSTILE_FDS_MAX)];
        struct cmsghdr align;
    } control = {{0}};
    if (len == 0 || len > sizeof(bytes) || count > HOSTILE_FDS_MAX) {
        return false;
    }
    amb_control_pack(message, bytes);
    struct iovec iov = {.iov_base = bytes, .iov_len = len};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    }
    return sendmsg(h->control, &header, MSG_NOSIGNAL) == (ssize_t)len;
}

static int take_fd(struct hostile *h)
{
    if (h->fd_count == 0) {
        return -1;
    }
    int fd = h->fds[0];
    h->fd_count--;
    memmove(h->fds, h->fds + 1, h->fd_count * sizeof(int));
    return fd;
}

static void take_segment(struct hostile *h, const Amb__Control__SegAdd *add)
{
    int fd = take_fd(h);
    if (fd < 0 || h->segment_count == HOSTILE_SEGMENTS_MAX || h->is_deaf) {
        (void)close(fd);
        return;
    }
    struct hostile_segment *segment = &h->segments[h->segment_count++];
    segment->id = add->segment;
    segment->size = add->size;
    segment->fd = fd;
    void *base = mmap(NULL, add->size, PROT_READ, MAP_SHARED, fd, 0);
    segment->base = base == MAP_FAILED ? NULL : base;
    const struct amb_frame ready = {.type = AMB_FRAME_SEG_READY, .segment = add->segment};
    hostile_frame(h, &ready, NULL);
}

static void take_answer(struct hostile *h, uint64_t id, int status)
{
    h->answers++;
    if (id > h->answered) {
        h->answered = id;
        h->answer_status = status;
    }
}

static void take_error(struct hostile *h, uint64_t id, const Amb__Control__Error *error)
{
    if (id != 0) {
        take_answer(h, id, error->status == 0 ? AMB_EINTERNAL : error->status);
        h->errors++;
        (void)snprintf(h->refused_text, sizeof(h->refused_text), "%s", error->text);
        return;
    }
    h->over_status = error->status;
    (void)snprintf(h->over_text, sizeof(h->over_text), "%s", error->text);
    h->is_over = true;
}

/* A broker that has no room to spare opens with a window of 0. */
static void take_opened(struct hostile *h, uint64_t id, uint64_t window)
{
    for (uint32_t i = 0; i < AMB_HANDLES_MAX; i++) {
        struct hostile_pub *pub = &h->pubs[i];
        if (pub->asked == id) {
            pub->asked = 0;
            pub->window = pub->window < window ? window : pub->window;
        }
    }
    take_answer(h, id, 0);
}

static void take_message(struct hostile *h, const Amb__Control__Control *message)
{
    switch ((unsigned)message->body_case) {
    case AMB__CONTROL__CONTROL__BODY_ERROR:
        take_error(h, message->id, message->error);
        return;
    case AMB__CONTROL__CONTROL__BODY_SEG_ADD:
        take_segment(h, message->seg_add);
        return;
    case AMB__CONTROL__CONTROL__BODY_LEASE_OPENED:
        (void)close(h->lease.fd);
        h->lease = (struct hostile_segment){.id = message->lease_opened->segment,
                                            .size = message->lease_opened->size,
                                            .fd = take_fd(h)};
        take_answer(h, message->id, 0);
        return;
    case AMB__CONTROL__CONTROL__BODY_PUB_OPENED:
        take_opened(h, message->id, message->pub_opened->window);
        return;
    case AMB__CONTROL__CONTROL__BODY_PONG:
        h->pong = message->pong->time_ns;
        return;
    default:
        if (message->id != 0) {
            take_answer(h, message->id, 0);
        }
    }
}

static void take_ancillary(struct hostile *h, struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (h->fd_count < HOSTILE_FDS_MAX) {
                h->fds[h->fd_count++] = fd;
            } else {
                (void)close(fd);
            }
        }
    }
}

/* The next message; NULL: none yet, or no more (is_over). */
static Amb__Control__Control *receive(struct hostile *h)
{
    Amb__Control__Control *message = NULL;
    while (message == NULL) {
        uint8_t bytes[4096];
        size_t wanted = amb_control_wanted(&h->reader);
        struct iovec iov = {.iov_base = bytes,
                            .iov_len = wanted < sizeof(bytes) ? wanted : sizeof(bytes)};
        union {
            char bytes[CMSG_SPACE(sizeof(int) * HOSTILE_FDS_MAX)];
            struct cmsghdr align;
        } control;
        struct msghdr header = {.msg_iov = &iov,
                                .msg_iovlen = 1,
                                .msg_control = control.bytes,
                                .msg_controllen = sizeof(control.bytes)};
        ssize_t got = recvmsg(h->control, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got <= 0) {
            h->is_over = h->is_over || got == 0 || (errno != EAGAIN && errno != EINTR);
            return NULL;
        }
        take_ancillary(h, &header);
        size_t used;
        if (amb_control_read(&h->reader, bytes, (size_t)got, &used, &message, NULL) != AMB_OK) {
            hostile_fail("the broker sends nonsense on its control connection");
        }
    }
    return message;
}

void hostile_hear(struct hostile *h, int ms)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + ms * AMB_NS_PER_MS;
    while (!h->is_over) {
        Amb__Control__Control *message = receive(h);
        if (message != NULL) {
            take_message(h, message);
            amb_control_free(message);
            continue;
        }
        int64_t left_ns = deadline_ns - amb_clock_monotonic_ns();
        if (left_ns <= 0) {
            return;
        }
        struct pollfd poller = {.fd = h->control, .events = POLLIN};
        (void)poll(&poller, 1, (int)(left_ns / AMB_NS_PER_MS) + 1);
    }
}

/* Link ------------------------------------------------------------------------------------------
 */

struct outgoing {
    struct amb_link_tx tx;
    uint8_t body[];
};

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct hostile *h = arg;
    (void)mem;
    h->frames++;
    h->maps += frame->type == AMB_FRAME_MAP;
    h->settled += frame->type == AMB_FRAME_SETTLED;
    h->fetched += frame->type == AMB_FRAME_FETCHED;
    if (frame->type == AMB_FRAME_DELIVER || frame->type == AMB_FRAME_MAP ||
        frame->type == AMB_FRAME_MAP_LEASED || frame->type == AMB_FRAME_LAZY) {
        h->subs[frame->handle].delivered = frame->number;
    }
    uint64_t len = amb_frame_body_len(frame);
    if (len > 0 && len <= BODY_MAX) {
        *dst = malloc(len);
        *cookie = *dst;
    }
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    (void)arg;
    (void)status;
    free(cookie);
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct hostile *h = arg;
    if (kind == AMB_FLOW_WINDOW) {
        h->pubs[handle].window = value;
    } else if (kind == AMB_FLOW_ACCEPTED) {
        h->pubs[handle].accepted = value;
    }
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    (void)arg;
    (void)status;
    free(AMB_CONTAINER_OF(tx, struct outgoing, tx));
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    (void)why;
    (void)text;
    ((struct hostile *)arg)->is_down = true;
}

static void on_closed(void *arg)
{
    (void)arg;
}

static const struct amb_link_events events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

void hostile_frame(struct hostile *h, const struct amb_frame *frame, const void *body)
{
    if (h->link == NULL || h->is_down) {
        return;
    }
    uint64_t data = amb_frame_body_data(frame), len = amb_frame_body_len(frame);
    struct outgoing *out = malloc(sizeof(*out) + len);
    if (out == NULL) {
        hostile_fail("no memory for a frame of %llu bytes", (unsigned long long)len);
    }
    struct amb_frame whole = *frame;
    whole.session = h->welcome.session;
    whole.generation = h->welcome.generation;
    whole.secret = h->welcome.secret;
    if (len > 0) {
        memcpy(out->body, body, len);
    }
    out->tx = (struct amb_link_tx){.frame = &whole, .data = out->body, .meta = out->body + data};
    if (amb_link_send(h->link, &out->tx) != AMB_EAGAIN) {
        free(out);
    }
}

void hostile_flow(struct hostile *h, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    if (h->link != NULL && !h->is_down) {
        amb_link_flow(h->link, kind, handle, value);
    }
}

bool hostile_publish(struct hostile *h, uint32_t handle, uint64_t size)
{
    struct hostile_pub *pub = &h->pubs[handle];
    uint64_t data = amb_payload_padded(size), all = data + sizeof(struct amb_record);
    if (h->link == NULL || h->is_down || h->link->queued > 64) {
        return false;
    }
    if (pub->sent + all > pub->window) {
        if (pub->asked != 0) {
            return false; /* It has not been said yet what the window is. */
        }
        pub->want = pub->want < pub->sent + all ? pub->sent + all : pub->want;
        hostile_flow(h, AMB_FLOW_WANT, handle, pub->want);
        amb_link_flush(h->link);
        return false;
    }
    uint8_t *body = calloc(1, all);
    if (body == NULL) {
        return false;
    }
    memset(body, 0x5a, size);
    const struct amb_record record = {.len = (uint32_t)size};
    memcpy(body + data, &record, sizeof(record));
    const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                    .handle = handle,
                                    .seq = ++pub->batches,
                                    .count = 1,
                                    .data_len = data,
                                    .meta_len = sizeof(record)};
    pub->sent += all;
    hostile_frame(h, &frame, body);
    free(body);
    return true;
}

static void give_back(struct hostile *h)
{
    for (uint32_t i = 0; i < AMB_HANDLES_MAX; i++) {
        struct hostile_sub *sub = &h->subs[i];
        if (sub->released < sub->delivered) {
            sub->released = sub->delivered;
            hostile_flow(h, AMB_FLOW_RELEASE, i, sub->released);
        }
    }
}

void hostile_live(struct hostile *h, int ms)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + ms * AMB_NS_PER_MS;
    while (!h->is_over) {
        hostile_hear(h, 0);
        unsigned done = 0;
        if (h->link != NULL && !h->is_down) {
            done = amb_link_poll(h->link, 64);
            if (!h->keeps_deliveries) {
                give_back(h);
            }
            amb_link_flush(h->link);
        }
        int64_t now_ns = amb_clock_monotonic_ns();
        if (now_ns >= deadline_ns) {
            return;
        }
        if (done == 0) {
            int left_ms = (int)((deadline_ns - now_ns) / AMB_NS_PER_MS) + 1;
            hostile_hear(h, left_ms < 2 ? left_ms : 2);
        }
    }
}

/* Log in ----------------------------------------------------------------------------------------
 */

static Amb__Control__Control *await_message(struct hostile *h)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_MS * AMB_NS_PER_MS;
    for (;;) {
        Amb__Control__Control *message = receive(h);
        if (message != NULL && message->body_case != AMB__CONTROL__CONTROL__BODY_ERROR) {
            return message;
        }
        if (message != NULL) {
            take_message(h, message);
            amb_control_free(message);
        }
        if (h->is_over) {
            return NULL;
        }
        if (amb_clock_monotonic_ns() > deadline_ns) {
            hostile_fail("no answer in the handshake");
        }
        struct pollfd poller = {.fd = h->control, .events = POLLIN};
        (void)poll(&poller, 1, 10);
    }
}

static void send_hello(struct hostile *h, enum amb_link_kind link)
{
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = hello.version_max = AMB_CONTROL_VERSION;
    hello.name = (char *)(uintptr_t) "hostile";
    hello.link = (char *)(uintptr_t)amb_link_kind_name(link);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    (void)hostile_send(h, &message);
}

static void send_auth(struct hostile *h, bool wants_pidfd)
{
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    int pidfd = wants_pidfd ? (int)syscall(SYS_pidfd_open, getpid(), 0) : -1;
    (void)hostile_send_fds(h, &message, &pidfd, pidfd >= 0);
    (void)close(pidfd);
}

static void take_welcome(struct hostile *h, const Amb__Control__Welcome *welcome)
{
    h->welcome.session = welcome->session;
    h->welcome.generation = welcome->generation;
    h->welcome.secret = welcome->secret;
    h->ring_size = welcome->ring_size;
    h->max_message = welcome->max_message;
    h->may_map = welcome->may_map != 0;
}

bool hostile_handshake(struct hostile *h, enum amb_link_kind link)
{
    bool is_unix = link == AMB_LINK_RING;
    h->control = hostile_connect(h, is_unix);
    if (h->control < 0) {
        return false;
    }
    send_hello(h, link);
    Amb__Control__Control *message = await_message(h);
    if (message == NULL) {
        return false;
    }
    bool wants_pidfd = is_unix && message->body_case == AMB__CONTROL__CONTROL__BODY_CHALLENGE &&
                       !message->challenge->knows_process;
    amb_control_free(message);
    send_auth(h, wants_pidfd);
    message = await_message(h);
    if (message == NULL) {
        return false;
    }
    if (message->body_case != AMB__CONTROL__CONTROL__BODY_WELCOME) {
        hostile_fail("not a Welcome: %d", (int)message->body_case);
    }
    take_welcome(h, message->welcome);
    amb_control_free(message);
    return true;
}

static bool join_ring(struct hostile *h)
{
    h->ring.memory = take_fd(h);
    h->ring.bell = take_fd(h);
    const struct amb_ring_fds mine = {
        .memory = fcntl(h->ring.memory, F_DUPFD_CLOEXEC, 0),
        .bell = fcntl(h->ring.bell, F_DUPFD_CLOEXEC, 0),
    };
    off_t size = lseek(h->ring.memory, 0, SEEK_END);
    if (size <= 0 || amb_ring_attach(h->ring_size, &mine, &events, h, &h->link) != AMB_OK) {
        hostile_fail("the ring cannot be attached");
    }
    h->memory_size = (uint64_t)size;
    void *memory =
        mmap(NULL, h->memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, h->ring.memory, 0);
    if (memory == MAP_FAILED) {
        hostile_fail("the ring cannot be mapped: %s", strerror(errno));
    }
    h->memory = memory;
    return true;
}

int hostile_attach(struct hostile *h, uint32_t session, uint32_t generation, uint64_t secret,
                   bool *is_ok)
{
    struct hostile other;
    hostile_init(&other, h->unix_path, h->tcp_port, hostile_random(h));
    *is_ok = false;
    other.control = hostile_connect(h, false);
    if (other.control < 0) {
        return -1;
    }
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    attach.session = session;
    attach.generation = generation;
    attach.secret = secret;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    (void)hostile_send(&other, &message);
    Amb__Control__Control *answer = await_message(&other);
    *is_ok = answer != NULL && answer->body_case == AMB__CONTROL__CONTROL__BODY_OK;
    amb_control_free(answer);
    amb_control_reader_fini(&other.reader);
    return other.control;
}

static bool join_stream(struct hostile *h)
{
    bool is_ok;
    int fd =
        hostile_attach(h, h->welcome.session, h->welcome.generation, h->welcome.secret, &is_ok);
    if (fd < 0 || !is_ok) {
        hostile_fail("the stream cannot be attached");
    }
    return amb_stream_create(fd, &events, h, &h->link) == AMB_OK;
}

bool hostile_login(struct hostile *h, enum amb_link_kind link)
{
    return hostile_handshake(h, link) && (link == AMB_LINK_RING ? join_ring(h) : join_stream(h));
}
