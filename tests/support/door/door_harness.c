/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/door/door_harness.h"

#include "wire/base/clock.h"
#include "wire/tls/tls_io.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define OPTIONS_MAX 32u
#define URLS_MAX 8u

/* The broker ----------------------------------------------------------------------------------- */

static const char *const options_small[] = {
    "server.workers=1",
    "server.name=door",
    "server.spin=0",
    "memory.host.size=16M",
    "memory.host.segment=2M",
    "memory.host.spare=0",
    "memory.host.grow_on_demand=true",
    "server.max_connections=64",
    "transports.ring_size=64K",
    "limits.peer_timeout=60s",
    "log.level=error",
};

static size_t fill_options(const char *const *more, const char *out[OPTIONS_MAX])
{
    size_t count = sizeof(options_small) / sizeof(options_small[0]);
    memcpy(out, options_small, sizeof(options_small));
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        assert_true(count < OPTIONS_MAX);
        out[count++] = more[i];
    }
    return count;
}

static void make_config(struct door *door, const char *const *urls, size_t url_count,
                        const char *const *options)
{
    const char *all[OPTIONS_MAX];
    struct amb_config_source source = {
        .options = all,
        .option_count = fill_options(options, all),
        .listen = urls,
        .listen_count = url_count,
    };
    char error[AMB_CONFIG_ERROR_MAX] = "";
    if (amb_config_create(&source, error, sizeof(error), &door->config) != AMB_OK) {
        fail_msg("the configuration is refused: %s", error);
    }
}

enum amb_status door_try(struct door *door, const char *const *urls, const char *const *options,
                         char *error, size_t error_size)
{
    memset(door, 0, sizeof(*door));
    (void)snprintf(door->folder, sizeof(door->folder), "/tmp/amb-door.XXXXXX");
    assert_non_null(mkdtemp(door->folder));
    (void)snprintf(door->socket_path, sizeof(door->socket_path), "%s/broker.sock", door->folder);
    char texts[URLS_MAX][256];
    const char *listen[URLS_MAX];
    size_t count = 0;
    for (; urls[count] != NULL; count++) {
        assert_true(count < URLS_MAX);
        const char *at = strstr(urls[count], "%s");
        int before = at == NULL ? (int)strlen(urls[count]) : (int)(at - urls[count]);
        (void)snprintf(texts[count], sizeof(texts[count]), "%.*s%s%s", before, urls[count],
                       at == NULL ? "" : door->folder, at == NULL ? "" : at + 2);
        listen[count] = texts[count];
    }
    make_config(door, listen, count, options);
    amb_log_set_sink(amb_log_to_stderr, NULL);
    amb_log_set_level(door->config->log.level);
    enum amb_status status = amb_broker_start(door->config, error, error_size, &door->broker);
    if (status != AMB_OK) {
        amb_config_destroy(&door->config);
        (void)unlink(door->socket_path);
        (void)rmdir(door->folder);
        return status;
    }
    const char *tcp = strstr(amb_broker_urls(door->broker), "tcp://127.0.0.1:");
    if (tcp != NULL) {
        door->tcp_port = (uint16_t)strtoul(tcp + strlen("tcp://127.0.0.1:"), NULL, 10);
    }
    const char *tls = strstr(amb_broker_urls(door->broker), "tls://127.0.0.1:");
    if (tls != NULL) {
        door->tls_port = (uint16_t)strtoul(tls + strlen("tls://127.0.0.1:"), NULL, 10);
    }
    return AMB_OK;
}

void door_open(struct door *door, const char *const *options)
{
    static const char *const urls[] = {"unix://%s/broker.sock", "tcp://127.0.0.1:0", NULL};
    char error[512] = "";
    if (door_try(door, urls, options, error, sizeof(error)) != AMB_OK) {
        fail_msg("the broker does not start: %s", error);
    }
    assert_int_not_equal(door->tcp_port, 0);
}

void door_close(struct door *door)
{
    amb_broker_drain(door->broker);
    amb_broker_drain(door->broker);
    assert_int_equal(amb_broker_wait(door->broker), 0);
    amb_broker_destroy(&door->broker);
    amb_config_destroy(&door->config);
    assert_int_equal(rmdir(door->folder), 0); /* It has removed its socket file. */
}

/* Connections ---------------------------------------------------------------------------------- */

static void await_input(const struct door_client *client)
{
    struct pollfd poller = {.fd = client->fd, .events = POLLIN};
    int ready = poll(&poller, 1, DOOR_DEADLINE_MS);
    if (ready <= 0) {
        fail_msg("nothing came within %d ms", DOOR_DEADLINE_MS);
    }
}

static void client_init(struct door_client *client, int fd)
{
    memset(client, 0, sizeof(*client));
    client->fd = fd;
    amb_control_reader_init(&client->reader);
}

void door_connect_unix(const struct door *door, struct door_client *client)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, door->socket_path, sizeof(door->socket_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    client_init(client, fd);
}

static void bind_to(int fd, uint32_t from)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(from)};
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
}

static void connect_port(const struct door *door, uint16_t port, struct door_client *client)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (door->from != 0) {
        bind_to(fd, door->from);
    }
    /* As clients do: else what follows a handshake's last bytes waits 40 ms for their
     * acknowledgement. */
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    client_init(client, fd);
}

void door_connect_tcp(const struct door *door, struct door_client *client)
{
    connect_port(door, door->tcp_port, client);
}

void door_connect_tls(const struct door *door, struct door_client *client,
                      struct amb_tls_context *context, const struct amb_tls_wish *wish)
{
    connect_port(door, door->tls_port, client);
    assert_int_equal(amb_tls_create_connecting(context, client->fd, wish, &client->tls), AMB_OK);
    enum amb_status status;
    short events = POLLIN;
    while ((status = amb_tls_step(client->tls, &events)) == AMB_EAGAIN) {
        await_input(client);
    }
    if (status != AMB_OK) {
        fail_msg("TLS: %s", amb_tls_why(client->tls));
    }
}

pid_t door_connect_as_another(const struct door *door, struct door_client *client)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct door_client passing = {.fd = pair[0]};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", door->socket_path);
    pid_t pid = fork();
    if (pid == 0) { /* Other threads are gone, with whatever they held: no memory, no messages. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
            struct door_client up = {.fd = pair[1]};
            Amb__Control__Control message;
            amb__control__control__init(&message);
            Amb__Control__Bye bye;
            amb__control__bye__init(&bye);
            message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
            message.bye = &bye;
            door_send_with(&up, &message, &fd, 1);
            (void)close(fd); /* Ours alone from here on. */
        }
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    amb_control_reader_init(&passing.reader);
    amb_control_free(door_expect(&passing, AMB__CONTROL__CONTROL__BODY_BYE));
    assert_int_equal(passing.fd_count, 1);
    memset(client, 0, sizeof(*client));
    client->fd = passing.fds[0];
    client->next_id = 1;
    amb_control_reader_init(&client->reader);
    passing.fd_count = 0;
    door_disconnect(&passing);
    (void)close(pair[1]);
    return pid;
}

void door_disconnect(struct door_client *client)
{
    amb_tls_destroy(&client->tls);
    if (client->fd >= 0) {
        (void)close(client->fd);
        client->fd = -1;
    }
    for (unsigned i = 0; i < client->fd_count; i++) {
        (void)close(client->fds[i]);
    }
    client->fd_count = 0;
    amb_control_reader_fini(&client->reader);
}

/* Sending -------------------------------------------------------------------------------------- */

void door_send_bytes(struct door_client *client, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        const struct iovec iov = {.iov_base = (void *)(uintptr_t)at, .iov_len = len};
        ssize_t sent = client->tls != NULL ? amb_tls_send(client->tls, &iov, 1)
                                           : send(client->fd, at, len, MSG_NOSIGNAL);
        if (sent < 0) {
            fail_msg("send: %s", strerror(errno));
        }
        at += sent;
        len -= (size_t)sent;
    }
}

void door_send_with(struct door_client *client, const Amb__Control__Control *message,
                    const int *fds, unsigned fd_count)
{
    size_t len = amb_control_packed_size(message);
    assert_int_not_equal(len, 0);
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    amb_control_pack(message, bytes);
    if (fd_count == 0) {
        door_send_bytes(client, bytes, len);
        free(bytes);
        return;
    }
    union {
        char bytes[CMSG_SPACE(sizeof(int) * DOOR_FDS_MAX)];
        struct cmsghdr align;
    } control = {{0}};
    assert_true(fd_count <= DOOR_FDS_MAX);
    struct iovec iov = {.iov_base = bytes, .iov_len = len};
    struct msghdr header = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = CMSG_SPACE(sizeof(int) * fd_count),
    };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
    memcpy(CMSG_DATA(rights), fds, sizeof(int) * fd_count);
    assert_int_equal(sendmsg(client->fd, &header, MSG_NOSIGNAL), (ssize_t)len);
    free(bytes);
}

void door_send(struct door_client *client, const Amb__Control__Control *message)
{
    door_send_with(client, message, NULL, 0);
}

/* Receiving ------------------------------------------------------------------------------------ */

/* Bytes and descriptors; 0: the broker has closed. */
static size_t receive_some(struct door_client *client, uint8_t *bytes, size_t size)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * DOOR_FDS_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct msghdr header = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    if (client->tls != NULL) {
        ssize_t plain;
        while ((plain = amb_tls_receive(client->tls, &iov, 1)) < 0 && errno == EAGAIN) {
            await_input(client);
        }
        return plain > 0 ? (size_t)plain : 0;
    }
    await_input(client);
    ssize_t got = recvmsg(client->fd, &header, MSG_CMSG_CLOEXEC);
    if (got <= 0) {
        return 0;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c != NULL; c = CMSG_NXTHDR(&header, c)) {
        assert_int_equal(c->cmsg_type, SCM_RIGHTS);
        unsigned count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        assert_true(client->fd_count + count <= DOOR_FDS_MAX);
        memcpy(client->fds + client->fd_count, CMSG_DATA(c), sizeof(int) * count);
        client->fd_count += count;
    }
    return (size_t)got;
}

Amb__Control__Control *door_receive(struct door_client *client)
{
    for (;;) {
        uint8_t bytes[4096];
        size_t wanted = amb_control_wanted(&client->reader);
        size_t got = receive_some(client, bytes, wanted < sizeof(bytes) ? wanted : sizeof(bytes));
        if (got == 0) {
            return NULL;
        }
        Amb__Control__Control *message = NULL;
        size_t used = 0;
        const char *reason = "";
        if (amb_control_read(&client->reader, bytes, got, &used, &message, &reason) != AMB_OK) {
            fail_msg("the broker sends nonsense: %s", reason);
        }
        if (message != NULL) {
            return message;
        }
    }
}

Amb__Control__Control *door_expect(struct door_client *client, int body_case)
{
    Amb__Control__Control *message = door_receive(client);
    if (message == NULL) {
        fail_msg("the broker closed the connection instead of sending %d", body_case);
        return NULL;
    }
    if ((int)message->body_case != body_case) {
        if (message->body_case == AMB__CONTROL__CONTROL__BODY_ERROR) {
            print_error("error %d: %s\n", message->error->status, message->error->text);
        }
        fail_msg("message %d came, not %d", (int)message->body_case, body_case);
    }
    return message;
}

void door_expect_ok(struct door_client *client, uint64_t id)
{
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_OK);
    assert_int_equal(message->id, id);
    amb_control_free(message);
}

void door_expect_error(struct door_client *client, uint64_t id, enum amb_status status,
                       const char *text)
{
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_ERROR);
    assert_int_equal(message->id, id);
    if (message->error->status != (int32_t)status || strstr(message->error->text, text) == NULL) {
        fail_msg("error %d: %s; expected was %d: %s", message->error->status, message->error->text,
                 (int)status, text);
    }
    amb_control_free(message);
}

void door_expect_closed(struct door_client *client)
{
    Amb__Control__Control *message = door_receive(client);
    if (message != NULL) {
        fail_msg("message %d came, not the end", (int)message->body_case);
    }
}

/* The handshake -------------------------------------------------------------------------------- */

void door_send_hello(struct door_client *client, const char *link)
{
    door_send_hello_with(client, link, 0, 0);
}

void door_send_hello_with(struct door_client *client, const char *link, uint32_t expect,
                          uint64_t host)
{
    Amb__Control__Peer peer;
    amb__control__peer__init(&peer);
    peer.host = host;
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = AMB_CONTROL_VERSION;
    hello.version_max = AMB_CONTROL_VERSION;
    hello.client_version = (char *)(uintptr_t) "test";
    hello.name = (char *)(uintptr_t) "door-client";
    hello.link = (char *)(uintptr_t)link;
    hello.peer = &peer;
    hello.expect = expect;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    door_send(client, &message);
}

void door_send_auth_after(struct door_client *client, const struct door_session *session,
                          uint32_t unmapped)
{
    Amb__Control__Former former;
    amb__control__former__init(&former);
    former.session = session->session;
    former.generation = session->generation;
    former.secret = session->secret;
    former.unmapped = unmapped;
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    auth.former = &former;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    door_send_hello(client, "");
    amb_control_free(door_expect(client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send(client, &message);
}

void door_send_auth(struct door_client *client, const uint8_t *proof)
{
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    if (proof != NULL) {
        auth.proof.data = (uint8_t *)(uintptr_t)proof;
        auth.proof.len = 32;
    }
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    door_send(client, &message);
}

static void take_welcome(struct door_client *client, struct door_session *out)
{
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_WELCOME);
    const Amb__Control__Welcome *welcome = message->welcome;
    if (out != NULL) {
        *out = (struct door_session){
            .session = welcome->session,
            .generation = welcome->generation,
            .secret = welcome->secret,
            .client_id = welcome->client_id,
            .ring_size = welcome->ring_size,
            .may_map = welcome->may_map,
            .lease_bytes = welcome->lease_bytes,
        };
        (void)snprintf(out->link, sizeof(out->link), "%s", welcome->link);
    }
    amb_control_free(message);
}

void door_login(struct door_client *client, const char *link, struct door_session *out)
{
    door_send_hello(client, link);
    amb_control_free(door_expect(client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(client, NULL);
    take_welcome(client, out);
}

void door_login_by_token(struct door_client *client, const char *token, struct door_session *out)
{
    uint8_t proof[EVP_MAX_MD_SIZE];
    door_send_hello(client, "");
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    const ProtobufCBinaryData *nonce = &message->challenge->nonce;
    assert_string_equal(message->challenge->mechanism, "token");
    assert_non_null(HMAC(EVP_sha256(), token, (int)strlen(token), nonce->data, nonce->len, proof,
                         &(unsigned){0}));
    amb_control_free(message);
    door_send_auth(client, proof);
    take_welcome(client, out);
}

void door_login_unix(const struct door *door, struct door_client *client)
{
    door_connect_unix(door, client);
    door_login(client, "", NULL);
}

/* Requests ------------------------------------------------------------------------------------- */

uint64_t door_ask(struct door_client *client, Amb__Control__Control *message)
{
    message->id = ++client->next_id;
    door_send(client, message);
    return message->id;
}

uint64_t door_ask_pub_open(struct door_client *client, uint32_t handle, const char *topic)
{
    Amb__Control__PubOpen open;
    amb__control__pub_open__init(&open);
    open.handle = handle;
    open.topic = (char *)(uintptr_t)topic;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    return door_ask(client, &message);
}

uint64_t door_ask_pub_close(struct door_client *client, uint32_t handle)
{
    Amb__Control__PubClose close_it;
    amb__control__pub_close__init(&close_it);
    close_it.handle = handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
    message.pub_close = &close_it;
    return door_ask(client, &message);
}

uint64_t door_ask_subscribe(struct door_client *client, uint32_t handle, const char *pattern)
{
    Amb__Control__Subscribe subscribe;
    amb__control__subscribe__init(&subscribe);
    subscribe.handle = handle;
    subscribe.pattern = (char *)(uintptr_t)pattern;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    message.subscribe = &subscribe;
    return door_ask(client, &message);
}

uint64_t door_ask_unsubscribe(struct door_client *client, uint32_t handle)
{
    Amb__Control__Unsubscribe unsubscribe;
    amb__control__unsubscribe__init(&unsubscribe);
    unsubscribe.handle = handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
    message.unsubscribe = &unsubscribe;
    return door_ask(client, &message);
}

uint64_t door_ask_admin(struct door_client *client, const char *query)
{
    Amb__Control__Admin admin;
    amb__control__admin__init(&admin);
    admin.query = (char *)(uintptr_t)query;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN;
    message.admin = &admin;
    return door_ask(client, &message);
}

void door_send_ping(struct door_client *client, int64_t time_ns)
{
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    ping.time_ns = time_ns;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    door_send(client, &message);
}

void door_pub_open(struct door_client *client, uint32_t handle, const char *topic)
{
    uint64_t id = door_ask_pub_open(client, handle, topic);
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_PUB_OPENED);
    assert_int_equal(message->id, id);
    amb_control_free(message);
}

void door_subscribe(struct door_client *client, uint32_t handle, const char *pattern)
{
    uint64_t id = door_ask_subscribe(client, handle, pattern);
    door_expect_ok(client, id);
}

char *door_admin(struct door_client *client, const char *query)
{
    uint64_t id = door_ask_admin(client, query);
    char *text = NULL;
    size_t len = 0;
    bool is_last = false;
    while (!is_last) {
        Amb__Control__Control *message =
            door_expect(client, AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY);
        assert_int_equal(message->id, id);
        const Amb__Control__AdminReply *reply = message->admin_reply;
        text = realloc(text, len + reply->json.len + 1);
        assert_non_null(text);
        memcpy(text + len, reply->json.data, reply->json.len);
        len += reply->json.len;
        text[len] = '\0';
        is_last = reply->last != 0;
        amb_control_free(message);
    }
    return text;
}

/* Descriptors ---------------------------------------------------------------------------------- */

unsigned door_count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    unsigned count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count - 3; /* ".", ".." and the folder's own */
}

void door_await_fds(unsigned count)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + DOOR_DEADLINE_MS * AMB_NS_PER_MS;
    while (door_count_fds() != count) {
        if (amb_clock_monotonic_ns() > deadline_ns) {
            fail_msg("%u descriptors are open, not %u", door_count_fds(), count);
        }
        (void)poll(NULL, 0, 1);
    }
}
