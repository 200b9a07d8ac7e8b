// SPDX-License-Identifier: Apache-2.0
#include "engine/settings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/decoder.h"
#include "tensor/blocks.h"

namespace megalith::engine {
namespace {

void check_batches(const Settings& s, std::vector<std::string>& faults) {
  const int64_t unit = s.micro_batch * s.split.data_shards;
  const auto need = [&](const char* key, int64_t value) {
    if (value % unit != 0)
      faults.push_back(
          fmt::format("{} {} is not a multiple of train.micro_batch {} x parallel.data_shards {}",
                      key, value, s.micro_batch, s.split.data_shards));
  };
  need("train.global_batch", s.batch.full);
  if (s.batch.start > 0) {
    need("train.ramp_start", s.batch.start);
    need("train.ramp_increment", s.batch.increment);
  }
}

void check_pipeline(const Settings& s, std::vector<std::string>& faults) {
  if (s.layout.pipeline * s.layout.chunks > s.model.num_layers())
    faults.push_back(
        fmt::format("parallel.pipeline {} x parallel.chunks {} is more than model.layers {}",
                    s.layout.pipeline, s.layout.chunks, s.model.num_layers()));
  const bool interleaved = s.pipeline_schedule == parallel::ScheduleKind::interleaved;
  if (interleaved != (s.layout.chunks > 1)) {
    faults.push_back(fmt::format(
        "parallel.schedule {} with parallel.chunks {}: interleaved is for 2 chunks and more",
        s.pipeline_schedule, s.layout.chunks));
  }
}

void check_layers(const Settings& s, std::vector<std::string>& faults) {
  const int64_t layers = s.model.num_layers();
  if (s.recompute.full_layers > layers)
    faults.push_back(fmt::format("memory.recompute_layers {} is more than model.layers {}",
                                 s.recompute.full_layers, layers));
  if (s.fp8 && s.fp8->first_wide + s.fp8->last_wide >= layers)
    faults.push_back(
        fmt::format("precision.fp8.first_layers {} and last_layers {} leave none of {} layers in 8 "
                    "bits; make them smaller, or set precision.compute: bf16",
                    s.fp8->first_wide, s.fp8->last_wide, layers));
}

void check_tensor_shards(const Settings& s, std::vector<std::string>& faults) {
  const int shards = s.split.tensor_shards;
  std::string fault = models::split_fault(s.model, shards, s.layout.tensor);
  if (!fault.empty()) faults.push_back(std::move(fault));
  if (!s.sequence_parallel()) return;
  if (s.sequence_length() % shards != 0) {
    faults.push_back(fmt::format(
        "parallel.sequence needs parallel.tensor_shards {} to divide {} {}", shards,
        s.trained_length > 0 ? "train.sequence_length" : "model.context", s.sequence_length()));
  }
  if (s.model.is_encoder_decoder() && s.loss_length() % shards != 0) {
    faults.push_back(fmt::format(
        "parallel.sequence needs parallel.tensor_shards {} to divide the decoder's {} tokens; set "
        "another train.sequence_length, train.spans.rate, train.spans.mean_length or "
        "tune.answer_length, or parallel.sequence: false",
        shards, s.loss_length()));
  }
}

/// The whole model's declarations, cut into this many tensor shards, of one rank.
void declare_whole(const Settings& s, parameters::ParameterSet& set) {
  const models::Decoder declarations(s.model, set, models::Stage::whole(s.model), undivided(s));
}

/// A pattern that no parameter matches is a slip of the pen; a run that trains nothing is none.
void check_frozen(const Settings& s, std::vector<std::string>& faults) {
  if (s.frozen.empty() || !faults.empty()) return;
  parameters::ParameterSet set(s.declaration_rule());
  declare_whole(s, set);
  const auto& all = set.all();
  for (const std::string& pattern : s.frozen) {
    const auto is_frozen = [&](const parameters::Parameter& p) {
      return !p.declaration().is_derived && optim::matches(pattern, p.name());
    };
    if (std::ranges::none_of(all, is_frozen))
      faults.push_back(fmt::format("optimizer.frozen: no parameter is called {:?}, {} is one",
                                   pattern, all.back().name()));
  }
  if (std::ranges::none_of(all, [](const auto& p) { return p.trainable(); }))
    faults.emplace_back("optimizer.frozen leaves no parameter to train; take a pattern away");
}

/// Likewise a group that no parameter that trains belongs to.
void check_groups(const Settings& s, std::vector<std::string>& faults) {
  const std::vector<optim::ParameterGroup>& groups = s.adamw.groups;
  if (groups.empty() || !faults.empty()) return;
  parameters::ParameterSet set(s.declaration_rule());
  declare_whole(s, set);
  std::vector<std::string> trained;
  for (const parameters::Parameter& parameter : set.all())
    if (parameter.trainable()) trained.push_back(parameter.name());
  for (const optim::ParameterGroup& group : groups) {
    const auto is_in = [&](const std::string& name) {
      return optim::group_of(groups, name) == &group;
    };
    if (std::ranges::any_of(trained, is_in)) continue;
    const bool matches = std::ranges::any_of(
        trained, [&](const std::string& name) { return optim::matches(group.match, name); });
    faults.push_back(
        matches ? fmt::format("optimizer.groups: all that {:?} matches is in groups before it; put "
                              "it first, or take it out",
                              group.match)
                : fmt::format("optimizer.groups: no parameter that trains is called {:?}, {} is "
                              "one; a run that "
                              "has begun goes on without the group with --allow optimizer.groups",
                              group.match, trained.back()));
  }
}

/// Tensor ranks hold whole blocks of the columns that they share.
void check_formats(const Settings& s, std::vector<std::string>& faults) {
  if (s.formats.empty() || s.layout.tensor == 1 || !faults.empty()) return;
  parameters::ParameterSet set(s.declaration_rule());
  const models::Decoder declarations(s.model, set, models::Stage::whole(s.model),
                                     partition_of(s, 0));
  for (const parameters::Parameter& parameter : set.all()) {
    const parameters::Declaration& declared = parameter.declaration();
    const bool is_cut = declared.format && !is_plain(*declared.format) && declared.shard.dim == 1;
    if (!is_cut || parameter.local_shape()[1] % kBlockColumns == 0) continue;
    faults.push_back(fmt::format(
        "parallel.tensor {} cuts the {} columns of {} inside of blocks of {} in {}; set another "
        "parallel.tensor, or leave the weights as they are",
        s.layout.tensor, parameter.shape()[1], parameter.name(), kBlockColumns, *declared.format));
    return;
  }
}

/// Blocks of 32 lie within canonical shards, and within a sample.
void check_fp8(const Settings& s, std::vector<std::string>& faults) {
  if (!s.fp8 || !faults.empty()) return;
  if (s.model.shares_weights() && s.fp8->first_wide + s.fp8->last_wide > 0) {
    faults.emplace_back(
        "precision.fp8.first_layers and last_layers of a model whose layers share weights; set "
        "both to 0");
  }
  if (s.fp8->options.scaling.policy != precision::ScalingPolicy::mx) return;
  constexpr int64_t kBlock = 32;
  const auto refuse = [&](std::string_view what, int64_t size) {
    faults.push_back(
        fmt::format("precision.fp8.recipe mx has blocks of {}, which do not divide {} {}; set "
                    "another size, or precision.fp8.recipe: block",
                    kBlock, what, size));
  };
  for (const int64_t tokens : {s.sequence_length(), s.loss_length()})
    if (tokens % kBlock != 0) return refuse("the tokens of a sample,", tokens);
  parameters::ParameterSet set;
  declare_whole(s, set);
  for (const parameters::Parameter& parameter : set.all()) {
    if (!parameter.declaration().is_layer_product) continue;
    for (int dim = 0; dim < 2; ++dim) {
      const bool is_cut = dim == parameter.declaration().shard.dim;
      const int64_t size =
          parameter.shape()[dim] / (is_cut ? parameter.declaration().canonical_shards : 1);
      if (size % kBlock != 0)
        return refuse(fmt::format("the {} of {} in each of the parallel.tensor_shards,",
                                  dim == 0 ? "rows" : "columns", parameter.name()),
                      size);
    }
  }
}

}  // namespace

std::vector<std::string> Settings::fp8_products() const {
  std::vector<std::string> names;
  if (!fp8) return names;
  std::vector<std::string> layers;
  for (int64_t layer = 0; layer < model.num_layers(); ++layer)
    if (is_fp8(layer)) layers.push_back(model.layer_name(layer) + ".");
  parameters::ParameterSet set;
  declare_whole(*this, set);
  for (const parameters::Parameter& parameter : set.all()) {
    const bool is_in = std::ranges::any_of(
        layers, [&](const std::string& layer) { return parameter.name().starts_with(layer); });
    if (parameter.declaration().is_layer_product && is_in) names.push_back(parameter.name());
  }
  return names;
}

parameters::DeclarationRule Settings::declaration_rule() const {
  if (formats.empty() && !trains_beside_weights()) return optim::freezing_rule(frozen);
  return [freezes = optim::freezing_rule(frozen), stored = formats,
          added_alone = trains_beside_weights(), head = trains_head,
          trained = plain_format(masters)](parameters::Declaration& declaration) {
    if (head && declaration.name.starts_with("head.")) {
      declaration.is_added = true;
      declaration.format = trained;
    }
    if (added_alone) declaration.trainable = declaration.is_added;
    if (freezes) freezes(declaration);
    const auto found = stored.find(declaration.name);
    if (found != stored.end()) declaration.format = found->second;
  };
}

layers::Partition partition_of(const Settings& settings, int tensor_rank) {
  const bool sequence = settings.sequence_parallel();
  const int ranks = settings.layout.tensor;
  const int partials = exact_div(settings.token_partials(), sequence ? ranks : 1);
  const auto* factors = settings.factors ? &settings.factors : nullptr;
  return {settings.split.tensor_shards, ranks, tensor_rank, partials, sequence, factors,
          &settings.virtual_tokens};
}

layers::Partition undivided(const Settings& settings) {
  return {.tensor_shards = settings.split.tensor_shards,
          .token_partials = settings.token_partials(),
          .factors = settings.factors ? &settings.factors : nullptr,
          .virtual_tokens = &settings.virtual_tokens};
}

void check(const Settings& s, const std::string& where) {
  std::vector<std::string> faults = parallel::layout_faults(s.layout, s.split);
  check_batches(s, faults);
  check_pipeline(s, faults);
  check_layers(s, faults);
  check_tensor_shards(s, faults);
  check_frozen(s, faults);
  check_groups(s, faults);
  check_formats(s, faults);
  check_fp8(s, faults);
  if (!faults.empty()) throw UserError("{}: {}", where, fmt::join(faults, "; "));
}

}  // namespace megalith::engine
