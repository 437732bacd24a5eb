# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: programs, manual pages, completion, ucx-fence, libamb with its header, pkg-config and CMake
# files, the example configuration, and the wheel's UCX, found by run paths relative to the programs.
# Components are Debian packages (AmbPackage.cmake); `plain` is what no package has.
include(GNUInstallDirs)
set(private ${CMAKE_INSTALL_LIBDIR}/ambroker)

file(RELATIVE_PATH bin_to_private /${CMAKE_INSTALL_BINDIR} /${private})
foreach(program IN ITEMS brokerd broker-ctl broker-bench)
    if(TARGET ${program})
        set_target_properties(${program} PROPERTIES
            INSTALL_RPATH "$ORIGIN/${bin_to_private}/ucx/lib;$ORIGIN/${bin_to_private}/..")
        set(component tools)
        if(program STREQUAL "brokerd")
            set(component server)
        endif()
        install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
    endif()
endforeach()

# Run paths in the folder of the build are relative too: CMake replaces them when it installs, but the
# room that they took, and the build's number, would tell one folder from another.
foreach(target IN ITEMS brokerd broker-ctl broker-bench amb)
    if(TARGET ${target})
        set_target_properties(${target} PROPERTIES BUILD_RPATH_USE_ORIGIN ON)
        if(AMB_UCX STREQUAL "wheel")
            get_target_property(folder ${target} BINARY_DIR)
            file(RELATIVE_PATH to_ucx ${folder} ${AMB_UCX_ROOT}/lib)
            set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/${to_ucx}")
        endif()
    endif()
endforeach()

if(TARGET amb)
    set_target_properties(amb PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
        INSTALL_RPATH "$ORIGIN/ambroker/ucx/lib")
    install(TARGETS amb LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib NAMELINK_COMPONENT dev)
    install(DIRECTORY client/include/amb TYPE INCLUDE COMPONENT dev)
    # Relative to amb.pc, so that `cmake --install --prefix P` is right for every P. Folders that
    # were given as absolute ones (a distribution's) stay where they are. So do a package's, and there
    # the system's linker finds libamb.so by itself.
    set(AMB_PC_RUN_PATH " -Wl,-rpath,\${libdir}")
    if(AMB_PACKAGES)
        set(AMB_PC_RUN_PATH "")
    endif()
    if(AMB_PACKAGES OR IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
        set(AMB_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
    else()
        file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
        string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
        set(AMB_PC_PREFIX "\${pcfiledir}/${pc_to_prefix}")
    endif()
    foreach(folder IN ITEMS INCLUDEDIR LIBDIR)
        set(AMB_PC_${folder} ${CMAKE_INSTALL_${folder}})
        if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
            set(AMB_PC_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
        endif()
    endforeach()
    configure_file(cmake/amb.pc.in amb.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/amb.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT dev)
    include(CMakePackageConfigHelpers)
    set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Ambroker)
    configure_package_config_file(cmake/AmbrokerConfig.cmake.in AmbrokerConfig.cmake
        INSTALL_DESTINATION ${package}
        PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
    write_basic_package_version_file(AmbrokerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/AmbrokerConfig.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/AmbrokerConfigVersion.cmake DESTINATION ${package}
        COMPONENT dev)
endif()

if(AMB_UCX STREQUAL "wheel" OR AMB_PACKAGES)
    # The same folders as in build/deps: the CUDA modules find their runtime relative to them.
    install(DIRECTORY ${AMB_UCX_ROOT}/lib DESTINATION ${private}/ucx COMPONENT ucx
        FILES_MATCHING PATTERN "*.so.0" PATTERN "libucs_signal*" EXCLUDE)
    install(DIRECTORY ${AMB_UCX_ROOT}/../libucx_cu13.libs DESTINATION ${private} COMPONENT ucx
        FILES_MATCHING PATTERN "libcudart*")
    install(DIRECTORY ${AMB_UCX_ROOT}/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR}/ucx COMPONENT plain)
endif()

install(FILES docs/man/broker-ctl.1 docs/man/broker-bench.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT tools)
foreach(section IN ITEMS 5 7 8)
    file(GLOB pages CONFIGURE_DEPENDS docs/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT server)
endforeach()
foreach(program IN ITEMS broker-ctl broker-bench brokerd)
    set(component tools)
    if(program STREQUAL "brokerd")
        set(component server)
    endif()
    install(FILES etc/completion/${program}.bash RENAME ${program} COMPONENT ${component}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES etc/completion/${program}.zsh RENAME _${program} COMPONENT ${component}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
    install(FILES etc/completion/${program}.fish COMPONENT ${component}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
# The page in brokerd has dygraphs in it, whose licence wants its notice beside each copy.
if(AMB_HTTP AND AMB_PAGE)
    find_file(AMB_DYGRAPHS_NOTICE copyright PATHS /usr/share/doc/libjs-dygraphs NO_DEFAULT_PATH)
    mark_as_advanced(AMB_DYGRAPHS_NOTICE)
    if(AMB_DYGRAPHS_NOTICE)
        install(FILES ${AMB_DYGRAPHS_NOTICE} RENAME copyright-dygraphs DESTINATION ${CMAKE_INSTALL_DOCDIR}
            COMPONENT server)
    elseif(AMB_PACKAGES)
        message(FATAL_ERROR "no /usr/share/doc/libjs-dygraphs/copyright, which the package ambroker is to have")
    endif()
endif()
install(PROGRAMS tools/ucx-fence DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT server)
install(DIRECTORY etc/profiles etc/prometheus etc/grafana DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
    COMPONENT server)
install(FILES etc/broker.conf etc/ambroker.service etc/ambroker-gpu.service etc/ambroker-fence.service
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT plain)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plain)
