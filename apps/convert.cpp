// SPDX-License-Identifier: Apache-2.0
// megalith convert
#include "store/convert.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/command.h"
#include "base/file.h"
#include "evaluate/divergence.h"
#include "inference/inference_model.h"
#include "inference/sequence_reader.h"
#include "store/adapter_source.h"
#include "store/classifier_head.h"
#include "store/model_source.h"

namespace megalith::apps {
namespace {

/// A text lies in memory whole.
constexpr std::string_view kFp8 = "fp8";
constexpr int64_t kMostCheckedBytes = int64_t{1} << 30;

struct Conversion {
  std::string from, to, format = "hf", dtype, quantize, check;
  std::optional<std::string> adapter;
  std::vector<std::string> choices;
  bool weights_only = false;
};

/// Of a Hugging Face folder; blocks are of GGUF files.
bool writes_fp8(const Conversion& o) { return o.quantize == kFp8; }

void check_conversion(const Conversion& o) {
  if (writes_fp8(o) && o.format != "hf") throw UserError("--quantize {} needs --format hf", kFp8);
  if (!o.quantize.empty() && !writes_fp8(o) && !o.dtype.empty())
    throw UserError("--quantize {} excludes --dtype: what is not in blocks is f32", o.quantize);
  if (o.format == "gguf") return;
  const std::pair<const char*, bool> given[] = {
      {"--quantize", !o.quantize.empty() && !writes_fp8(o)},
      {"--quantize-tensor", !o.choices.empty()},
      {"--check", !o.check.empty() && !writes_fp8(o)},
      {"--weights-only", o.weights_only}};
  for (const auto& [option, is_given] : given)
    if (is_given) throw UserError("{} needs --format gguf", option);
}

/// A model that reads, with the weights as the source has them.
std::unique_ptr<inference::InferenceModel> reading_model(const store::ModelSource& source,
                                                         device::Device& device) {
  auto model = std::make_unique<inference::InferenceModel>(
      source.spec(), device,
      inference::InferenceModel::Options{.tensor_shards = source.tensor_shards(),
                                         .formats = source.storage_formats(std::nullopt)});
  source.fill(model->parameters(), device);
  return model;
}

/// What the text loses with the weights that were written, in exact arithmetic.
class TextCheck {
 public:
  /// UserError for a text that cannot be read, before anything is converted.
  explicit TextCheck(const Conversion& o) : original_(store::ModelSource::open(o.from)) {
    inference::require_one_stack(original_.spec(), "--check");
    ids_ = original_.require_tokenizer().encode(read_file(o.check, kMostCheckedBytes), true);
    if (ids_.size() < 2)
      throw UserError("{}: has {} tokens; at least 2 are needed to predict one", o.check,
                      ids_.size());
  }
  evaluate::Divergence run(const std::string& written, bool shows) const {
    const auto device = device::make_device(device::cpu_target(available_cores()));
    const auto source = store::ModelSource::open(written, original_.tensor_shards());
    const auto before = reading_model(original_, *device), after = reading_model(source, *device);
    evaluate::OnProgress progress;
    if (shows) progress = [](int64_t done) { fmt::print(stderr, "\r{} tokens", done); };
    return evaluate::divergence(before->engine(), after->engine(), ids_, progress);
  }

 private:
  store::ModelSource original_;
  std::vector<int32_t> ids_;
};

/// What predictions with merged weights differ in from those with the adapter beside the weights.
class MergeCheck {
 public:
  /// UserError or IntegrityError about the adapter, before anything is converted.
  explicit MergeCheck(const Conversion& o)
      : original_(store::with_head_of(store::ModelSource::open(o.from), *o.adapter)),
        adapter_(store::AdapterSource::open(*o.adapter, original_)) {
    const int64_t count = std::min<int64_t>(original_.spec().context, kTokens);
    for (int64_t i = 0; i < count; ++i)
      ids_.push_back(narrow<int32_t>(i * kStride % original_.spec().vocab));
  }
  /// The largest difference, and the largest number that it is a difference of.
  struct Result {
    double difference = 0, magnitude = 0;
    bool is_rounded = false;  // weights were, to less than f32
  };
  Result run(const std::string& written) const {
    const auto device = device::make_device(device::cpu_target(available_cores()));
    const auto source = store::ModelSource::open(written, original_.tensor_shards());
    const auto before = reading_model(original_, *device), after = reading_model(source, *device);
    layers::Adapter placed(before->parameters(), *device, adapter_.ranks());
    engine::ShardedModel& sharded = before->engine().model();
    adapter_.fill(placed, before->parameters(), sharded.exec(), sharded.mesh().tensor());
    sharded.set_adapter(&placed);
    const std::vector<double> expected = numbers_of(before->engine()),
                              merged = numbers_of(after->engine());
    Result result;
    result.is_rounded =
        std::ranges::any_of(source.weights().tensors(), [](const store::StoredTensor& tensor) {
          return tensor.blocks || bytes_of(tensor.dtype) < bytes_of(DType::f32);
        });
    for (size_t i = 0; i < expected.size(); ++i) {
      result.difference = std::max(result.difference, std::abs(merged[i] - expected[i]));
      result.magnitude = std::max(result.magnitude, std::abs(expected[i]));
    }
    return result;
  }

 private:
  static constexpr int64_t kTokens = 64, kStride = 7919;
  /// Log-probabilities of the ids, a classifier's outputs for them, or else the mean of the last
  /// hidden states.
  std::vector<double> numbers_of(inference::InferenceEngine& engine) const {
    const models::ModelSpec& spec = engine.spec();
    if (spec.is_encoder_decoder()) return engine.score_target(ids_, ids_);
    if (spec.is_causal() && layers::head_type(spec.head.kind).has_logits) return engine.score(ids_);
    const inference::Reading line{ids_, {}};
    inference::SequenceReader reader(engine.model());
    if (!layers::head_type(spec.head.kind).has_logits && spec.head.outputs > 0) {
      const auto outputs = reader.outputs(std::span(&line, 1));
      std::vector<double> numbers;
      for (const std::vector<double>& row : outputs[0])
        numbers.insert(numbers.end(), row.begin(), row.end());
      return numbers;
    }
    return reader.embed(std::span(&line, 1), kernels::Pooling::mean)[0];
  }
  store::ModelSource original_;
  store::AdapterSource adapter_;
  std::vector<int32_t> ids_;
};

/// Weights in f32 differ by what sums in another order do; narrower ones were rounded.
void require_same_predictions(const Conversion& o, const MergeCheck::Result& found) {
  const double allowed = found.is_rounded ? 0x1p-2 : 0x1p-6;
  if (found.difference <= allowed * std::max(found.magnitude, 1.0)) return;
  std::filesystem::remove_all(o.to);
  throw SystemError(
      "{}: with the merged weights predictions differ by {:.3g} from those with the adapter (of "
      "numbers up to {:.3g}): nothing was written",
      o.to, found.difference, found.magnitude);
}

void print_conversion(const Conversion& o, const store::ConvertResult& result,
                      const std::optional<evaluate::Divergence>& checked,
                      const std::optional<MergeCheck::Result>& merged, bool json) {
  if (!json) {
    fmt::print(stderr, "{}: {} tensors, {} parameters\n", o.to, result.tensors, result.parameters);
    if (merged)
      fmt::print(stderr, "merged: predictions differ by at most {:.3g}, of numbers up to {:.3g}\n",
                 merged->difference, merged->magnitude);
    if (checked) {
      fmt::print(
          "{} tokens: perplexity {:.4f} before, {:.4f} after; mean KL divergence {:.6f}; the same "
          "token is most likely for {:.2f} %\n",
          checked->tokens, checked->perplexity(), checked->other_perplexity(), checked->mean_kl(),
          100 * checked->same_choice_fraction());
    }
    return;
  }
  nlohmann::ordered_json line{
      {"tensors", result.tensors}, {"parameters", result.parameters}, {"sha256", result.sha256}};
  if (checked) {
    line["tokens"] = checked->tokens;
    line["perplexity"] = checked->perplexity();
    line["quantized_perplexity"] = checked->other_perplexity();
    line["mean_kl"] = checked->mean_kl();
    line["same_choice_fraction"] = checked->same_choice_fraction();
  }
  if (merged) line["merge_difference"] = merged->difference;
  print_json(line);
}

int run_conversion(const Conversion& o, bool json) {
  check_conversion(o);
  std::vector<store::TensorChoice> choices;
  for (const std::string& choice : o.choices) choices.push_back(store::parse_choice(choice));
  std::optional<TextCheck> check;
  if (!o.check.empty()) check.emplace(o);
  std::optional<MergeCheck> merge;
  if (o.adapter) merge.emplace(o);
  const store::ConvertResult result = store::convert(
      o.from, o.to, o.format, o.quantize.empty() || writes_fp8(o) ? o.dtype : o.quantize,
      store::kShardBytes, o.weights_only ? store::Tokenizers::left_out : store::Tokenizers::carried,
      std::move(choices), o.adapter.value_or(""),
      writes_fp8(o) ? store::Fp8Weights::all : store::Fp8Weights::as_stored);
  std::optional<MergeCheck::Result> merged;
  if (merge) {
    merged = merge->run(o.to);
    require_same_predictions(o, *merged);
  }
  std::optional<evaluate::Divergence> checked;
  if (check) checked = check->run(o.to, !json && isatty(STDERR_FILENO) == 1);
  print_conversion(o, result, checked, merged, json);
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(
      app, invocation, "convert",
      "between Megalith checkpoints, Hugging Face folders and GGUF files",
      "  megalith convert --from runs/demo --to demo-hf --format hf\n"
      "  megalith convert --from gpt2 --to gpt2-megalith --format megalith --dtype bf16\n"
      "  megalith convert --from chat --to chat-sql --merge-adapter adapters/sql\n"
      "  megalith convert --from runs/demo --to demo.gguf --format gguf --quantize q4_0 "
      "--check text.txt\n"
      "  megalith convert --from runs/demo --to demo-fp8 --quantize fp8 --dtype bf16\n");
  auto o = std::make_shared<Conversion>();
  c.add_option("--from", o->from, "run folder, checkpoint folder, Hugging Face folder or GGUF file")
      ->required();
  c.add_option("--to", o->to, "folder, or GGUF file, to make")->required();
  c.add_option("--format", o->format, "what to write")
      ->check(CLI::IsMember({"megalith", "hf", "gguf"}))
      ->capture_default_str();
  c.add_option("--dtype", o->dtype,
               "storage type to write (default: as it is); with --quantize fp8 of all the rest")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  c.add_option(
       "--quantize", o->quantize,
       "block format of the matrices of a GGUF file; of 4 bits, the tables of tokens and of "
       "logits get q8_0. fp8, of a Hugging Face folder: codes e4m3 and a scale for each row of "
       "layers' products, with the scales of training where that was in 8 bits")
      ->check(CLI::IsMember({"q8_0", "q4_0", "q4_1", "fp8"}));
  c.add_option(
       "--quantize-tensor", o->choices,
       "PATTERN=TYPE: f32, bf16, f16, q8_0, q4_0 or q4_1 for the matrices whose name in the "
       "GGUF file matches, where * stands for anything (repeatable; the last one counts)")
      ->take_all()
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        try {
          store::parse_choice(text);
        } catch (const UserError& error) {
          return std::string(error.what());
        }
        return std::string();
      });
  c.add_option("--check", o->check,
               "a text to read with the model before and after: both perplexities and the mean "
               "divergence are printed");
  c.add_option(
      "--merge-adapter", o->adapter,
      "a folder of PEFT's with an adapter of the model, LoRA, DoRA or IA3: written are the weights "
      "with its part in them, once their predictions were compared with the adapter's");
  c.add_flag("--weights-only", o->weights_only, "write a GGUF file without the tokenizer");
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return run_conversion(*o, invocation.json); };
  });
}

}  // namespace megalith::apps
