/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/url.h"

#include "wire/codec/expect.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct amb_url parse(const char *text)
{
    struct amb_url url;
    char error[200] = "";
    if (amb_url_parse(text, &url, error, sizeof(error)) != AMB_OK) {
        fail_msg("%s: %s", text, error);
    }
    return url;
}

static void unix_urls_have_a_path_and_listener_options(void **state)
{
    (void)state;
    struct amb_url url = parse("unix:///run/ambroker/broker.sock");
    assert_int_equal(url.scheme, AMB_URL_UNIX);
    assert_int_equal(url.link, AMB_LINK_ANY);
    assert_string_equal(url.path, "/run/ambroker/broker.sock");
    assert_int_equal(url.mode, -1);
    assert_string_equal(url.group, "");
    url = parse("unix:///a?mode=0660&group=adm-1&link=ring");
    assert_int_equal(url.mode, 0660);
    assert_string_equal(url.group, "adm-1");
    assert_int_equal(url.link, AMB_LINK_RING);
    assert_string_equal(url.path, "/a");
    assert_int_equal(parse("unix:///a?mode=7").mode, 07);
}

static void tcp_urls_have_a_host_and_a_port(void **state)
{
    (void)state;
    struct amb_url url = parse("tcp://node-1.example:4733");
    assert_int_equal(url.scheme, AMB_URL_TCP);
    assert_string_equal(url.host, "node-1.example");
    assert_int_equal(url.port, 4733);
    url = parse("tcp://127.0.0.1:0?link=stream");
    assert_string_equal(url.host, "127.0.0.1");
    assert_int_equal(url.port, 0);
    assert_int_equal(url.link, AMB_LINK_STREAM);
    url = parse("tcp://[::1]:65535?link=ucx");
    assert_string_equal(url.host, "::1");
    assert_int_equal(url.port, 65535);
    assert_int_equal(url.link, AMB_LINK_UCX);
    assert_string_equal(parse("tcp://[fe80::1%eth0.5]:1").host, "fe80::1%eth0.5");
}

static void tcp_urls_may_name_an_interface(void **state)
{
    (void)state;
    assert_string_equal(parse("tcp://h:1").interface, "");
    assert_string_equal(parse("tcp://h:1?interface=ib0").interface, "ib0");
    struct amb_url url = parse("tcp://[fe80::1]:1?link=stream&interface=eth0.5-fifteen");
    assert_string_equal(url.interface, "eth0.5-fifteen");
    assert_int_equal(url.link, AMB_LINK_STREAM);
    assert_string_equal(parse("tcp://eth0.5:1").host,
                        "eth0.5"); /* a listener may mean the interface */
}

static void any_url_may_demand_ways(void **state)
{
    (void)state;
    assert_int_equal(parse("tcp://h:1").expect, 0);
    assert_int_equal(parse("tcp://h:1?expect=rdma").expect, AMB_EXPECT_RDMA);
    struct amb_url url = parse("unix:///a?expect=nvlink&link=ring&expect=ring&expect=ring");
    assert_int_equal(url.expect, AMB_EXPECT_NVLINK | AMB_EXPECT_RING);
    assert_int_equal(url.link, AMB_LINK_RING);
}

static void formatting_gives_a_url_that_parses_to_the_same(void **state)
{
    (void)state;
    static const char *const canonical[] = {
        "unix:///run/x.sock",
        "unix:///run/x.sock?mode=0660",
        "unix:///run/x.sock?mode=0007&group=adm&link=ring",
        "unix:///run/x.sock?group=adm",
        "unix:///run/x.sock?link=ring",
        "tcp://host:1",
        "tcp://[2001:db8::7]:4733?link=ucx",
        "tcp://host:1?interface=ib0",
        "tcp://[fe80::1%eth0]:1?interface=fifteen-bytes-i&link=stream",
        "tcp://host:1?expect=rdma",
        "unix:///a?link=ring&expect=ring&expect=zero-copy&expect=nvlink",
    };
    char text[512];
    for (size_t i = 0; i < COUNT(canonical); i++) {
        struct amb_url url = parse(canonical[i]);
        amb_url_format(&url, text, sizeof(text));
        assert_string_equal(text, canonical[i]);
    }
    struct amb_url url = parse("unix:///a?link=ring&mode=600");
    amb_url_format(&url, text, sizeof(text));
    assert_string_equal(text, "unix:///a?mode=0600&link=ring");
}

static void formatting_into_too_little_room_is_cut_and_terminated(void **state)
{
    (void)state;
    struct amb_url url = parse("unix:///a?mode=600&link=ring");
    char text[64];
    for (size_t size = 1; size <= 40; size++) {
        memset(text, 'x', sizeof(text));
        amb_url_format(&url, text, size);
        assert_true(strlen(text) < size);
        assert_int_equal(strncmp(text, "unix:///a?mode=0600&link=ring", strlen(text)), 0);
        assert_int_equal(text[size], 'x');
    }
    text[0] = 'x';
    amb_url_format(&url, text, 0);
    assert_int_equal(text[0], 'x');
}

static const struct {
    const char *url, *named;
} bad[] = {
    {"", "not a URL"},
    {"/run/x.sock", "'/run/x.sock'"},
    {"host:1", "'host:1'"},
    {"http://a:1", "'http'"},
    {"UNIX:///a", "'UNIX'"},
    {"unix://", "''"},
    {"unix:///", "'/'"},
    {"unix://run/x", "'run/x'"},
    {"unix:///a\nb", "'/a?b'"},
    {"unix:///a?", "unknown option ''"},
    {"unix:///a?mode", "octal"},
    {"unix:///a?mode=", "octal"},
    {"unix:///a?mode=8", "'8'"},
    {"unix:///a?mode=1777", "'1777'"},
    {"unix:///a?mode=77777777777777777777", "mode above"},
    {"unix:///a?mode=6&mode=6", "mode given twice"},
    {"unix:///a?group=", "group"},
    {"unix:///a?group=a b", "'a b'"},
    {"unix:///a?group=a&group=b", "group given twice"},
    {"unix:///a?link=sim", "'sim'"},
    {"unix:///a?link=any", "'any'"},
    {"unix:///a?link=", "''"},
    {"unix:///a?link=ring&link=ring", "link given twice"},
    {"unix:///a?link=ring&", "unknown option ''"},
    {"unix:///a?color=red", "'color=red'"},
    {"tcp://", "''"},
    {"tcp://host", "'host'"},
    {"tcp://host:", "'host:'"},
    {"tcp://:1", "''"},
    {"tcp://host:65536", "'65536'"},
    {"tcp://host:99999999999999999999", "port above"},
    {"tcp://host:-1", "'-1'"},
    {"tcp://host:1x", "'1x'"},
    {"tcp://::1:5", "''"},
    {"tcp://a:b:5", "brackets"},
    {"tcp://-h:5", "'-h'"},
    {"tcp://u@h:5", "'u@h'"},
    {"tcp://h/x:5", "'h/x'"},
    {"tcp://[::1]", "'[::1]'"},
    {"tcp://[::1]5", "'[::1]5'"},
    {"tcp://[::1", "'[::1'"},
    {"tcp://[1.2.3.4]:5", "'1.2.3.4'"},
    {"tcp://[fe80::1%]:5", "'fe80::1%'"},
    {"tcp://[fe80::1%a/b]:5", "'fe80::1%a/b'"},
    {"tcp://h:1?mode=0600", "'mode=0600'"},
    {"tcp://h:1?group=a", "'group=a'"},
    {"tcp://eth0:1:4733", "alias"},
    {"tcp://h:1?interface", "not the name of an interface: ''"},
    {"tcp://h:1?interface=", "not the name of an interface: ''"},
    {"tcp://h:1?interface=-a", "'-a'"},
    {"tcp://h:1?interface=a/b", "'a/b'"},
    {"tcp://h:1?interface=a b", "'a b'"},
    {"tcp://h:1?interface=eth0:1", "alias"},
    {"tcp://h:1?interface=sixteen-bytes-it", "longer than 15 bytes: 'sixteen-bytes-it'"},
    {"tcp://h:1?interface=a&interface=a", "interface given twice"},
    {"tcp://h:1?Interface=a", "unknown option"},
    {"unix:///a?interface=eth0", "unknown option"},
    {"tcp://h:1?expect", "expect is ring, zero-copy, rdma or nvlink, not ''"},
    {"tcp://h:1?expect=", "not ''"},
    {"tcp://h:1?expect=fast", "'fast'"},
    {"unix:///a?expect=ring+nvlink", "'ring+nvlink'"},
    {"unix:///a?Expect=ring", "unknown option"},
};

static void bad_urls_are_refused_and_the_error_names_the_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct amb_url url;
        memset(&url, 0x5a, sizeof(url));
        char error[200] = "";
        if (amb_url_parse(bad[i].url, &url, error, sizeof(error)) != AMB_EINVAL) {
            fail_msg("%s was taken", bad[i].url);
        }
        if (strstr(error, bad[i].named) == NULL) {
            fail_msg("%s: \"%s\" does not name %s", bad[i].url, error, bad[i].named);
        }
        assert_int_equal(url.port, 0x5a5a); /* untouched */
    }
}

#define PIN "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

static void tls_urls_are_tcp_urls_with_a_pin(void **state)
{
    (void)state;
    char text[300], error[200];
    struct amb_url url = parse("tls://broker.example:4733?link=stream&pin=" PIN "&interface=ib0");
    assert_int_equal(url.scheme, AMB_URL_TLS);
    assert_string_equal(url.host, "broker.example");
    assert_int_equal(url.port, 4733);
    assert_string_equal(url.pin, PIN);
    amb_url_format(&url, text, sizeof(text));
    assert_string_equal(text, "tls://broker.example:4733?interface=ib0&pin=" PIN "&link=stream");
    url = parse("tls://[::1]:1");
    assert_string_equal(url.pin, "");
    amb_url_format(&url, text, sizeof(text));
    assert_string_equal(text, "tls://[::1]:1");
    static const char *const wrong[] = {
        "tls://h",
        "tls:///path",
        "tcp://h:1?pin=" PIN,
        "unix:///a?pin=" PIN,
        "tls://h:1?pin=",
        "tls://h:1?pin=md5/AAAA",
        "tls://h:1?pin=sha256/AAAA",
        "tls://h:1?pin=sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFUA",
        "tls://h:1?pin=sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSu-U=",
        "tls://h:1?pin=" PIN "&pin=" PIN,
        "tls://h:1?mode=0600"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(amb_url_parse(wrong[i], &url, error, sizeof(error)), AMB_EINVAL);
    }
}

static void lengths_end_where_their_fields_end(void **state)
{
    (void)state;
    struct amb_url url;
    char text[600], error[1], part[300];
    memset(part, 'p', sizeof(part));
    static const int longest[] = {106, 255, 63};
    for (int more = 0; more < 2; more++) {
        enum amb_status expected = more == 0 ? AMB_OK : AMB_EINVAL;
        (void)snprintf(text, sizeof(text), "unix:///%.*s", longest[0] + more, part);
        assert_int_equal(amb_url_parse(text, &url, error, sizeof(error)), expected);
        (void)snprintf(text, sizeof(text), "tcp://%.*s:1", longest[1] + more, part);
        assert_int_equal(amb_url_parse(text, &url, error, sizeof(error)), expected);
        (void)snprintf(text, sizeof(text), "unix:///a?group=%.*s", longest[2] + more, part);
        assert_int_equal(amb_url_parse(text, &url, error, sizeof(error)), expected);
    }
}

static void every_link_kind_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(amb_link_kind_name(AMB_LINK_ANY), "any");
    assert_string_equal(amb_link_kind_name(AMB_LINK_RING), "ring");
    assert_string_equal(amb_link_kind_name(AMB_LINK_STREAM), "stream");
    assert_string_equal(amb_link_kind_name(AMB_LINK_UCX), "ucx");
    assert_string_equal(amb_link_kind_name(AMB_LINK_SIM), "sim");
}

static void a_broker_of_a_developer_has_a_place(void **state)
{
    (void)state;
    char text[128], folder[90];
    amb_url_format_dev("/run/user/7", 7, text, sizeof(text));
    assert_string_equal(text, "unix:///run/user/7/ambroker-7/broker.sock");
    static const char *const unfit[] = {NULL, "", "run", "/a b", "/a?b", "/a%b", "/a,b"};
    for (size_t i = 0; i < COUNT(unfit); i++) {
        amb_url_format_dev(unfit[i], UINT32_MAX, text, sizeof(text));
        assert_string_equal(text, "unix:///tmp/ambroker-4294967295/broker.sock");
    }
    for (size_t len = 1; len < sizeof(folder); len++) { /* each has a URL that can be parsed */
        memset(folder, 'a', len);
        folder[0] = '/';
        folder[len] = '\0';
        amb_url_format_dev(folder, UINT32_MAX, text, sizeof(text));
        (void)parse(text);
    }
    assert_string_equal(text, "unix:///tmp/ambroker-4294967295/broker.sock");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unix_urls_have_a_path_and_listener_options),
        cmocka_unit_test(tcp_urls_have_a_host_and_a_port),
        cmocka_unit_test(tcp_urls_may_name_an_interface),
        cmocka_unit_test(any_url_may_demand_ways),
        cmocka_unit_test(formatting_gives_a_url_that_parses_to_the_same),
        cmocka_unit_test(formatting_into_too_little_room_is_cut_and_terminated),
        cmocka_unit_test(bad_urls_are_refused_and_the_error_names_the_part),
        cmocka_unit_test(tls_urls_are_tcp_urls_with_a_pin),
        cmocka_unit_test(lengths_end_where_their_fields_end),
        cmocka_unit_test(every_link_kind_has_a_name),
        cmocka_unit_test(a_broker_of_a_developer_has_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
