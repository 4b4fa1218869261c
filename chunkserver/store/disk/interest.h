/// Tells a call to a disk whether somebody still waits for it.
#pragma once

namespace kintsugi::chunkserver {

/// Shared by a call and whoever began it (DiskCalls). A call that can undo what it did looks at this before it shows
/// that to others.
struct Interest {
  bool is_lost = false;
};

}  // namespace kintsugi::chunkserver
