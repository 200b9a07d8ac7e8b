// SPDX-License-Identifier: Apache-2.0
#include "tune/classifier.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "families/families.h"
#include "families/hugging_face.h"
#include "spec/head_types.h"

namespace megalith::tune {
namespace {

using config::ClassifyTask;
using layers::HeadKind;

/// The head of the family's class for a task.
HeadKind head_for(ClassifyTask task) {
  switch (task) {
    case ClassifyTask::sequence_classification:
      return HeadKind::sequence_classification;
    case ClassifyTask::token_classification:
      return HeadKind::token_classification;
    case ClassifyTask::question_answering:
      return HeadKind::question_answering;
  }
  MEGA_CHECK(false, "no head for task number {}", static_cast<int>(task));
}

bool is_classifier(HeadKind kind, HeadKind of) {
  return kind == of ||
         (of == HeadKind::sequence_classification && kind == HeadKind::sequence_regression);
}

}  // namespace

models::ModelSpec classifier_of(const models::ModelSpec& model, const config::TuneSection& tune) {
  const std::string& where = tune.model;
  const std::vector<std::string>& labels = tune.labels;
  const HeadKind kind = head_for(tune.task);
  const models::Family& family = models::family_named(model.family, where);
  const auto found = std::ranges::find(family.others, kind, &models::HeadClass::head);
  if (found == family.others.end()) {
    throw UserError(
        "{}: tune.objective: classify needs an encoder, and model.family {} has no class for {}",
        where, model.family, tune.task);
  }
  if (is_classifier(model.head.kind, kind) && model.head.labels != labels) {
    throw UserError("{}: is a classifier of {}; set tune.labels: [{}]", where,
                    fmt::join(model.head.labels, ", "), fmt::join(model.head.labels, ", "));
  }
  // What the class makes of a model is the family's to say: by its own config.json.
  auto config = nlohmann::ordered_json::parse(models::hugging_face_config(model, DType::f32, {}));
  config["architectures"] = {found->name};
  config.erase("problem_type");
  if (kind == HeadKind::sequence_classification)
    config["problem_type"] = labels.size() == 1 ? "regression" : "single_label_classification";
  config.erase("id2label");
  for (size_t i = 0; i < labels.size(); ++i) config["id2label"][std::to_string(i)] = labels[i];
  return models::parse_hugging_face_config(config.dump(), where).model;
}

}  // namespace megalith::tune
