// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/sentencepiece_file.h"

#include "base/error.h"
#include "base/integer.h"
#include "base/one_line.h"
#include "vocabularies/sentencepiece.pb.h"

namespace megalith::vocabularies {
namespace {

PieceModel::Algorithm algorithm_of(int32_t type, std::string_view where) {
  if (type == 1) return PieceModel::Algorithm::unigram;
  if (type == 2) return PieceModel::Algorithm::bpe;
  if (type == 4) return PieceModel::Algorithm::characters;
  if (type == 3)
    throw UserError("{}: a SentencePiece model of whole words (WORD) is not supported", where);
  throw UserError("{}: the SentencePiece model type {} is unknown", where, type);
}

PieceKind kind_of(int32_t type, std::string_view piece, std::string_view where) {
  if (type < 1 || type > 6)
    throw UserError("{}: the piece \"{}\" has the unknown type {}", where, one_line(piece, 40),
                    type);
  return static_cast<PieceKind>(type);
}

void read_pieces(const wire::Model& file, std::string_view where, PieceModel& model) {
  model.unknown_id = -1;
  for (const wire::Piece& piece : file.pieces()) {
    const PieceKind kind = kind_of(piece.type(), piece.piece(), where);
    if (kind == PieceKind::unknown) {
      if (model.unknown_id >= 0) throw UserError("{}: two pieces are the unknown one", where);
      model.unknown_id = narrow<int32_t>(model.pieces.size());
    }
    if (kind == PieceKind::byte && !model.byte_fallback)
      throw UserError("{}: it has byte pieces, but not byte_fallback", where);
    model.pieces.push_back({piece.piece(), piece.score(), kind});
  }
}

}  // namespace

bool looks_like_sentencepiece(std::string_view content) { return content.starts_with('\x0A'); }

PieceModel read_sentencepiece(std::string_view content, std::string_view where) {
  if (static_cast<int64_t>(content.size()) > kMaxSentencePieceBytes)
    throw UserError("{}: {} bytes are too many for a SentencePiece model (at most {})", where,
                    content.size(), kMaxSentencePieceBytes);
  wire::Model file;
  if (!file.ParseFromArray(content.data(), narrow<int>(content.size())))
    throw UserError("{}: not a SentencePiece model, or cut off", where);
  if (!file.denormalizer_spec().precompiled_charsmap().empty())
    throw UserError("{}: a SentencePiece model with a denormalizer is not supported", where);
  const wire::TrainerSpec& trainer = file.trainer_spec();
  const wire::NormalizerSpec& normalizer = file.normalizer_spec();
  PieceModel model;
  model.algorithm = algorithm_of(trainer.model_type(), where);
  model.byte_fallback = trainer.byte_fallback();
  // The library takes it as text that a zero byte ends.
  model.unknown_surface = trainer.unk_surface().c_str();
  model.treat_whitespace_as_suffix = trainer.treat_whitespace_as_suffix();
  model.charsmap = normalizer.precompiled_charsmap();
  model.add_dummy_prefix = normalizer.add_dummy_prefix();
  model.remove_extra_whitespaces = normalizer.remove_extra_whitespaces();
  model.escape_whitespaces = normalizer.escape_whitespaces();
  read_pieces(file, where, model);
  return model;
}

}  // namespace megalith::vocabularies
