// SPDX-License-Identifier: Apache-2.0
// Adapters with magnitudes, for the folders of all families: merged they equal what peft's
// merge_and_unload() makes of the folder's own tensors, and the scales on ranks give the rows their
// magnitudes.
#include <gmock/gmock.h>

#include <cmath>

#include "checkpoint/checkpoint_fixture.h"
#include "comm/backends.h"
#include "inference/inference_model.h"
#include "store/adapter_fixture.h"
#include "store/adapter_source.h"
#include "store/merged_weights.h"

namespace megalith::store {
namespace {

using checkpoint::fault_of;
using ::testing::HasSubstr;

std::string magnitude_of(const Module& module) {
  return "base_model.model." + module.name + ".lora_magnitude_vector";
}
Tensors with_magnitudes(const models::ModelSpec& spec) {
  Tensors tensors = adapter_tensors(spec);
  for (const Module& module : modules_of(spec))
    tensors.emplace(magnitude_of(module),
                    random_values(Shape{module.outputs()}, static_cast<unsigned>(tensors.size())));
  return tensors;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Rows of the folder's tensors, transposed or not, in double precision:
///   m (w + s b a) / || w + s b a ||
Tensors merged(const models::ModelSpec& spec, Tensors base, const Tensors& adapter) {
  for (const Module& module : modules_of(spec)) {
    Values& w = base.at(module.name + ".weight");
    const Values &a = adapter.at(tensor_of(module, "lora_A")),
                 &b = adapter.at(tensor_of(module, "lora_B")),
                 &m = adapter.at(magnitude_of(module));
    for (int64_t o = 0; o < module.outputs(); ++o) {
      const auto place = [&](int64_t i) {
        return static_cast<size_t>(module.transposed ? i * module.outputs() + o
                                                     : o * module.inputs() + i);
      };
      std::vector<double> row;
      double squares = 0;
      for (int64_t i = 0; i < module.inputs(); ++i) {
        double sum = 0;
        for (int64_t r = 0; r < 4; ++r)
          sum += static_cast<double>(b.values[static_cast<size_t>(o * 4 + r)]) *
                 a.values[static_cast<size_t>(r * module.inputs() + i)];
        row.push_back(w.values[place(i)] + kScale * sum);
        squares += row.back() * row.back();
      }
      for (int64_t i = 0; i < module.inputs(); ++i)
        w.values[place(i)] = static_cast<float>(
            row[static_cast<size_t>(i)] * m.values[static_cast<size_t>(o)] / std::sqrt(squares));
    }
  }
  return base;
}

class AdapterMagnitudes : public AdapterFolders {};

TEST_F(AdapterMagnitudes, MergeAsTheFoldersOwnRowsDo) {
  for (const models::Family* const family : models::families()) {
    const models::ModelSpec spec = small(*family);
    const std::string name(family->name);
    const Tensors base = base_tensors(spec), adapter = with_magnitudes(spec);
    const fs::path folder = write_model(name, spec, base),
                   source = write_adapter(name + "-adapter", adapter, config({{"use_dora", true}}));
    const ModelSource after =
        ModelSource::open(write_model(name + "-merged", spec, merged(spec, base, adapter)));
    const ModelSource mine = with_adapter_merged(ModelSource::open(folder), source);
    for (const StoredTensor& tensor : mine.weights().tensors()) {
      const std::vector<float> values = floats(mine.weights().read(tensor)),
                               expected =
                                   floats(after.weights().read(*after.weights().find(tensor.name)));
      ASSERT_EQ(values.size(), expected.size()) << name << " " << tensor.name;
      // One rounding each of a number of at most 1/2.
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], expected[i], 0x1p-24) << name << " " << tensor.name;
      // Magnitudes belong to whole rows, whatever part is read.
      if (tensor.shape.num_dims() != 2 || tensor.shape[1] % 2 != 0) continue;
      const Shard half = Shard::part(tensor.shape, 1, 1, 2);
      EXPECT_EQ(floats(mine.weights().read(tensor, half)),
                floats(part_of(mine.weights().read(tensor), tensor.shape, half, DType::f32)))
          << name << " " << tensor.name;
    }
  }
}

// On one rank and on two: the scale of a row makes its norm the magnitude.
TEST_F(AdapterMagnitudes, ScaleRowsToTheirMagnitudes) {
  const models::ModelSpec spec = small(models::kLlama);
  const Tensors base = base_tensors(spec);
  Tensors adapter = with_magnitudes(spec);
  std::erase_if(adapter,
                [](const auto& entry) { return entry.first.find("k_proj") != std::string::npos; });
  const Json json = config({{"use_dora", true}, {"exclude_modules", {"k_proj"}}});
  const ModelSource model = ModelSource::open(write_model("base", spec, base), 2);
  const fs::path folder = write_adapter("adapter", adapter, json);
  const AdapterSource source = AdapterSource::open(folder, model);
  const ModelSource after = with_adapter_merged(ModelSource::open(folder_ / "base", 2), folder);
  std::map<std::string, std::vector<float>> alone;
  for (const int tensor : {1, 2}) {
    comm::run_ranks(tensor, [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      inference::InferenceModel placed(spec, *device, world,
                                       {.tensor_shards = 2, .layout = {.tensor = tensor}});
      model.fill(placed.parameters(), *device);
      layers::Adapter made(placed.parameters(), *device, source.ranks());
      engine::ShardedModel& sharded = placed.engine().model();
      source.fill(made, placed.parameters(), sharded.exec(), sharded.mesh().tensor());
      for (const parameters::Parameter& weight : placed.parameters().all()) {
        const auto* const factors = made.find(weight.name());
        if (factors == nullptr) continue;
        const View scale_O = factors->scale_O;
        const auto* const scale = scale_O.as<float>();
        const bool is_row = weight.declaration().shard.dim == 1;
        const int64_t begin = is_row ? 0 : weight.declaration().shard.begin;
        for (int64_t o = 0; o < scale_O.num_elements(); ++o) {
          std::vector<float>& all = alone[weight.name()];
          if (tensor == 1) {
            all.push_back(scale[o]);
          } else {
            EXPECT_EQ(scale[o], all.at(static_cast<size_t>(begin + o))) << weight.name() << o;
          }
        }
      }
    });
  }
  ASSERT_EQ(alone.size(), 8U);
  for (const auto& [name, scale] : alone) {
    const StoredTensor& tensor = *model.weights().find(name);
    const auto factors = source.factors(name, Shard::whole(tensor.shape));
    const std::vector<float> w = floats(model.weights().read(tensor)),
                             expected = floats(after.weights().read(tensor)),
                             a = floats(factors.a_IR), b = floats(factors.b_RO);
    const int64_t outputs = tensor.shape[0], inputs = tensor.shape[1];
    for (int64_t o = 0; o < outputs; ++o) {
      // Keys are of no module: each group has 2 x 8 rows of queries, a key and a value.
      if (name.ends_with("qkv.weight") && o % 32 >= 16 && o % 32 < 24) {
        EXPECT_EQ(scale[static_cast<size_t>(o)], 1) << name << o;
      }
      double sum = w[static_cast<size_t>(o * inputs)];
      for (int64_t r = 0; r < factors.rank; ++r)
        sum += static_cast<double>(a[static_cast<size_t>(r)]) *
               b[static_cast<size_t>(r * outputs + o)];
      EXPECT_NEAR(sum * scale[static_cast<size_t>(o)], expected[static_cast<size_t>(o * inputs)],
                  1e-6)
          << name << o;
    }
  }
}

TEST_F(AdapterMagnitudes, FaultsAreNamed) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)));
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector";
  int number = 0;
  const auto refused = [&](const Tensors& tensors, const Json& json, const std::string& words) {
    const fs::path path = write_adapter(fmt::format("m{}", number++), tensors, json);
    EXPECT_THAT(fault_of<IntegrityError>([&] { AdapterSource::open(path, model); }),
                HasSubstr(words));
  };
  const Json json = config({{"use_dora", true}});
  const Tensors good = with_magnitudes(spec);
  EXPECT_EQ(AdapterSource::open(write_adapter("good", good, json), model).ranks().size(), 8U);
  Tensors other = good;
  other.erase(q);
  refused(other, json, "tensor " + q + " is missing");
  other.emplace(q, random_values(Shape{32, 1}, 1));
  refused(other, json, "tensor " + q + " is [32, 1]");
  refused(good, config(), "lora_magnitude_vector is no factor of a product");
}

}  // namespace
}  // namespace megalith::store
