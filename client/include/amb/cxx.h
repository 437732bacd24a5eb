/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <amb/cxx.h>: the macros of <amb/amb.h> in C++, which includes it. The same words mean the same:
 *
 *     amb_subscribe(conn, "jobs", AMB_SUB(.group = "g", .credit_msgs = 16), &sub);
 *
 * C++17 has no designated initialisers, C++20 wants them in the order of the declaration, and
 * neither has compound literals. So each argument becomes an assignment to a struct of zeros: any
 * order is right, and a number is no enumeration (.lazy = AMB_LAZY_ON, not 1). An argument with a
 * comma outside parentheses is two of them.
 *
 * A macro's value lives until the end of the full expression it stands in, that is, of the call.
 */
#ifndef AMB_CXX_H
#define AMB_CXX_H

#include <stdint.h>

#ifdef __cplusplus

namespace amb_detail
{

template <class Struct> inline Struct sized()
{
    Struct value = Struct();
    value.size = static_cast<uint32_t>(sizeof(Struct));
    return value;
}

/* A struct where a pointer to one is wanted. */
template <class Struct> struct given {
    Struct value;
    operator const Struct *() const
    {
        return &value;
    }
};

} // namespace amb_detail

/* struct amb_pub_info info = AMB_INIT(amb_pub_info); */
#define AMB_INIT(type) (::amb_detail::sized<struct type>())
/* { AMB_PROP("name", "text") } */
#define AMB_PROP(n, v)                                                                             \
    {                                                                                              \
        (n), (v), sizeof(v) - 1                                                                    \
    }

#define AMB_WITH(type, ...)                                                                        \
    ([&]() -> ::amb_detail::given<struct type> {                                                   \
        struct type amb_given_ = ::amb_detail::sized<struct type>();                               \
        AMB_SET_EACH(__VA_ARGS__)                                                                  \
        return {amb_given_};                                                                       \
    }())

/* AMB_SET_n sets n fields; AMB_SET_EACH chooses it by the number of its arguments. */
#define AMB_SET_1(a) static_cast<void>(amb_given_ a);
#define AMB_SET_2(a, ...) AMB_SET_1(a) AMB_SET_1(__VA_ARGS__)
#define AMB_SET_3(a, ...) AMB_SET_1(a) AMB_SET_2(__VA_ARGS__)
#define AMB_SET_4(a, ...) AMB_SET_1(a) AMB_SET_3(__VA_ARGS__)
#define AMB_SET_5(a, ...) AMB_SET_1(a) AMB_SET_4(__VA_ARGS__)
#define AMB_SET_6(a, ...) AMB_SET_1(a) AMB_SET_5(__VA_ARGS__)
#define AMB_SET_7(a, ...) AMB_SET_1(a) AMB_SET_6(__VA_ARGS__)
#define AMB_SET_8(a, ...) AMB_SET_1(a) AMB_SET_7(__VA_ARGS__)
#define AMB_SET_9(a, ...) AMB_SET_1(a) AMB_SET_8(__VA_ARGS__)
#define AMB_SET_10(a, ...) AMB_SET_1(a) AMB_SET_9(__VA_ARGS__)
#define AMB_SET_11(a, ...) AMB_SET_1(a) AMB_SET_10(__VA_ARGS__)
#define AMB_SET_12(a, ...) AMB_SET_1(a) AMB_SET_11(__VA_ARGS__)
#define AMB_SET_13(a, ...) AMB_SET_1(a) AMB_SET_12(__VA_ARGS__)
#define AMB_SET_14(a, ...) AMB_SET_1(a) AMB_SET_13(__VA_ARGS__)
#define AMB_SET_15(a, ...) AMB_SET_1(a) AMB_SET_14(__VA_ARGS__)
#define AMB_SET_16(a, ...) AMB_SET_1(a) AMB_SET_15(__VA_ARGS__)
#define AMB_SET_17(a, ...) AMB_SET_1(a) AMB_SET_16(__VA_ARGS__)
#define AMB_SET_18(a, ...) AMB_SET_1(a) AMB_SET_17(__VA_ARGS__)
#define AMB_SET_19(a, ...) AMB_SET_1(a) AMB_SET_18(__VA_ARGS__)
#define AMB_SET_20(a, ...) AMB_SET_1(a) AMB_SET_19(__VA_ARGS__)
#define AMB_SET_21(a, ...) AMB_SET_1(a) AMB_SET_20(__VA_ARGS__)
#define AMB_SET_22(a, ...) AMB_SET_1(a) AMB_SET_21(__VA_ARGS__)
#define AMB_SET_23(a, ...) AMB_SET_1(a) AMB_SET_22(__VA_ARGS__)
#define AMB_SET_24(a, ...) AMB_SET_1(a) AMB_SET_23(__VA_ARGS__)
#define AMB_SET_25(a, ...) AMB_SET_1(a) AMB_SET_24(__VA_ARGS__)
#define AMB_SET_26(a, ...) AMB_SET_1(a) AMB_SET_25(__VA_ARGS__)
#define AMB_SET_27(a, ...) AMB_SET_1(a) AMB_SET_26(__VA_ARGS__)
#define AMB_SET_28(a, ...) AMB_SET_1(a) AMB_SET_27(__VA_ARGS__)
#define AMB_SET_29(a, ...) AMB_SET_1(a) AMB_SET_28(__VA_ARGS__)
#define AMB_SET_30(a, ...) AMB_SET_1(a) AMB_SET_29(__VA_ARGS__)
#define AMB_SET_31(a, ...) AMB_SET_1(a) AMB_SET_30(__VA_ARGS__)
#define AMB_SET_32(a, ...) AMB_SET_1(a) AMB_SET_31(__VA_ARGS__)
#define AMB_SET_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17,   \
                     _18, _19, _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32,    \
                     name, ...)                                                                    \
    name
#define AMB_SET_EACH(...)                                                                          \
    AMB_SET_PICK(__VA_ARGS__, AMB_SET_32, AMB_SET_31, AMB_SET_30, AMB_SET_29, AMB_SET_28,          \
                 AMB_SET_27, AMB_SET_26, AMB_SET_25, AMB_SET_24, AMB_SET_23, AMB_SET_22,           \
                 AMB_SET_21, AMB_SET_20, AMB_SET_19, AMB_SET_18, AMB_SET_17, AMB_SET_16,           \
                 AMB_SET_15, AMB_SET_14, AMB_SET_13, AMB_SET_12, AMB_SET_11, AMB_SET_10,           \
                 AMB_SET_9, AMB_SET_8, AMB_SET_7, AMB_SET_6, AMB_SET_5, AMB_SET_4, AMB_SET_3,      \
                 AMB_SET_2, AMB_SET_1, 0)                                                          \
    (__VA_ARGS__)

#endif
#endif
