# SPDX-License-Identifier: Apache-2.0
# Scripts on real processes, with what tests/support/harness.py gives them.
if(NOT TARGET brokerd OR NOT TARGET amb)
    return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_executable(test-promptness ${CMAKE_CURRENT_LIST_DIR}/promptness.c)
target_link_libraries(test-promptness PRIVATE amb_flags amb Threads::Threads)
set_target_properties(test-promptness PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
foreach(name IN ITEMS audience bad_input frozen lazy lease policies priority promptness queues reconnect request steady_state stopped users)
    amb_process_test(integration-${name} integration ${Python3_EXECUTABLE}
        ${CMAKE_CURRENT_LIST_DIR}/${name}_test.py ${CMAKE_BINARY_DIR})
endforeach()
set(idle ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/bench/idle.py ${CMAKE_BINARY_DIR})
amb_process_test(integration-idle integration ${idle} --idle 3 --limit 2 --ucx 1)
amb_alone(integration-idle integration-policies integration-promptness integration-steady_state)
amb_long(45 integration-stopped integration-reconnect)
amb_long(25 integration-frozen)
amb_process_test(bench-idle bench ${idle})
amb_process_test(stress-stopped stress ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/stopped_test.py ${CMAKE_BINARY_DIR} --time 10)
