/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ucx link over TCP on lo. First comes the suite of all links with both workers in this
 * process. Then come the things that only this link has. They are bodies in one and in two pieces
 * up to 64 MiB, rendezvous into registered memory, and frames of other sessions. The last is the
 * death of a peer in the middle of it all.
 */
#include "tests/support/link/link_peer.h"
#include "tests/support/link/link_suite.h"
#include "tests/support/link/ucx_open.h"
#include "wire/base/clock.h"
#include "wire/link/ucx/ucx_link.h"
#include "wire/link/ucx/ucx_worker.h"
#include "wire/link/ucxlib/ucx_context.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define SESSION 7u
#define GENERATION 3u
#define SECRET UINT64_C(0x0123456789abcdef)

/* ---- both ends in this process ---- */

struct two_workers {
    struct amb_ucx_context *context;
    struct amb_ucx_worker *worker[2];
};

static struct two_workers *open_two(void)
{
    struct two_workers *two = calloc(1, sizeof(*two));
    assert_non_null(two);
    two->context = ucx_open_context();
    assert_int_equal(amb_ucx_worker_create(two->context, true, &two->worker[0]), AMB_OK);
    assert_int_equal(amb_ucx_worker_create(two->context, false, &two->worker[1]), AMB_OK);
    return two;
}

static void close_two(struct two_workers *two)
{
    amb_ucx_worker_destroy(&two->worker[0]);
    amb_ucx_worker_destroy(&two->worker[1]);
    amb_ucx_context_destroy(&two->context);
    free(two);
}

static struct amb_link *connect_to(struct two_workers *two, unsigned end, uint64_t secret,
                                   const struct amb_link_events *events, void *arg)
{
    size_t len = 0;
    struct amb_link *link = NULL;
    const void *address = amb_ucx_worker_address(two->worker[1 - end], &len);
    assert_int_equal(amb_ucx_link_create(two->worker[end], address, len, SESSION, GENERATION,
                                         secret, events, arg, &link),
                     AMB_OK);
    return link;
}

static void make_pair(struct link_suite_pair *pair, const struct amb_link_events *events,
                      void *args[2])
{
    struct two_workers *two = open_two();
    pair->state = two;
    for (unsigned i = 0; i < 2; i++) {
        pair->end[i] = connect_to(two, i, SECRET, events, args[i]);
    }
}

static void clean_pair(struct link_suite_pair *pair)
{
    close_two(pair->state);
}

static void progress_end(struct link_suite_pair *pair, unsigned end)
{
    struct two_workers *two = pair->state;
    (void)amb_ucx_worker_progress(two->worker[end]);
}

static bool arm_end(struct link_suite_pair *pair, unsigned end)
{
    struct two_workers *two = pair->state;
    return amb_ucx_worker_arm(two->worker[end]);
}

static int fd_of_end(struct link_suite_pair *pair, unsigned end)
{
    struct two_workers *two = pair->state;
    return amb_ucx_worker_fd(two->worker[end]);
}

/* ---- a plain recorder, for tests that name every byte ---- */

struct recorder {
    uint8_t *dst;
    struct amb_link_mem *mem;
    unsigned frames, bodies, sent, downs, closes;
    enum amb_status body_status, sent_status, down_status;
    struct amb_frame last;
};

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct recorder *recorder = arg;
    recorder->frames++;
    recorder->last = *frame;
    *dst = recorder->dst;
    *cookie = recorder;
    *mem = recorder->mem;
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct recorder *recorder = arg;
    assert_ptr_equal(cookie, recorder);
    recorder->bodies++;
    recorder->body_status = status;
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    (void)arg;
    (void)kind;
    (void)handle;
    (void)value;
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct recorder *recorder = arg;
    (void)tx;
    recorder->sent++;
    recorder->sent_status = status;
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct recorder *recorder = arg;
    assert_non_null(text);
    recorder->downs++;
    recorder->down_status = why;
}

static void on_closed(void *arg)
{
    struct recorder *recorder = arg;
    recorder->closes++;
}

static const struct amb_link_events recorder_events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

static void turn(struct two_workers *two)
{
    for (unsigned i = 0; i < 2; i++) {
        if (two->worker[i] != NULL) {
            (void)amb_ucx_worker_progress(two->worker[i]);
        }
    }
}

static void close_link(struct two_workers *two, struct amb_link *link, struct recorder *recorder)
{
    if (!amb_link_close(link)) {
        while (recorder->closes == 0) {
            turn(two);
        }
    }
}

static struct amb_frame batch_frame(uint64_t data_len, uint32_t meta_len)
{
    return (struct amb_frame){.type = AMB_FRAME_BATCH,
                              .handle = 1,
                              .seq = 1,
                              .count = 1,
                              .data_len = data_len,
                              .meta_len = meta_len};
}

static void fill(uint8_t *bytes, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

struct transfer {
    size_t data_len;
    uint32_t meta_len;
    bool is_one_piece, is_registered;
};

/* Sends one body and compares what arrives. */
static void check_transfer(struct two_workers *two, struct amb_link *link, struct recorder *sender,
                           struct recorder *receiver, const struct transfer *transfer)
{
    const size_t total = transfer->data_len + transfer->meta_len;
    uint8_t *source = malloc(total + 64);
    uint8_t *target = malloc(total);
    assert_non_null(source);
    assert_non_null(target);
    fill(source, total + 64, (uint32_t)total);
    struct amb_link_mem *mem[2] = {NULL, NULL};
    if (transfer->is_registered) {
        assert_int_equal(amb_ucx_register(two->context, source, total + 64, &mem[0]), AMB_OK);
        assert_int_equal(amb_ucx_register(two->context, target, total, &mem[1]), AMB_OK);
    }
    *receiver = (struct recorder){.dst = target, .mem = mem[1]};
    *sender = (struct recorder){0};
    const uint8_t *meta = source + transfer->data_len + (transfer->is_one_piece ? 0 : 64);
    struct amb_frame frame = batch_frame(transfer->data_len, transfer->meta_len);
    struct amb_link_tx tx = {.frame = &frame, .data = source, .meta = meta, .mem = mem[0]};
    enum amb_status status = amb_link_send(link, &tx);
    assert_true(status == AMB_OK || status == AMB_EAGAIN);
    while (receiver->bodies == 0 || (status == AMB_EAGAIN && sender->sent == 0)) {
        turn(two);
    }
    assert_int_equal(receiver->body_status, AMB_OK);
    assert_int_equal(sender->sent_status, AMB_OK);
    assert_int_equal(receiver->frames, 1);
    assert_int_equal(receiver->last.session, SESSION);
    assert_memory_equal(target, source, transfer->data_len);
    assert_memory_equal(target + transfer->data_len, meta, transfer->meta_len);
    assert_int_equal(link->queued, 0);
    amb_ucx_unregister(&mem[0]);
    amb_ucx_unregister(&mem[1]);
    free(source);
    free(target);
}

static void test_bodies_of_all_shapes_arrive(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 16, 1024, 60000, 65536, 262144, MIB + 16};
    static const uint32_t metas[] = {16, 3584, 3600, AMB_META_MAX - 8};
    struct two_workers *two = open_two();
    struct recorder recorder[2] = {{0}};
    struct amb_link *link[2] = {connect_to(two, 0, SECRET, &recorder_events, &recorder[0]),
                                connect_to(two, 1, SECRET, &recorder_events, &recorder[1])};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t j = 0; j < sizeof(metas) / sizeof(metas[0]); j++) {
            for (unsigned flags = 0; flags < 4; flags++) {
                check_transfer(two, link[0], &recorder[0], &recorder[1],
                               &(struct transfer){.data_len = sizes[i],
                                                  .meta_len = metas[j],
                                                  .is_one_piece = (flags & 1) != 0,
                                                  .is_registered = (flags & 2) != 0});
            }
        }
    }
    check_transfer(two, link[0], &recorder[0], &recorder[1],
                   &(struct transfer){64 * MIB, 16, false, true});
    check_transfer(two, link[0], &recorder[0], &recorder[1],
                   &(struct transfer){8 * MIB, 16384, false, true});
    close_link(two, link[0], &recorder[0]);
    close_link(two, link[1], &recorder[1]);
    close_two(two);
}

static void test_frame_with_another_secret_is_dropped_and_counted(void **state)
{
    (void)state;
    struct two_workers *two = open_two();
    struct recorder stranger = {0};
    struct recorder owner = {0};
    struct amb_link *wrong = connect_to(two, 0, SECRET + 1, &recorder_events, &stranger);
    struct amb_link *right = connect_to(two, 1, SECRET, &recorder_events, &owner);
    uint8_t body[64] = {0};
    uint8_t *large = calloc(1, 2 * MIB);
    assert_non_null(large);
    struct amb_frame small_frame = batch_frame(16, 16);
    struct amb_frame large_frame = batch_frame(2 * MIB - 16, 16);
    struct amb_link_tx small_tx = {.frame = &small_frame, .data = body, .meta = body + 32};
    struct amb_link_tx large_tx = {
        .frame = &large_frame, .data = large, .meta = large + 2 * MIB - 16};
    unsigned expected = 0;
    expected += amb_link_send(wrong, &small_tx) == AMB_EAGAIN ? 1 : 0;
    expected += amb_link_send(wrong, &large_tx) == AMB_EAGAIN ? 1 : 0;
    amb_link_flow(wrong, AMB_FLOW_WANT, 1, 1);
    amb_link_flush(wrong);
    while (amb_ucx_worker_foreign(two->worker[1]) < 3 || stranger.sent < expected) {
        turn(two);
    }
    assert_int_equal(amb_ucx_worker_foreign(two->worker[1]), 3);
    assert_int_equal(owner.frames + owner.downs + stranger.downs, 0);
    close_link(two, wrong, &stranger);
    close_link(two, right, &owner);
    close_two(two);
    free(large);
}

static void test_same_session_twice_on_one_worker_is_refused(void **state)
{
    (void)state;
    struct two_workers *two = open_two();
    struct recorder recorder = {0};
    struct amb_link *link = connect_to(two, 0, SECRET, &recorder_events, &recorder);
    struct amb_link *again = NULL;
    size_t len = 0;
    const void *address = amb_ucx_worker_address(two->worker[1], &len);
    assert_int_equal(amb_ucx_link_create(two->worker[0], address, len, SESSION, GENERATION, SECRET,
                                         &recorder_events, &recorder, &again),
                     AMB_ESTATE);
    assert_int_equal(amb_ucx_link_create(two->worker[0], address, 5000, SESSION + 1, GENERATION,
                                         SECRET, &recorder_events, &recorder, &again),
                     AMB_EINVAL);
    assert_null(again);
    close_link(two, link, &recorder);
    close_two(two);
}

static void test_many_sessions_share_two_workers(void **state)
{
    (void)state;
    enum {
        SESSIONS = 40
    };
    struct two_workers *two = open_two();
    static struct recorder client[SESSIONS], broker[SESSIONS];
    struct amb_link *link[2][SESSIONS];
    size_t len[2];
    const void *address[2] = {amb_ucx_worker_address(two->worker[1], &len[0]),
                              amb_ucx_worker_address(two->worker[0], &len[1])};
    uint8_t bodies[SESSIONS][32];
    uint8_t source[32] = {0};
    struct amb_link_tx tx[SESSIONS];
    struct amb_frame frame = batch_frame(16, 16);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        client[i] = broker[i] = (struct recorder){.dst = bodies[i]};
        /* Sessions that fall into the same places of the table too. */
        for (unsigned end = 0; end < 2; end++) {
            assert_int_equal(amb_ucx_link_create(two->worker[end], address[end], len[end], i * 64,
                                                 i, i, &recorder_events,
                                                 end == 0 ? &client[i] : &broker[i], &link[end][i]),
                             AMB_OK);
        }
        tx[i] = (struct amb_link_tx){.frame = &frame, .data = source, .meta = source + 16};
        enum amb_status status = amb_link_send(link[0][i], &tx[i]);
        assert_true(status == AMB_OK || status == AMB_EAGAIN);
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        while (broker[i].bodies == 0) {
            turn(two);
        }
        assert_int_equal(broker[i].last.session, i * 64);
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        close_link(two, link[0][i], &client[i]);
        close_link(two, link[1][i], &broker[i]);
    }
    assert_int_equal(amb_ucx_worker_foreign(two->worker[0]), 0);
    close_two(two);
}

/* A peer that is not looked after cannot answer: its end waits, unless the worker goes. */
static void test_worker_that_goes_finishes_its_closing_links(void **state)
{
    (void)state;
    struct two_workers *two = open_two();
    uint8_t *body = calloc(1, 4 * MIB);
    struct recorder recorder[2] = {{0}};
    struct amb_link *link[2] = {connect_to(two, 0, SECRET, &recorder_events, &recorder[0]),
                                connect_to(two, 1, SECRET, &recorder_events, &recorder[1])};
    check_transfer(two, link[0], &recorder[0], &recorder[1],
                   &(struct transfer){.data_len = 16, .meta_len = 16});
    recorder[0] = (struct recorder){0};
    struct amb_frame frame = batch_frame(4 * MIB - 16, 16);
    struct amb_link_tx tx = {.frame = &frame, .data = body, .meta = body + 4 * MIB - 16};
    assert_int_equal(amb_link_send(link[0], &tx), AMB_EAGAIN);
    assert_false(amb_link_close(link[0]));
    amb_ucx_worker_destroy(&two->worker[0]);
    assert_int_equal(recorder[0].closes, 1);
    assert_int_equal(recorder[0].sent, 1);
    assert_int_equal(recorder[0].sent_status, AMB_ECANCELED);
    close_link(two, link[1], &recorder[1]);
    close_two(two);
    free(body);
}

static void test_describe_names_the_lanes(void **state)
{
    (void)state;
    struct two_workers *two = open_two();
    struct recorder recorder = {0};
    struct amb_link *link = connect_to(two, 0, SECRET, &recorder_events, &recorder);
    char text[128] = "";
    amb_link_describe(link, text, sizeof(text));
    assert_string_equal(text, "ucx tcp/lo");
    close_link(two, link, &recorder);
    close_two(two);
}

static void test_idle_worker_sleeps_until_a_frame_comes(void **state)
{
    (void)state;
    struct two_workers *two = open_two();
    uint8_t body[32] = {0};
    struct recorder recorder[2] = {{0}, {.dst = body}};
    struct amb_link *link[2] = {connect_to(two, 0, SECRET, &recorder_events, &recorder[0]),
                                connect_to(two, 1, SECRET, &recorder_events, &recorder[1])};
    struct amb_frame frame = batch_frame(16, 16);
    check_transfer(two, link[0], &recorder[0], &recorder[1], /* connects */
                   &(struct transfer){.data_len = 16, .meta_len = 16});
    recorder[1] = (struct recorder){.dst = body};
    for (unsigned n = 1; n <= 20; n++) {
        uint8_t source[32] = {0};
        struct amb_link_tx tx = {.frame = &frame, .data = source, .meta = source + 16};
        enum amb_status status = amb_link_send(link[0], &tx);
        assert_true(status == AMB_OK || status == AMB_EAGAIN);
        while (recorder[1].bodies < n) {
            struct pollfd wait = {.fd = amb_ucx_worker_fd(two->worker[1]), .events = POLLIN};
            if (amb_ucx_worker_arm(two->worker[1])) {
                assert_int_equal(poll(&wait, 1, 5000), 1);
            }
            turn(two);
        }
        while (status == AMB_EAGAIN && recorder[0].sent == 0) {
            turn(two);
        }
        recorder[0].sent = 0;
    }
    close_link(two, link[0], &recorder[0]);
    close_link(two, link[1], &recorder[1]);
    close_two(two);
}

/* ---- a peer in a process of its own, which is killed ---- */

enum {
    CROWD = 8,
    CROWD_BODY = 4 << 20,
};

struct crowd {
    unsigned given, ok, failed, sent, sent_lost, downs, closes;
    uint8_t *memory; /* CROWD bodies */
    unsigned next;
};

static enum amb_status crowd_on_frame(void *arg, const struct amb_frame *frame, void **dst,
                                      void **cookie, struct amb_link_mem **mem)
{
    struct crowd *crowd = arg;
    (void)frame;
    (void)mem;
    *dst = crowd->memory + (size_t)(crowd->next++ % CROWD) * CROWD_BODY;
    *cookie = crowd;
    crowd->given++;
    return AMB_OK;
}

static enum amb_status crowd_on_body(void *arg, void *cookie, enum amb_status status)
{
    struct crowd *crowd = arg;
    (void)cookie;
    if (status == AMB_OK) {
        crowd->ok++;
    } else {
        crowd->failed++;
    }
    return AMB_OK;
}

static void crowd_on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct crowd *crowd = arg;
    (void)tx;
    crowd->sent++;
    crowd->sent_lost += status == AMB_ELOST ? 1 : 0;
}

static void crowd_on_down(void *arg, enum amb_status why, const char *text)
{
    struct crowd *crowd = arg;
    (void)text;
    crowd->downs++;
    (void)why;
}

static void crowd_on_closed(void *arg)
{
    struct crowd *crowd = arg;
    crowd->closes++;
}

static const struct amb_link_events crowd_events = {
    .on_frame = crowd_on_frame,
    .on_body = crowd_on_body,
    .on_flow = on_flow,
    .on_sent = crowd_on_sent,
    .on_down = crowd_on_down,
    .on_closed = crowd_on_closed,
};

static void write_all(int fd, const void *bytes, size_t len)
{
    if (write(fd, bytes, len) != (ssize_t)len) {
        abort();
    }
}

static void read_all(int fd, void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, (uint8_t *)bytes + done, len - done);
        if (n <= 0) {
            abort();
        }
        done += (size_t)n;
    }
}

struct meeting {
    struct amb_ucx_context *context;
    struct amb_ucx_worker *worker;
    struct amb_link *link;
};

/* Exchanges worker addresses over a pair of pipes, then connects. */
static void meet(struct meeting *meeting, int in, int out, const struct amb_link_events *events,
                 void *arg)
{
    uint8_t address[4096];
    size_t len = 0;
    meeting->context = ucx_open_context();
    assert_int_equal(amb_ucx_worker_create(meeting->context, false, &meeting->worker), AMB_OK);
    const void *own = amb_ucx_worker_address(meeting->worker, &len);
    write_all(out, &len, sizeof(len));
    write_all(out, own, len);
    read_all(in, &len, sizeof(len));
    assert_true(len <= sizeof(address));
    read_all(in, address, len);
    assert_int_equal(amb_ucx_link_create(meeting->worker, address, len, SESSION, GENERATION, SECRET,
                                         events, arg, &meeting->link),
                     AMB_OK);
}

/* Sends and receives for ever. */
static void live_as_peer(int in, int out)
{
    struct meeting meeting = {0};
    struct crowd crowd = {.memory = malloc((size_t)CROWD * CROWD_BODY)};
    uint8_t *source = calloc(1, CROWD_BODY);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    meet(&meeting, in, out, &crowd_events, &crowd);
    struct amb_frame frame = batch_frame(CROWD_BODY - 16, 16);
    struct amb_link_tx tx[CROWD];
    unsigned started = 0;
    for (;;) {
        while (started - crowd.sent < CROWD && crowd.downs == 0) {
            tx[started % CROWD] = (struct amb_link_tx){
                .frame = &frame, .data = source, .meta = source + CROWD_BODY - 16};
            if (amb_link_send(meeting.link, &tx[started++ % CROWD]) == AMB_OK) {
                crowd.sent++;
            }
        }
        (void)amb_ucx_worker_progress(meeting.worker);
    }
}

static pid_t start_peer(int *in, int *out)
{
    int there[2], back[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(there[1]);
        (void)close(back[0]);
        live_as_peer(there[0], back[1]);
        _exit(0);
    }
    (void)close(there[0]);
    (void)close(back[1]);
    *in = back[0];
    *out = there[1];
    return pid;
}

/* Everything under way ends, in both directions, within a second of the peer's death. It takes a
 * few milliseconds; the rest is for sanitizers on machines with other work. */
static void kill_amid_transfers(unsigned bodies_before)
{
    int in, out;
    pid_t pid = start_peer(&in, &out);
    struct meeting meeting = {0};
    struct crowd crowd = {.memory = malloc((size_t)CROWD * CROWD_BODY)};
    uint8_t *source = calloc(1, CROWD_BODY);
    assert_non_null(crowd.memory);
    assert_non_null(source);
    meet(&meeting, in, out, &crowd_events, &crowd);
    struct amb_frame frame = batch_frame(CROWD_BODY - 16, 16);
    struct amb_link_tx tx[CROWD];
    unsigned queued = 0;
    while (crowd.ok < bodies_before || crowd.given == crowd.ok) {
        (void)amb_ucx_worker_progress(meeting.worker);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        tx[i] =
            (struct amb_link_tx){.frame = &frame, .data = source, .meta = source + CROWD_BODY - 16};
        queued += amb_link_send(meeting.link, &tx[i]) == AMB_EAGAIN ? 1 : 0;
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    int64_t deadline = amb_clock_monotonic_ns() + AMB_NS_PER_SEC;
    while (crowd.downs == 0 || crowd.sent < queued || crowd.ok + crowd.failed < crowd.given) {
        (void)amb_ucx_worker_progress(meeting.worker);
        assert_true(amb_clock_monotonic_ns() < deadline);
    }
    assert_int_equal(crowd.downs, 1);
    assert_int_equal(crowd.sent, queued);
    assert_int_equal(meeting.link->queued, 0);
    if (!amb_link_close(meeting.link)) {
        while (crowd.closes == 0) {
            (void)amb_ucx_worker_progress(meeting.worker);
        }
    }
    amb_ucx_worker_destroy(&meeting.worker);
    amb_ucx_context_destroy(&meeting.context);
    (void)close(in);
    (void)close(out);
    free(crowd.memory);
    free(source);
}

static void test_killed_peer_ends_everything_within_a_second(void **state)
{
    (void)state;
    kill_amid_transfers(0);
    kill_amid_transfers(5);
}

/* The transfers of a link closed amid them end with its on_closed, and not before. */
static void test_close_with_rendezvous_in_flight_completes(void **state)
{
    (void)state;
    int in, out;
    pid_t pid = start_peer(&in, &out);
    struct meeting meeting = {0};
    struct crowd crowd = {.memory = malloc((size_t)CROWD * CROWD_BODY)};
    assert_non_null(crowd.memory);
    meet(&meeting, in, out, &crowd_events, &crowd);
    while (crowd.ok < 3 || crowd.given == crowd.ok) {
        (void)amb_ucx_worker_progress(meeting.worker);
    }
    if (!amb_link_close(meeting.link)) {
        while (crowd.closes == 0) {
            (void)amb_ucx_worker_progress(meeting.worker);
        }
    }
    assert_int_equal(crowd.ok + crowd.failed, crowd.given);
    assert_true(crowd.failed > 0);
    assert_int_equal(crowd.downs, 0);
    unsigned given = crowd.given;
    /* Frames that still arrive are nobody's. */
    for (unsigned i = 0; i < 1000; i++) {
        (void)amb_ucx_worker_progress(meeting.worker);
    }
    assert_int_equal(crowd.given, given);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    amb_ucx_worker_destroy(&meeting.worker);
    amb_ucx_context_destroy(&meeting.context);
    (void)close(in);
    (void)close(out);
    free(crowd.memory);
}

int main(void)
{
    static const struct link_suite_factory factory = {
        .name = "ucx",
        .make = make_pair,
        .clean = clean_pair,
        .progress = progress_end,
        .arm = arm_end,
        .fd = fd_of_end,
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_of_all_shapes_arrive),
        cmocka_unit_test(test_frame_with_another_secret_is_dropped_and_counted),
        cmocka_unit_test(test_same_session_twice_on_one_worker_is_refused),
        cmocka_unit_test(test_many_sessions_share_two_workers),
        cmocka_unit_test(test_worker_that_goes_finishes_its_closing_links),
        cmocka_unit_test(test_describe_names_the_lanes),
        cmocka_unit_test(test_idle_worker_sleeps_until_a_frame_comes),
        cmocka_unit_test(test_killed_peer_ends_everything_within_a_second),
        cmocka_unit_test(test_close_with_rendezvous_in_flight_completes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) + link_suite_run(&factory);
}
