// SPDX-License-Identifier: Apache-2.0
#include "chat/template.h"

#include <algorithm>

#include "characters/utf8.h"
#include "chat/renderer.h"
#include "chat/token.h"

namespace megalith::chat {

struct Template::Parsed {
  std::string name;
  Limits limits;
  bool is_strict;
  std::string source;  // normalized; the places of the tree are offsets in it
  TemplateTree tree;

  [[noreturn]] void fail(uint32_t at, std::string_view what) const {
    const std::string_view before = std::string_view(source).substr(0, at);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t begin = before.rfind('\n') + 1;
    const auto column = std::count_if(before.begin() + static_cast<ptrdiff_t>(begin), before.end(),
                                      [](char c) { return (c & 0xC0) != 0x80; });
    throw UserError("{}:{}:{}: {}", name, line, column + 1, what);
  }
};

Template::Template(std::string_view source, std::string name, const Limits& limits,
                   const Dialect& dialect)
    : parsed_(std::make_unique<Parsed>()) {
  parsed_->name = std::move(name);
  parsed_->limits = limits;
  parsed_->is_strict = dialect.is_strict;
  if (source.size() > limits.template_bytes)
    throw UserError("{}: a template of {} bytes; the most is {}", parsed_->name, source.size(),
                    limits.template_bytes);
  characters::require_utf8(source, parsed_->name);
  parsed_->source = normalized_source(source, dialect.keeps_last_line_end);
  try {
    parsed_->tree = parse_template(parsed_->source, limits, dialect.trims_blocks);
  } catch (const SyntaxFault& fault) {
    parsed_->fail(fault.at(), fault.what());
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

const std::string& Template::name() const { return parsed_->name; }
const Limits& Template::limits() const { return parsed_->limits; }

std::string Template::render(const Dict& variables, const std::tm& now) const {
  Budget budget(parsed_->limits);
  Renderer renderer(variables, now, budget, parsed_->is_strict);
  try {
    return renderer.render(parsed_->tree);
  } catch (const Fault& fault) {
    parsed_->fail(renderer.at(), fault.what());
  }
}

}  // namespace megalith::chat
