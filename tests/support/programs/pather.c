/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscriber that says by which path its messages came, and then stays.
 *
 *     pather URL TOPIC COUNT [gpu | sent] [copy] [lazy]
 *             gpu: into memory of GPU 0; sent: wherever a message is sent; lazy: each is fetched
 *
 * Says "ready", then "read" and how many came by which path ("mapped=10 ring=2"), and goes at the
 * end of its input. Exit: 1 if a call fails.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATHS_MAX 8
#define WAIT (30 * AMB_SEC)

static struct {
    char name[16];
    uint64_t count;
} paths[PATHS_MAX];

static void must(enum amb_status status, const struct amb_conn *conn, const char *what)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "pather: %s: %s (%s)\n", what, amb_strerror(status),
                      conn == NULL ? "" : amb_last_error(conn).text);
        exit(1);
    }
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static void count_path(const char *name)
{
    for (int i = 0; i < PATHS_MAX; i++) {
        if (paths[i].count == 0 || strcmp(paths[i].name, name) == 0) {
            (void)snprintf(paths[i].name, sizeof(paths[i].name), "%s", name);
            paths[i].count++;
            return;
        }
    }
    exit(2);
}

/* Into a buffer of ours where that is asked for. */
static void take(struct amb_conn *conn, struct amb_msg *msg, bool is_lazy)
{
    if (is_lazy) {
        void *bytes = malloc(amb_msg_size(msg) + 1);
        must(bytes == NULL ? AMB_ENOMEM : AMB_OK, NULL, "memory");
        must(amb_msg_read(msg, 0, bytes, amb_msg_size(msg), WAIT), conn, "read");
        free(bytes);
    }
    count_path(amb_msg_path(msg));
    amb_msg_release(msg);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        return 64;
    }
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_sub *sub;
    if (amb_connect(argv[1], AMB_OPTIONS(.name = "reader", .error = &error), &conn) != AMB_OK) {
        (void)fprintf(stderr, "pather: %s\n", error.text);
        return 1;
    }
    bool is_lazy = has_word(argc, argv, "lazy");
    must(amb_subscribe(conn, argv[2],
                       AMB_SUB(.mem = has_word(argc, argv, "gpu")    ? AMB_MEM_CUDA
                                      : has_word(argc, argv, "sent") ? AMB_MEM_AS_SENT
                                                                     : AMB_MEM_HOST,
                               .copy = has_word(argc, argv, "copy"),
                               .lazy = is_lazy ? AMB_LAZY_PIN : AMB_LAZY_OFF,
                               .slow = AMB_SLOW_BLOCK, .slow_block_ns = 60 * AMB_SEC),
                       &sub),
         conn, "subscribe");
    (void)printf("ready\n");
    (void)fflush(stdout);
    for (uint64_t left = strtoull(argv[3], NULL, 10); left > 0; left--) {
        struct amb_msg *msg;
        must(amb_next(sub, WAIT, &msg), conn, "next");
        take(conn, msg, is_lazy);
    }
    (void)printf("read");
    for (int i = 0; i < PATHS_MAX && paths[i].count > 0; i++) {
        (void)printf(" %s=%" PRIu64, paths[i].name, paths[i].count);
    }
    (void)printf("\n");
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    must(amb_sub_close(sub, WAIT), conn, "sub_close");
    must(amb_close(conn, WAIT), NULL, "close");
    return 0;
}
