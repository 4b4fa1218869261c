/// One number for all events of a simulation, in order: equal for two runs that behaved the same.
#pragma once

#include <bit>
#include <cstdint>

#include "common/base/hash.h"

namespace kintsugi::simulation {

class EventHash {
 public:
  template <class... Values>
  void event(Values... values) {
    ++events_;
    (mix(static_cast<uint64_t>(values)), ...);
  }

  uint64_t value() const { return mix_bits(value_); }
  uint64_t events() const { return events_; }

 private:
  void mix(uint64_t value) { value_ = (std::rotl(value_, 23) ^ value) * kGoldenRatio + 1; }

  uint64_t value_ = 0;
  uint64_t events_ = 0;
};

}  // namespace kintsugi::simulation
