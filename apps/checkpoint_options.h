// SPDX-License-Identifier: Apache-2.0
// The checkpoint argument that several commands take, and the model made from it on its ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/prompt_marks.h"
#include "apps/command.h"
#include "apps/ranks.h"
#include "inference/inference_model.h"
#include "store/model_source.h"

namespace megalith::apps {

struct CheckpointOptions {
  std::string path;
  std::string dtype = "f32";
  std::string numerics = "exact";
  std::string kv_dtype;                // of generate alone; empty: as dtype
  std::string quantize;                // q8_0, q4_0, q4_1; empty: as the checkpoint has its weights
  std::optional<std::string> adapter;  // a folder
  /// The command puts an adapter's virtual tokens where texts have marks (marks_of); others refuse
  /// such adapters.
  bool reads_marks = false;
  int threads = 0;
  int ranks = 0;                       // 0: as the layout or a launcher says
  std::vector<std::string> overrides;  // parallel.tensor=2
  void declare(CLI::App& command);
  /// For a command that reads with one adapter.
  void declare_adapter(CLI::App& command);
  /// For a command that keeps keys and values.
  void declare_cache(CLI::App& command);
};

/// The model of the options; if their adapter has a classifier's head, the classifier with that
/// head (store/classifier_head.h).
store::ModelSource open_classifier(const CheckpointOptions& options);

/// How the options spread the model, and its arithmetic. UserError when they do not fit it.
inference::InferenceModel::Options model_options(const CheckpointOptions& options,
                                                 const store::ModelSource& source);

/// Virtual tokens of the options' adapter, which take their place of the context. UserError or
/// IntegrityError about the adapter.
int64_t virtual_tokens_of(const CheckpointOptions& options, const store::ModelSource& source);
/// Those of an adapter whose virtual tokens stand inside texts; else none.
std::optional<adapters::PromptMarks> marks_of(const CheckpointOptions& options,
                                              const store::ModelSource& source);

/// What a rank reads text with.
struct ModelRank {
  inference::InferenceEngine& engine;
  comm::Communicator& world;
  bool is_rank_zero;  // its results count
};

/// Runs `body` on every rank of the model, its weights filled. `input` is what the ranks are to
/// read, in any form. UserError, before anything is read, when the layout asked for does not fit
/// the model, or when processes were given another model, option or input.
void on_model_ranks(const CheckpointOptions& options, const store::ModelSource& source,
                    const std::string& input, FunctionRef<void(const ModelRank&)> body);

/// Another model on the same ranks, its weights filled: `options` say what they say of the first.
/// UserError, naming `path`, when their layout does not fit it. Collective.
std::unique_ptr<inference::InferenceModel> model_beside(const CheckpointOptions& options,
                                                        const store::ModelSource& source,
                                                        const std::string& path,
                                                        const ModelRank& rank);

/// Likewise a smaller one that guesses what the first, of `source`, will write. UserError when it
/// has another tokenizer.
std::unique_ptr<inference::InferenceModel> draft_beside(const CheckpointOptions& options,
                                                        const store::ModelSource& source,
                                                        const store::ModelSource& draft,
                                                        const std::string& path,
                                                        const ModelRank& rank);

/// How the options spread such a model beside the first, in the layout of the first.
inference::InferenceModel::Options options_beside(const CheckpointOptions& options,
                                                  const store::ModelSource& source,
                                                  const store::ModelSource& other,
                                                  const std::string& path);

}  // namespace megalith::apps
