// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/cut_digest.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/file.h"

namespace megalith::checkpoint {
namespace {

using Bytes = std::span<const std::byte>;

/// The bytes of another rank's piece, block by block.
class Remote {
 public:
  Remote(comm::ControlMessages& ranks, int rank, int64_t bytes, const std::string& name)
      : ranks_(ranks), rank_(rank), left_(bytes), name_(name) {}

  void take(int64_t bytes, Sha256& hash) {
    while (bytes > 0) {
      if (at_ == block_.size()) receive();
      const auto part = std::min(static_cast<size_t>(bytes), block_.size() - at_);
      hash.update(block_.data() + at_, part);
      at_ += part;
      bytes -= static_cast<int64_t>(part);
    }
  }

 private:
  void receive() {
    block_.resize(static_cast<size_t>(std::min(left_, kDigestBlockBytes)));
    at_ = 0;
    left_ -= std::ssize(block_);
    ranks_.receive(rank_, block_, name_);
    ranks_.heartbeat();
  }

  comm::ControlMessages& ranks_;
  int rank_;
  int64_t left_;
  const std::string& name_;
  std::vector<std::byte> block_;
  size_t at_ = 0;
};

void send_piece(comm::ControlMessages& ranks, int hasher, const TensorContent& mine) {
  std::vector<std::byte> block(static_cast<size_t>(std::min(mine.bytes(), kDigestBlockBytes)));
  int64_t left = mine.bytes();
  size_t at = 0;
  mine.write([&](Bytes part) {
    while (!part.empty()) {
      const size_t fits = std::min(part.size(), block.size() - at);
      std::memcpy(block.data() + at, part.data(), fits);
      at += fits;
      part = part.subspan(fits);
      if (at < block.size()) continue;
      ranks.send(hasher, block, mine.name);
      left -= std::ssize(block);
      block.resize(static_cast<size_t>(std::min(left, kDigestBlockBytes)));
      at = 0;
    }
  });
  MEGA_CHECK_EQ(left, 0);
}

/// Walks the runs of the pieces in row-major order; those of this rank come by add_own.
class Interleaver {
 public:
  Interleaver(comm::ControlMessages& ranks, const PlacedTensor& tensor)
      : ranks_(ranks), tensor_(tensor) {
    const TensorRecord& record = tensor.record;
    int64_t inner = bytes_of(record.dtype);
    const int dim = record.pieces[0].dim;
    for (int d = 0; d < dim; ++d) outer_ *= record.shape[d];
    for (int d = dim + 1; d < record.shape.num_dims(); ++d) inner *= record.shape[d];
    std::vector<std::pair<int64_t, Turn>> turns;  // with where they begin
    for (size_t i = 0; i < record.pieces.size(); ++i) {
      const Shard shard = record.pieces[i].shard();
      for (const ShardRun& run : shard.runs()) {
        if (run.count > 0) turns.push_back({run.begin, {i, run.count * inner}});
      }
      if (tensor.ranks[i] == ranks.rank()) own_ = i;
      remotes_.emplace_back(ranks, tensor.ranks[i], outer_ * shard.extent() * inner, record.name);
    }
    std::ranges::sort(turns, {}, &std::pair<int64_t, Turn>::first);
    for (const auto& [begin, turn] : turns) turns_.push_back(turn);
  }

  void add_own(Bytes part) {
    while (!part.empty()) {
      if (left_of_own_ == 0) {
        take_others();
        left_of_own_ = turns_[turn_].bytes;
      }
      const auto fits =
          static_cast<size_t>(std::min({std::ssize(part), left_of_own_, left_until_heartbeat_}));
      hash_.update(part.data(), fits);
      count(static_cast<int64_t>(fits));
      part = part.subspan(fits);
      left_of_own_ -= static_cast<int64_t>(fits);
      if (left_of_own_ == 0) next();
    }
  }

  std::string finish() {
    take_others();
    ranks_.heartbeat();
    MEGA_CHECK(outer_ == 0 || rounds_ == outer_, "tensor {}: its own piece is short",
               tensor_.record.name);
    return hash_.finish();
  }

 private:
  /// Bytes of one range of a piece, for one index of the dimensions before the cut.
  struct Turn {
    size_t piece;
    int64_t bytes;
  };
  void take_others() {
    while (rounds_ < outer_ && turns_[turn_].piece != own_) {
      remotes_[turns_[turn_].piece].take(turns_[turn_].bytes, hash_);
      next();
    }
  }
  void count(int64_t hashed) {
    left_until_heartbeat_ -= hashed;
    if (left_until_heartbeat_ > 0) return;
    left_until_heartbeat_ = kDigestBlockBytes;
    ranks_.heartbeat();
  }
  void next() {
    if (++turn_ < turns_.size()) return;
    turn_ = 0;
    ++rounds_;
  }

  comm::ControlMessages& ranks_;
  const PlacedTensor& tensor_;
  std::vector<Turn> turns_;  // in the order of the tensor
  std::vector<Remote> remotes_;
  int64_t outer_ = 1;
  int64_t rounds_ = 0;
  size_t turn_ = 0, own_ = 0;
  int64_t left_of_own_ = 0;
  int64_t left_until_heartbeat_ = kDigestBlockBytes;
  Sha256 hash_;
};

}  // namespace

std::string digest_of_cut(comm::ControlMessages& ranks, const PlacedTensor& tensor, int hasher,
                          const TensorContent& mine) {
  if (ranks.rank() != hasher) {
    send_piece(ranks, hasher, mine);
    return "";
  }
  Interleaver bytes(ranks, tensor);
  mine.write([&](Bytes part) { bytes.add_own(part); });
  return bytes.finish();
}

}  // namespace megalith::checkpoint
