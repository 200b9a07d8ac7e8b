# SPDX-License-Identifier: Apache-2.0
# Run by cpack on the folder that becomes the package: what Debian's policy wants beside what is installed
# everywhere. Compressed without names and times, so that the same build gives the same package.
set(usr ${CPACK_TEMPORARY_DIRECTORY}/usr)
set(here ${CPACK_MEGA_SOURCES}/cmake/debian)
set(doc ${usr}/share/doc/megalith)

function(compress)
  execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB pages ${usr}/share/man/man1/*.1)
compress(${pages})
file(COPY ${here}/copyright DESTINATION ${doc} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(COPY ${CPACK_MEGA_SOURCES}/CHANGELOG.md DESTINATION ${doc})
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
execute_process(COMMAND date -u -R -d ${CPACK_MEGA_DATE} OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${doc}/changelog.Debian
"megalith (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Package made by cpack; see changelog.gz for what changed.

 -- ${CPACK_MEGA_MAINTAINER}  ${date}
")
compress(${doc}/changelog ${doc}/changelog.Debian)
file(COPY ${here}/lintian-overrides DESTINATION ${usr}/share/lintian/overrides)
file(RENAME ${usr}/share/lintian/overrides/lintian-overrides ${usr}/share/lintian/overrides/megalith)
# A build finds Open MPI by a path; a package by the system's places.
file(GLOB plugins ${usr}/lib/libmegalith_*.so)
foreach(plugin IN LISTS plugins)
  file(RPATH_REMOVE FILE ${plugin})
  file(CHMOD ${plugin} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
