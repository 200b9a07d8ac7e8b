// SPDX-License-Identifier: Apache-2.0
#include "apps/checkpoint_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/subtree.h"
#include "store/adapter_source.h"
#include "store/classifier_head.h"

namespace megalith::apps {

void CheckpointOptions::declare(CLI::App& command) {
  command
      .add_option("--checkpoint", path,
                  "run folder, checkpoint folder, Hugging Face folder or GGUF file")
      ->required();
  command.add_option("--dtype", dtype, "type to compute in, whatever the checkpoint is stored in")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  command
      .add_option("--numerics", numerics,
                  "exact: the same on every machine; fast: what this one does fastest")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command
      .add_option(
          "--quantize", quantize,
          "hold the weights of products in blocks of 8 or 4 bits, or those of layers in fp8, "
          "rounded as convert --quantize does; a file's own blocks and FP8 are held as they "
          "are without it")
      ->check(CLI::IsMember({"q8_0", "q4_0", "q4_1", "fp8"}));
  command.add_option("--threads", threads, "of all ranks of this process together; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option("--ranks", ranks,
                  "ranks that share the model, as threads of this process: tensor ranks as far as "
                  "its heads allow, then pipeline stages, unless --set says otherwise")
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--set", overrides,
                  "how the model is spread: --set parallel.tensor=2, parallel.pipeline=2 or "
                  "parallel.chunks=2 (repeatable); no result depends on it")
      ->take_all()
      ->allow_extra_args(false);
}

void CheckpointOptions::declare_adapter(CLI::App& command) {
  command.add_option(
      "--adapter", adapter,
      "a folder with an adapter to use with the model: PEFT's (LoRA, DoRA, IA3, "
      "virtual tokens: adapter_config.json, adapter_model.safetensors) or "
      "AdapterHub's (bottleneck adapters: adapter_config.json, adapter.safetensors)");
}

void CheckpointOptions::declare_cache(CLI::App& command) {
  command
      .add_option("--kv-dtype", kv_dtype,
                  "what keys and values are kept in for later tokens; q8_0: codes of 8 bits with a "
                  "scale for every 32 (default: as --dtype)")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "q8_0"}));
}

namespace {

std::optional<DType> cache_dtype_of(const CheckpointOptions& options) {
  if (options.kv_dtype == "q8_0") return DType::i8;
  return dtype_from_name(options.kv_dtype);
}

kernels::Numerics numerics_of(const CheckpointOptions& options) {
  return options.numerics == "fast" ? kernels::Numerics::fast : kernels::Numerics::exact;
}

/// The layout's keys as --set gives them; 0: not given.
std::map<std::string, int> given_keys(const CheckpointOptions& options) {
  std::map<std::string, int> keys{
      {"parallel.tensor", 0}, {"parallel.pipeline", 0}, {"parallel.chunks", 0}};
  for (const std::string& text : options.overrides) {
    const size_t sign = text.find('=');
    const std::string key = text.substr(0, sign);
    const auto found = keys.find(key);
    if (sign == std::string::npos || found == keys.end()) {
      throw UserError(
          "--set {}: here it takes parallel.tensor, parallel.pipeline and parallel.chunks, as "
          "in --set parallel.tensor=2",
          text);
    }
    const char *const begin = text.data() + sign + 1, *const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(begin, end, found->second);
    if (error != std::errc() || stopped != end || found->second < 1)
      throw UserError("--set {}: give a whole number from 1", text);
  }
  return keys;
}

/// The largest number of tensor ranks that divides `ranks` and may share the canonical split.
int most_tensor_ranks(int ranks, int tensor_shards) {
  for (int n = std::min(ranks, tensor_shards); n > 1; --n) {
    if (ranks % n == 0 && blocks_are_subtrees(tensor_shards, n)) return n;
  }
  return 1;
}

/// Spreads `ranks` ranks (0: as many as --set says) over what --set leaves open.
parallel::Layout layout_of(const CheckpointOptions& options, int ranks, int tensor_shards) {
  const auto keys = given_keys(options);
  int tensor = keys.at("parallel.tensor"), pipeline = keys.at("parallel.pipeline");
  const int fixed = std::max(tensor, 1) * std::max(pipeline, 1);
  if (ranks == 0) ranks = fixed;
  if (ranks % fixed != 0 || (tensor > 0 && pipeline > 0 && ranks != fixed)) {
    throw UserError("{} ranks, but --set asks for parallel.tensor {} x parallel.pipeline {}", ranks,
                    std::max(tensor, 1), std::max(pipeline, 1));
  }
  const int rest = ranks / fixed;
  if (tensor == 0) tensor = pipeline > 0 ? rest : most_tensor_ranks(rest, tensor_shards);
  if (pipeline == 0) pipeline = ranks / tensor;
  return {
      .tensor = tensor, .pipeline = pipeline, .chunks = std::max(keys.at("parallel.chunks"), 1)};
}

/// A head that an adapter brings stays in f32, as it was trained, whatever --quantize says.
parameters::StorageFormats formats_of(const CheckpointOptions& options,
                                      const store::ModelSource& source) {
  parameters::StorageFormats formats = source.storage_formats(format_from_name(options.quantize));
  if (options.adapter && source.spec().head.outputs > 0 && store::brings_head(*options.adapter))
    std::erase_if(formats,
                  [](const auto& format) { return format.first.starts_with(store::kHeadBegin); });
  return formats;
}

/// What the options say about a model in this layout.
inference::InferenceModel::Options laid_out(const CheckpointOptions& options,
                                            const store::ModelSource& source,
                                            const parallel::Layout& layout) {
  return {.compute = *dtype_from_name(options.dtype),
          .numerics = numerics_of(options),
          .tensor_shards = source.tensor_shards(),
          .layout = layout,
          .formats = formats_of(options, source),
          .cache = cache_dtype_of(options)};
}

}  // namespace

store::ModelSource open_classifier(const CheckpointOptions& options) {
  auto source = store::ModelSource::open(options.path);
  if (!options.adapter) return source;
  return store::with_head_of(std::move(source), *options.adapter);
}

inference::InferenceModel::Options model_options(const CheckpointOptions& options,
                                                 const store::ModelSource& source) {
  const std::optional<Launch> launch = launched(options.ranks);
  const int ranks = launch && launch->size != 0 ? launch->size : options.ranks;
  const inference::InferenceModel::Options made =
      laid_out(options, source, layout_of(options, ranks, source.tensor_shards()));
  inference::InferenceModel::check(source.spec(), made, options.path);
  return made;
}

std::unique_ptr<inference::InferenceModel> model_beside(const CheckpointOptions& options,
                                                        const store::ModelSource& source,
                                                        const std::string& path,
                                                        const ModelRank& rank) {
  engine::ShardedModel& first = rank.engine.model();
  const inference::InferenceModel::Options made = laid_out(options, source, first.mesh().layout());
  inference::InferenceModel::check(source.spec(), made, path);
  auto model =
      std::make_unique<inference::InferenceModel>(source.spec(), first.device(), rank.world, made);
  source.fill(model->parameters(), first.device(), [&] { rank.world.heartbeat(); });
  return model;
}

std::unique_ptr<inference::InferenceModel> draft_beside(const CheckpointOptions& options,
                                                        const store::ModelSource& source,
                                                        const store::ModelSource& draft,
                                                        const std::string& path,
                                                        const ModelRank& rank) {
  if (draft.require_tokenizer().to_json() != source.require_tokenizer().to_json())
    throw UserError("--draft {}: its tokenizer is not that of {}", path, options.path);
  return model_beside(options, draft, path, rank);
}

inference::InferenceModel::Options options_beside(const CheckpointOptions& options,
                                                  const store::ModelSource& source,
                                                  const store::ModelSource& other,
                                                  const std::string& path) {
  const inference::InferenceModel::Options made =
      laid_out(options, other, model_options(options, source).layout);
  inference::InferenceModel::check(other.spec(), made, path);
  return made;
}

int64_t virtual_tokens_of(const CheckpointOptions& options, const store::ModelSource& source) {
  if (!options.adapter) return 0;
  return layers::virtual_tokens_of(store::AdapterSource::open(*options.adapter, source).ranks());
}

std::optional<adapters::PromptMarks> marks_of(const CheckpointOptions& options,
                                              const store::ModelSource& source) {
  if (!options.adapter) return std::nullopt;
  const std::vector<int64_t> splits = store::AdapterSource::open(*options.adapter, source).splits();
  if (splits.empty()) return std::nullopt;
  return adapters::PromptMarks(source.require_tokenizer(), source.spec().vocab, splits);
}

void on_model_ranks(const CheckpointOptions& options, const store::ModelSource& source,
                    const std::string& input, FunctionRef<void(const ModelRank&)> body) {
  const std::optional<Launch> launch = launched(options.ranks);
  const inference::InferenceModel::Options made = model_options(options, source);
  std::optional<store::AdapterSource> adapter;
  if (options.adapter) adapter.emplace(store::AdapterSource::open(*options.adapter, source));
  if (adapter && !adapter->splits().empty() && !options.reads_marks) {
    throw UserError(
        "{}: its virtual tokens stand inside texts, in place of marks; generate, evaluate score "
        "and serve read such texts",
        *options.adapter);
  }
  const RankOptions rank_options{.num_ranks = made.layout.num_ranks(), .threads = options.threads};
  on_ranks(rank_options, launch, [&](const RankPlace& place) {
    if (launch) {
      comm::require_same(place.world, "the model", source.weights().fingerprint());
      comm::require_same(place.world, "the adapter", adapter ? adapter->fingerprint() : "");
      comm::require_same(place.world, "an option",
                         fmt::format("{} {} {} {}", options.dtype, options.numerics,
                                     options.quantize, options.kv_dtype));
      comm::require_same(place.world, "the input", sha256(std::as_bytes(std::span(input))));
    }
    inference::InferenceModel model(source.spec(), place.device, place.world, made);
    source.fill(model.parameters(), place.device, [&] { place.world.heartbeat(); });
    std::optional<layers::Adapter> placed;
    if (adapter) {
      placed.emplace(model.parameters(), place.device, adapter->ranks());
      engine::ShardedModel& sharded = model.engine().model();
      adapter->fill(*placed, model.parameters(), sharded.exec(), sharded.mesh().tensor());
      sharded.set_adapter(&*placed);
    }
    body({model.engine(), place.world, place.world.rank() == 0});
  });
}

}  // namespace megalith::apps
