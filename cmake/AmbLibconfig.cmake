# SPDX-License-Identifier: Apache-2.0
# The libconfig whose header wire/config is built with, as target amb_libconfig. Nothing links to it:
# it is loaded when the first file is read (wire/config/libconfig_api.h), under the name that a
# program linked to it would ask for.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBCONFIG REQUIRED libconfig>=1.5)
find_library(AMB_LIBCONFIG_LIBRARY NAMES config HINTS ${LIBCONFIG_LIBRARY_DIRS} REQUIRED)
mark_as_advanced(AMB_LIBCONFIG_LIBRARY)
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${AMB_LIBCONFIG_LIBRARY}
    OUTPUT_VARIABLE AMB_LIBCONFIG_HEADERS COMMAND_ERROR_IS_FATAL ANY)
if(NOT AMB_LIBCONFIG_HEADERS MATCHES "SONAME +([^ \n]+)")
    message(FATAL_ERROR "${AMB_LIBCONFIG_LIBRARY} has no soname: is it a shared library?")
endif()
add_library(amb_libconfig INTERFACE)
target_include_directories(amb_libconfig SYSTEM INTERFACE ${LIBCONFIG_INCLUDE_DIRS})
set(AMB_LIBCONFIG_SONAME ${CMAKE_MATCH_1})
target_compile_definitions(amb_libconfig INTERFACE AMB_LIBCONFIG_SONAME="${AMB_LIBCONFIG_SONAME}")
