/// How fast a server's link is.
#pragma once

namespace kintsugi::repair_manager {

/// Bytes a second that a server can send and receive. More than 0.
struct LinkRate {
  double up = 0, down = 0;
};

}  // namespace kintsugi::repair_manager
