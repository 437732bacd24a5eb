# SPDX-License-Identifier: Apache-2.0
# Scripts on real processes, with what tests/support/harness.py gives them.
if(NOT TARGET brokerd OR NOT TARGET amb)
    return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_executable(test-promptness ${CMAKE_CURRENT_LIST_DIR}/promptness.c)
target_link_libraries(test-promptness PRIVATE amb_flags amb Threads::Threads)
add_executable(test-told ${CMAKE_CURRENT_LIST_DIR}/told.c)
target_link_libraries(test-told PRIVATE amb_flags amb_client_config amb_broker_core)
set_target_properties(test-promptness test-told PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
foreach(name IN ITEMS audience bad_input dask exchange fence frozen interface lazy lease local near policies priority queues reconnect request roles steady_state stopped tls truth users)
    amb_python_test(integration-${name} integration ${CMAKE_CURRENT_LIST_DIR}/${name}_test.py)
endforeach()
amb_python_test(integration-ucx_library links ${CMAKE_CURRENT_LIST_DIR}/ucx_library_test.py)
# The same over TLS, where a test takes any link.
foreach(name IN ITEMS frozen lease policies request stopped)
    amb_python_test(integration-${name}-tls integration ${CMAKE_CURRENT_LIST_DIR}/${name}_test.py --links tls)
endforeach()
set(promptness ${CMAKE_CURRENT_LIST_DIR}/promptness_test.py)
amb_python_test(integration-promptness integration ${promptness}::test_nothing_comes_late)
# Milliseconds beside busy cores: not for continuous integration, and not for slower, sanitized code. The
# page of features names tests that such a build does not have.
if(NOT AMB_SANITIZE)
    amb_python_test(integration-features integration ${CMAKE_CURRENT_LIST_DIR}/features_test.py)
    amb_python_test(stress-promptness-beside stress
        ${promptness}::test_nothing_comes_late_beside_busy_cores)
    amb_alone(stress-promptness-beside)
endif()
set(idle ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/bench/idle.py ${CMAKE_BINARY_DIR})
amb_process_test(integration-idle integration ${idle} --idle 3 --limit 2 --ucx 1)
amb_alone(integration-idle integration-policies integration-policies-tls integration-promptness integration-steady_state)
amb_long(45 integration-stopped integration-reconnect)
amb_long(25 integration-frozen integration-fence)
amb_process_test(bench-idle bench ${idle})
amb_python_test(stress-stopped stress ${CMAKE_CURRENT_LIST_DIR}/stopped_test.py --time 10)
if(NOT AMB_SANITIZE) # Of builds as they are shipped.
    amb_python_test(integration-hardened integration ${CMAKE_CURRENT_LIST_DIR}/hardened_test.py)
    amb_python_test(integration-sbom integration ${CMAKE_CURRENT_LIST_DIR}/sbom_test.py)
endif()
