/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service and who asks it, which both publish what anybody may read, too:
 *
 *     secrets URL
 *
 * Publishes to "public.a" and asks "svc", in turn and in three sizes, so that open and secret
 * messages would come to lie side by side. Prints "done" and stays, with all replies in its hands,
 * until its standard input ends.
 */
#include <amb/amb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (300u << 10)
#define ROUNDS 20u

static struct amb_conn *service, *client;
static const size_t sizes[] = {24, 20u << 10, LARGEST}; /* a batch, a slot, a slot */

static void need(enum amb_status status, const char *what)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "secrets: %s: %s\n", what, amb_strerror(status));
        exit(1);
    }
}

static const char *text_of(char *text, const char *words)
{
    for (size_t at = 0; at < LARGEST; at += strlen(words)) {
        memcpy(text + at, words, strlen(words));
    }
    return text;
}

static void answer(struct amb_msg *msg, void *arg)
{
    need(amb_publish(service, "public.a", arg, amb_msg_size(msg), AMB_SEC), "publish");
    static char secret[LARGEST + 64];
    need(amb_reply(msg, text_of(secret, "secret reply "), amb_msg_size(msg), AMB_SEC), "reply");
}

static void *serve(void *arg)
{
    (void)arg;
    while (amb_poll(service, AMB_FOREVER) == AMB_OK) {
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static char open[LARGEST + 64], request[LARGEST + 64];
    (void)text_of(open, "anybody may read this ");
    (void)text_of(request, "request ");
    if (argc != 2) {
        return 64;
    }
    struct amb_sub *sub;
    pthread_t thread;
    need(amb_connect(argv[1], NULL, &service), "connect");
    need(amb_connect(argv[1], NULL, &client), "connect");
    need(amb_subscribe(service, "svc", AMB_SUB(.on_message = answer, .arg = open), &sub), "serve");
    if (pthread_create(&thread, NULL, serve, NULL) != 0) {
        return 1;
    }
    for (unsigned i = 0; i < ROUNDS * 3; i++) {
        struct amb_msg *reply; /* Kept: the memory that it lies in stays as it is. */
        need(amb_publish(client, "public.a", open, sizes[i % 3], AMB_SEC), "publish");
        need(amb_request(client, "svc", request, sizes[i % 3], 20 * AMB_SEC, &reply), "request");
        if (amb_msg_size(reply) != sizes[i % 3] ||
            memcmp(amb_msg_data(reply), "secret reply ", 13) != 0) {
            (void)fprintf(stderr, "secrets: another reply\n");
            return 1;
        }
    }
    (void)printf("done\n");
    (void)fflush(stdout);
    (void)getchar();
    amb_stop(service);
    (void)pthread_join(thread, NULL);
    return 0;
}
