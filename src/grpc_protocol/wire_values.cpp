// SPDX-License-Identifier: Apache-2.0
#include "grpc_protocol/wire_values.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "protocols/api_error.h"

namespace megalith::grpc_protocol {
namespace {

using google::protobuf::internal::WireFormatLite;
using protocols::ApiError;

/// The messages in which values stand close together.
enum class Level : uint8_t { request, input, contents };

class Counter {
 public:
  void count(std::string_view bytes, Level level) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                              static_cast<int>(bytes.size()));
    while (!bytes.empty()) {
      const uint32_t tag = in.ReadTag();
      if (tag == 0) {
        if (in.ConsumedEntireMessage()) return;
        throw ApiError("", "this is no ModelInferRequest");
      }
      add(1);
      if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        uint32_t size = 0;
        if (!in.ReadVarint32(&size)) throw ApiError("", "this is no ModelInferRequest");
        const auto at = static_cast<size_t>(in.CurrentPosition());
        if (size > bytes.size() - at) throw ApiError("", "this is no ModelInferRequest");
        enter(bytes.substr(at, size), level, WireFormatLite::GetTagFieldNumber(tag));
        in.Skip(static_cast<int>(size));
      } else if (!WireFormatLite::SkipField(&in, tag)) {
        throw ApiError("", "this is no ModelInferRequest");
      }
    }
  }

 private:
  void add(size_t count) {
    count_ += count;
    if (count_ > kMostValues)
      throw ApiError("", "the message has more than {} values", kMostValues).with_status(413);
  }
  void enter(std::string_view bytes, Level level, int field) {
    constexpr int kInputs = 5, kShape = 3, kContents = 5;
    if (level == Level::request && field == kInputs) return count(bytes, Level::input);
    if (level == Level::input && field == kContents) return count(bytes, Level::contents);
    if (level == Level::input && field == kShape) return add_varints(bytes);
    if (level != Level::contents) return;
    constexpr int kLastVarints = 5, kFp32 = 6, kFp64 = 7;
    if (field <= kLastVarints) return add_varints(bytes);
    if (field == kFp32) return add(bytes.size() / 4);
    if (field == kFp64) return add(bytes.size() / 8);
  }
  /// Packed: the last byte of each is below 128.
  void add_varints(std::string_view bytes) {
    add(static_cast<size_t>(
        std::ranges::count_if(bytes, [](char c) { return static_cast<signed char>(c) >= 0; })));
  }
  size_t count_ = 0;
};

}  // namespace

void require_few_values(std::string_view infer_request) {
  Counter().count(infer_request, Level::request);
}

}  // namespace megalith::grpc_protocol
