// SPDX-License-Identifier: Apache-2.0
// The three parts of the report page (page.html, page.css, page.js beside this file), embedded by
// the build, so that the program needs no data files.
#pragma once

#include <string_view>

namespace megalith::report {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace megalith::report
