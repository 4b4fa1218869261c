/// Integer arithmetic that sizes and ranges need everywhere.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace kintsugi {

/// How many units of `unit` it takes to hold `value`. REQUIRES: unit > 0, and value + unit does not overflow.
template <std::unsigned_integral Value>
constexpr Value divide_up(Value value, std::type_identity_t<Value> unit) {
  return (value + unit - 1) / unit;
}

/// The least multiple of `unit` that is at least `value`. REQUIRES: as divide_up.
template <std::unsigned_integral Value>
constexpr Value round_up(Value value, std::type_identity_t<Value> unit) {
  return divide_up(value, unit) * unit;
}

/// The greatest multiple of `unit` that is at most `value`. REQUIRES: unit > 0.
template <std::unsigned_integral Value>
constexpr Value round_down(Value value, std::type_identity_t<Value> unit) {
  return value / unit * unit;
}

/// A count after a change of it; 0 where the change takes away more than there is.
constexpr uint64_t changed_by(uint64_t value, int64_t change) {
  return change < 0 && static_cast<uint64_t>(-change) > value ? 0 : value + static_cast<uint64_t>(change);
}

}  // namespace kintsugi
