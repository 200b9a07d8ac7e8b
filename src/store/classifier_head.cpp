// SPDX-License-Identifier: Apache-2.0
#include "store/classifier_head.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "adapters/peft_config.h"
#include "base/file.h"
#include "base/json_fault.h"
#include "checkpoint/safetensors_folder.h"
#include "families/families.h"
#include "families/hugging_face.h"
#include "spec/head_types.h"
#include "store/adapter_source.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigOfModel[] = "config.json";
constexpr std::string_view kTasks[] = {"SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS"};

/// The adapter's configuration, if it has modules_to_save. Errors in it are left to AdapterSource.
std::optional<nlohmann::json> config_with_modules(const fs::path& folder) {
  const fs::path path = folder / kAdapterConfigName;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::string text = checkpoint::read_inside(path, folder, adapters::kMostConfigBytes);
  if (json_fault(text)) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(text);
  const auto modules = json.is_object() ? json.find("modules_to_save") : json.end();
  if (modules == json.end() || !modules->is_array() || modules->empty()) return std::nullopt;
  return json;
}

/// PEFT's task_type for a head.
std::string_view task_of(layers::HeadKind kind) {
  using enum layers::HeadKind;
  if (kind == token_classification) return kTasks[1];
  return kTasks[kind == question_answering ? 2 : 0];
}

/// UserError if the adapter's task_type is that of another kind of head; other task types do not
/// determine the head.
void require_task(const nlohmann::json& config, const layers::HeadSpec& head,
                  const fs::path& folder) {
  const auto found = config.find("task_type");
  if (found == config.end() || !found->is_string()) return;
  const auto task = found->get<std::string>();
  if (task == task_of(head.kind) || std::ranges::find(kTasks, task) == std::end(kTasks)) return;
  throw UserError("{}: task_type {} does not fit the head of the {} beside it, which is for {}",
                  (folder / kAdapterConfigName).string(), task, kConfigOfModel, task_of(head.kind));
}

/// The head that the config.json beside an adapter describes.
layers::HeadSpec head_beside(const fs::path& folder, const models::ModelSpec& base) {
  const fs::path path = folder / kConfigOfModel;
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw UserError(
        "{}: modules_to_save has the head of a classifier, and no {} says what its classes are; "
        "put the classifier's beside it",
        folder.string(), kConfigOfModel);
  }
  const std::string text = checkpoint::read_inside(path, folder, models::kMaxConfigBytes);
  const models::ModelSpec model = models::parse_hugging_face_config(text, path.string()).model;
  if (model.family != base.family || model.hidden != base.hidden || model.vocab != base.vocab ||
      model.num_layers() != base.num_layers())
    throw UserError(
        "{}: differs from the base model in family, hidden size, layers or vocabulary; "
        "it is of another model than the adapter's",
        path.string());
  if (layers::head_type(model.head.kind).has_logits)
    throw UserError("{}: is no classifier's, and modules_to_save brings a head", path.string());
  return model.head;
}

/// The body of a model with the head of an adapter's folder.
class WithHead : public Weights {
 public:
  WithHead(std::unique_ptr<Weights> body, const fs::path& folder, const models::ModelSpec& spec,
           int tensor_shards)
      : body_(std::move(body)), file_(folder / kAdapterTensorsName) {
    const models::ForeignTable& table = models::family_named(spec.family, folder.string()).tensors;
    for (models::TensorMap& map : models::tensor_maps(spec, table, tensor_shards)) {
      const StoredTensor* const own = body_->find(map.name);
      if (map.name.starts_with(kHeadBegin) && has(map)) {
        tensors_.push_back({map.name, map.shape, DType::f32});
        head_.emplace(map.name, std::move(map));
      } else if (own != nullptr && own->shape == map.shape) {
        tensors_.push_back(*own);
      } else {
        throw IntegrityError("{}: tensor {}{} of the classifier's head is missing",
                             file_.path().string(), kModulePrefix, map.moves.front().name);
      }
    }
  }
  using Weights::read;
  std::vector<std::byte> read(const StoredTensor& tensor, const Shard& part,
                              const checkpoint::AtWork& at_work) const override {
    const auto found = head_.find(tensor.name);
    if (found == head_.end()) return body_->read(*body_->find(tensor.name), part, at_work);
    return part_of(head_values(file_, found->second), tensor.shape, part, DType::f32);
  }
  std::vector<std::byte> read_blocks(const StoredTensor& tensor, const Shard& part,
                                     const checkpoint::AtWork& at_work) const override {
    return body_->read_blocks(*body_->find(tensor.name), part, at_work);
  }
  std::string fingerprint() const override {
    std::string all = body_->fingerprint();
    for (const auto& [name, map] : head_) {
      const std::vector<std::byte> values = head_values(file_, map);
      all += name + sha256(values);
    }
    return sha256(std::as_bytes(std::span(all)));
  }
  std::string where() const override { return body_->where(); }
  const TrainedScales* trained_scales() const override { return body_->trained_scales(); }

 private:
  /// Whether the file has all of a tensor's moves; some of them are not enough.
  bool has(const models::TensorMap& map) const {
    return std::ranges::all_of(map.moves, [&](const models::RowMove& move) {
      return file_.find(std::string(kModulePrefix) + move.name) != nullptr;
    });
  }

  std::unique_ptr<Weights> body_;
  checkpoint::SafetensorsFile file_;
  std::map<std::string, models::TensorMap> head_;  // those that the file has, by our names
};

}  // namespace

std::vector<std::byte> head_values(const checkpoint::SafetensorsFile& file,
                                   const models::TensorMap& map) {
  std::vector<std::byte> ours(static_cast<size_t>(map.shape.num_elements()) * sizeof(float));
  for (const models::RowMove& move : map.moves) {
    const std::string name = std::string(kModulePrefix) + move.name;
    const checkpoint::SafetensorsEntry* const entry = file.find(name);
    if (entry == nullptr || entry->shape != move.shape || !entry->dtype ||
        !is_weight_type(*entry->dtype)) {
      throw IntegrityError("{}: tensor {} is missing, or not {} of a floating type",
                           file.path().string(), name, move.shape);
    }
    std::vector<std::byte> bytes(static_cast<size_t>(entry->bytes));
    file.read(*entry, 0, entry->bytes, bytes.data());
    const std::vector<std::byte> theirs =
        convert_elements(name, std::move(bytes), *entry->dtype, DType::f32);
    models::to_ours(map, move, sizeof(float), theirs.data(), ours.data());
  }
  return ours;
}

bool brings_head(const fs::path& folder) { return config_with_modules(folder).has_value(); }

ModelSource with_head_of(ModelSource base, const fs::path& folder) {
  const auto config = config_with_modules(folder);
  if (!config) return base;
  models::ModelSpec spec = base.spec();
  spec.head = head_beside(folder, spec);
  require_task(*config, spec.head, folder);
  base.become(spec, [&](std::unique_ptr<Weights> weights) {
    return std::make_unique<WithHead>(std::move(weights), folder, spec, base.tensor_shards());
  });
  return base;
}

}  // namespace megalith::store
