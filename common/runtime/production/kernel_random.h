/// Production randomness: a fast generator seeded by the kernel for choices, the kernel itself for secrets.
#pragma once

#include <array>

#include "common/runtime/random.h"

namespace kintsugi::runtime {

class KernelRandom final : public Random {
 public:
  KernelRandom();
  uint64_t next() override;                      ///< xoshiro256++; whoever sees its output can predict it
  void fill(std::span<std::byte> out) override;  ///< getrandom(2)

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace kintsugi::runtime
