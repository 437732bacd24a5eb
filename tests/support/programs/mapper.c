/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that does what it is told, line by line. It looks through all of its own memory for
 * words that it should never have seen.
 *
 *   mapper URL        answers "ready", then each line with "ok ..." or "no REASON"
 *
 *   sub N PATTERN [ack]       subscription N
 *   take N COUNT              "ok MAPPED COPIED": messages that are read and given back
 *   hold N COUNT              the same, and they are kept
 *   changes                   "ok COUNT": of those that are kept, those with other bytes by now
 *   drop                      gives these back
 *   term N COUNT              messages that become dead letters
 *   pub TOPIC SIZE COUNT WORD     lease TOPIC SIZE COUNT WORD      payloads are full of the word
 *   rewrite COUNT             writes so many times to all memory that it has leased
 *   ask TOPIC COUNT WORD      requests; answer N COUNT WORD: replies
 *   keep                      "ok COUNT": maps each segment once more, by itself
 *   scan WORD ...             "ok COUNT ...": how often its memory has each
 *   leave                     ends its session; after it only "keep" and "scan"
 *
 * A word is in hexadecimal digits, so that it is not in this memory for having been asked for.
 */
#include <amb/amb.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SUBS 8u
#define HELD 512u
#define LEASED 512u
#define WORDS 8u
#define WORD_MAX 64u
#define PART (UINT64_C(1) << 20)
#define SHADOW (UINT64_C(4) << 30) /* a sanitizer's own: no message is there */
#define PATIENCE (20 * AMB_SEC)

static struct amb_conn *conn;
static struct amb_sub *subs[SUBS];
static struct {
    struct amb_msg *msg;
    uint64_t sum;
} held[HELD];
static unsigned held_count;
static struct {
    struct amb_keep *keep;
    uint8_t *data;
    size_t len;
} leased[LEASED];
static unsigned leased_count;

static unsigned number(void)
{
    const char *word = strtok(NULL, " ");
    return word == NULL ? 0 : (unsigned)strtoul(word, NULL, 10);
}

static struct amb_sub *subscription(void)
{
    return subs[number() % SUBS];
}

static const char *word(void)
{
    const char *next = strtok(NULL, " ");
    return next == NULL ? "" : next;
}

static bool answer(enum amb_status status)
{
    if (status != AMB_OK) {
        const struct amb_error error = amb_last_error(conn);
        printf("no %s: %s\n", amb_strerror(status), error.text);
    }
    return status == AMB_OK;
}

static uint8_t nibble(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Byte i of a word. The word as a whole is never written anywhere. */
static uint8_t byte_of(const char *hex, size_t i)
{
    return (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
}

/* ---- messages ---- */

static void do_sub(void)
{
    unsigned n = number() % SUBS;
    const char *pattern = word();
    bool acks = strcmp(word(), "ack") == 0;
    if (answer(amb_subscribe(conn, pattern,
                             acks ? AMB_SUB(.ack = AMB_ACK_EXPLICIT, .durable = "letters") : NULL,
                             &subs[n]))) {
        printf("ok\n");
    }
}

static uint64_t sum_of(const struct amb_msg *msg)
{
    const uint8_t *data = amb_msg_data(msg);
    uint64_t sum = 14695981039346656037U;
    for (size_t i = 0; i < amb_msg_size(msg); i++) {
        sum = (sum ^ data[i]) * 1099511628211U;
    }
    return sum;
}

/* A message that was taken is kept, or given back. */
static void give_back(struct amb_msg *msg, const char *what)
{
    if (strcmp(what, "hold") == 0 && held_count < HELD) {
        held[held_count].msg = msg;
        held[held_count++].sum = sum_of(msg);
        return;
    }
    if (strcmp(what, "term") == 0) {
        (void)amb_msg_term(msg, "for a test");
    }
    amb_msg_release(msg);
}

static void do_take(const char *what)
{
    struct amb_sub *sub = subscription();
    unsigned count = number(), mapped = 0;
    for (unsigned i = 0; i < count; i++) {
        struct amb_msg *msg;
        if (!answer(amb_next(sub, PATIENCE, &msg))) {
            return;
        }
        mapped += strcmp(amb_msg_path(msg), "mapped") == 0;
        give_back(msg, what);
    }
    printf("ok %u %u\n", mapped, count - mapped);
}

static void do_changes(void)
{
    unsigned changed = 0;
    for (unsigned i = 0; i < held_count; i++) {
        changed += sum_of(held[i].msg) != held[i].sum;
    }
    printf("ok %u\n", changed);
}

static void do_drop(void)
{
    while (held_count > 0) {
        amb_msg_release(held[--held_count].msg);
    }
    printf("ok\n");
}

static void fill(uint8_t *to, size_t len, const char *hex)
{
    size_t word_len = strlen(hex) / 2;
    for (size_t i = 0; i < len; i++) {
        to[i] = byte_of(hex, i % word_len);
    }
}

static enum amb_status lease_one(struct amb_pub *pub, size_t len, const char *hex)
{
    struct amb_lease *lease;
    enum amb_status status = amb_lease(pub, len, PATIENCE, &lease);
    if (status != AMB_OK) {
        return status;
    }
    if (leased_count < LEASED && amb_lease_keep(lease, &leased[leased_count].keep) == AMB_OK) {
        leased[leased_count].data = amb_lease_data(lease);
        leased[leased_count++].len = len;
    }
    fill(amb_lease_data(lease), len, hex);
    return amb_lease_commit(lease, NULL, NULL);
}

static void do_publish(bool leases)
{
    const char *topic = word();
    size_t len = number();
    unsigned count = number();
    const char *hex = word();
    struct amb_pub *pub = NULL;
    uint8_t *data = malloc(len + 1);
    enum amb_status status = amb_pub_open(conn, topic, NULL, &pub);
    for (unsigned i = 0; status == AMB_OK && i < count; i++) {
        if (leases) {
            status = lease_one(pub, len, hex);
        } else {
            fill(data, len, hex);
            status = amb_pub_send(pub, data, len, PATIENCE);
        }
    }
    if (status == AMB_OK) {
        status = amb_pub_flush(pub, 0, PATIENCE);
    }
    free(data);
    if (answer(status)) {
        printf("ok\n");
    }
    (void)amb_pub_close(pub, AMB_NOWAIT);
}

static void do_rewrite(void)
{
    unsigned count = number();
    for (unsigned n = 0; n < count; n++) {
        for (unsigned i = 0; i < leased_count; i++) {
            memset(leased[i].data, (int)(n + 1), leased[i].len);
        }
    }
    printf("ok %u\n", leased_count);
    while (leased_count > 0) {
        amb_lease_unkeep(leased[--leased_count].keep);
    }
}

static void do_ask(void)
{
    const char *topic = word();
    unsigned count = number();
    const char *hex = word();
    uint8_t data[4096];
    fill(data, sizeof(data), hex);
    for (unsigned i = 0; i < count; i++) {
        struct amb_msg *reply;
        if (!answer(amb_request(conn, topic, data, sizeof(data), PATIENCE, &reply))) {
            return;
        }
        amb_msg_release(reply);
    }
    printf("ok\n");
}

static void do_answer(void)
{
    struct amb_sub *sub = subscription();
    unsigned count = number();
    const char *hex = word();
    uint8_t data[20000];
    fill(data, sizeof(data), hex);
    for (unsigned i = 0; i < count; i++) {
        struct amb_msg *request;
        if (!answer(amb_next(sub, PATIENCE, &request)) ||
            !answer(amb_reply(request, data, sizeof(data), PATIENCE))) {
            return;
        }
        amb_msg_release(request);
    }
    printf("ok\n");
}

/* ---- its own memory ---- */

static uint64_t find(const uint8_t *at, size_t len, const char *hex)
{
    uint64_t count = 0;
    size_t word_len = strlen(hex) / 2;
    const uint8_t *end = at + len;
    while (at + word_len <= end &&
           (at = memchr(at, byte_of(hex, 0), (size_t)(end - at) - word_len + 1)) != NULL) {
        size_t i = 1;
        while (i < word_len && at[i] == byte_of(hex, i)) {
            i++;
        }
        count += i == word_len;
        at++;
    }
    return count;
}

/* libamb's thread may unmap something meanwhile, so memory is read as a file. */
static void find_all(int mem, uint64_t begin, uint64_t end, const char *const *words,
                     unsigned count, uint64_t *counts)
{
    static uint8_t part[PART + WORD_MAX];
    for (uint64_t at = begin; at < end; at += PART) {
        size_t want = end - at < sizeof(part) ? (size_t)(end - at) : sizeof(part);
        ssize_t got = pread(mem, part, want, (off_t)at);
        for (unsigned i = 0; i < count && got > 0; i++) {
            size_t more = strlen(words[i]) / 2 - 1; /* Of one that begins in this part. */
            size_t len = (size_t)got < PART + more ? (size_t)got : PART + more;
            counts[i] += find(part, len, words[i]);
        }
    }
    explicit_bzero(part, sizeof(part));
}

/* Of all of this process's memory that it can read. */
static void do_scan(void)
{
    const char *words[WORDS];
    uint64_t counts[WORDS] = {0}, begin, end;
    unsigned count = 0;
    char line[512], mode[5];
    while (count < WORDS && *(words[count] = word()) != '\0') {
        count++;
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (maps == NULL || mem < 0) {
        printf("no memory to look at\n");
        return;
    }
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, mode) == 3 &&
            mode[0] == 'r' && strstr(line, "[v") == NULL && end - begin < SHADOW) {
            find_all(mem, begin, end, words, count, counts);
        }
    }
    (void)fclose(maps);
    (void)close(mem);
    printf("ok");
    for (unsigned i = 0; i < count; i++) {
        printf(" %" PRIu64, counts[i]);
    }
    printf("\n");
}

/* A shared mapping is had a second time so, without a descriptor. */
static void do_keep(void)
{
    unsigned count = 0;
    uint64_t begins[512], ends[512], begin, end;
    unsigned found = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && found < 512 && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "ambroker-segment") != NULL &&
            sscanf(line, "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) {
            begins[found] = begin;
            ends[found++] = end;
        }
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    for (unsigned i = 0; i < found; i++) {
        void *again =
            mremap((void *)(uintptr_t)begins[i], 0, (size_t)(ends[i] - begins[i]), MREMAP_MAYMOVE);
        count += again != MAP_FAILED;
    }
    printf("ok %u\n", count);
}

static void do_leave(void)
{
    if (answer(amb_close(conn, PATIENCE))) {
        conn = NULL;
        printf("ok\n");
    }
}

static void obey(const char *what)
{
    if (strcmp(what, "sub") == 0) {
        do_sub();
    } else if (strcmp(what, "take") == 0 || strcmp(what, "hold") == 0 ||
               strcmp(what, "term") == 0) {
        do_take(what);
    } else if (strcmp(what, "changes") == 0) {
        do_changes();
    } else if (strcmp(what, "drop") == 0) {
        do_drop();
    } else if (strcmp(what, "pub") == 0 || strcmp(what, "lease") == 0) {
        do_publish(what[0] == 'l');
    } else if (strcmp(what, "rewrite") == 0) {
        do_rewrite();
    } else if (strcmp(what, "ask") == 0) {
        do_ask();
    } else if (strcmp(what, "answer") == 0) {
        do_answer();
    } else if (strcmp(what, "keep") == 0) {
        do_keep();
    } else if (strcmp(what, "scan") == 0) {
        do_scan();
    } else if (strcmp(what, "leave") == 0) {
        do_leave();
    } else {
        printf("no such command: %s\n", what);
    }
}

int main(int argc, char **argv)
{
    static char line[4096];
    struct amb_error error;
    if (argc != 2) {
        return 64;
    }
    if (amb_connect(argv[1], AMB_OPTIONS(.name = "mapper", .error = &error), &conn) != AMB_OK) {
        (void)fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *what = strtok(line, " ");
        if (what != NULL) {
            obey(what);
        }
    }
    if (conn != NULL) {
        (void)amb_close(conn, AMB_NOWAIT);
    }
    return 0;
}
