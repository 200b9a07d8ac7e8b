// SPDX-License-Identifier: Apache-2.0
// A chat template: the Jinja that Hugging Face's models carry, as `transformers` renders it
// (trim_blocks, lstrip_blocks, loop controls, `generation` blocks, an immutable sandbox, no
// escaping of HTML). Templates are not trusted: what they may cost is bounded (Limits), and what is
// not supported is refused by its name.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "chat_values/value.h"

namespace megalith::chat {

/// How Jinja is set up; these defaults are those of chat templates.
struct Dialect {
  bool trims_blocks = true;          // trim_blocks and lstrip_blocks
  bool keeps_last_line_end = false;  // of the source
  /// What has no value may only be asked whether it is there (`is defined`, `default`): anything
  /// else is refused by its name. (Jinja's StrictUndefined refuses it where it is used.)
  bool is_strict = false;
};

class Template {
 public:
  /// UserError with `name`, line and column if the source is no template or is beyond a limit.
  Template(std::string_view source, std::string name, const Limits& limits = {},
           const Dialect& dialect = {});
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// The text for these variables; `now` is what strftime_now tells. Any number of threads may
  /// render. UserError with name, line and column for what the template refuses or does wrong.
  std::string render(const Dict& variables, const std::tm& now) const;
  const std::string& name() const;
  const Limits& limits() const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace megalith::chat
