# SPDX-License-Identifier: Apache-2.0
# Turns page.html into a string constant, so that the program is one file. A raw string literal keeps it
# byte for byte; its delimiter must not occur in it.
file(READ ${SOURCE_DIR}/page.html page)
string(FIND "${page}" ")mega\"" position)
if(NOT position EQUAL -1)
  message(FATAL_ERROR "page.html contains the delimiter of the raw string literal")
endif()
file(WRITE ${OUTPUT} "#include \"serve/page.h\"
namespace megalith::serve {
const std::string_view kPage = R\"mega(${page})mega\";
}  // namespace megalith::serve
")
