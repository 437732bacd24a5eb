/* SPDX-License-Identifier: Apache-2.0 */
/* The fake broker's control connection. */
#include "tests/support/fake_broker/fake_broker_internal.h"

#include "wire/base/assert.h"
#include "wire/link/ring/ring.h"
#include "wire/link/stream/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void fake_say(int socket, const Amb__Control__Control *message, const int *fds, size_t count)
{
    uint8_t bytes[8192];
    size_t size = amb_control_packed_size(message);
    amb_assert(size != 0 && size <= sizeof(bytes));
    amb_control_pack(message, bytes);
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count != 0) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    (void)!sendmsg(socket, &msg, MSG_NOSIGNAL);
}

void fake_say_ok(struct fake_broker *fake, int socket, uint64_t id)
{
    (void)fake;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Ok ok;
    amb__control__ok__init(&ok);
    message.id = id;
    message.ok = &ok;
    message.body_case = AMB__CONTROL__CONTROL__BODY_OK;
    fake_say(socket, &message, NULL, 0);
}

void fake_say_error(int socket, uint64_t id, enum amb_status status, const char *text)
{
    char copy[AMB_CONTROL_TEXT_MAX];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Error error;
    amb__control__error__init(&error);
    error.status = status;
    error.text = copy;
    message.id = id;
    message.error = &error;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ERROR;
    fake_say(socket, &message, NULL, 0);
}

static void say_challenge(struct fake_broker *fake)
{
    static uint8_t nonce[32];
    char mechanism[] = "peer";
    char link[16];
    (void)snprintf(link, sizeof(link), "%s", amb_link_kind_name(fake->options.link));
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Challenge challenge;
    amb__control__challenge__init(&challenge);
    challenge.version = AMB_CONTROL_VERSION;
    challenge.nonce.data = nonce;
    challenge.nonce.len = sizeof(nonce);
    challenge.mechanism = mechanism;
    challenge.link = link;
    message.challenge = &challenge;
    message.body_case = AMB__CONTROL__CONTROL__BODY_CHALLENGE;
    fake_say(fake->control, &message, NULL, 0);
}

static void say_welcome(struct fake_broker *fake)
{
    char link[16];
    (void)snprintf(link, sizeof(link), "%s", amb_link_kind_name(fake->options.link));
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Welcome welcome;
    amb__control__welcome__init(&welcome);
    welcome.session = 1;
    welcome.generation = 2;
    welcome.secret = 3;
    welcome.link = link;
    welcome.ring_size = AMB_RING_SIZE_DEFAULT;
    welcome.max_message = fake->options.max_message;
    welcome.batch_bytes =
        fake->options.batch_bytes != 0 ? fake->options.batch_bytes : AMB_BATCH_BYTES;
    welcome.batch_msgs = AMB_BATCH_MSGS_MAX;
    welcome.heartbeat_ns = fake->options.heartbeat_ns;
    welcome.peer_timeout_ns = fake->options.peer_timeout_ns;
    welcome.may_map = 1;
    welcome.lease_bytes = fake->options.lease_bytes;
    message.welcome = &welcome;
    message.body_case = AMB__CONTROL__CONTROL__BODY_WELCOME;
    if (fake->options.link != AMB_LINK_RING) {
        fake_say(fake->control, &message, NULL, 0);
        return;
    }
    struct amb_ring_fds fds;
    enum amb_status status =
        amb_ring_create(AMB_RING_SIZE_DEFAULT, &fake_link_events, fake, &fds, &fake->link);
    amb_assert(status == AMB_OK);
    fake_watch_link(fake);
    const int list[2] = {fds.memory, fds.bell};
    fake_say(fake->control, &message, list, 2);
    for (size_t i = 0; i < 2; i++) {
        (void)close(list[i]);
    }
}

static void say_opened(struct fake_broker *fake, const Amb__Control__Control *request)
{
    uint32_t handle = request->pub_open->handle;
    amb_assert(handle < FAKE_HANDLES);
    fake->window[handle] = fake->seen.bytes[handle] + fake->options.window;
    fake->tells_settled[handle] = request->pub_open->settled != 0;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__PubOpened opened;
    amb__control__pub_opened__init(&opened);
    opened.topic = 1;
    opened.window = fake->window[handle];
    opened.gpu_reject = fake->options.rejects_gpu;
    if (fake->options.gpu_why != NULL) {
        opened.gpu_why = (char *)(uintptr_t)fake->options.gpu_why;
    }
    message.id = request->id;
    message.pub_opened = &opened;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPENED;
    fake_say(fake->control, &message, NULL, 0);
}

/* In two pieces, as a long answer comes. */
static void say_admin(struct fake_broker *fake, const Amb__Control__Control *request)
{
    char first[] = "{\"query\":", second[300];
    (void)snprintf(second, sizeof(second), "\"%.200s\"}", request->admin->query);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__AdminReply reply;
    amb__control__admin_reply__init(&reply);
    message.id = request->id;
    message.admin_reply = &reply;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY;
    reply.json.data = (uint8_t *)first;
    reply.json.len = strlen(first);
    fake_say(fake->control, &message, NULL, 0);
    reply.json.data = (uint8_t *)second;
    reply.json.len = strlen(second);
    reply.last = 1;
    fake_say(fake->control, &message, NULL, 0);
}

static void say_pong(struct fake_broker *fake)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Pong pong;
    amb__control__pong__init(&pong);
    message.pong = &pong;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PONG;
    fake_say(fake->control, &message, NULL, 0);
}

static void note_wish(struct fake_seen *seen, const Amb__Control__Subscribe *subscribe)
{
    seen->lazy = subscribe->lazy;
    seen->wish.ack = subscribe->ack;
    seen->wish.max_deliver = subscribe->max_deliver;
    seen->wish.ack_wait_ns = subscribe->ack_wait_ns;
    seen->wish.backoffs = (uint32_t)subscribe->n_backoff_ns;
    seen->wish.backoff_ns = subscribe->n_backoff_ns == 0 ? 0 : subscribe->backoff_ns[0];
    (void)snprintf(seen->wish.group, sizeof(seen->wish.group), "%s", subscribe->group);
    (void)snprintf(seen->wish.durable, sizeof(seen->wish.durable), "%s", subscribe->durable);
}

static void handle_control(struct fake_broker *fake, const Amb__Control__Control *message)
{
    struct fake_seen *seen = &fake->seen;
    switch ((int)message->body_case) {
    case AMB__CONTROL__CONTROL__BODY_HELLO:
        say_challenge(fake);
        break;
    case AMB__CONTROL__CONTROL__BODY_AUTH:
        seen->had_session = message->auth->former != NULL;
        seen->said_unmapped = seen->had_session && message->auth->former->unmapped != 0;
        say_welcome(fake);
        break;
    case AMB__CONTROL__CONTROL__BODY_PUB_OPEN:
        seen->opens++;
        if (strcmp(message->pub_open->topic, "forbidden") == 0) {
            fake_say_error(fake->control, message->id, AMB_EFORBIDDEN, "not for you");
        } else if (strcmp(message->pub_open->topic, "slow") != 0) {
            say_opened(fake, message);
        }
        break;
    case AMB__CONTROL__CONTROL__BODY_PUB_CLOSE:
        seen->closes++;
        seen->closed_at[message->pub_close->handle] = message->pub_close->batches;
        fake_say_ok(fake, fake->control, message->id);
        break;
    case AMB__CONTROL__CONTROL__BODY_SUBSCRIBE:
        seen->subscribes++;
        note_wish(seen, message->subscribe);
        fake_say_ok(fake, fake->control, message->id);
        break;
    case AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE:
        seen->unsubscribes++;
        seen->synced_acks = message->unsubscribe->acks;
        fake_say_ok(fake, fake->control, message->id);
        break;
    case AMB__CONTROL__CONTROL__BODY_ACK_SYNC:
        seen->synced_acks = message->ack_sync->acks;
        seen->stopped = message->ack_sync->stop != 0;
        fake_say_ok(fake, fake->control, message->id);
        break;
    case AMB__CONTROL__CONTROL__BODY_SEG_REFUSED:
        seen->segments_refused++;
        break;
    case AMB__CONTROL__CONTROL__BODY_LEASE_OPEN:
        fake_lease_open(fake, message);
        break;
    case AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED:
        fake_lease_mapped(fake, message);
        break;
    case AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE:
        fake_lease_close(fake, message->lease_close->segment);
        break;
    case AMB__CONTROL__CONTROL__BODY_PING:
        seen->pings++;
        seen->staged_in = message->ping->staged_in;
        seen->staged_out = message->ping->staged_out;
        (void)snprintf(seen->staged_why, sizeof(seen->staged_why), "%s", message->ping->staged_why);
        say_pong(fake);
        break;
    case AMB__CONTROL__CONTROL__BODY_BYE:
        seen->said_bye = true;
        break;
    case AMB__CONTROL__CONTROL__BODY_ADMIN:
        say_admin(fake, message);
        break;
    default:
        break;
    }
}

bool fake_read(struct fake_broker *fake, int socket, struct amb_control_reader *reader)
{
    for (;;) {
        uint8_t bytes[4096];
        char control[256];
        size_t wanted = amb_control_wanted(reader);
        struct iovec iov = {.iov_base = bytes,
                            .iov_len = wanted < sizeof(bytes) ? wanted : sizeof(bytes)};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        if (n <= 0) {
            return false;
        }
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
            int fd;
            memcpy(&fd, CMSG_DATA(c), sizeof(fd));
            (void)close(fd);
            fake->seen.has_pidfd = true;
        }
        size_t used;
        Amb__Control__Control *message = NULL;
        enum amb_status status = amb_control_read(reader, bytes, (size_t)n, &used, &message, NULL);
        amb_assert(status == AMB_OK);
        if (message == NULL) {
            continue;
        }
        bool is_attach = message->body_case == AMB__CONTROL__CONTROL__BODY_ATTACH;
        if (is_attach) {
            fake_say_ok(fake, socket, 0);
            status = amb_stream_create(socket, &fake_link_events, fake, &fake->link);
            amb_assert(status == AMB_OK);
            fake_watch_link(fake);
            fake->newcomer = -1;
        } else {
            handle_control(fake, message);
        }
        amb_control_free(message);
        if (is_attach) {
            return true;
        }
    }
}
