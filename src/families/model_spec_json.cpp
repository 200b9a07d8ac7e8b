// SPDX-License-Identifier: Apache-2.0
#include "families/model_spec_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_number.h"
#include "families/families.h"
#include "settings/fields_json.h"

namespace megalith::models {
namespace {

constexpr int64_t kVersion = 2;
/// Entries times their counts; a file cannot ask for more memory than a large model takes.
constexpr int64_t kMostLayers = 100'000;

/// Layers that are alike and follow each other.
struct LayerRun {
  int64_t count = 1;
  layers::LayerSpec layer;
  void visit(settings::FieldVisitor& v) {
    v.field("count", count, "so many of them", settings::between(1, kMostLayers));
    layer.visit(v);
  }
};

/// The file's form of a ModelSpec.
struct Document {
  int64_t version = kVersion;
  ModelSpec model;
  std::vector<LayerRun> runs;

  void visit(settings::FieldVisitor& v) {
    v.field("version", version, "of this format", settings::between(kVersion, kVersion));
    v.field("family", model.family, "whose names an export writes");
    v.field("hidden", model.hidden, "width of the residual stream");
    v.field("context", model.context, "longest sequence");
    v.field("vocab", model.vocab, "number of token ids");
    v.field("dropout", model.dropout, "probability of dropping an activation");
    v.field("init_std", model.init_std, "of initial weights");
    v.section("embedding", model.embedding, "From ids to rows.");
    v.section("final_norm", model.final_norm, "Before the head.");
    v.section("head", model.head, "From rows to losses.");
    v.field("layer_groups", model.layer_groups, "that share their weights; 0: none",
            settings::between(0, kMostLayers));
    v.field("encoder_layers", model.encoder_layers,
            "the first layers, whose rows cross attention of the others reads; 0: there are none",
            settings::between(0, kMostLayers));
    v.field("decoder_start", model.decoder_start, "the token before a decoder's first",
            settings::between(0, 1 << 24));
    v.list("layers", runs, "count", "from the first to the last");
  }
};

std::vector<LayerRun> runs_of(const ModelSpec& model) {
  std::vector<LayerRun> runs;
  for (const layers::LayerSpec& layer : model.layers) {
    if (!runs.empty() && runs.back().layer == layer) {
      ++runs.back().count;
    } else {
      runs.push_back({1, layer});
    }
  }
  return runs;
}

/// The flat object of version 1.
ModelSpec from_version_1(const nlohmann::json& json, const std::string& where) {
  const auto integer = [&](const char* key) {
    const auto number = whole_number_in(json.at(key));
    if (!number) throw UserError("{}: {} is not a whole number", where, key);
    return *number;
  };
  const auto only = [&](const char* key, std::initializer_list<std::string_view> values) {
    const std::string value = json.at(key).get<std::string>();
    for (const std::string_view allowed : values) {
      if (value == allowed) return value;
    }
    throw UserError("{}: {} '{}' is not known", where, key, value);
  };
  Sizes sizes{.layers = integer("layers"),
              .hidden = integer("hidden"),
              .heads = integer("heads"),
              .kv_heads = integer("kv_heads"),
              .ffn = integer("ffn"),
              .context = integer("context"),
              .vocab = integer("vocab")};
  only("norm", {"layer_norm"});
  only("position", {"learned"});
  if (!json.at("bias").get<bool>()) throw UserError("{}: bias is not true", where);
  ModelSpec model = kGpt2.make(sizes, where);
  const bool erf = only("mlp", {"gelu_tanh", "gelu_erf"}) == "gelu_erf";
  const bool materialised = only("attention", {"streaming", "materialised"}) == "materialised";
  const double eps = json.at("norm_eps").get<double>();
  model.for_each_layer([&](layers::LayerSpec& layer) {
    if (erf) layer.mlp.activation = layers::Activation::gelu_erf;
    layer.attention.materialised = materialised;
    layer.norm.eps = eps;
  });
  model.final_norm.eps = eps;
  model.head.tied = json.at("tied").get<bool>();
  model.dropout = json.at("dropout").get<double>();
  model.init_std = json.at("init_std").get<double>();
  return model;
}

ModelSpec from_version_2(const nlohmann::json& json, const std::string& where) {
  Document document;
  settings::read_fields_json(json.dump(), where,
                             [&](settings::FieldVisitor& v) { document.visit(v); });
  int64_t layers = 0;
  for (const LayerRun& run : document.runs) layers += run.count;
  if (layers > kMostLayers) throw UserError("{}: {} layers are too many", where, layers);
  document.model.layers.clear();
  for (const LayerRun& run : document.runs) {
    document.model.layers.insert(document.model.layers.end(), static_cast<size_t>(run.count),
                                 run.layer);
  }
  return document.model;
}

/// By path: "/head/tied".
template <class S>
nlohmann::ordered_json all_fields(S value) {
  return settings::fields_json([&](settings::FieldVisitor& v) { value.visit(v); }).flatten();
}

/// What two models do not have in common, in words.
class Differences {
 public:
  /// Of fields in which layers differ, the first layer stands for all.
  void add(const std::string& prefix, const nlohmann::ordered_json& wanted,
           const nlohmann::ordered_json& stored) {
    const auto text = [](const nlohmann::ordered_json& fields, const std::string& path) {
      return fields.contains(path) ? fields[path].dump() : std::string("nothing");
    };
    for (const nlohmann::ordered_json* side : {&wanted, &stored}) {
      for (const auto& [path, value] : side->items()) {
        if (text(wanted, path) == text(stored, path) || !seen_.insert(path).second) continue;
        std::string name = path.substr(1);
        std::ranges::replace(name, '/', '.');
        say(prefix + name, text(wanted, path), text(stored, path));
      }
    }
  }
  void add(const std::string& name, size_t wanted, size_t stored) {
    say(name, std::to_string(wanted), std::to_string(stored));
  }
  const std::string& text() const { return text_; }

 private:
  void say(const std::string& name, const std::string& wanted, const std::string& stored) {
    text_ += fmt::format("{}{} is {} there and {} in the recipe", text_.empty() ? "" : "; ", name,
                         stored, wanted);
  }
  std::set<std::string> seen_;  // paths
  std::string text_;
};

}  // namespace

nlohmann::ordered_json to_json(const ModelSpec& model) {
  Document document{kVersion, model, {}};
  nlohmann::ordered_json json = settings::changed_fields_json(document);
  json["version"] = kVersion;
  // Sizes always: a file without them would say nothing to a reader.
  json["family"] = model.family;
  json["hidden"] = model.hidden;
  json["context"] = model.context;
  json["vocab"] = model.vocab;
  json["layers"] = nlohmann::ordered_json::array();
  for (const LayerRun& run : runs_of(model))
    json["layers"].push_back(settings::changed_fields_json(run));
  return json;
}

ModelSpec model_spec_from(const nlohmann::json& json, const std::string& where) {
  if (!json.is_object()) throw UserError("{}: the architecture is not an object", where);
  ModelSpec model;
  try {
    model = json.contains("version") ? from_version_2(json, where) : from_version_1(json, where);
  } catch (const nlohmann::json::exception& error) {
    throw UserError("{}: the architecture cannot be read: {}", where, error.what());
  }
  model.check(where);
  return model;
}

void require_same_weights(const ModelSpec& wanted, const ModelSpec& stored,
                          const std::string& where) {
  using layers::HeadKind;
  // The head that also asks about sentence pairs is the language model's, and more.
  const bool has_more =
      stored.head.kind == HeadKind::pretraining && wanted.head.kind == HeadKind::language_model;
  if (stored.head.kind != wanted.head.kind && !has_more) {
    throw UserError(
        "{}: a model with a head for {}; a recipe trains one for {}: it has no data with targets "
        "of other heads",
        where, settings::name_of(stored.head.kind), settings::name_of(wanted.head.kind));
  }
  ModelSpec other = stored;
  other.family = wanted.family;
  other.head.kind = wanted.head.kind;
  other.dropout = wanted.dropout;
  other.init_std = wanted.init_std;
  if (wanted.embedding.position != layers::PositionKind::learned) other.context = wanted.context;
  if (other.layers.size() == wanted.layers.size()) {
    for (size_t i = 0; i < other.layers.size(); ++i)
      other.layers[i].set_materialised(wanted.layers[i].attention.materialised);
  }
  if (other == wanted) return;
  Differences differences;
  differences.add("", all_fields(Document{kVersion, wanted, {}}),
                  all_fields(Document{kVersion, other, {}}));
  if (wanted.layers.size() != other.layers.size())
    differences.add("layers", wanted.layers.size(), other.layers.size());
  for (size_t i = 0; i < std::min(wanted.layers.size(), other.layers.size()); ++i) {
    differences.add(fmt::format("layers.{}.", i), all_fields(wanted.layers[i]),
                    all_fields(other.layers[i]));
  }
  throw UserError("{}: another model ({})", where, differences.text());
}

}  // namespace megalith::models
