/// One number for everything that happened in a simulation, in order: equal for two runs that behaved the
/// same.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace kintsugi::simulation {

/// splitmix64's finaliser: spreads every bit of `value` over all bits.
constexpr uint64_t scramble(uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return scramble(hash);
}

class EventHash {
 public:
  template <class... Values>
  void event(Values... values) {
    ++events_;
    (mix(static_cast<uint64_t>(values)), ...);
  }

  uint64_t value() const { return scramble(value_); }
  uint64_t events() const { return events_; }

 private:
  void mix(uint64_t value) { value_ = (std::rotl(value_, 23) ^ value) * 0x9E3779B97F4A7C15ull + 1; }

  uint64_t value_ = 0;
  uint64_t events_ = 0;
};

}  // namespace kintsugi::simulation
