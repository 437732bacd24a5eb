/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that are planted to see whether the simulator (tests/sim) finds them. Only a library of
 * its own is compiled with AMB_SIM_FAULTS; in the product AMB_FAULT is 0 and what asks for it is
 * gone. Threads: set before anything runs. Memory: none.
 */
#pragma once

#ifdef AMB_SIM_FAULTS

/* One line each: its name and its effect. tests/sim/README.md says which seed finds it. */
#define AMB_FAULTS(X)                                                                              \
    X(RELEASE_TWICE, "a release gives its credit back twice")                                      \
    X(CREDIT_OFF_BY_ONE, "a subscription gets a message more than its credit")                     \
    X(CURSOR_SKIPS, "a cursor now and then passes over an entry")                                  \
    X(LOST_WAKEUP, "who waits for credit is not walked again")                                     \
    X(LOSS_NOT_COUNTED, "a gap is told with a message less than were lost")                        \
    X(ATTEMPT_NOT_RAISED, "a redelivery has the count of the delivery before")                     \
    X(REFERENCE_LEAKED, "an entry that is trimmed now and then keeps its reference")               \
    X(ORDER_SWAPPED, "two mails of an inbox change places")                                        \
    X(SETTLED_TWICE, "a batch now and then is settled twice")                                      \
    X(ACK_IGNORED, "an acknowledgement now and then counts for nothing")                           \
    X(ACK_WAIT_SHORT, "an acknowledgement is waited for half as long as was said")                 \
    X(NAK_DELAY_IGNORED, "what was refused with a delay comes again at once")                      \
    X(LATE_ACK_IGNORED, "what is acknowledged late comes again as if it was not")                  \
    X(TTL_EARLY, "messages expire after half their time")                                          \
    X(TTL_IGNORED, "messages do not expire")                                                       \
    X(GRANT_LOST, "the window of an entry now and then does not come back")                        \
    X(LEND_SKIPS, "an entry now and then is not lent to another worker")                           \
    X(QUARANTINE_SKIPPED, "what a lost client still reads is used again")                          \
    X(DEDUP_FORGETS, "messages of a named publisher now and then are not counted")                 \
    X(PRIORITY_IGNORED, "a reader does not give way to what is higher")                            \
    X(SPILL_UNBOUNDED, "readers that spill keep more than spill_max")                              \
    X(SPILL_SHORT, "they lose what is more than half of it")                                       \
    X(SPILL_HOLDS, "a reader that spills holds publishers back")                                   \
    X(SPILL_COUNTS, "what they alone want fills the log for others")                               \
    X(SPILL_STAYS, "what waits for them stays in slots")                                           \
    X(SPILL_TORN, "a copy out of slots lacks its last message")                                    \
    X(SLOTS_EARLY, "slots are free when what is in them was copied, whoever reads there")          \
    X(FETCH_SHIFTED, "a part of a payload is 16 bytes from where it was asked for")                \
    X(FETCH_NEIGHBOUR, "a fetch takes the delivery for a whole batch")                             \
    X(FETCH_LOST, "a fetch now and then has no answer")                                            \
    X(FETCH_TWICE, "a fetch now and then is answered twice")                                       \
    X(FETCH_UNHELD, "an answer that waits in the link does not keep its bytes")                    \
    X(PIN_STALE, "what is pinned is kept as what is not")                                          \
    X(STALE_EARLY, "payloads go stale at a quarter of their share")                                \
    X(KEPT_UNBOUNDED, "payloads that are not pinned are kept beyond their share")                  \
    X(KEPT_MISCOUNTED, "what goes stale now and then is still counted")                            \
    X(MAP_STALE, "what a client fetched in place may go stale")                                    \
    X(GRANT_UNRESERVED, "a window opens and no memory is reserved")                                \
    X(AWAKE_EARLY, "a topic's first message does not wait for its readers")                        \
    X(FENCE_EARLY, "a fence does not wait for the last words of sessions that close")              \
    X(HEARD_EARLY, "a client's next session does not wait for those of its former one")            \
    X(SLOWEST_KEPT, "a reader that comes behind the slowest one is overlooked")                    \
    X(NEAR_IGNORED, "a group takes no notice of how near its members are")                         \
    X(NEAR_STARVES, "a near member gets all that it has credit for")

#define AMB_FAULT_ENUM(name, text) AMB_FAULT_##name,
enum amb_fault {
    AMB_FAULT_NONE,
    AMB_FAULTS(AMB_FAULT_ENUM) AMB_FAULT_COUNT,
};
#undef AMB_FAULT_ENUM

extern enum amb_fault amb_fault;
#define AMB_FAULT(name) (amb_fault == AMB_FAULT_##name)

#else
enum amb_fault {
    AMB_FAULT_NONE,
};
#define AMB_FAULT(name) 0
#endif
