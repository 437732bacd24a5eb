# SPDX-License-Identifier: Apache-2.0
# What the Python wheel has beside the package's Python files: the extension, libamb, the programs, and
# libconfig, which no file names as needed because it is loaded. tools/wheel.sh adds the libraries that
# auditwheel finds. All run paths stay in the folder where packages are installed: of this wheel, and
# of UCX's.
if(NOT TARGET amb_python OR NOT TARGET brokerd OR NOT AMB_UCX STREQUAL "wheel")
    message(FATAL_ERROR "The wheel needs Python's headers and the wheel of UCX: run tools/deps.sh")
endif()
if(NOT DEFINED SKBUILD_PLATLIB_DIR)
    message(FATAL_ERROR "AMB_WHEEL is for scikit-build-core: run tools/wheel.sh, or pip wheel client/python")
endif()
set(package ${SKBUILD_PLATLIB_DIR}/ambroker)
# No version in the name, for a wheel has no links.
set_target_properties(amb PROPERTIES VERSION ${PROJECT_VERSION_MAJOR}
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../../libucx/lib")
set_target_properties(brokerd broker-ctl broker-bench PROPERTIES
    INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../../libucx/lib")
set_target_properties(amb_python PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
install(TARGETS amb_python LIBRARY DESTINATION ${package})
install(TARGETS amb LIBRARY DESTINATION ${package}/lib NAMELINK_SKIP)
install(TARGETS brokerd broker-ctl broker-bench RUNTIME DESTINATION ${package}/bin)
file(REAL_PATH ${AMB_LIBCONFIG_LIBRARY} libconfig)
install(FILES ${libconfig} DESTINATION ${package}/lib RENAME ${AMB_LIBCONFIG_SONAME}
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(FILES LICENSE DESTINATION ${SKBUILD_METADATA_DIR}/licenses)
