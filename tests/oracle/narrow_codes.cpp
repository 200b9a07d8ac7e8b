// SPDX-License-Identifier: Apache-2.0
// Conversions between narrow types as a filter, for tests/oracle/narrow_oracle.py:
//   narrow_codes FROM TO saturate|nonfinite|up scalar|simd < elements > elements
// Types by name (f32, bf16, f16, f8_e4m3, f8_e5m2, f8_e8m0; the last one by scalar code alone, `up`
// for the rounding that scales of blocks have).
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "device/device.h"
#include "kernels/narrow/convert.h"
#include "kernels/narrow/narrow_access.h"

namespace {

using namespace megalith;

void scalar(const ConstView& x, const View& y, std::string_view rounding) {
  const Overflow overflow = rounding == "nonfinite" ? Overflow::nonfinite : Overflow::saturate;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const float value =
        x.dtype() == DType::f8_e8m0 ? to_f32(x.as<f8_e8m0_t>()[i]) : kernels::read_float(x, 0, i);
    if (y.dtype() == DType::f8_e8m0) {
      y.as<f8_e8m0_t>()[i] = rounding == "up" ? to_f8_e8m0_up(value) : to_f8_e8m0(value);
    } else {
      kernels::write_float(y, 0, i, value, overflow);
    }
  }
}

int run(const std::vector<std::string>& words) {
  const auto from = dtype_from_name(words.at(0)), to = dtype_from_name(words.at(1));
  if (!from || !to) {
    std::cerr << "narrow_codes: no type " << words[from ? 1 : 0] << "\n";
    return 2;
  }
  const std::string in{std::istreambuf_iterator<char>(std::cin), {}};
  const auto count = static_cast<int64_t>(in.size()) / bytes_of(*from);
  std::vector<std::byte> source(in.size()), result(static_cast<size_t>(count * bytes_of(*to)));
  std::memcpy(source.data(), in.data(), in.size());
  const ConstView x(source.data(), *from, Shape{1, count});
  const View y(result.data(), *to, Shape{1, count});
  if (words.at(3) == "scalar") {
    scalar(x, y, words.at(2));
  } else {
    const auto device = device::make_cpu_device(1);
    kernels::Exec exec(*device);
    kernels::convert(exec, x, y,
                     words.at(2) == "nonfinite" ? Overflow::nonfinite : Overflow::saturate);
  }
  std::cout.write(reinterpret_cast<const char*>(result.data()),
                  static_cast<std::streamsize>(result.size()));
  return std::cout.flush() ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "narrow_codes FROM TO saturate|nonfinite|up scalar|simd < elements > elements\n";
    return 2;
  }
  return run({arguments + 1, arguments + count});
}
