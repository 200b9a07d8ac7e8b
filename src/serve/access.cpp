// SPDX-License-Identifier: Apache-2.0
#include "serve/access.h"

#include <algorithm>

#include "base/error.h"

namespace megalith::serve {
namespace {

bool is_same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

bool names_origin(std::string_view origin, std::span<const std::string> allowed) {
  return std::ranges::any_of(allowed,
                             [&](const std::string& one) { return one == "*" || one == origin; });
}

}  // namespace

std::vector<std::string> parse_api_keys(const std::string& text, const std::string& where) {
  std::vector<std::string> keys;
  size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string key = text.substr(begin, end - begin);
    if (!key.empty() && key.back() == '\r') key.pop_back();
    begin = end + 1;
    if (key.empty() || key.front() == '#') continue;
    if (!std::ranges::all_of(key, [](char c) { return c > 0x20 && c < 0x7F; }))
      throw UserError("{}:{}: a key consists of ASCII characters without spaces", where, line);
    keys.push_back(std::move(key));
  }
  if (keys.empty()) throw UserError("{}: holds no key", where);
  return keys;
}

std::optional<size_t> key_of(std::string_view given, std::span<const std::string> keys) {
  constexpr std::string_view kBearer = "bearer ";
  if (given.size() < kBearer.size()) return {};
  for (size_t i = 0; i < kBearer.size(); ++i)
    if ((given[i] | 0x20) != kBearer[i]) return {};
  given.remove_prefix(kBearer.size());
  std::optional<size_t> found;
  for (size_t i = 0; i < keys.size(); ++i)
    if (is_same(given, keys[i])) found = i;
  return found;
}

bool may_ask(const HttpRequest& request, std::span<const std::string> allowed) {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || names_origin(origin, allowed)) return true;
  const size_t mark = origin.find("://");
  return mark != std::string_view::npos && origin.substr(mark + 3) == request.header("host");
}

HttpHeaders cross_origin_headers(const HttpRequest& request, std::span<const std::string> allowed) {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !names_origin(origin, allowed)) return {};
  const std::string_view asked = request.header("access-control-request-headers");
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
          {"Access-Control-Allow-Headers",
           asked.empty() ? "Authorization, Content-Type" : std::string(asked)},
          {"Access-Control-Max-Age", "600"}};
}

}  // namespace megalith::serve
