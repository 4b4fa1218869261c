/// Random numbers from a seed (xoshiro256**), the same on every machine.
#pragma once

#include <array>
#include <bit>
#include <cstring>

#include "common/base/hash.h"
#include "common/runtime/random.h"

namespace kintsugi::simulation {

class SimRandom final : public runtime::Random {
 public:
  explicit SimRandom(uint64_t seed) {
    for (size_t i = 0; i < state_.size(); ++i)
      state_[i] = mix_bits(seed + i * kGoldenRatio);
  }

  uint64_t next() override {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  void fill(std::span<std::byte> out) override {
    size_t done = 0;
    // Words are copied by a constant size, which takes no call: contents of files are a third of what simulations do.
    for (; done + sizeof(uint64_t) <= out.size(); done += sizeof(uint64_t)) {
      const uint64_t word = next();
      std::memcpy(out.data() + done, &word, sizeof word);
    }
    if (done == out.size()) return;
    const uint64_t word = next();
    std::memcpy(out.data() + done, &word, out.size() - done);
  }

  bool coin() { return (next() >> 63) != 0; }

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace kintsugi::simulation
