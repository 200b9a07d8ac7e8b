// SPDX-License-Identifier: Apache-2.0
// The values of an adapter's tensors, as parts of our products.
#include <algorithm>
#include <cstring>
#include <set>

#include "kernels/matmul/low_rank_blocks.h"
#include "low_rank/adapter_scale.h"
#include "store/adapter_source.h"

namespace megalith::store {
namespace {

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Transposes [I, R] to [R, I].
std::vector<float> transposed(const std::vector<float>& a_IR, int64_t rank) {
  const int64_t inputs = std::ssize(a_IR) / rank;
  std::vector<float> a_RI(a_IR.size());
  for (int64_t i = 0; i < inputs; ++i)
    for (int64_t r = 0; r < rank; ++r)
      a_RI[static_cast<size_t>(r * inputs + i)] = a_IR[static_cast<size_t>(i * rank + r)];
  return a_RI;
}

}  // namespace

/// Of a product, by its outputs, the ranks of the piece that has them.
std::vector<Range> AdapterSource::ranks_by_output(const std::string& weight,
                                                  const Product& product) {
  const auto outputs = static_cast<size_t>(product.shape[0]);
  std::vector<Range> ranks(outputs);
  int64_t at = 0;
  for (const Piece& piece : product.pieces) {
    const int64_t theirs = piece.b->shape[0];
    const std::vector<uint8_t> ones(static_cast<size_t>(theirs), 1);
    std::vector<uint8_t> has(outputs, 0);
    for (models::RowMove move : piece.moves) {
      move.transposed = false;
      move.shape = Shape{theirs, 1};
      models::to_ours({weight, Shape{product.shape[0], 1}, {}}, move, 1, ones.data(), has.data());
    }
    for (size_t o = 0; o < outputs; ++o)
      if (has[o] != 0) ranks[o] = {at, at + piece.rank};
    at += piece.rank;
  }
  return ranks;
}

void AdapterSource::hold() {
  for (const checkpoint::SafetensorsEntry& entry : file_->entries())
    held_.try_emplace(entry.name, read(entry));
}

std::vector<float> AdapterSource::read(const checkpoint::SafetensorsEntry& entry) const {
  if (const auto held = held_.find(entry.name); held != held_.end()) return held->second;
  std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
  file_->read(entry, 0, entry.bytes, bytes.data());
  return floats_of(convert_elements(entry.name, std::move(bytes), *entry.dtype, DType::f32));
}

AdapterSource::Factors AdapterSource::factors(const std::string& weight, const Shard& part) const {
  const Product& product = products_.at(weight);
  const int64_t outputs = product.shape[0], inputs = product.shape[1];
  const int64_t rank = ranks_.find(weight)->second.rank;
  std::vector<float> a_IR(static_cast<size_t>(inputs * rank));
  std::vector<float> b_RO(static_cast<size_t>(rank * outputs));
  int64_t at = 0;  // of the rank
  for (const Piece& piece : product.pieces) {
    const std::vector<float> a_RI = read(*piece.a), theirs_OR = read(*piece.b);
    const Shape shape{outputs, piece.rank};
    std::vector<float> b_OR(static_cast<size_t>(shape.num_elements()));
    for (models::RowMove move : piece.moves) {
      move.transposed = false;
      move.shape = piece.b->shape;
      models::to_ours({weight, shape, {}}, move, sizeof(float), theirs_OR.data(), b_OR.data());
    }
    const auto scale = static_cast<float>(piece.scale);  // rounded first, as in training
    for (int64_t r = 0; r < piece.rank; ++r) {
      for (int64_t i = 0; i < inputs; ++i)
        a_IR[static_cast<size_t>(i * rank + at + r)] = a_RI[static_cast<size_t>(r * inputs + i)];
      for (int64_t o = 0; o < outputs; ++o)
        b_RO[static_cast<size_t>((at + r) * outputs + o)] =
            scale * b_OR[static_cast<size_t>(o * piece.rank + r)];
    }
    at += piece.rank;
  }
  const auto cut = [](const std::vector<float>& whole, const Shape& shape, Shard shard) {
    const auto bytes = std::as_bytes(std::span(whole));
    return part_of({bytes.begin(), bytes.end()}, shape, shard, DType::f32);
  };
  // The factor that has the dimension which is cut has it the other way round.
  Shard turned = part;
  turned.dim = 1 - part.dim;
  const Shape a{inputs, rank}, b{rank, outputs};
  const bool cuts_outputs = part.dim == 0;
  return {rank, cut(a_IR, a, cuts_outputs ? Shard::whole(a) : turned),
          cut(b_RO, b, cuts_outputs ? turned : Shard::whole(b)),
          kernels::blocks_of(ranks_by_output(weight, product),
                             cuts_outputs ? part : Shard::whole(product.shape))};
}

std::vector<float> AdapterSource::vector(const std::string& weight, const Shard& part) const {
  const Product& product = products_.at(weight);
  const bool of_inputs =
      ranks_.find(weight)->second.vector == layers::AdapterRank::Vector::of_inputs;
  const int dim = of_inputs ? 1 : 0;
  const Shape shape{product.shape[dim]};
  std::vector<float> whole(static_cast<size_t>(shape[0]), 1);
  for (const Piece& piece : product.pieces) {
    const std::vector<float> theirs = read(*piece.vector);
    if (of_inputs) whole = theirs;
    for (models::RowMove move : piece.moves) {
      if (of_inputs) break;
      move.transposed = false;
      move.shape = Shape{piece.vector->shape.num_elements(), 1};
      models::to_ours({weight, Shape{shape[0], 1}, {}}, move, sizeof(float), theirs.data(),
                      whole.data());
    }
  }
  Shard own = part.dim == dim ? part : Shard::whole(shape);
  own.dim = 0;
  const auto bytes = std::as_bytes(std::span(whole));
  return floats_of(part_of({bytes.begin(), bytes.end()}, shape, own, DType::f32));
}

std::vector<std::optional<float>> AdapterSource::magnitudes(const std::string& weight,
                                                            const Shard& part) const {
  const Product& product = products_.at(weight);
  const std::vector<Range> ranks = ranks_by_output(weight, product);
  const Shard outputs = part.dim == 0 ? part : Shard::whole(product.shape);
  const std::vector<float> values = has_magnitudes() ? vector(weight, part) : std::vector<float>();
  std::vector<std::optional<float>> made(static_cast<size_t>(outputs.extent()));
  for (const ShardRun& run : outputs.runs()) {
    for (int64_t i = 0; i < run.count; ++i) {
      const auto local = static_cast<size_t>(run.local + i);
      const bool has = !values.empty() && !ranks[static_cast<size_t>(run.begin + i)].empty();
      if (has) made[local] = values[local];
    }
  }
  return made;
}

void AdapterSource::fill(layers::Adapter& adapter, const parameters::ParameterSet& set,
                         kernels::Exec& exec, comm::Communicator& tensor) const {
  device::Device& device = exec.device;
  std::set<std::string> done;  // layers may share weights
  for (const parameters::Parameter& parameter : set.all()) {
    const auto room = adapter.factors().find(parameter.name());
    if (room == adapter.factors().end() || !done.insert(parameter.name()).second) continue;
    layers::Adapter::Factors& factors = room->second;
    const Shard& part = parameter.declaration().shard;
    for (const View& l : {factors.input_I.view, factors.output_O.view})
      if (!l.absent()) device.wait(device.copy_to_device(l, vector(parameter.name(), part).data()));
    if (const View rows = factors.virtual_PE; !rows.absent())
      device.wait(device.copy_to_device(rows, read(*prompt_).data()));
    if (!factors.down_RH.view.absent()) fill_bottleneck(factors, parameter.name(), device);
    if (factors.a_IR.view.absent()) continue;
    const Factors host = this->factors(parameter.name(), part);
    const View b_PO = factors.b_PO;
    const std::vector<float> b =
        kernels::packed(floats_of(host.b_RO), b_PO.size(1), host.blocks, b_PO.size(0));
    factors.blocks = host.blocks;
    device.copy_to_device(factors.a_IR, host.a_IR.data());
    device.wait(device.copy_to_device(b_PO, b.data()));
    if (factors.scale_O.view.absent()) continue;
    low_rank::set_scale(exec, tensor, parameter,
                        {.a_RI = transposed(floats_of(host.a_IR), host.rank),
                         .b_RO = floats_of(host.b_RO),
                         .m_O = magnitudes(parameter.name(), part)},
                        adapter);
  }
}

std::string AdapterSource::fingerprint() const {
  Sha256 sha;
  sha.update(config_.data(), config_.size());
  sha.update(splits_.data(), splits_.size() * sizeof(int64_t));
  for (const checkpoint::SafetensorsEntry& entry : file_->entries()) {
    const std::string head = fmt::format("{} {} {}\n", entry.name, entry.shape, entry.begin);
    sha.update(head.data(), head.size());
    std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
    file_->read(entry, 0, entry.bytes, bytes.data());
    sha.update(bytes.data(), bytes.size());
  }
  return sha.finish();
}

}  // namespace megalith::store
