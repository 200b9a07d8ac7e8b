# SPDX-License-Identifier: Apache-2.0
# find_package(megalith): every room as megalith::ROOM with its headers, for programs that embed it.
# The archives have a folder of their own: their names (libbase.a) are nobody else's only there.
include(CMakePackageConfigHelpers)
set(package lib/cmake/megalith)
foreach(room IN LISTS all_rooms)
  if(room STREQUAL "testing")
    continue()
  endif()
  install(TARGETS ${room} EXPORT megalith-targets ARCHIVE DESTINATION lib/megalith COMPONENT development)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/${room} DESTINATION include/megalith COMPONENT development
          FILES_MATCHING PATTERN "*.h" PATTERN fuzz EXCLUDE PATTERN "*_fixture.h" EXCLUDE PATTERN "test_*.h" EXCLUDE
          PATTERN "*_cases.h" EXCLUDE)
endforeach()
install(EXPORT megalith-targets NAMESPACE megalith:: DESTINATION ${package} COMPONENT development)
file(WRITE ${CMAKE_BINARY_DIR}/megalith-config.cmake
"# What the rooms link to, as when they were built; then the rooms.
include(\${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
include(\${CMAKE_CURRENT_LIST_DIR}/megalith-targets.cmake)
")
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/megalith-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/megalith-config.cmake ${CMAKE_BINARY_DIR}/megalith-config-version.cmake
              ${CMAKE_SOURCE_DIR}/cmake/dependencies.cmake
        DESTINATION ${package} COMPONENT development)
