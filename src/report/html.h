// SPDX-License-Identifier: Apache-2.0
// Text inside a web page, made harmless. Everything that comes from a run (names, recipe, samples
// that a model wrote) passes through one of these.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace megalith::report {

/// For element content and quoted attributes: & < > " ' become entities, control characters (except
/// tab and newline) U+FFFD.
std::string escape_html(std::string_view text);

/// For JSON inside <script type="application/json">: '<', '>' and '&' inside strings become \u003c,
/// \u003e and \u0026, so that no "</script>" or "<!--" can end it. The JSON means the same.
std::string escape_json_for_script(std::string_view json);

/// For a script of ours or a library inlined in <script>: "</script" inside its strings becomes
/// "<\/script" and "<!--" becomes "<\!--", which JavaScript reads as the same strings.
std::string escape_script(std::string_view script);

/// Replaces every {{name}} in `page` by its value, in one pass: values are not expanded. A name
/// without a value, or a value without a place, is a programming error.
std::string fill_template(std::string_view page,
                          const std::map<std::string, std::string, std::less<>>& values);

}  // namespace megalith::report
