// SPDX-License-Identifier: Apache-2.0
// Models whose weights are held in blocks: from any checkpoint and from GGUF files, with the bits
// of the widened weights, under every layout, in the memory that was planned.
#include "comm/backends.h"
#include "gguf/reader.h"
#include "gguf/widen.h"
#include "store/convert.h"
#include "store/quantized_store_testing.h"

namespace megalith::store {
namespace {

using ::testing::HasSubstr;

constexpr Format kFormats[] = {Format::q8_0, Format::q4_0, Format::q4_1};
TEST_F(QuantizedStore, EveryFamilyReadsAsWithTheWidenedWeights) {
  for (const std::string_view family : {"gpt2", "llama", "qwen2", "gemma2", "gpt_neox", "t5"}) {
    const ModelSource source = ModelSource::open(checkpoint(model_of(family)));
    for (const Format format : kFormats) {
      const auto formats = source.storage_formats(format);
      EXPECT_GE(formats.size(), 9u) << family;  // four matrices of each layer, and the table
      const auto quantized = filled(source, formats);
      const auto plain = widened(source, *quantized);
      EXPECT_EQ(read_with(quantized->engine()), read_with(plain->engine()))
          << family << " " << name_of(format);
    }
  }
}

TEST_F(QuantizedStore, FourBitsLeaveTablesOfTheVocabularyEight) {
  const ModelSource source = ModelSource::open(checkpoint(model_of("llama")));
  const auto formats = source.storage_formats(Format::q4_1);
  EXPECT_EQ(formats.at("embedding.weight"), Format::q8_0);
  EXPECT_EQ(formats.at("head.weight"), Format::q8_0);
  EXPECT_EQ(formats.at("layers.0.attention.qkv.weight"), Format::q4_1);
  EXPECT_TRUE(source.storage_formats(std::nullopt).empty());
}

TEST_F(QuantizedStore, EveryLayoutHasTheBitsOfOneRank) {
  for (const std::string_view family : {"llama", "gpt2"}) {
    const ModelSource source = ModelSource::open(checkpoint(model_of(family)));
    const auto formats = source.storage_formats(Format::q4_0);
    const Reading alone = read_with(filled(source, formats)->engine());
    for (const parallel::Layout& layout :
         {parallel::Layout{.tensor = 2}, parallel::Layout{.pipeline = 2},
          parallel::Layout{.tensor = 2, .pipeline = 2}}) {
      comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
        const auto device = device::make_cpu_device(1);
        InferenceModel model(source.spec(), *device, world,
                             {.tensor_shards = kShards, .layout = layout, .formats = formats});
        source.fill(model.parameters(), *device);
        const Reading mine = read_with(model.engine());
        EXPECT_EQ(mine.scores, alone.scores) << family << ", rank " << world.rank();
        if (parallel::coordinates_of(layout, world.rank()).pipeline == layout.pipeline - 1) {
          EXPECT_EQ(mine.logits, alone.logits) << family << ", rank " << world.rank();
        }
      });
    }
  }
}

TEST_F(QuantizedStore, ALayoutThatCutsBlocksIsRefusedByName) {
  models::ModelSpec spec = model_of("llama");
  for (layers::LayerSpec& layer : spec.layers) layer.mlp.ffn = 96;  // 48 columns a rank
  const ModelSource source = ModelSource::open(checkpoint(spec));
  const auto check = [&](const parameters::StorageFormats& formats) {
    InferenceModel::check(
        spec, {.tensor_shards = kShards, .layout = {.tensor = 2}, .formats = formats}, "generate");
  };
  EXPECT_NO_THROW(check({}));
  const std::string message = refusal([&] { check(source.storage_formats(Format::q8_0)); });
  EXPECT_THAT(message, HasSubstr("parallel.tensor 2 cuts the 96 columns of layers.0.mlp.down"));
  EXPECT_THAT(message, HasSubstr("blocks of 32 in q8_0"));
}

TEST_F(QuantizedStore, AFileKeepsItsBlocksByteForByte) {
  const fs::path from = checkpoint(model_of("llama"));
  const ModelSource original = ModelSource::open(from);
  for (const Format format : kFormats) {
    const fs::path path = folder_ / fmt::format("{}.gguf", format);
    convert(from, path, "gguf", name_of(format));
    const ModelSource source = ModelSource::open(path, kShards);
    const auto formats = source.storage_formats(std::nullopt);
    EXPECT_EQ(formats, original.storage_formats(format));
    const auto kept = filled(source, formats), rounded = filled(original, formats);
    for (const parameters::Parameter& parameter : kept->parameters().all()) {
      EXPECT_EQ(stored_bytes(parameter),
                stored_bytes(*rounded->parameters().find(parameter.name())))
          << parameter.name();
    }
    // The bytes themselves, of a tensor whose rows are not moved.
    const gguf::Reader file(path);
    const gguf::TensorEntry& entry = *file.find("blk.1.ffn_down.weight");
    std::vector<std::byte> stored(static_cast<size_t>(entry.bytes));
    file.read(entry, 0, entry.bytes, stored.data());
    EXPECT_EQ(blocks_of(*kept->parameters().find("layers.1.mlp.down.weight")), stored);
    // And no bit of a result depends on whether they are kept or widened.
    EXPECT_EQ(read_with(kept->engine()), read_with(filled(source, {})->engine()));
    // Other blocks than the file's are rounded from its values.
    std::vector<float> values(static_cast<size_t>(entry.shape.num_elements()));
    gguf::widen(entry.type, stored, values);
    const auto others = filled(source, source.storage_formats(Format::q8_0));
    EXPECT_EQ(blocks_of(*others->parameters().find("layers.1.mlp.down.weight")),
              to_blocks(Format::q8_0, values, 32));
  }
}

TEST_F(QuantizedStore, MemoryIsThePlannedToTheByte) {
  const ModelSource source = ModelSource::open(checkpoint(model_of("llama")));
  for (const Format format : kFormats) {
    const auto formats = source.storage_formats(format);
    const auto real = device::make_cpu_device(1);
    const auto trace = device::make_trace_device(real->target());
    const InferenceModel::Options options{.tensor_shards = kShards, .formats = formats};
    InferenceModel model(source.spec(), *real, options), plan(source.spec(), *trace, options);
    const auto weights = [](device::Device& d) {
      return d.arena(device::MemoryClass::weights).in_use();
    };
    EXPECT_EQ(weights(*trace), weights(*real));
    int64_t bytes = 0;
    for (const parameters::Parameter& parameter : model.parameters().all()) {
      const int64_t stored = is_plain(parameter.format())
                                 ? 4 * round_up<int64_t>(parameter.local_elements(), 64)
                                 : round_up<int64_t>(round_up(parameter.shape()[0], kGroupRows) *
                                                         (parameter.shape()[1] / kBlockColumns) *
                                                         block_bytes(parameter.format()),
                                                     64);
      bytes += stored;
    }
    EXPECT_EQ(weights(*real), bytes);
  }
}

TEST_F(QuantizedStore, ChoicesNameTensorsOfTheFile) {
  const fs::path from = checkpoint(model_of("llama"));
  const auto write = [&](const std::string& name, std::initializer_list<std::string_view> choices) {
    std::vector<TensorChoice> parsed;
    for (const std::string_view choice : choices) parsed.push_back(parse_choice(choice));
    convert(from, folder_ / name, "gguf", "q4_0", kShardBytes, Tokenizers::carried,
            std::move(parsed));
  };
  write("a.gguf", {"blk.*.ffn_down.weight=q8_0", "blk.1.*=q4_1", "token_embd.weight=f16",
                   "blk.*.attn_q.weight=bf16"});
  const gguf::Reader file(folder_ / "a.gguf");
  using gguf::TensorType;
  for (const auto& [name, type] : {std::pair{"blk.0.ffn_down.weight", TensorType::q8_0},
                                   {"blk.1.ffn_down.weight", TensorType::q4_1},
                                   {"blk.0.ffn_up.weight", TensorType::q4_0},
                                   {"blk.0.attn_q.weight", TensorType::bf16},
                                   {"blk.0.attn_norm.weight", TensorType::f32},
                                   {"token_embd.weight", TensorType::f16},
                                   {"output.weight", TensorType::q8_0}})
    EXPECT_EQ(file.find(name)->type, type) << name;
  // Query rows in another format than keys and values: all three are widened together.
  const ModelSource source = ModelSource::open(folder_ / "a.gguf", kShards);
  const auto formats = source.storage_formats(std::nullopt);
  EXPECT_FALSE(formats.contains("layers.0.attention.qkv.weight"));
  EXPECT_FALSE(formats.contains("embedding.weight"));
  EXPECT_EQ(formats.at("layers.0.mlp.down.weight"), Format::q8_0);
  EXPECT_EQ(read_with(filled(source, formats)->engine()), read_with(filled(source, {})->engine()));

  EXPECT_THAT(refusal([&] { write("b.gguf", {"blk.*.ffn_dwn.weight=q8_0"}); }),
              HasSubstr("no matrix of the file is called 'blk.*.ffn_dwn.weight'"));
  EXPECT_THAT(refusal([&] { write("b.gguf", {"blk.0.attn_norm.weight=q8_0"}); }),
              HasSubstr("no matrix"));
  for (const std::string_view wrong : {"", "x", "x=", "=q8_0", "x=q6_k", "x=q8_0 "})
    EXPECT_THAT(refusal([&] { parse_choice(wrong); }), HasSubstr("q4_1")) << wrong;
  EXPECT_FALSE(fs::exists(folder_ / "b.gguf"));
}

TEST_F(QuantizedStore, AValueThatBlocksCannotHoldIsRefusedByName) {
  const std::string name = "layers.1.mlp.down.weight";
  const ModelSource source = ModelSource::open(checkpoint(model_of("gpt2"), name));
  for (const Format format : kFormats) {
    const std::string message = refusal([&] { filled(source, source.storage_formats(format)); });
    EXPECT_THAT(message, HasSubstr(fmt::format("tensor {} holds a value that {} cannot hold", name,
                                               format)));
  }
  EXPECT_NO_THROW(filled(source, {}));
  std::vector<float> values(64, 1.0F);
  values[3] = INFINITY;
  EXPECT_FALSE(to_blocks(Format::q8_0, values, 32));
  values[3] = 1e30F;
  for (const Format format : kFormats) EXPECT_FALSE(to_blocks(format, values, 32));
  values[3] = 0;
  EXPECT_EQ(to_blocks(Format::q4_1, values, 32)->size(), 40u);
}

}  // namespace
}  // namespace megalith::store
