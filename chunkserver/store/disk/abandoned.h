/// Tells a call to a disk whether somebody still waits for it.
#pragma once

namespace kintsugi::chunkserver {

/// Shared by a call and whoever began it (DiskCalls). A call that can undo what it did looks at this before it shows
/// that to others.
struct Abandoned {
  bool value = false;  ///< set when nobody waits for the call any more
};

}  // namespace kintsugi::chunkserver
