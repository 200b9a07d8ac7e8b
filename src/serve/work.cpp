// SPDX-License-Identifier: Apache-2.0
#include "serve/work.h"

#include <array>

#include "protocols/chat_completion.h"
#include "protocols/completion.h"
#include "protocols/kserve.h"
#include "protocols/tokens.h"

namespace megalith::serve {
namespace {

using protocols::ServedModel;

/// Of an adapter its name.
std::string adapter_of(const ServedModel& model) {
  return model.parent.empty() ? std::string() : model.name;
}

template <protocols::Prepared (*prepare)(const protocols::Json&, const ServedModel&)>
Work write_texts(const HttpRequest& request, const ServedModel& served) {
  const protocols::Json body = protocols::parse_body(request.body);
  const ServedModel& model = protocols::model_asked(served, body);
  return {.texts = prepare(body, model), .adapter = adapter_of(model)};
}

template <protocols::Body (*answer)(const protocols::Json&, const ServedModel&)>
Work answer_at_once(const HttpRequest& request, const ServedModel& served) {
  const protocols::Json body = protocols::parse_body(request.body);
  return {.answer = answer(body, protocols::model_asked(served, body))};
}

Work embed(const HttpRequest& request, const ServedModel& served) {
  const protocols::Json body = protocols::parse_body(request.body);
  const ServedModel& model = protocols::model_asked(served, body);
  return {.vectors = protocols::prepare_embeddings(body, model), .adapter = adapter_of(model)};
}

Work infer(const HttpRequest& request, const ServedModel& served) {
  const auto path = model_path(request.path);
  const ServedModel& model = protocols::model_named(served, path->name);
  protocols::require_kserve_model(model, path->name, path->version);
  const std::string_view header = request.header("inference-header-content-length");
  return {.texts = protocols::prepare_infer(request.body, header, path->name, model),
          .adapter = adapter_of(model)};
}

template <bool streams>
Work generate_text(const HttpRequest& request, const ServedModel& served) {
  const auto path = model_path(request.path);
  const ServedModel& model = protocols::model_named(served, path->name);
  protocols::require_kserve_model(model, path->name, path->version);
  return {.texts = protocols::prepare_kserve_generate(protocols::parse_body(request.body),
                                                      path->name, streams, model),
          .adapter = adapter_of(model)};
}

struct Path {
  std::string_view path;
  MakeWork make;
};
constexpr std::array kPaths{
    Path{"/v1/completions", write_texts<protocols::prepare_completion>},
    Path{"/v1/chat/completions", write_texts<protocols::prepare_chat_completion>},
    Path{"/v1/embeddings", embed},
    Path{"/tokenize", answer_at_once<protocols::tokenize>},
    Path{"/detokenize", answer_at_once<protocols::detokenize>},
};

}  // namespace

MakeWork work_of_path(const std::string& path) {
  for (const Path& known : kPaths)
    if (known.path == path) return known.make;
  const auto model = model_path(path);
  if (!model) return nullptr;
  if (model->verb == "infer") return infer;
  if (model->verb == "generate") return generate_text<false>;
  if (model->verb == "generate_stream") return generate_text<true>;
  return nullptr;
}

bool may_build_grammar(std::string_view body) {
  for (const std::string_view word :
       {"response_format", "guided_", "structured_outputs", "tool_choice"})
    if (body.find(word) != body.npos) return true;
  // Nobody has to escape a character of ASCII: what does may hide a word.
  for (size_t at = 0; (at = body.find("\\u00", at)) != body.npos; ++at)
    if (at + 4 < body.size() && body[at + 4] >= '2' && body[at + 4] <= '7') return true;
  return false;
}

bool is_kserve(const std::string& path) { return path == "/v2" || path.starts_with("/v2/"); }

std::optional<ModelPath> model_path(const std::string& path) {
  constexpr std::string_view kModels = "/v2/models/";
  if (!path.starts_with(kModels)) return {};
  std::string_view rest = std::string_view(path).substr(kModels.size());
  const auto next = [&] {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string part(rest.substr(0, slash));
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    return part;
  };
  ModelPath made{.name = next(), .version = "", .verb = next()};
  if (made.verb == "versions") {
    made.version = next();
    made.verb = next();
    if (made.version.empty()) return {};
  }
  if (made.name.empty() || !rest.empty()) return {};
  return made;
}

}  // namespace megalith::serve
