// SPDX-License-Identifier: Apache-2.0
// Strings and numbers of a schema.
#include <functional>
#include <map>

#include "base/json_number.h"
#include "grammars/schema_compiler.h"

namespace megalith::grammars {
namespace {

// RFC 3339 (days as the months have them, the 29th of February in leap years; years from 1 on), RFC
// 9562, RFC 5321 (no quoted local parts, no addresses in brackets), RFC 1123, RFC 791.
std::map<std::string, std::string, std::less<>> make_formats() {
  const std::string year = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
  const std::string fourth = "(0[48]|[2468][048]|[13579][26])";  // of years or centuries
  const std::string long_months = "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])";
  const std::string short_months = "(0[469]|11)-(0[1-9]|[12][0-9]|30)";
  const std::string february = "02-(0[1-9]|1[0-9]|2[0-8])";
  const std::string leap_day = "([0-9]{2}" + fourth + "|" + fourth + "00)-02-29";
  const std::string date =
      "(" + year + "-(" + long_months + "|" + short_months + "|" + february + ")|" + leap_day + ")";
  const std::string hour = "([01][0-9]|2[0-3])", sixty = "[0-5][0-9]";
  const std::string time =
      hour + ":" + sixty + ":" + sixty + "(\\.[0-9]{1,9})?(Z|[+-]" + hour + ":" + sixty + ")";
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  const std::string atom = "[A-Za-z0-9_%+-]{1,24}";
  const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return {{"date", date},
          {"time", time},
          {"date-time", date + "T" + time},
          {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
          {"email", atom + "(\\." + atom + "){0,3}@(" + label + "\\.){1,4}[A-Za-z]{2,24}"},
          {"hostname", label + "(\\." + label + "){0,3}"},
          {"ipv4", octet + "(\\." + octet + "){3}"}};
}

/// The expression of a `format` of strings; nothing if it is not supported.
std::optional<std::string> format_expression(std::string_view format) {
  static const auto formats = make_formats();
  const auto found = formats.find(format);
  return found == formats.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<uint64_t> SchemaCompiler::size_of(const Place& place,
                                                std::string_view keyword) const {
  const auto found = place.schema->find(std::string(keyword));
  if (found == place.schema->end()) return std::nullopt;
  const std::optional<int64_t> size = whole_number_in(*found);
  if (!size || *size < 0) document_.fail(place, "'{}' must be a whole number, 0 or more", keyword);
  return static_cast<uint64_t>(*size);
}

std::string SchemaCompiler::text_of(const Place& place, std::string_view keyword) const {
  const auto found = place.schema->find(std::string(keyword));
  if (found == place.schema->end()) return "";
  if (!found->is_string()) document_.fail(place, "'{}' must be a string", keyword);
  return found->get<std::string>();
}

void SchemaCompiler::string(const Place& place, State from, State to) {
  const uint64_t least = size_of(place, "minLength").value_or(0);
  const std::optional<uint64_t> most = size_of(place, "maxLength");
  if (most && *most < least) return;
  if (!place.schema->contains("pattern") && !place.schema->contains("format"))
    return builder_.add_open(from, '"', strings_.of_length(least, most), to);
  builder_.add_open(from, '"', string_level(place, least, most), to);
}

State SchemaCompiler::string_level(const Place& place, uint64_t least,
                                   std::optional<uint64_t> most) {
  const std::string pattern = text_of(place, "pattern"), format = text_of(place, "format");
  const bool has_pattern = place.schema->contains("pattern");
  budget_.spend(pattern.size() + format.size());
  const std::string key = fmt::format("{} {} {} {}\n{}", least, most ? std::to_string(*most) : "",
                                      format, has_pattern, pattern);
  if (const auto found = string_levels_.find(key); found != string_levels_.end())
    return found->second;
  std::optional<CodeAutomaton> automaton;
  try {
    if (has_pattern) automaton = compile_regex(pattern, true, budget_);
    if (place.schema->contains("format")) {
      const std::optional<std::string> expression = format_expression(format);
      if (!expression) document_.fail(place, "format '{}' is not supported", format);
      const CodeAutomaton formatted = compile_regex(*expression, false, budget_);
      automaton = automaton ? intersect(*automaton, formatted, budget_) : formatted;
    }
    if (least > 0 || most) automaton = with_length(*automaton, least, most, budget_);
  } catch (const UserError& error) {
    const std::string_view what = error.what();
    if (what.starts_with("expression")) document_.fail(place, "{}", what);
    throw;
  }
  return string_levels_[key] = strings_.of(*automaton);
}

void SchemaCompiler::number(const Place& place, bool is_whole, State from, State to) {
  NumberBounds bounds;
  const auto read = [&](const char* keyword, const char* excluding, bool is_least,
                        std::optional<Decimal>& bound, bool& excludes) {
    const Json* found = nullptr;
    for (const char* name : {keyword, excluding}) {
      const auto at = place.schema->find(name);
      if (at == place.schema->end()) continue;
      if (!at->is_number()) document_.fail(place, "'{}' must be a number", name);
      const bool is_tighter = found == nullptr || (is_least ? *found < *at : *at < *found);
      const bool is_equal = found != nullptr && *found == *at;
      if (!is_tighter && !is_equal) continue;
      found = &*at;
      excludes = name == excluding;
    }
    if (found == nullptr) return;
    bound = decimal_of(*found);
    if (!bound) document_.fail(place, "the bound {} has too many digits", found->dump());
  };
  read("minimum", "exclusiveMinimum", true, bounds.least, bounds.excludes_least);
  read("maximum", "exclusiveMaximum", false, bounds.most, bounds.excludes_most);
  if (bounds.any()) {
    const CodeAutomaton automaton =
        is_whole ? whole_numbers(bounds, budget_) : decimal_numbers(bounds, budget_);
    return add_text_automaton(builder_, from, automaton, to);
  }
  std::optional<CodeAutomaton>& any = is_whole ? any_whole_ : any_decimal_;
  if (!any) any = is_whole ? whole_numbers({}, budget_) : decimal_numbers({}, budget_);
  add_text_automaton(builder_, from, *any, to);
}

}  // namespace megalith::grammars
