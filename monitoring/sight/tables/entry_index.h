/// Finds entries of a table by a hash: open addressing over their numbers, with at least twice as many places as there
/// are entries. Number 0 is nobody's. For the thread that writes the table only.
#pragma once

#include <bit>
#include <cstdint>

#include "monitoring/sight/tables/zeroed_array.h"

namespace kintsugi::sight {

class EntryIndex {
 public:
  explicit EntryIndex(size_t entries) : places_(std::bit_ceil(entries * 2)) {}

  /// The number of the entry for which `same` says so; or the free place, a 0, where its number belongs.
  template <class Same>
  [[gnu::always_inline]] uint16_t& place_of(uint64_t hash, Same same) {
    const size_t mask = places_.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask)
      if (places_[i] == 0 || same(places_[i])) return places_[i];
  }
  uint16_t& free_place(uint64_t hash) {
    return place_of(hash, [](uint16_t) { return false; });
  }

 private:
  ZeroedArray<uint16_t> places_;
};

}  // namespace kintsugi::sight
