// SPDX-License-Identifier: Apache-2.0
#include "protocols/text_form.h"

#include <algorithm>
#include <functional>

#include "generate/grammar_constraint.h"
#include "layers/virtual_tokens.h"
#include "protocols/api_error.h"

namespace megalith::protocols {
namespace {

using grammars::Grammar;
using grammars::Whitespace;

struct Asked {
  std::string where;  // the field
  std::string key;    // all that the grammar depends on
  std::function<Grammar()> build;
};

TextForm form_of(const Asked& asked, const ServedModel& model) {
  require_tokenizer(model, asked.where);
  TextForm form;
  try {
    form = model.grammars->find(asked.key, asked.build);
  } catch (const UserError& error) {
    const std::string what = error.what();
    throw ApiError(asked.where, "{}{}", what.starts_with(asked.where) ? "" : asked.where + ": ",
                   what);
  }
  if (form != nullptr) return form;
  throw ApiError(asked.where, "too many grammars are in use: try again soon")
      .with_status(503)
      .with_retry_after(1);
}

Asked asked_schema(const Json& schema, const std::string& where,
                   Whitespace whitespace = Whitespace::flexible) {
  if (!schema.is_object() && !schema.is_string() && !schema.is_boolean())
    throw ApiError(where, "{} must be a JSON schema: an object, or its text", where);
  const std::string text = schema.is_string() ? schema.get<std::string>() : text_of_json(schema);
  const char* const kind = whitespace == Whitespace::in_line ? "schema in line " : "schema ";
  return {where, kind + text, [=] { return Grammar::parse_json_schema(text, where, whitespace); }};
}

/// The forms that a request names.
class Forms {
 public:
  explicit Forms(Fields& fields) : fields_(fields) {}

  void add(Asked asked) {
    if (asked_) {
      throw ApiError(asked.where, "{} and {}: a text is held to one form", asked_->where,
                     asked.where);
    }
    asked_ = std::move(asked);
  }
  void add_schema(std::string_view name) {
    if (const Json* const schema = fields_.find(name))
      add(asked_schema(*schema, fields_.path(name)));
  }
  void add_regex(std::string_view name) {
    const auto text = fields_.text(name, grammars::kMostGrammarBytes);
    if (text) add({fields_.path(name), "regex " + *text, [text] { return Grammar::regex(*text); }});
  }
  void add_choices(std::string_view name) {
    const Json* const json = fields_.find(name);
    if (json == nullptr) return;
    const std::string path = fields_.path(name);
    const auto is_text = [](const Json& one) { return one.is_string(); };
    if (!json->is_array() || json->empty() || !std::ranges::all_of(*json, is_text))
      throw ApiError(path, "{} must be a list of strings that is not empty", path);
    const auto texts = json->get<std::vector<std::string>>();
    add({path, "choices " + text_of_json(*json), [texts] { return Grammar::choices(texts); }});
  }
  void add_object(const std::string& where) {
    add({where, "object", [] { return Grammar::json(); }});
  }
  const std::optional<Asked>& asked() const { return asked_; }

 private:
  Fields& fields_;
  std::optional<Asked> asked_;
};

constexpr const char* kNotHere = "is not supported by this server";

std::optional<Asked> read_response_format(Fields& outer) {
  const Json* const json = outer.find("response_format");
  if (json == nullptr) return {};
  Fields fields(*json, outer.path("response_format."));
  const std::string type = fields.text("type", 64).value_or("");
  Forms forms(fields);
  if (type == "json_object") {
    forms.add_object(outer.path("response_format"));
  } else if (type == "json_schema") {
    const Json* const inner = fields.find("json_schema");
    const std::string path = fields.path("json_schema");
    if (inner == nullptr) throw ApiError(path, "{} is missing", path);
    Fields named(*inner, path + ".");
    named.text("name", 64);
    named.text("description", 4096);
    named.flag("strict");  // every text is held to its schema
    Forms schema(named);
    schema.add_schema("schema");
    if (!schema.asked()) throw ApiError(path + ".schema", "{}.schema is missing", path);
    return schema.asked();
  } else if (type != "text") {
    throw ApiError(fields.path("type"), "{} must be text, json_object or json_schema",
                   fields.path("type"));
  }
  return forms.asked();
}

std::optional<Asked> read_structured(Fields& outer) {
  const Json* const json = outer.find("structured_outputs");
  if (json == nullptr) return {};
  Fields fields(*json, outer.path("structured_outputs."));
  Forms forms(fields);
  forms.add_schema("json");
  forms.add_regex("regex");
  forms.add_choices("choice");
  if (fields.flag("json_object").value_or(false)) forms.add_object(fields.path("json_object"));
  for (const char* name : {"grammar", "structural_tag", "whitespace_pattern"})
    fields.refuse(name, kNotHere);
  return forms.asked();
}

}  // namespace

TextForm read_text_form(Fields& fields, const ServedModel& model) {
  Forms forms(fields);
  if (auto asked = read_response_format(fields)) forms.add(std::move(*asked));
  if (auto asked = read_structured(fields)) forms.add(std::move(*asked));
  forms.add_schema("guided_json");
  forms.add_regex("guided_regex");
  forms.add_choices("guided_choice");
  for (const char* name : {"guided_grammar", "guided_whitespace_pattern"})
    fields.refuse(name, kNotHere);
  fields.find("guided_decoding_backend");  // known, and of no effect here
  return forms.asked() ? form_of(*forms.asked(), model) : nullptr;
}

TextForm form_of_calls(const Json& schema, const std::string& where, const ServedModel& model) {
  return form_of(asked_schema(schema, where, Whitespace::in_line), model);
}

std::shared_ptr<const generate::TokenConstraint> beginning_of(const TextForm& form,
                                                              std::span<const int32_t> prompt,
                                                              const ServedModel& model) {
  if (form == nullptr) return nullptr;
  // What an encoder has read is not what the text goes on from.
  const bool begins = model.is_encoder_decoder ||
                      model.tokenizer->decode(layers::without_virtual(model.vocab, prompt)).empty();
  return std::make_shared<generate::GrammarConstraint>(grammars::GrammarState(form, begins));
}

}  // namespace megalith::protocols
