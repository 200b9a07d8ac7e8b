// SPDX-License-Identifier: Apache-2.0
// The rows that pass between model chunks. A model of one stack has one stream. An encoder-decoder
// has two, and both pass through every chunk in one buffer, so that the tables of tokens are needed
// on the first stage alone and a pipeline has one transfer each way: the decoder's rows first, then
// the encoder's. The encoder's layers leave the decoder's rows as they are; behind its last layer
// and its norm the encoder's rows are what cross attention reads, and pass on unchanged.
//
// Of gradients the same, but that those of the rows behind the encoder's norm are sums over the
// decoder's layers, in the type of accumulation. So the buffer has room for these, and the
// decoder's rows are followed by one more where their number is odd (a row of bf16 is half one of
// f32).
#pragma once

#include "base/integer.h"
#include "layers/context.h"

namespace megalith::models {

class StreamRows {
 public:
  /// Of the rank's own tokens. `batch` is the decoder's, or of the only stack.
  explicit StreamRows(const layers::Batch& batch)
      : decoder_(batch.own.count),
        encoder_(batch.encoder != nullptr ? batch.encoder->own.count : 0) {}

  /// Of a buffer of activations.
  int64_t all() const { return decoder_ + encoder_; }
  template <class AnyView>
  AnyView decoder(const AnyView& rows_RH) const {
    return rows_RH.rows(0, decoder_);
  }
  template <class AnyView>
  AnyView encoder(const AnyView& rows_RH) const {
    return rows_RH.rows(decoder_, encoder_);
  }

  /// Rows of the activations' type that a buffer of gradients has.
  int64_t all_gradients(const layers::Context& context) const {
    return encoder_ == 0 ? decoder_ : begin() + encoder_ * sum_rows(context);
  }
  /// Of gradients that pass where the encoder's layers are.
  View encoder_gradient(View gradient_RH) const { return gradient_RH.rows(begin(), encoder_); }
  /// Behind its norm.
  View memory_gradient(const layers::Context& context, View gradient_RH) const {
    const View rows = gradient_RH.rows(begin(), encoder_ * sum_rows(context));
    return {rows.data(), context.accumulation, Shape{encoder_, gradient_RH.size(1)}};
  }
  /// All but the decoder's, the odd row too: what sums begin with.
  View behind_decoder(View gradient_RH) const {
    return gradient_RH.rows(decoder_, gradient_RH.size(0) - decoder_);
  }
  /// What of the buffer is sent: all behind the norm, else without the room for sums.
  View sent_gradient(View gradient_RH, bool behind_norm) const {
    if (encoder_ == 0 || behind_norm) return gradient_RH;
    return gradient_RH.rows(0, begin() + encoder_);
  }

 private:
  /// Where the encoder's gradients begin.
  int64_t begin() const { return round_up(decoder_, int64_t{2}); }
  static int64_t sum_rows(const layers::Context& context) {
    return exact_div(bytes_of(context.accumulation), bytes_of(context.activation));
  }
  int64_t decoder_, encoder_;
};

/// The batch, with what cross attention reads where there is an encoder.
inline layers::Batch with_memory(const layers::Batch& batch, const layers::Memory& memory) {
  layers::Batch reading = batch;
  if (memory.batch != nullptr) reading.memory = &memory;
  return reading;
}

}  // namespace megalith::models
