// SPDX-License-Identifier: Apache-2.0
// A checkpoint folder whose COMMIT vouches for whatever manifest the input holds: the manifest,
// then behind a line "%%" the content of the file a.safetensors. Opened, verified, every tensor
// read whole and in part.
#include "base/file.h"
#include "base/fuzz/fuzz_input.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  std::string_view text = fuzz::text_of(data, size), tensors;
  if (const size_t split = text.find("\n%%\n"); split != std::string_view::npos) {
    tensors = text.substr(split + 4);
    text = text.substr(0, split + 1);
  }
  scratch.put("a.safetensors", tensors);
  const auto path = scratch.put(checkpoint::kManifestName, text);
  scratch.put(checkpoint::kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
  fuzz::accepts([&] {
    const auto manifest = checkpoint::Manifest::parse(std::string(text), path);
    checkpoint::Manifest::parse(manifest.to_text(), path);
  });
  fuzz::accepts([&] {
    const checkpoint::Reader reader(scratch.path());
    for (const std::string& name : reader.text_names()) fuzz::accepts([&] { reader.text(name); });
    for (const checkpoint::TensorInfo& tensor : reader.tensors()) {
      int64_t bytes = bytes_of(tensor.dtype);
      for (const int64_t extent : tensor.shape.dims()) bytes *= extent;
      if (bytes > (1 << 20)) continue;
      std::vector<std::byte> host(static_cast<size_t>(bytes));
      fuzz::accepts([&] { reader.read(tensor.name, Shard::whole(tensor.shape), host.data()); });
    }
    reader.verify_all();
  });
  return 0;
}
