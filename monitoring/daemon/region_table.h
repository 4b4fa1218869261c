/// Regions of code and how long processes take in them, as the console lists them.
#pragma once

#include <nlohmann/json.hpp>

#include "monitoring/daemon/monitor.h"

namespace kintsugi::monitoring {

class RegionTable {
 public:
  static constexpr size_t kMostRegions = 200;  ///< the regions in which most time is spent

  /// `monitor` outlives it.
  explicit RegionTable(const Monitor& monitor) : monitor_(monitor) {}

  /// One object for each region, the one in which most time is spent first. It looks at every transition of every
  /// process.
  nlohmann::ordered_json make() const;

 private:
  const Monitor& monitor_;
};

}  // namespace kintsugi::monitoring
