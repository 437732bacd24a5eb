/* SPDX-License-Identifier: Apache-2.0 */
/* C++17: the same calls and macros, with handles that close themselves. Sends itself a greeting. */
#include <amb/amb.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

struct Close {
    void operator()(amb_conn *conn) const
    {
        const amb_status status = amb_close(conn, AMB_SEC);
        if (status != AMB_OK) {
            std::fprintf(stderr, "close: %s\n", amb_strerror(status));
        }
    }
    void operator()(amb_msg *msg) const
    {
        amb_msg_release(msg);
    }
};
using Connection = std::unique_ptr<amb_conn, Close>;
using Message = std::unique_ptr<amb_msg, Close>;

void check(amb_status status, const char *what)
{
    if (status != AMB_OK) {
        throw std::runtime_error(std::string(what) + ": " + amb_strerror(status));
    }
}

Connection connect()
{
    amb_error error{};
    amb_conn *conn = nullptr;
    if (amb_connect(nullptr, AMB_OPTIONS(.name = "hello", .error = &error), &conn) != AMB_OK) {
        throw std::runtime_error(error.text);
    }
    return Connection(conn);
}

void run()
{
    const Connection conn = connect();
    amb_sub *sub = nullptr;
    amb_pub *pub = nullptr;
    check(amb_subscribe(conn.get(), "greetings", AMB_SUB(.credit_msgs = 16), &sub), "subscribe");

    /* Fields in any order; the callback is a function or a lambda that captures nothing. */
    std::uint64_t settled = 0;
    const auto count = [](amb_pub *, const amb_settled *run, void *arg) {
        *static_cast<std::uint64_t *>(arg) += run->last - run->first + 1;
    };
    check(amb_pub_open(conn.get(), "greetings", AMB_PUB(.arg = &settled, .on_settled = count), &pub),
          "open");

    const amb_prop props[] = {AMB_PROP("language", "C++")};
    const std::string_view text = "hello";
    check(amb_pub_post(pub,
                       AMB_OUT(.data = text.data(), .len = text.size(), .props = props,
                               .prop_count = 1, .content_type = "text/plain"),
                       AMB_SEC, nullptr),
          "post");
    check(amb_pub_flush(pub, 0, 5 * AMB_SEC), "flush");

    amb_msg *taken = nullptr;
    check(amb_next(sub, 5 * AMB_SEC, &taken), "next");
    const Message msg(taken);
    const std::string_view got(static_cast<const char *>(amb_msg_data(msg.get())),
                               amb_msg_size(msg.get()));
    amb_pub_info info = AMB_INIT(amb_pub_info);
    check(amb_pub_stat(pub, &info), "stat");
    while (settled == 0) {
        check(amb_poll(conn.get(), AMB_SEC), "poll");
    }
    std::printf("%s: %.*s, from %s; settled %d of %d\n", amb_msg_topic(msg.get()),
                static_cast<int>(got.size()), got.data(),
                static_cast<const char *>(amb_msg_prop(msg.get(), "language", nullptr)),
                static_cast<int>(settled), static_cast<int>(info.posted));
}

} // namespace

int main()
{
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
