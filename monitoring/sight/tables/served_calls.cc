#include "monitoring/sight/tables/served_calls.h"

#include <algorithm>

namespace kintsugi::sight {

std::vector<ServedCall> ServedCalls::find(std::span<const uint64_t> wanted) const {
  std::vector<ServedCall> found;
  if (wanted.empty()) return found;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const uint64_t call = get(calls_[i].call);
    if (call == 0) break;  // from here on none was ever written
    if (std::ranges::find(wanted, call) == wanted.end()) continue;
    ServedCall served{};
    // It may have been overwritten meanwhile.
    if (copy_whole(calls_[i], served) && served.call == call) found.push_back(served);
  }
  return found;
}

}  // namespace kintsugi::sight
