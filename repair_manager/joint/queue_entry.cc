#include "repair_manager/joint/queue_entry.h"

#include <cmath>

namespace kintsugi::repair_manager {

uint32_t heat_class(float heat) {
  return heat < 1 ? 0 : 1 + static_cast<uint32_t>(std::ilogb(heat));
}

}  // namespace kintsugi::repair_manager
