// SPDX-License-Identifier: Apache-2.0
#include "families/hugging_face.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/json_number.h"
#include "families/families.h"
#include "families/model_spec_json.h"

namespace megalith::models {
namespace {

using Json = nlohmann::json;

/// What files hold beside the model: where they are from, how its output is used, heads of other
/// classes, how others run it, and what transformers once wrote and does not read.
constexpr std::string_view kHarmless =
    " _attn_implementation _attn_implementation_autoset _commit_hash _flash_attn_2_enabled "
    "_name_or_path _num_labels architectures attn_implementation bad_words_ids "
    "begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward "
    "classifier_dropout decoder_start_token_id diversity_penalty do_sample dtype "
    "early_stopping encoder_no_repeat_ngram_size eos_token_id eos_token_ids "
    "exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id "
    "gradient_checkpointing id2label is_decoder is_llama_config label2id length_penalty "
    "max_length max_new_tokens max_sequence_length min_length min_new_tokens n_ctx n_special "
    "no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences "
    "output_attentions output_hidden_states output_past output_scores pad_token_id "
    "predict_special_tokens prefix pretraining_tp problem_type remove_invalid_values "
    "renormalize_logits repetition_penalty return_dict return_dict_in_generate sep_token_id "
    "summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj suppress_tokens task_specific_params temperature tf_legacy_loss "
    "tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript "
    "transformers.js_config transformers_version typical_p unk_token_id unsloth_fixed "
    "unsloth_version use_bfloat16 use_cache xla_device ";

Json parse_object(std::string_view text, const std::string& where) {
  if (const auto fault = json_fault(text)) throw UserError("{}: {}", where, *fault);
  Json json = Json::parse(text);
  if (!json.is_object()) throw UserError("{}: must be a JSON object", where);
  return json;
}

std::string supported() {
  std::vector<std::string_view> names;
  for (const Family* family : families()) names.push_back(family->config_type());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// By model_type; files without one by the name of their class.
const Family& family_of(const Json& json, const ConfigKeys& keys) {
  const std::string type = keys.text("model_type", "");
  const auto found = std::ranges::find(families(), type, &Family::config_type);
  if (found != families().end()) return **found;
  if (!type.empty()) {
    throw UserError("{}: model_type {} is not supported; this program reads {}", keys.where(),
                    ConfigKeys::shown(type), supported());
  }
  const auto classes = json.find("architectures");
  const bool named = classes != json.end() && classes->is_array() && !classes->empty() &&
                     classes->front().is_string();
  const std::string name = named ? classes->front().get<std::string>() : "";
  for (const Family* family : families()) {
    if (!name.empty() &&
        (name == family->class_name || name == family->model_class ||
         std::ranges::find(family->others, name, &HeadClass::name) != family->others.end()))
      return *family;
  }
  throw UserError("{}: model_type is missing; this program reads {}", keys.where(), supported());
}

std::optional<std::vector<int32_t>> end_ids(const ConfigKeys& keys, int64_t vocab) {
  const Json* json = keys.find("eos_token_id");
  if (json == nullptr) return std::nullopt;
  const Json list = json->is_array() ? *json : Json::array({*json});
  std::vector<int32_t> ids;
  for (const Json& entry : list) {
    const auto id = whole_number_in(entry);
    if (!id) {
      throw UserError("{}: eos_token_id holds {}, must be a whole number or a list of them",
                      keys.where(), ConfigKeys::shown(entry));
    }
    // Small models are often saved with the class default, an id they do not have.
    if (*id < 0 || *id >= vocab) continue;
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

/// Of the vocabulary, or none.
std::optional<int32_t> id_of(const ConfigKeys& keys, const char* key, int64_t vocab) {
  const Json* json = keys.find(key);
  const auto id = json != nullptr ? whole_number_in(*json) : std::nullopt;
  if (!id || *id < 0 || *id >= vocab) return std::nullopt;
  return static_cast<int32_t>(*id);
}

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::f64:
      return "float64";
    default:
      return "float32";
  }
}

std::string_view class_of(const Family& family, layers::HeadKind head) {
  if (head == layers::HeadKind::language_model) return family.class_name;
  if (head == layers::HeadKind::none) return family.model_class;
  const auto other = std::ranges::find(family.others, head, &HeadClass::head);
  return other == family.others.end() ? family.class_name : other->name;
}

nlohmann::ordered_json config_json(const ModelSpec& model) {
  const Family& family = family_named(model.family, "the model");
  nlohmann::ordered_json json;
  json["architectures"] = {class_of(family, model.head.kind)};
  json["model_type"] = family.config_type();
  family.write(model, json);
  json["tie_word_embeddings"] = model.head.tied;
  return json;
}

/// Paths of leaves that differ.
void differences(const Json& a, const Json& b, const std::string& path,
                 std::vector<std::string>& paths) {
  if (a == b) return;
  if (!a.is_structured() || a.type() != b.type()) {
    paths.push_back(path);
    return;
  }
  const Json left = a.flatten(), right = b.flatten();
  for (const Json* side : {&left, &right}) {
    for (const auto& [key, value] : side->items()) {
      const auto other = (side == &left ? right : left).find(key);
      const bool differs = other == (side == &left ? right : left).end() || *other != value;
      if (differs && std::ranges::find(paths, key) == paths.end()) paths.push_back(key);
    }
  }
}

}  // namespace

HuggingFaceConfig parse_hugging_face_config(std::string_view text, const std::string& where) {
  const Json json = parse_object(text, where);
  const ConfigKeys keys(json, where);
  const Family& family = family_of(json, keys);
  keys.only("add_cross_attention", false);
  HuggingFaceConfig config;
  if (const Json* quantization = keys.find("quantization_config"))
    config.fp8 = parse_quantization_config(*quantization, where);
  config.model = family.read(keys);
  config.ties_unless_stored =
      family.ties_unless_stored != nullptr && family.ties_unless_stored(keys);
  keys.only("is_encoder_decoder", config.model.is_encoder_decoder());
  keys.no_others(kHarmless);
  config.model.check(where);
  const int64_t vocab = config.model.vocab;
  config.begin_id = id_of(keys, "bos_token_id", vocab);
  config.pad_id = id_of(keys, "pad_token_id", vocab);
  if (const auto ids = end_ids(keys, vocab)) {
    config.end_ids = *ids;
  } else if (const int32_t id = family.default_end_id;
             !json.contains("eos_token_id") && id >= 0 && id < vocab) {
    config.end_ids = {id};
  }
  return config;
}

std::optional<std::vector<int32_t>> parse_end_ids(std::string_view text, int64_t vocab,
                                                  const std::string& where) {
  const Json json = parse_object(text, where);
  return end_ids(ConfigKeys(json, where), vocab);
}

void check_expressible(const ModelSpec& model) {
  const Json json = config_json(model);
  const std::string where = "config.json";
  ModelSpec again = family_named(model.family, where).read(ConfigKeys(json, where));
  // How probabilities are kept in training is nobody's but ours.
  ModelSpec wanted = model;
  for (ModelSpec* each : {&wanted, &again})
    each->for_each_layer([](layers::LayerSpec& layer) { layer.set_materialised(false); });
  if (again == wanted) return;
  std::vector<std::string> paths;
  differences(to_json(wanted), to_json(again), "", paths);
  throw UserError("the {} format cannot express this model: {}", model.family,
                  fmt::join(paths, ", "));
}

std::string hugging_face_config(const ModelSpec& model, DType dtype,
                                const std::vector<int32_t>& ids, std::optional<int32_t> begin,
                                std::optional<int32_t> pad,
                                const std::optional<std::vector<std::string>>& ignored) {
  nlohmann::ordered_json json = config_json(model);
  // Absent keys would mean the class's own ids, which another vocabulary does not have.
  const Json end = ids.empty() ? Json() : ids.size() == 1 ? Json(ids[0]) : Json(ids);
  if (!begin && !ids.empty()) begin = ids[0];
  json["bos_token_id"] = begin ? Json(*begin) : Json();
  json["eos_token_id"] = end;
  if (!pad && model.is_encoder_decoder()) pad = static_cast<int32_t>(model.decoder_start);
  if (!json.contains("pad_token_id")) json["pad_token_id"] = pad ? Json(*pad) : Json();
  json["torch_dtype"] = torch_name(dtype);
  json["use_cache"] = true;
  if (ignored) json["quantization_config"] = quantization_config(*ignored);
  return json.dump(2) + "\n";
}

}  // namespace megalith::models
