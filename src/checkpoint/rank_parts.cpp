// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/rank_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace megalith::checkpoint {
namespace {

using Json = nlohmann::json;

Json to_json(const std::vector<FileRecord>& files, const std::vector<TensorRecord>& tensors) {
  Json json{{"files", Json::array()}, {"tensors", Json::array()}};
  for (const FileRecord& f : files) json["files"].push_back({f.name, f.bytes, f.hash});
  for (const TensorRecord& t : tensors) {
    const PieceRecord& p = t.pieces.at(0);
    json["tensors"].push_back({t.name, std::string(name_of(t.dtype)),
                               std::vector<int64_t>(t.shape.dims().begin(), t.shape.dims().end()),
                               t.sha256, p.file, p.dim, p.begin, p.count, p.hash, p.second_begin,
                               p.second_count});
  }
  return json;
}

TensorRecord tensor_from(const Json& j) {
  const auto dims = j.at(2).get<std::vector<int64_t>>();
  const auto dtype = dtype_from_name(j.at(1).get<std::string>());
  MEGA_CHECK(dtype.has_value(), "the type of tensor {}", j.at(0).get<std::string>());
  TensorRecord tensor{j.at(0).get<std::string>(),
                      *dtype,
                      Shape(std::span<const int64_t>(dims)),
                      j.at(3).get<std::string>(),
                      {}};
  tensor.pieces.push_back({j.at(4).get<std::string>(), j.at(5).get<int>(), j.at(6).get<int64_t>(),
                           j.at(7).get<int64_t>(), j.at(8).get<std::string>(),
                           j.at(9).get<int64_t>(), j.at(10).get<int64_t>()});
  return tensor;
}

/// Pieces in order; what concerns several of them is checked.
void settle(PlacedTensor& tensor) {
  TensorRecord& record = tensor.record;
  std::vector<std::pair<PieceRecord, int>> pieces;
  for (size_t i = 0; i < tensor.ranks.size(); ++i)
    pieces.emplace_back(record.pieces[i], tensor.ranks[i]);
  std::ranges::sort(pieces, {}, [](const auto& piece) { return piece.first.begin; });
  for (size_t i = 0; i < pieces.size(); ++i) {
    const PieceRecord& piece = pieces[i].first;
    MEGA_CHECK(piece.dim == pieces[0].first.dim && piece.count > 0,
               "tensor {}: a piece of {} along dimension {}", record.name, piece.count, piece.dim);
    record.pieces[i] = piece;
    tensor.ranks[i] = pieces[i].second;
  }
  const std::optional<int64_t> at = record.uncovered_at();
  MEGA_CHECK(!at, "tensor {}: its pieces overlap or leave gaps at {}", record.name, *at);
}

}  // namespace

Parts join_parts(std::vector<FileRecord> files, std::vector<TensorRecord> tensors,
                 comm::ControlMessages* ranks) {
  std::vector<std::string> texts{to_json(files, tensors).dump()};
  if (ranks != nullptr) texts = ranks->exchange(texts[0], "state.parts");
  Parts parts;
  std::map<std::string, size_t> index;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const Json json = Json::parse(texts[rank]);
    for (const Json& f : json.at("files")) {
      parts.files.push_back(
          {f.at(0).get<std::string>(), f.at(1).get<int64_t>(), f.at(2).get<std::string>()});
    }
    for (const Json& t : json.at("tensors")) {
      TensorRecord piece = tensor_from(t);
      const auto [found, is_new] = index.try_emplace(piece.name, parts.tensors.size());
      if (is_new) {
        parts.tensors.push_back({std::move(piece), {static_cast<int>(rank)}});
        continue;
      }
      PlacedTensor& placed = parts.tensors[found->second];
      MEGA_CHECK(placed.record.dtype == piece.dtype && placed.record.shape == piece.shape,
                 "tensor {} is {} {} on rank {}, {} {} on rank {}", piece.name, piece.dtype,
                 piece.shape, rank, placed.record.dtype, placed.record.shape, placed.ranks[0]);
      placed.record.pieces.push_back(piece.pieces[0]);
      placed.ranks.push_back(static_cast<int>(rank));
    }
  }
  for (PlacedTensor& tensor : parts.tensors) settle(tensor);
  return parts;
}

}  // namespace megalith::checkpoint
