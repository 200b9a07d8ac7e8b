// SPDX-License-Identifier: Apache-2.0
// run.json grows as other parts of the program find more to say, so nothing in it is required; but
// what is there must have the type that its name promises.
#include "report/run_record.h"

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_fault.h"
#include "base/json_number.h"

namespace megalith::report {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

const Json* find(const Json& run, std::string_view pointer) {
  const Json::json_pointer where{std::string(pointer)};
  if (!run.contains(where) || run[where].is_null()) return nullptr;
  return &run[where];
}

[[noreturn]] void wrong_type(const fs::path& path, std::string_view pointer, const Json& value,
                             std::string_view wanted) {
  throw IntegrityError("{}: {} is {}, not {}", path.string(), pointer,
                       value.dump(-1, ' ', false, Json::error_handler_t::replace), wanted);
}

fs::path required(const fs::path& folder, const char* name) {
  fs::path path = folder / name;
  if (!fs::exists(path)) {
    throw UserError("{}: missing; name the folder (run.out) of a training run that has begun",
                    path.string());
  }
  return path;
}

/// "decoder, 4 layers, hidden 256, 4 heads, context 256".
std::string describe_model(const fs::path& path, const std::string& recipe) {
  try {
    const YAML::Node root = YAML::Load(recipe);
    if (!root.IsMap() || !root["model"] || !root["model"].IsMap()) return "";
    const YAML::Node model = root["model"];
    std::vector<std::string> parts;
    auto add = [&](const char* key, const char* form) {
      if (model[key] && model[key].IsScalar()) {
        parts.push_back(fmt::format(fmt::runtime(form), model[key].Scalar()));
      }
    };
    add("kind", "{}");
    add("layers", "{} layers");
    add("hidden", "hidden {}");
    add("heads", "{} heads");
    add("context", "context {}");
    return fmt::format("{}", fmt::join(parts, ", "));
  } catch (const YAML::Exception& error) {
    throw IntegrityError("{}: {}", path.string(), error.what());
  }
}

}  // namespace

std::optional<std::string> RunRecord::text(std::string_view pointer) const {
  const Json* value = find(run, pointer);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong_type(run_path, pointer, *value, "a string");
  return value->get<std::string>();
}

std::optional<double> RunRecord::number(std::string_view pointer) const {
  const Json* value = find(run, pointer);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong_type(run_path, pointer, *value, "a number");
  return value->get<double>();
}

std::optional<int64_t> RunRecord::integer(std::string_view pointer) const {
  const Json* value = find(run, pointer);
  if (value == nullptr) return std::nullopt;
  const auto integer = whole_number_in(*value);
  if (!integer) wrong_type(run_path, pointer, *value, "an integer");
  return integer;
}

RunRecord read_run(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw UserError("{}: not a folder", folder.string());
  RunRecord record;
  record.recipe = read_regular(required(folder, "recipe.yaml"), kMostRunFileBytes);
  record.model = describe_model(folder / "recipe.yaml", record.recipe);
  record.run_path = required(folder, "run.json");
  const std::string run = read_regular(record.run_path, kMostRunFileBytes);
  if (const auto fault = json_fault(run))
    throw IntegrityError("{}: {}", record.run_path.string(), *fault);
  record.run = Json::parse(run);
  if (!record.run.is_object()) {
    throw IntegrityError("{}: not a JSON object", record.run_path.string());
  }
  record.steps = read_metrics(required(folder, "metrics.jsonl"));
  if (fs::exists(folder / "samples.jsonl")) {
    record.samples = read_samples(folder / "samples.jsonl");
  }
  record.scores = read_task_scores(folder);
  return record;
}

}  // namespace megalith::report
