# SPDX-License-Identifier: Apache-2.0
# Clients for the tests with real processes: users of libamb's public header like any other.
if(TARGET amb)
    add_library(amb_checked STATIC ${CMAKE_CURRENT_LIST_DIR}/checked.c)
    target_link_libraries(amb_checked PUBLIC amb_flags)
    foreach(program IN ITEMS asker checker holder victim waiter)
        add_executable(test-${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.c)
        target_link_libraries(test-${program} PRIVATE amb_checked amb Threads::Threads)
        set_target_properties(test-${program} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    endforeach()
endif()
