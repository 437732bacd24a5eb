/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/visitor.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define VALUE_MAX AMB_VISITOR_HEAD_MAX /* other programs of this host have cookies, too */
#define KEY_TARGET "/?key="

static void answer_with(char answer[AMB_VISITOR_ANSWER_MAX], const char *status, const char *more,
                        const char *text)
{
    (void)snprintf(answer, AMB_VISITOR_ANSWER_MAX,
                   "HTTP/1.1 %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
                   "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n"
                   "X-Content-Type-Options: nosniff\r\n"
                   "Content-Type: text/plain; charset=utf-8\r\n%sContent-Length: %zu\r\n\r\n%s",
                   status, more, strlen(text), text);
}

/* The value of a header; how often it stands there. "": it is too long, or not there. */
static unsigned header(const char *head, const char *name, char value[VALUE_MAX])
{
    size_t name_len = strlen(name);
    unsigned count = 0;
    value[0] = '\0';
    for (const char *line = strchr(head, '\n'); line != NULL; line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, name_len) != 0 || line[name_len] != ':') {
            continue;
        }
        const char *from = line + name_len + 1;
        from += strspn(from, " \t");
        size_t len = strcspn(from, "\r\n");
        count++;
        if (len < VALUE_MAX) {
            memcpy(value, from, len);
            value[len] = '\0';
        }
    }
    return count;
}

static bool is_our_host(const char *head, uint16_t port)
{
    char value[VALUE_MAX], by_address[32], by_name[32];
    (void)snprintf(by_address, sizeof(by_address), "127.0.0.1:%u", (unsigned)port);
    (void)snprintf(by_name, sizeof(by_name), "localhost:%u", (unsigned)port);
    return header(head, "Host", value) == 1 &&
           (strcmp(value, by_address) == 0 || strcasecmp(value, by_name) == 0);
}

/* Has it the key that works once? */
static bool has_key(struct amb_visits *visits, const char *target, int64_t now_ns)
{
    char key[AMB_VISITS_KEY_SIZE];
    size_t head = strlen(KEY_TARGET);
    size_t len = strcspn(target, " \r\n");
    if (strncmp(target, KEY_TARGET, head) != 0 || len != head + sizeof(key) - 1) {
        return false;
    }
    memcpy(key, target + head, sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    return amb_visits_take(visits, key, now_ns);
}

static bool is_whole(const char *head, size_t len)
{
    return memmem(head, len, "\n\r\n", 3) != NULL || memmem(head, len, "\n\n", 2) != NULL;
}

enum amb_visitor amb_visitor_judge(struct amb_visits *visits, const char *head, size_t len,
                                   uint16_t port, int64_t now_ns, int64_t now_s,
                                   char answer[AMB_VISITOR_ANSWER_MAX])
{
    char cookies[VALUE_MAX], cookie[AMB_VISITS_COOKIE_SIZE], more[AMB_VISITS_COOKIE_SIZE + 64];
    if (!is_whole(head, len)) {
        if (len < AMB_VISITOR_HEAD_MAX) {
            return AMB_VISITOR_WAITS;
        }
        answer_with(answer, "431 Request Header Fields Too Large", "",
                    "the head is more than 8 KiB\n");
        return AMB_VISITOR_ANSWERED;
    }
    if (strncmp(head, "GET /", 5) != 0 || strlen(head) != len) {
        answer_with(answer, "405 Method Not Allowed", "Allow: GET\r\n", "only GET\n");
        return AMB_VISITOR_ANSWERED;
    }
    if (!is_our_host(head, port)) {
        answer_with(answer, "403 Forbidden", "", "Host is not that of this port\n");
        return AMB_VISITOR_ANSWERED;
    }
    if (has_key(visits, head + 4, now_ns) && amb_visits_cookie(visits, now_s, cookie) == AMB_OK) {
        /* The next request comes from a page of this host: only such a one has the cookie. */
        (void)snprintf(more, sizeof(more), "Set-Cookie: %s\r\nRefresh: 0; url=/\r\n", cookie);
        answer_with(answer, "200 OK", more, "the page follows\n");
        return AMB_VISITOR_ANSWERED;
    }
    (void)header(head, "Cookie", cookies);
    if (!amb_visits_has(visits, cookies, now_s)) {
        answer_with(answer, "401 Unauthorized", "",
                    "open the address that `broker-ctl page` prints; it works once\n");
        return AMB_VISITOR_ANSWERED;
    }
    return AMB_VISITOR_FORWARD;
}

void amb_visitor_excuse(const char *head, char answer[AMB_VISITOR_ANSWER_MAX])
{
    static const char stream[] = "GET /v1/events";
    if (strncmp(head, stream, strlen(stream)) == 0) {
        (void)snprintf(answer, AMB_VISITOR_ANSWER_MAX,
                       "HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: no-store\r\n"
                       "Content-Type: text/event-stream\r\nContent-Length: 13\r\n\r\n"
                       "retry: 1000\n\n");
        return;
    }
    answer_with(answer, "503 Service Unavailable", "Refresh: 2\r\n",
                "the broker does not answer\n");
}
