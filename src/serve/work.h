// SPDX-License-Identifier: Apache-2.0
// What the body of a POST comes to: an answer at once, texts to be written, or texts to be read for
// vectors. Pure functions of request and model, for any thread.
#pragma once

#include <optional>

#include "protocols/embeddings.h"
#include "protocols/reply.h"
#include "protocols/served_model.h"
#include "serve/http_request.h"

namespace megalith::serve {

struct Work {
  std::optional<protocols::Body> answer{};
  std::optional<protocols::Prepared> texts{};
  std::optional<protocols::PreparedReading> vectors{};
  std::string adapter{};  // that texts are written, or read, with; empty: none
};

/// ApiError or another UserError when the body is wrong.
using MakeWork = Work (*)(const HttpRequest&, const protocols::ServedModel&);

/// How the path's POST is read; null if it takes none.
MakeWork work_of_path(const std::string& path);

/// Whether the body may ask for a grammar, which takes long to build: false is certain.
bool may_build_grammar(std::string_view body);

/// A path of KServe's model repository.
bool is_repository(const std::string& path);
/// A path of KServe's protocol, whose errors are its own.
bool is_kserve(const std::string& path);
/// "/v2/models/NAME[/versions/V]/VERB" in its parts; version and verb may be empty. Nothing else.
struct ModelPath {
  std::string name, version, verb;
};
std::optional<ModelPath> model_path(const std::string& path);

}  // namespace megalith::serve
