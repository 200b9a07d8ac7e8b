# SPDX-License-Identifier: Apache-2.0
# `cpack` in the build folder makes megalith_VERSION_ARCH.deb: the program, its plug-ins, completions and
# manual pages, without what only a program that embeds rooms needs (cmake/package.cmake).
set(MEGA_MAINTAINER "Megalith maintainers <maintainers@megalith.example>" CACHE STRING
    "who a package says it is from")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME megalith)
set(CPACK_PACKAGE_CONTACT "${MEGA_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};megalith;Unspecified;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libjs-chart.js)  # `megalith report`
set(CPACK_DEBIAN_PACKAGE_SUGGESTS openmpi-bin)       # ranks as processes
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains, evaluates and runs language models")
set(CPACK_PACKAGE_DESCRIPTION
"One program takes a transformer language model through its whole life: it
trains a tokenizer, packs text, trains a model, evaluates it, generates text,
and moves models to and from the Hugging Face format. One recipe gives one
result, to the bit, whatever the number of threads or ranks.")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian/documents.cmake)
# What the script is told, for it knows no variable of the build.
set(CPACK_MEGA_SOURCES ${CMAKE_SOURCE_DIR})
set(CPACK_MEGA_MAINTAINER "${MEGA_MAINTAINER}")
set(CPACK_MEGA_DATE ${MEGA_VERSION_DATE})
include(CPack)
