/// Hashes of numbers and names that are the same in every process and on every machine. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace kintsugi {

/// 2^64 divided by the golden ratio: its multiples lie evenly spread, whatever their number.
inline constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15ull;

/// Spreads every bit of `value` over all bits, and never maps two values to one (the finaliser of splitmix64).
constexpr uint64_t mix_bits(uint64_t value) {
  value += kGoldenRatio;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

/// FNV-1a: for short names that are hashed at compile time too.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

}  // namespace kintsugi
