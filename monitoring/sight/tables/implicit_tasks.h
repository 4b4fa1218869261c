/// Tasks that nobody marked as such: something was opened beside what was open in its parent. They are counted, and
/// the newest places are kept for tests and logs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "common/runtime/site.h"
#include "monitoring/sight/tables/seqlock.h"

namespace kintsugi::sight {

/// One thread writes; any may read.
class ImplicitTasks {
 public:
  /// For the writer: `site` was opened beside what is open in `below`.
  void add(const runtime::Site& site, const runtime::Site& below) {
    Place& place = places_[count_.get() % places_.size()];
    place.site.store(&site, std::memory_order_relaxed);
    place.below.store(&below, std::memory_order_relaxed);
    count_.increment();
  }

  uint64_t count() const { return count_.get(); }
  std::vector<std::string> places() const {
    std::vector<std::string> names;
    for (const Place& place : places_) {
      const runtime::Site *site = place.site.load(std::memory_order_relaxed),
                          *below = place.below.load(std::memory_order_relaxed);
      if (site != nullptr && below != nullptr)
        names.push_back(std::string(site->name) + " beside what is open in " + std::string(below->name));
    }
    return names;
  }

 private:
  struct Place {
    std::atomic<const runtime::Site*> site, below;
  };
  std::array<Place, 16> places_{};
  Count count_;
};

}  // namespace kintsugi::sight
