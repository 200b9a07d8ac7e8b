// SPDX-License-Identifier: Apache-2.0
// The rules are those of the HTML standard, section 13.2.5 (tokenization): in element content only
// '&' and '<' act, in script content only "</script" and "<!--".
#include "report/html.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/check.h"

namespace megalith::report {

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        const bool control = (byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7F;
        if (control) {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
      }
    }
  }
  return out;
}

std::string escape_json_for_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escape_script(std::string_view script) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  static constexpr std::string_view kEnd = "</script";
  std::string out;
  out.reserve(script.size());
  for (size_t i = 0; i < script.size(); ++i) {
    const std::string_view rest = script.substr(i);
    const bool ends = rest.size() >= kEnd.size() &&
                      std::equal(kEnd.begin(), kEnd.end(), rest.begin(),
                                 [&](char wanted, char found) { return same(found, wanted); });
    out += script[i];
    if (ends || rest.starts_with("<!--")) out += '\\';
  }
  return out;
}

std::string fill_template(std::string_view page,
                          const std::map<std::string, std::string, std::less<>>& values) {
  std::string out;
  std::set<std::string_view> used;
  while (true) {
    const size_t open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = page.find("}}", open);
    MEGA_CHECK(close != std::string_view::npos, "a place in the page is not closed");
    const auto value = values.find(page.substr(open + 2, close - open - 2));
    MEGA_CHECK(value != values.end(), "no value for {}", page.substr(open, close - open + 2));
    out += value->second;
    used.insert(value->first);
    page.remove_prefix(close + 2);
  }
  MEGA_CHECK_EQ(used.size(), values.size());
  return out;
}

}  // namespace megalith::report
