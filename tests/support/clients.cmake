# SPDX-License-Identifier: Apache-2.0
# Clients for the tests with real processes: users of libamb's public header like any other.
if(TARGET amb)
    add_library(amb_checked STATIC ${CMAKE_CURRENT_LIST_DIR}/checked.c)
    target_link_libraries(amb_checked PUBLIC amb_flags)
    foreach(program IN ITEMS asker audience changer checker flood holder lazy leaser requester returner secrets
                          victim waiter)
        add_executable(test-${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.c)
        target_link_libraries(test-${program} PRIVATE amb_checked amb Threads::Threads)
        set_target_properties(test-${program} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    endforeach()
    target_link_libraries(test-checker PRIVATE amb_tools)
    if(NOT AMB_SANITIZE) # Their runtimes count on being first themselves.
        add_library(test-count MODULE ${CMAKE_CURRENT_LIST_DIR}/count_preload.c)
        target_link_libraries(test-count PRIVATE amb_flags)
        set_target_properties(test-count PROPERTIES
            PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    endif()
endif()
