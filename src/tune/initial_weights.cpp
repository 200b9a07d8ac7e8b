// SPDX-License-Identifier: Apache-2.0
#include "tune/initial_weights.h"

#include "low_rank/magnitudes.h"
#include "prompts/prompt_table.h"
#include "tune/prompt_start.h"

namespace megalith::tune {

void begin_with(const store::ModelSource& model, std::span<const int32_t> prompt,
                engine::Engine& engine) {
  parameters::ParameterSet& set = engine.parameters();
  device::Device& device = engine.device();
  const layers::HeadKind of = engine.settings().model.head.kind;
  const auto is_new = [&](std::string_view name) {
    if (!name.starts_with("head.")) return set.find(std::string(name))->declaration().is_added;
    // The outputs of a head of another kind are drawn anew, even where their shape fits.
    if (name.starts_with("head.output.") && of != model.spec().head.kind) return true;
    const store::StoredTensor* const stored = model.weights().find(std::string(name));
    return stored == nullptr || stored->shape != set.find(name)->shape();
  };
  const DType dtype = set.storage().master;
  std::vector<std::byte> host;
  for (parameters::Parameter& parameter : set.all()) {
    if (!is_new(parameter.name())) continue;
    host.resize(static_cast<size_t>(parameter.local_elements() * bytes_of(dtype)));
    parameters::initial_value(parameter, engine.settings().seed, dtype, host.data());
    set.load(device, parameter, dtype, host.data());
    device.wait(device.last());
  }
  if (parameters::Parameter* const table = set.find(std::string(prompts::kTableName));
      table != nullptr && !prompt.empty()) {
    MEGA_CHECK_EQ(std::ssize(prompt), table->shape()[0]);
    set.load(device, *table, DType::f32, rows_of_tokens(model, prompt).data());
    device.wait(device.last());
  }
  model.fill(
      set, device, [&] { engine.mesh().world().heartbeat(); }, is_new);
  low_rank::begin_magnitudes(engine.model().exec(), engine.mesh().tensor(), set);
  set.derive(engine.model().exec());
}

}  // namespace megalith::tune
