/// Randomness, as a parameter: production seeds from the kernel, the simulator from its one seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kintsugi::runtime {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next() = 0;
  /// Bytes fit for nonces and secrets (in production, from the kernel).
  virtual void fill(std::span<std::byte> out) = 0;

  /// Uniform in [0, 1).
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Uniform in [0, bound). REQUIRES: bound > 0.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
};

}  // namespace kintsugi::runtime
