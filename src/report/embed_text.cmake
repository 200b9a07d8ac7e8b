# SPDX-License-Identifier: Apache-2.0
# Turns page.html, page.css and page.js into string constants, so that the program is one file.
# A raw string literal keeps them byte for byte; its delimiter must not occur in them.
file(READ ${SOURCE_DIR}/page.html page_html)
file(READ ${SOURCE_DIR}/page.css page_css)
file(READ ${SOURCE_DIR}/page.js page_js)
foreach(text page_html page_css page_js)
  string(FIND "${${text}}" ")mega\"" position)
  if(NOT position EQUAL -1)
    message(FATAL_ERROR "${text} contains the delimiter of the raw string literal")
  endif()
endforeach()
file(WRITE ${OUTPUT} "#include \"report/page_template.h\"
namespace megalith::report {
const std::string_view kPageHtml = R\"mega(${page_html})mega\";
const std::string_view kPageCss = R\"mega(${page_css})mega\";
const std::string_view kPageJs = R\"mega(${page_js})mega\";
}  // namespace megalith::report
")
